#include "worker_sdk/torch/tensors.h"

#include <torch/version.h>

#include "muster/muster.h"

namespace muster_torch {
namespace {

constexpr int kNone = -1;

int DtypeOf(at::ScalarType type) {
  switch (type) {
    case at::kChar:
      return MUSTER_INT8;
    case at::kShort:
      return MUSTER_INT16;
    case at::kInt:
      return MUSTER_INT32;
    case at::kLong:
      return MUSTER_INT64;
    case at::kByte:
    case at::kBool:
      return MUSTER_UINT8;
    case at::kHalf:
      return MUSTER_FLOAT16;
    case at::kBFloat16:
      return MUSTER_BFLOAT16;
    case at::kFloat:
      return MUSTER_FLOAT32;
    case at::kDouble:
      return MUSTER_FLOAT64;
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 3)
    case at::kUInt16:
      return MUSTER_UINT16;
    case at::kUInt32:
      return MUSTER_UINT32;
    case at::kUInt64:
      return MUSTER_UINT64;
#endif
    default:
      return kNone;
  }
}

int OpOf(c10d::ReduceOp::RedOpType op) {
  switch (op) {
    case c10d::ReduceOp::SUM:
      return MUSTER_SUM;
    case c10d::ReduceOp::AVG:
      return MUSTER_AVG;
    case c10d::ReduceOp::PRODUCT:
      return MUSTER_PROD;
    case c10d::ReduceOp::MIN:
      return MUSTER_MIN;
    case c10d::ReduceOp::MAX:
      return MUSTER_MAX;
    case c10d::ReduceOp::BAND:
      return MUSTER_BAND;
    case c10d::ReduceOp::BOR:
      return MUSTER_BOR;
    case c10d::ReduceOp::BXOR:
      return MUSTER_BXOR;
    default:
      return kNone;
  }
}

// Of values that are 0 or 1, and stay so: the sum of booleans is whether there is one.
int OpOfBools(int op) {
  switch (op) {
    case MUSTER_SUM:
      return MUSTER_MAX;
    case MUSTER_PROD:
      return MUSTER_MIN;
    case MUSTER_AVG:
      return kNone;
    default:
      return op;
  }
}

bool LieInOrder(const std::vector<at::Tensor>& tensors) {
  const auto* next = static_cast<const char*>(tensors.front().data_ptr());
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.is_contiguous() || tensor.data_ptr() != next ||
        !tensor.storage().is_alias_of(tensors.front().storage())) {
      return false;
    }
    next += tensor.nbytes();
  }
  return true;
}

int64_t CountOf(const std::vector<at::Tensor>& tensors) {
  int64_t out = 0;
  for (const at::Tensor& tensor : tensors) {
    out += tensor.numel();
  }
  return out;
}

at::Tensor InPlace(const std::vector<at::Tensor>& tensors) {
  return tensors.front().as_strided({CountOf(tensors)}, {1});
}

}  // namespace

void CheckHost(const char* call, const at::Tensor& tensor) {
  TORCH_CHECK(tensor.device().is_cpu(), "muster: ", call, ": a tensor on ", tensor.device(),
              ": this back end moves host memory only. Pass tensor.cpu(), or name another back end "
              "for the device: init_process_group('cpu:muster,cuda:nccl') with torch 2");
}

void CheckDense(const char* call, const at::Tensor& tensor) {
  CheckHost(call, tensor);
  TORCH_CHECK(tensor.layout() == at::kStrided, "muster: ", call, ": a tensor of layout ",
              tensor.layout(),
              ": all_reduce of a COO tensor apart, this back end moves dense tensors only. Pass "
              "tensor.to_dense()");
}

at::Tensor& TheOne(const char* call, std::vector<at::Tensor>& tensors) {
  TORCH_CHECK(tensors.size() == 1, "muster: ", call, ": want one tensor, got ", tensors.size());
  CheckDense(call, tensors.front());
  return tensors.front();
}

