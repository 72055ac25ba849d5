#include "muster/communicator.h"

#include <exception>
#include <memory>
#include <utility>

#include "worker_sdk/api/calls.h"
#include "worker_sdk/api/communicator_impl.h"

namespace muster {

Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&& other) noexcept {
  if (this != &other) {
    Communicator last(std::move(*this));  // ends as any other
    impl_ = std::move(other.impl_);
  }
  return *this;
}
// A child by fork() has what is its parent's: it ends nothing.
Communicator::~Communicator() {
  if (impl_ && impl_->is_parents()) {
    [[maybe_unused]] const Impl* const parents = impl_.release();
  } else if (impl_ && std::uncaught_exceptions() > impl_->uncaught()) {
    Abandon();
  }
}

void Communicator::Abandon() {
  if (!impl_->is_parents()) {
    impl_->TellFailing();
    (void)impl_->Leave("has failed and left", rank());
  }
}

int Communicator::rank() const { return static_cast<int>(impl_->me().rank); }
int Communicator::size() const { return static_cast<int>(impl_->me().size); }
int Communicator::local_rank() const { return static_cast<int>(impl_->me().local_rank); }
int Communicator::local_size() const { return static_cast<int>(impl_->me().local_size); }
int Communicator::node_rank() const { return static_cast<int>(impl_->me().node_rank); }
int Communicator::nodes() const { return static_cast<int>(impl_->me().nodes); }
uint64_t Communicator::round() const { return impl_->me().round; }

void Communicator::SetTimeout(std::chrono::nanoseconds timeout) { impl_->SetTimeout(timeout); }

void Communicator::SetWire(Wire wire) { impl_->SetWire(wire); }
Wire Communicator::wire() const { return impl_->wire(); }

Counters Communicator::counters() const { return impl_->counters(); }
std::chrono::nanoseconds Communicator::WaitedFor(int rank) const {
  return rank < 0 || rank >= size() ? std::chrono::nanoseconds(0)
                                    : impl_->WaitedFor(static_cast<uint32_t>(rank));
}

Status Communicator::Send(const void* data, int64_t count, DType dtype, int to, int tag) {
  return impl_->Send([&](const Calls& calls) { return calls.Send(data, count, dtype, to, tag); });
}
Work Communicator::SendAsync(const void* data, int64_t count, DType dtype, int to, int tag) {
  return impl_->StartSend(
      [&](const Calls& calls) { return calls.Send(data, count, dtype, to, tag); });
}
Status Communicator::Recv(void* data, int64_t count, DType dtype, int from, int tag) {
  return impl_->Receive(
      [&](const Calls& calls) { return calls.Receive(data, count, dtype, from, tag); });
}
Work Communicator::RecvAsync(void* data, int64_t count, DType dtype, int from, int tag) {
  return impl_->StartReceive(
      [&](const Calls& calls) { return calls.Receive(data, count, dtype, from, tag); });
}

Status Communicator::Barrier() {
  return impl_->Run([&](const Calls& calls) { return calls.Barrier(); });
}
Work Communicator::BarrierAsync() {
  return impl_->Start([&](const Calls& calls) { return calls.Barrier(); });
}

Status Communicator::AllReduce(const void* in, void* out, int64_t count, DType dtype, ReduceOp op) {
  return impl_->Run([&](const Calls& calls) { return calls.AllReduce(in, out, count, dtype, op); });
}
Work Communicator::AllReduceAsync(const void* in, void* out, int64_t count, DType dtype,
                                  ReduceOp op) {
  return impl_->Start(
      [&](const Calls& calls) { return calls.AllReduce(in, out, count, dtype, op); });
}

Status Communicator::Reduce(const void* in, void* out, int64_t count, DType dtype, ReduceOp op,
                            int root) {
  return impl_->Run(
      [&](const Calls& calls) { return calls.Reduce(in, out, count, dtype, op, root); });
}
Work Communicator::ReduceAsync(const void* in, void* out, int64_t count, DType dtype, ReduceOp op,
                               int root) {
  return impl_->Start(
      [&](const Calls& calls) { return calls.Reduce(in, out, count, dtype, op, root); });
}

Status Communicator::Broadcast(void* data, int64_t count, DType dtype, int root) {
  return impl_->Run([&](const Calls& calls) { return calls.Broadcast(data, count, dtype, root); });
}
Work Communicator::BroadcastAsync(void* data, int64_t count, DType dtype, int root) {
  return impl_->Start(
      [&](const Calls& calls) { return calls.Broadcast(data, count, dtype, root); });
}

