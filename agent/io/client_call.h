// One gRPC stream to the master, as the agent's loop sees it.
//
// Thread rule: gRPC's threads run the On* functions, which only post; all else is the loop's.
// Invariants:
//  K1 at most one read and one write are under way;
//  K2 kDone is the last event of a call; it comes after Release and after every operation has
//  ended; K3 no operation is started after Release.
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/client_callback.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "proto/base/check.h"
#include "proto/base/mailbox.h"

namespace muster {

enum class ClientEventKind : uint8_t {
  kRead,
  kReadEnded,
  kWritten,
  kWriteFailed,
  kHalfClosed,
  kDone
};

class ClientCall;
struct ClientEvent {
  ClientCall* call;  // lives until its kDone was handled (K2)
  ClientEventKind kind;
};
using ClientMailbox = Mailbox<ClientEvent>;

class ClientCall {
 public:
  // `mailbox` outlives the call.
  explicit ClientCall(ClientMailbox* mailbox) : mailbox_(mailbox) {}
  virtual ~ClientCall() = default;
  ClientCall(const ClientCall&) = delete;
  ClientCall& operator=(const ClientCall&) = delete;

  // Everything under way ends soon.
  void Cancel() { context_.TryCancel(); }
  // No more operations will be started; again: nothing. A write under way ends first.
  virtual void Release() = 0;
  const grpc::Status& status() const { return status_; }  // at kDone

 protected:
  void PostEvent(ClientEventKind kind) { CHECK(mailbox_->Post(ClientEvent{this, kind})); }

  ClientMailbox* const mailbox_;
  grpc::ClientContext context_;
  grpc::Status status_;
};

template <typename Up, typename Down>
class TypedClientCall : public ClientCall, public grpc::ClientBidiReactor<Up, Down> {
 public:
  using ClientCall::ClientCall;

  // `start` binds the call to a stub's method; the first read is started.
  void Open(const std::function<void(grpc::ClientContext*, TypedClientCall*)>& start) {
    start(&context_, this);
    this->AddHold();
    this->StartRead(&incoming_);
    this->StartCall();
  }
  void Read() {
    incoming_.Clear();
    this->StartRead(&incoming_);
  }
  const Down& incoming() const { return incoming_; }

  // Only while !writing() and before Release.
  void Write(Up&& frame) {
    CHECK(!writing_ && !released_);
    outgoing_ = std::move(frame);
    writing_ = true;
    this->StartWrite(&outgoing_);
  }
  void HalfClose() {
    CHECK(!writing_ && !released_ && !half_closed_);
    half_closed_ = true;
    this->StartWritesDone();
  }
  // On kWritten and kWriteFailed.
  void WriteEnded() { writing_ = false; }
  bool writing() const { return writing_; }
  bool half_closed() const { return half_closed_; }
  bool released() const { return released_; }
  void Release() override {
    if (!released_) {
      released_ = true;
      this->RemoveHold();
    }
  }

 private:
  void OnReadDone(bool ok) override {
    PostEvent(ok ? ClientEventKind::kRead : ClientEventKind::kReadEnded);
  }
  void OnWriteDone(bool ok) override {
    PostEvent(ok ? ClientEventKind::kWritten : ClientEventKind::kWriteFailed);
  }
  void OnWritesDoneDone(bool /*ok*/) override { PostEvent(ClientEventKind::kHalfClosed); }
  void OnDone(const grpc::Status& status) override {
    status_ = status;
    PostEvent(ClientEventKind::kDone);
  }

  Down incoming_;  // gRPC's while a read is under way
  Up outgoing_;    // gRPC's while a write is under way
  bool writing_ = false;
  bool half_closed_ = false;
  bool released_ = false;
};

}  // namespace muster
