// What a collective needs to know of tensors: address, count and type.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

namespace muster_torch {

// Throws: `tensor` is not on the CPU.
void CheckHost(const char* call, const at::Tensor& tensor);
// Throws: that, or it is not dense.
void CheckDense(const char* call, const at::Tensor& tensor);
// Throws: there is not exactly one, or CheckDense does.
at::Tensor& TheOne(const char* call, std::vector<at::Tensor>& tensors);
// Throws: not `size` tensors of the type and count of `like`.
void CheckAlike(const char* call, const std::vector<at::Tensor>& tensors, int64_t size,
                const at::Tensor& like);
// Throws: `all` is not `size` times as large as `part`, or of another type.
void CheckParts(const char* call, const at::Tensor& all, const at::Tensor& part, int64_t size);

// Throws: not as many of one as of the other.
void CheckPairs(const char* call, const std::vector<at::Tensor>& outputs,
                const std::vector<at::Tensor>& inputs);

// How numbers travel that are only moved: types that libmuster does not know do as bytes.
struct Moved {
  explicit Moved(const at::Tensor& tensor);
  int dtype;
  int64_t per_element;  // of dtype
};
// How numbers are reduced. Throws: libmuster does not know the type, or not the operation for it.
struct Reduced {
  Reduced(const char* call, const at::Tensor& tensor, const c10d::ReduceOp& op);
  int dtype;
  int op;
};

// Its memory in order: itself, or a copy.
at::Tensor InOrder(const at::Tensor& tensor);
// What was done to a copy of `tensor` (InOrder) is done to it.
void PutBack(const at::Tensor& copy, const at::Tensor& tensor);
// The elements of all, one behind another: where they lie, if they lie like that, or a copy.
at::Tensor Joined(const std::vector<at::Tensor>& tensors);
// As large as Joined(tensors), and the same memory where that is possible.
at::Tensor RoomFor(const std::vector<at::Tensor>& tensors);
// What was written into RoomFor(tensors), or Joined(tensors).
void PutBack(const at::Tensor& room, const std::vector<at::Tensor>& tensors);

}  // namespace muster_torch