Status Communicator::AllGather(const void* in, void* out, int64_t count, DType dtype) {
  return impl_->Run([&](const Calls& calls) { return calls.AllGather(in, out, count, dtype); });
}
Work Communicator::AllGatherAsync(const void* in, void* out, int64_t count, DType dtype) {
  return impl_->Start([&](const Calls& calls) { return calls.AllGather(in, out, count, dtype); });
}

Status Communicator::Gather(const void* in, void* out, int64_t count, DType dtype, int root) {
  return impl_->Run([&](const Calls& calls) { return calls.Gather(in, out, count, dtype, root); });
}
Work Communicator::GatherAsync(const void* in, void* out, int64_t count, DType dtype, int root) {
  return impl_->Start(
      [&](const Calls& calls) { return calls.Gather(in, out, count, dtype, root); });
}

Status Communicator::Scatter(const void* in, void* out, int64_t count, DType dtype, int root) {
  return impl_->Run([&](const Calls& calls) { return calls.Scatter(in, out, count, dtype, root); });
}
Work Communicator::ScatterAsync(const void* in, void* out, int64_t count, DType dtype, int root) {
  return impl_->Start(
      [&](const Calls& calls) { return calls.Scatter(in, out, count, dtype, root); });
}

Status Communicator::ReduceScatter(const void* in, void* out, int64_t count, DType dtype,
                                   ReduceOp op) {
  return impl_->Run(
      [&](const Calls& calls) { return calls.ReduceScatter(in, out, count, dtype, op); });
}
Work Communicator::ReduceScatterAsync(const void* in, void* out, int64_t count, DType dtype,
                                      ReduceOp op) {
  return impl_->Start(
      [&](const Calls& calls) { return calls.ReduceScatter(in, out, count, dtype, op); });
}

Status Communicator::AllToAll(const void* in, void* out, int64_t count, DType dtype) {
  return impl_->Run([&](const Calls& calls) { return calls.AllToAll(in, out, count, dtype); });
}
Work Communicator::AllToAllAsync(const void* in, void* out, int64_t count, DType dtype) {
  return impl_->Start([&](const Calls& calls) { return calls.AllToAll(in, out, count, dtype); });
}

Status Communicator::AllGatherV(const void* in, void* out, const int64_t* counts, DType dtype) {
  return impl_->Run([&](const Calls& calls) { return calls.AllGatherV(in, out, counts, dtype); });
}
Work Communicator::AllGatherVAsync(const void* in, void* out, const int64_t* counts, DType dtype) {
  return impl_->Start([&](const Calls& calls) { return calls.AllGatherV(in, out, counts, dtype); });
}

Status Communicator::GatherV(const void* in, void* out, const int64_t* counts, DType dtype,
                             int root) {
  return impl_->Run(
      [&](const Calls& calls) { return calls.GatherV(in, out, counts, dtype, root); });
}
Work Communicator::GatherVAsync(const void* in, void* out, const int64_t* counts, DType dtype,
                                int root) {
  return impl_->Start(
      [&](const Calls& calls) { return calls.GatherV(in, out, counts, dtype, root); });
}

Status Communicator::ScatterV(const void* in, void* out, const int64_t* counts, DType dtype,
                              int root) {
  return impl_->Run(
      [&](const Calls& calls) { return calls.ScatterV(in, out, counts, dtype, root); });
}
Work Communicator::ScatterVAsync(const void* in, void* out, const int64_t* counts, DType dtype,
                                 int root) {
  return impl_->Start(
      [&](const Calls& calls) { return calls.ScatterV(in, out, counts, dtype, root); });
}

Status Communicator::ReduceScatterV(const void* in, void* out, const int64_t* counts, DType dtype,
                                    ReduceOp op) {
  return impl_->Run(
      [&](const Calls& calls) { return calls.ReduceScatterV(in, out, counts, dtype, op); });
}
Work Communicator::ReduceScatterVAsync(const void* in, void* out, const int64_t* counts,
                                       DType dtype, ReduceOp op) {
  return impl_->Start(
      [&](const Calls& calls) { return calls.ReduceScatterV(in, out, counts, dtype, op); });
}

Status Communicator::AllToAllV(const void* in, const int64_t* send_counts, void* out,
                               const int64_t* recv_counts, DType dtype) {
  return impl_->Run([&](const Calls& calls) {
    return calls.AllToAllV(in, send_counts, out, recv_counts, dtype);
  });
}
Work Communicator::AllToAllVAsync(const void* in, const int64_t* send_counts, void* out,
                                  const int64_t* recv_counts, DType dtype) {
  return impl_->Start([&](const Calls& calls) {
    return calls.AllToAllV(in, send_counts, out, recv_counts, dtype);
  });
}

}  // namespace muster
