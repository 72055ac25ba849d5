#include "worker_sdk/torch/work.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "worker_sdk/torch/tensors.h"

namespace muster_torch {

EndingWork::EndingWork(int rank, c10d::OpType type, std::vector<at::Tensor> outputs)
    : c10d::Work(rank, type), outputs_(std::move(outputs)) {}

std::vector<at::Tensor> EndingWork::result() {
  TORCH_CHECK(ending().ended(),
              "muster: the result is asked for before the call has ended: call "
              "wait() first");
  return outputs_;
}

bool EndingWork::wait(std::chrono::milliseconds timeout) {
  if (timeout.count() > 0) {
    TORCH_CHECK(WaitFor(timeout), "muster: the call has not ended within ", timeout.count(),
                " ms, the timeout given to wait(); it goes on");
  } else {
    WaitFor();
  }
  if (const std::exception_ptr error = ending().error()) {
    std::rethrow_exception(error);
  }
  return true;
}

void EndingWork::abort() { TORCH_CHECK(false, "muster: a call cannot be aborted: wait for it"); }

c10::intrusive_ptr<c10::ivalue::Future> EndingWork::getFuture() {
  const std::lock_guard<std::mutex> lock(future_mutex_);
  if (!future_) {
    future_ =
        c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    ending().Then([future = future_, outputs = outputs_](std::exception_ptr error) {
      error ? future->setError(std::move(error)) : future->markCompleted(c10::IValue(outputs));
    });
    Hurry();
  }
  return future_;
}

CallWork::CallWork(int rank, c10d::OpType type, std::vector<at::Tensor> outputs,
                   std::shared_ptr<Calls> calls, std::shared_ptr<Call> call)
    : EndingWork(rank, type, std::move(outputs)),
      calls_(std::move(calls)),
      call_(std::move(call)) {}

bool CallWork::isCompleted() {
  if (!call_->ended()) {
    calls_->Hurry();  // whoever looks like this may never wait
  }
  return call_->ended();
}

bool CallWork::WaitFor(std::chrono::milliseconds timeout) {
  return calls_->WaitFor(*call_, timeout);
}

Message::Message(muster_work* work, at::Tensor buffer, at::Tensor tensor)
    : work_(work), buffer_(std::move(buffer)), tensor_(std::move(tensor)) {}

Message::~Message() { muster_work_free(work_); }

bool Message::Test() {
  if (!ended() && muster_test(work_) != 0) {
    if (std::unique_lock lock(finish_mutex_, std::try_to_lock); lock) {
      Finish(std::move(lock));
    }
  }
  return ended();
}

void Message::Wait() {
  if (!ended()) {
    (void)muster_wait(work_);  // Finish() asks again for how it went
    Finish(std::unique_lock(finish_mutex_));
  }
}

bool Message::WaitFor(std::chrono::milliseconds timeout) {
  const auto until = std::chrono::steady_clock::now() + timeout;
  while (!Test() && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(Calls::kNap);  // libmuster has no wait with an end
  }
  return ended();
}

void Message::Finish(std::unique_lock<std::mutex> lock) {
  if (ended()) {
    return;
  }
  std::exception_ptr error;
  try {
    Check(muster_wait(work_));
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    PutBack(buffer_, tensor_);
  } catch (...) {
    error = std::current_exception();
  }
  const std::function<void()> tell = Settle(std::move(error));
  lock.unlock();
  if (tell) {
    tell();
  }
}

MessageWork::MessageWork(int rank, c10d::OpType type, std::vector<at::Tensor> outputs,
                         std::shared_ptr<Message> message)
    : EndingWork(rank, type, std::move(outputs)), message_(std::move(message)) {}

}  // namespace muster_torch
