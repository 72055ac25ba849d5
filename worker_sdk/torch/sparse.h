// The sum of sparse tensors, as gradients of an Embedding with sparse=True have them.
#pragma once

#include <ATen/ATen.h>

#include <torch/csrc/distributed/c10d/Types.hpp>

#include "muster/muster.h"

namespace muster_torch {

// Throws: `tensor` is not a COO tensor on the CPU, or is not to be summed.
void CheckSparse(const char* call, const at::Tensor& tensor, const c10d::ReduceOp& op);

// `tensor` becomes the sum of all ranks', coalesced and with equal bits everywhere: every rank gets
// the indices and values of all (as much as they have together, in two calls), and sums them in the
// order of ranks. Throws: two ranks' tensors have another shape or type; or what muster_* returns.
void AllReduceSparse(muster_comm* comm, const at::Tensor& tensor, bool averages);

}  // namespace muster_torch
