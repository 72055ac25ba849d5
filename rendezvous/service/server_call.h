// One gRPC stream of an agent, as the master's loop sees it.
//
// Thread rule: gRPC's threads run the On* functions, which only post; all else is the loop's. The
// mailbox cannot fill up: of one call at most kEventsPerCallMax events are under way, and calls are
// counted. Invariants:
//  V1 at most one read and one write are under way;
//  V2 kDone is the last event of a call; the loop then destroys it, nobody else does.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "proto/base/check.h"
#include "proto/base/limits.h"
#include "proto/base/mailbox.h"

namespace muster {

// Two streams per agent, and as many again that come before others are gone.
inline constexpr size_t kCallsMax = 4 * size_t{kNodesMax};
inline constexpr size_t kEventsPerCallMax =
    5;  // opened or read, written, cancelled, done, and one spare

enum class CallEventKind : uint8_t { kOpened, kRead, kReadEnded, kWritten, kBroken, kDone };

class ServerCall;
struct CallEvent {
  ServerCall* call;  // lives until its kDone was handled (V2)
  CallEventKind kind;
};
using CallMailbox = Mailbox<CallEvent>;

// What the reactors share with the loop; outlives every call, because it outlives the gRPC server.
struct CallSink {
  explicit CallSink(std::function<void()> wake)
      : mailbox(kCallsMax * kEventsPerCallMax, std::move(wake)) {}
  CallMailbox mailbox;
  std::atomic<size_t> calls{0};
};

class ServerCall {
 public:
  explicit ServerCall(CallSink* sink) : sink_(sink) {}
  virtual ~ServerCall() { sink_->calls.fetch_sub(1); }
  ServerCall(const ServerCall&) = delete;
  ServerCall& operator=(const ServerCall&) = delete;

  // Ends the call; what was queued by Write still goes out before. Again: nothing.
  virtual void Finish(grpc::Status status) = 0;
  virtual bool finishing() const = 0;
  virtual bool writing() const = 0;
  // On kWritten: the next queued write.
  virtual void WriteNext() = 0;

 protected:
  void PostEvent(CallEventKind kind) { CHECK(sink_->mailbox.Post(CallEvent{this, kind})); }

 private:
  CallSink* const sink_;
};

template <typename Up, typename Down>
class TypedServerCall : public ServerCall, public grpc::ServerBidiReactor<Up, Down> {
 public:
  TypedServerCall(CallSink* sink, std::string peer) : ServerCall(sink), peer_(std::move(peer)) {}

  // The first event; from here on the call is the loop's.
  void Announce() { PostEvent(CallEventKind::kOpened); }

  const std::string& peer() const { return peer_; }
  // Starts the next read; `incoming` is its result at kRead.
  void Read() {
    incoming_.Clear();
    this->StartRead(&incoming_);
  }
  Up& incoming() { return incoming_; }

  void Write(Down&& frame) {
    if (status_.has_value()) {
      return;
    }
    queue_.push_back(std::move(frame));
    if (!writing_) {
      WriteNext();
    }
  }
  void WriteNext() override {
    writing_ = false;
    if (!queue_.empty() && !broken_) {
      outgoing_ = std::move(queue_.front());
      queue_.pop_front();
      writing_ = true;
      this->StartWrite(&outgoing_);
    } else if (status_.has_value() && !finished_) {
      finished_ = true;
      grpc::ServerBidiReactor<Up, Down>::Finish(*status_);
    }
  }
  bool writing() const override { return writing_ || !queue_.empty(); }

  void Finish(grpc::Status status) override {
    if (!status_.has_value()) {
      status_ = std::move(status);
      if (!writing_) {
        WriteNext();
      }
    }
  }
  bool finishing() const override { return status_.has_value(); }
  // The peer is gone: nothing more is written.
  void SetBroken() { broken_ = true; }

 private:
  void OnReadDone(bool ok) override {
    PostEvent(ok ? CallEventKind::kRead : CallEventKind::kReadEnded);
  }
  void OnWriteDone(bool /*ok*/) override { PostEvent(CallEventKind::kWritten); }
  void OnCancel() override { PostEvent(CallEventKind::kBroken); }
  void OnDone() override { PostEvent(CallEventKind::kDone); }

  const std::string peer_;
  Up incoming_;    // gRPC's while a read is under way
  Down outgoing_;  // gRPC's while a write is under way
  std::deque<Down> queue_;
  std::optional<grpc::Status> status_;
  bool writing_ = false;
  bool broken_ = false;
  bool finished_ = false;
};

}  // namespace muster
