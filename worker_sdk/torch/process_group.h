// torch.distributed's back end `muster`: the processes of a group are a communicator of libmuster.
//
// Every member makes the same calls in the same order. Calls run one after the other, sends and
// receives beside them. The end of a group waits for what it sends, as ~Communicator does. One
// source for torch 1.13, whose back ends are process groups, and 2.x.
#pragma once

#include <torch/version.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#if TORCH_VERSION_MAJOR >= 2
#include <torch/csrc/distributed/c10d/Backend.hpp>
#else
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#endif

#include "worker_sdk/torch/calls.h"
#include "worker_sdk/torch/communicator.h"
#include "worker_sdk/torch/work.h"

// Since 2.1, for DTensor and torch's functional collectives.
#define MUSTER_TORCH_COALESCES_TENSORS \
  (TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 1))

namespace muster_torch {

#if TORCH_VERSION_MAJOR >= 2
using GroupBase = c10d::Backend;
#else
using GroupBase = c10d::ProcessGroup;
#endif

class ProcessGroup : public GroupBase {
 public:
  using Tensors = std::vector<at::Tensor>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  // What torch calls for a new group, on its members only, with a store that is theirs alone.
  static c10::intrusive_ptr<GroupBase> Create(const c10::intrusive_ptr<c10d::Store>& store,
                                              int rank, int size,
                                              const std::chrono::duration<float>& timeout);
  ProcessGroup(c10d::Store& store, int rank, int size, std::chrono::milliseconds timeout);
  ~ProcessGroup() override;

  const std::string getBackendName() const override { return "muster"; }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override;
#if MUSTER_TORCH_COALESCES_TENSORS
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override;
#endif
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_rows,
                        std::vector<int64_t>& input_rows,
                        const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs,
                   const c10d::AllToAllOptions& options) override;
  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;

  // Collectives so far, the same on all ranks: what TORCH_DISTRIBUTED_DEBUG compares.
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return started_; }

 private:
  using Body = std::function<void(muster_comm*)>;

  // `body` throws what goes wrong. `bytes`: about how much it moves.
  WorkPtr Start(c10d::OpType type, Tensors outputs, size_t bytes, Body body);
  WorkPtr Begun(c10d::OpType type, std::shared_ptr<Message> message, const at::Tensor& tensor);
  WorkPtr Receive(c10d::OpType type, Tensors& tensors, int from, int tag);
  WorkPtr ReduceSparse(const at::Tensor& tensor, const c10d::ReduceOp& op);
  void CheckRank(const char* call, const char* what, int64_t rank) const;
  bool IsRoot(const char* call, int64_t root) const;

  // Each Work has it, too: one may outlive the group. It holds what the communicator, which goes
  // before it, still sends.
  std::shared_ptr<Calls> calls_;
  CommunicatorPtr comm_;
  std::atomic<uint64_t> started_{0};
};

}  // namespace muster_torch