void CheckAlike(const char* call, const std::vector<at::Tensor>& tensors, int64_t size,
                const at::Tensor& like) {
  TORCH_CHECK(static_cast<int64_t>(tensors.size()) == size, "muster: ", call, ": want a list of ",
              size, " tensors, one for each rank, got ", tensors.size());
  for (const at::Tensor& tensor : tensors) {
    CheckDense(call, tensor);
    TORCH_CHECK(tensor.scalar_type() == like.scalar_type() && tensor.numel() == like.numel(),
                "muster: ", call, ": want tensors of ", like.numel(), " x ", like.scalar_type(),
                ", got one of ", tensor.numel(), " x ", tensor.scalar_type());
  }
}

void CheckParts(const char* call, const at::Tensor& all, const at::Tensor& part, int64_t size) {
  CheckDense(call, all);
  TORCH_CHECK(all.scalar_type() == part.scalar_type() && all.numel() == part.numel() * size,
              "muster: ", call, ": want a tensor of ", part.numel() * size, " x ",
              part.scalar_type(), ", which is ", part.numel(), " for each of ", size,
              " ranks; got one of ", all.numel(), " x ", all.scalar_type());
}

void CheckPairs(const char* call, const std::vector<at::Tensor>& outputs,
                const std::vector<at::Tensor>& inputs) {
  TORCH_CHECK(outputs.size() == inputs.size(), "muster: ", call,
              ": want as many outputs as inputs, got ", outputs.size(), " and ", inputs.size());
}

Moved::Moved(const at::Tensor& tensor) : dtype(DtypeOf(tensor.scalar_type())), per_element(1) {
  if (dtype == kNone) {
    dtype = MUSTER_UINT8;
    per_element = static_cast<int64_t>(tensor.element_size());
  }
}

Reduced::Reduced(const char* call, const at::Tensor& tensor, const c10d::ReduceOp& reduce_op)
    : dtype(DtypeOf(tensor.scalar_type())), op(OpOf(reduce_op)) {
  TORCH_CHECK(
      dtype != kNone, "muster: ", call, ": numbers of type ", tensor.scalar_type(),
      " are not reduced; want bool, uint8 to uint64, int8 to int64, float16, bfloat16, float32 or "
      "float64. Of complex numbers, pass torch.view_as_real(tensor) for a sum");
  TORCH_CHECK(op != kNone, "muster: ", call,
              ": this operation is not known; want SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR or BXOR. "
              "For PREMUL_SUM, multiply before");
  if (tensor.scalar_type() == at::kBool) {
    op = OpOfBools(op);
    TORCH_CHECK(op != kNone, "muster: ", call, ": AVG of booleans; pass tensor.float()");
  }
  TORCH_CHECK(!at::isFloatingType(tensor.scalar_type()) || op < MUSTER_BAND, "muster: ", call,
              ": BAND, BOR and BXOR are for integers, got ", tensor.scalar_type());
}

at::Tensor InOrder(const at::Tensor& tensor) { return tensor.contiguous(); }

void PutBack(const at::Tensor& copy, const at::Tensor& tensor) {
  if (!copy.is_same(tensor)) {
    tensor.copy_(copy);
  }
}

at::Tensor Joined(const std::vector<at::Tensor>& tensors) {
  if (LieInOrder(tensors)) {
    return InPlace(tensors);
  }
  std::vector<at::Tensor> flat;
  flat.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    flat.push_back(tensor.reshape({-1}));
  }
  return at::cat(flat);
}

at::Tensor RoomFor(const std::vector<at::Tensor>& tensors) {
  return LieInOrder(tensors) ? InPlace(tensors)
                             : at::empty({CountOf(tensors)}, tensors.front().options());
}

void PutBack(const at::Tensor& room, const std::vector<at::Tensor>& tensors) {
  if (LieInOrder(tensors)) {
    return;  // it is theirs
  }
  int64_t at = 0;
  for (const at::Tensor& tensor : tensors) {
    tensor.copy_(room.narrow(0, at, tensor.numel()).view(tensor.sizes()));
    at += tensor.numel();
  }
}

}  // namespace muster_torch
