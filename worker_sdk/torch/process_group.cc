#include "worker_sdk/torch/process_group.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <utility>

#include "worker_sdk/torch/python_lock.h"
#include "worker_sdk/torch/sparse.h"
#include "worker_sdk/torch/tensors.h"

namespace muster_torch {
namespace {

// It takes so long that the moment between here and wait() counts, and a thread's start does not.
constexpr size_t kLargeBytes = size_t{1} << 20;

void ReduceScatterInto(muster_comm* comm, const at::Tensor& input, const at::Tensor& output,
                       const Reduced& as) {
  const at::Tensor in = InOrder(input);
  const at::Tensor out = InOrder(output);
  Check(muster_reduce_scatter(comm, in.data_ptr(), out.data_ptr(), out.numel(), as.dtype, as.op));
  PutBack(out, output);
}

}  // namespace

c10::intrusive_ptr<GroupBase> ProcessGroup::Create(const c10::intrusive_ptr<c10d::Store>& store,
                                                   int rank, int size,
                                                   const std::chrono::duration<float>& timeout) {
  return c10::make_intrusive<ProcessGroup>(
      *store, rank, size, std::chrono::duration_cast<std::chrono::milliseconds>(timeout));
}

ProcessGroup::ProcessGroup(c10d::Store& store, int rank, int size,
                           std::chrono::milliseconds timeout)
    : GroupBase(rank, size),
      calls_(Calls::New()),
      comm_(std::make_shared<Communicator>(store, rank, size, timeout)) {}

// destroy_process_group has Python's lock, which a call's end may want: a listener, or the last
// hold of a tensor. The communicator's end waits for what it sends.
ProcessGroup::~ProcessGroup() {
  const WithoutPythonLock without;
  calls_->Close();
  EndInTime(comm_, calls_);
  comm_ = nullptr;
  calls_ = nullptr;
}

ProcessGroup::WorkPtr ProcessGroup::Start(c10d::OpType type, Tensors outputs, size_t bytes,
                                          Body body) {
  auto call = std::make_shared<Call>([comm = comm_, body = std::move(body)] {
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    body(comm->get());
  });
  ++started_;
  calls_->Add(call, bytes >= kLargeBytes);
  return c10::make_intrusive<CallWork>(getRank(), type, std::move(outputs), calls_,
                                       std::move(call));
}

void ProcessGroup::CheckRank(const char* call, const char* what, int64_t rank) const {
  TORCH_CHECK(rank >= 0 && rank < getSize(), "muster: ", call, ": ", what, ": want 0..",
              getSize() - 1, ", got ", rank);
}

bool ProcessGroup::IsRoot(const char* call, int64_t root) const {
  CheckRank(call, "root", root);
  return root == getRank();
}

ProcessGroup::WorkPtr ProcessGroup::broadcast(Tensors& tensors,
                                              const c10d::BroadcastOptions& options) {
  const at::Tensor tensor = TheOne("broadcast", tensors);
  const bool here = IsRoot("broadcast", options.rootRank);
  return Start(c10d::OpType::BROADCAST, tensors, tensor.nbytes(),
               [tensor, here, root = static_cast<int>(options.rootRank)](muster_comm* comm) {
                 const Moved as(tensor);
                 const at::Tensor data = InOrder(tensor);
                 Check(muster_broadcast(comm, data.data_ptr(), data.numel() * as.per_element,
                                        as.dtype, root));
                 if (!here) {  // whose tensor is only read, and may be expanded
                   PutBack(data, tensor);
                 }
               });
}

ProcessGroup::WorkPtr ProcessGroup::allreduce(Tensors& tensors,
                                              const c10d::AllreduceOptions& options) {
  if (tensors.size() == 1 && tensors.front().layout() == at::kSparse) {
    return ReduceSparse(tensors.front(), options.reduceOp);
  }
  const at::Tensor tensor = TheOne("all_reduce", tensors);
  const Reduced as("all_reduce", tensor, options.reduceOp);
  return Start(c10d::OpType::ALLREDUCE, tensors, tensor.nbytes(), [tensor, as](muster_comm* comm) {
    const at::Tensor data = InOrder(tensor);
    Check(muster_all_reduce(comm, data.data_ptr(), data.data_ptr(), data.numel(), as.dtype, as.op));
    PutBack(data, tensor);
  });
}

ProcessGroup::WorkPtr ProcessGroup::ReduceSparse(const at::Tensor& tensor,
                                                 const c10d::ReduceOp& op) {
  CheckSparse("all_reduce", tensor, op);
  return Start(c10d::OpType::ALLREDUCE, {tensor}, tensor._values().nbytes(),
               [tensor, averages = op == c10d::ReduceOp::AVG](muster_comm* comm) {
                 AllReduceSparse(comm, tensor, averages);
               });
}

ProcessGroup::WorkPtr ProcessGroup::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  constexpr char kName[] = "all_reduce_coalesced";
  TORCH_CHECK(!tensors.empty(), "muster: ", kName, ": want at least one tensor");
  for (const at::Tensor& tensor : tensors) {
    CheckDense(kName, tensor);
    TORCH_CHECK(tensor.scalar_type() == tensors.front().scalar_type(), "muster: ", kName,
                ": want tensors of one type, got ", tensors.front().scalar_type(), " and ",
                tensor.scalar_type());
  }
  const Reduced as(kName, tensors.front(), options.reduceOp);
  return Start(c10d::OpType::ALLREDUCE_COALESCED, tensors, 0, [tensors, as](muster_comm* comm) {
    const at::Tensor data = Joined(tensors);
    Check(muster_all_reduce(comm, data.data_ptr(), data.data_ptr(), data.numel(), as.dtype, as.op));
    PutBack(data, tensors);
  });
}

