// What torch gets for a call that was started.
#pragma once

#include <ATen/ATen.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "worker_sdk/torch/calls.h"
#include "worker_sdk/torch/communicator.h"

namespace muster_torch {

// Of something that ends. What it throws in wait() and gives in exception() is how it has ended.
class EndingWork : public c10d::Work {
 public:
  EndingWork(int rank, c10d::OpType type, std::vector<at::Tensor> outputs);

  bool isSuccess() const override { return ending().ended() && !ending().error(); }
  std::exception_ptr exception() const override { return ending().error(); }
  std::vector<at::Tensor> result() override;
  void synchronize() override { wait(); }
  // kNoTimeout: as long as the group's timeout allows.
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void abort() override;
  // Asks for it to end as soon as it can: whoever has a future does not wait here.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 protected:
  virtual Ending& ending() const = 0;
  virtual void Hurry() = 0;
  virtual void WaitFor() = 0;
  virtual bool WaitFor(std::chrono::milliseconds timeout) = 0;

 private:
  const std::vector<at::Tensor> outputs_;
  std::mutex future_mutex_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

// A collective.
class CallWork : public EndingWork {
 public:
  CallWork(int rank, c10d::OpType type, std::vector<at::Tensor> outputs,
           std::shared_ptr<Calls> calls, std::shared_ptr<Call> call);

  bool isCompleted() override;

 private:
  Ending& ending() const override { return *call_; }
  void Hurry() override { calls_->Hurry(); }
  void WaitFor() override { calls_->Wait(*call_); }
  bool WaitFor(std::chrono::milliseconds timeout) override;

  const std::shared_ptr<Calls> calls_;  // the group's; it may end before us
  const std::shared_ptr<Call> call_;
};

// A message under way. `buffer` has what travels, and is `tensor` or a copy of it. Until it has
// ended, or its communicator has, somebody must hold it: the buffer is in use.
class Message : public Ending, public Watched {
 public:
  Message(muster_work* work, at::Tensor buffer, at::Tensor tensor);
  ~Message() override;

  bool Test() override;
  void Wait();
  bool WaitFor(std::chrono::milliseconds timeout);
  // Of a receive that has ended: whose message it has got.
  int source() const { return muster_work_source(work_); }

 private:
  void Finish(std::unique_lock<std::mutex> lock);

  muster_work* const work_;
  const at::Tensor buffer_;
  const at::Tensor tensor_;
  std::mutex finish_mutex_;  // whoever has it puts the data where it belongs
};

class MessageWork : public EndingWork {
 public:
  MessageWork(int rank, c10d::OpType type, std::vector<at::Tensor> outputs,
              std::shared_ptr<Message> message);

  bool isCompleted() override { return message_->Test(); }
  int sourceRank() const override { return message_->source(); }

 private:
  Ending& ending() const override { return *message_; }
  void Hurry() override {}  // the group's thread looks at it
  void WaitFor() override { message_->Wait(); }
  bool WaitFor(std::chrono::milliseconds timeout) override { return message_->WaitFor(timeout); }

  const std::shared_ptr<Message> message_;
};

}  // namespace muster_torch