ProcessGroup::WorkPtr ProcessGroup::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const at::Tensor tensor = TheOne("reduce", tensors);
  const Reduced as("reduce", tensor, options.reduceOp);
  const bool here = IsRoot("reduce", options.rootRank);
  return Start(c10d::OpType::REDUCE, tensors, tensor.nbytes(),
               [tensor, as, here, root = static_cast<int>(options.rootRank)](muster_comm* comm) {
                 const at::Tensor data = InOrder(tensor);
                 Check(muster_reduce(comm, data.data_ptr(), here ? data.data_ptr() : nullptr,
                                     data.numel(), as.dtype, as.op, root));
                 if (here) {
                   PutBack(data, tensor);
                 }
               });
}

ProcessGroup::WorkPtr ProcessGroup::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                   const c10d::ReduceScatterOptions& options) {
  constexpr char kName[] = "reduce_scatter";
  const at::Tensor output = TheOne(kName, outputs);
  TORCH_CHECK(inputs.size() == 1, "muster: ", kName, ": want one list of tensors, got ",
              inputs.size());
  CheckAlike(kName, inputs.front(), getSize(), output);
  const Reduced as(kName, output, options.reduceOp);
  return Start(c10d::OpType::REDUCE_SCATTER, outputs, output.nbytes(),
               [output, input = inputs.front(), as](muster_comm* comm) {
                 const at::Tensor in = Joined(input);
                 const at::Tensor out = InOrder(output);
                 Check(muster_reduce_scatter(comm, in.data_ptr(), out.data_ptr(), out.numel(),
                                             as.dtype, as.op));
                 PutBack(out, output);
               });
}

ProcessGroup::WorkPtr ProcessGroup::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  constexpr char kName[] = "reduce_scatter_tensor";
  CheckDense(kName, output);
  CheckParts(kName, input, output, getSize());
  const Reduced as(kName, output, options.reduceOp);
  return Start(
      c10d::OpType::_REDUCE_SCATTER_BASE, {output}, input.nbytes(),
      [output, input, as](muster_comm* comm) { ReduceScatterInto(comm, input, output, as); });
}

#if MUSTER_TORCH_COALESCES_TENSORS
ProcessGroup::WorkPtr ProcessGroup::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  constexpr char kName[] = "reduce_scatter_tensor_coalesced";
  CheckPairs(kName, outputs, inputs);
  std::vector<Reduced> as;
  for (size_t i = 0; i < inputs.size(); ++i) {
    CheckDense(kName, outputs[i]);
    CheckParts(kName, inputs[i], outputs[i], getSize());
    as.emplace_back(kName, outputs[i], options.reduceOp);
  }
  return Start(c10d::OpType::_REDUCE_SCATTER_BASE, outputs, 0,
               [outputs, inputs, as](muster_comm* comm) {
                 for (size_t i = 0; i < inputs.size(); ++i) {
                   ReduceScatterInto(comm, inputs[i], outputs[i], as[i]);
                 }
               });
}
#endif

ProcessGroup::WorkPtr ProcessGroup::barrier(const c10d::BarrierOptions& /*options*/) {
  return Start(c10d::OpType::BARRIER, {}, 0,
               [](muster_comm* comm) { Check(muster_barrier(comm)); });
}

ProcessGroup::WorkPtr ProcessGroup::Begun(c10d::OpType type, std::shared_ptr<Message> message,
                                          const at::Tensor& tensor) {
  calls_->Watch(message);
  return c10::make_intrusive<MessageWork>(getRank(), type, Tensors{tensor}, std::move(message));
}

ProcessGroup::WorkPtr ProcessGroup::send(Tensors& tensors, int to, int tag) {
  const at::Tensor tensor = TheOne("send", tensors);
  CheckRank("send", "dst", to);
  const Moved as(tensor);
  const at::Tensor data = InOrder(tensor);
  muster_work* work = nullptr;
  Check(muster_send_async(comm_->get(), data.data_ptr(), data.numel() * as.per_element, as.dtype,
                          to, tag, &work));
  return Begun(c10d::OpType::SEND, std::make_shared<Message>(work, data, data), tensor);
}

ProcessGroup::WorkPtr ProcessGroup::recv(Tensors& tensors, int from, int tag) {
  CheckRank("recv", "src", from);
  return Receive(c10d::OpType::RECV, tensors, from, tag);
}

ProcessGroup::WorkPtr ProcessGroup::recvAnysource(Tensors& tensors, int tag) {
  return Receive(c10d::OpType::RECVANYSOURCE, tensors, MUSTER_ANY_RANK, tag);
}

ProcessGroup::WorkPtr ProcessGroup::Receive(c10d::OpType type, Tensors& tensors, int from,
                                            int tag) {
  const at::Tensor tensor = TheOne("recv", tensors);
  const Moved as(tensor);
  const at::Tensor data = InOrder(tensor);
  muster_work* work = nullptr;
  Check(muster_recv_async(comm_->get(), data.data_ptr(), data.numel() * as.per_element, as.dtype,
                          from, tag, &work));
  return Begun(type, std::make_shared<Message>(work, data, tensor), tensor);
}

}  // namespace muster_torch
