#include "proto/tls/pipe.h"

#include <sys/socket.h>
#include <uv.h>

#include <algorithm>
#include <cerrno>

namespace muster {
namespace {

constexpr int kRecordsPerTurn = 16;

}  // namespace

void TlsPipe::SetInner(UniqueFd inner) {
  inner_ = std::move(inner);
  if (ready_ && stage_ == Stage::kListening) {
    stage_ = Stage::kCarrying;
  }
}

void TlsPipe::Turn(char* scratch) {
  if (stage_ == Stage::kShaking || (stage_ == Stage::kListening && !ready_)) {
    return Shake();  // the owner hears of it before any byte goes on
  }
  if (stage_ != Stage::kCarrying) {
    return;
  }
  for (int i = 0; i < kRecordsPerTurn; ++i) {
    const bool up = MoveUp(scratch);
    const bool down = MoveDown(scratch);
    if (!up && !down) {
      break;
    }
  }
  if (inner_ended_ && up_.empty()) {
    session_.SayGoodbye();
    stage_ = Stage::kOver;
  } else if (socket_ended_ && down_.empty()) {
    stage_ = Stage::kOver;
  }
}

void TlsPipe::Shake() {
  TlsStep step = TlsStep::kDone;
  if (stage_ == Stage::kShaking) {
    step = session_.Handshake();
    stage_ = step == TlsStep::kDone ? Stage::kListening : Stage::kShaking;
  }
  if (step == TlsStep::kDone && hear_) {
    step = session_.Hear();
  }
  shaking_writes_ = step == TlsStep::kWantsWrite;
  if (step == TlsStep::kEnded) {
    stage_ = Stage::kOver;
  } else if (step == TlsStep::kDone) {
    ready_ = true;
    stage_ = inner_.valid() ? Stage::kCarrying : stage_;
  }
}

bool TlsPipe::MoveUp(char* scratch) {
  if (!up_.empty()) {
    const std::string waiting = std::move(up_);
    up_.clear();
    return SendUp(waiting.data(), waiting.size());
  }
  if (inner_ended_ || socket_ended_) {
    return false;
  }
  const ssize_t n = recv(inner_.get(), scratch, kTlsRecordBytes, MSG_DONTWAIT);
  if (n > 0) {
    SendUp(scratch, static_cast<size_t>(n));
    return true;
  }
  inner_ended_ = n == 0 || (errno != EAGAIN && errno != EINTR);
  return false;
}

bool TlsPipe::SendUp(const char* bytes, size_t size) {
  const TlsMoved moved = session_.Write(bytes, size);
  if (moved.step == TlsStep::kEnded) {
    socket_ended_ = true;  // what is left finds nobody
    return false;
  }
  up_.assign(bytes + moved.bytes, size - moved.bytes);
  return moved.bytes > 0;
}

bool TlsPipe::MoveDown(char* scratch) {
  if (!down_.empty()) {
    const std::string waiting = std::move(down_);
    down_.clear();
    return SendDown(waiting.data(), waiting.size());
  }
  if (socket_ended_ || down_left_ == 0) {
    return false;
  }
  const TlsMoved moved = session_.Read(scratch, std::min(kTlsRecordBytes, down_left_));
  reading_writes_ = moved.step == TlsStep::kWantsWrite;
  socket_ended_ = moved.step == TlsStep::kEnded;
  if (moved.step == TlsStep::kDone) {
    down_left_ -= moved.bytes;
    SendDown(scratch, moved.bytes);
  }
  return moved.step == TlsStep::kDone;
}

bool TlsPipe::SendDown(const char* bytes, size_t size) {
  const ssize_t n = send(inner_.get(), bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (n < 0 && errno != EAGAIN && errno != EINTR) {
    return false;  // nobody reads inside any more; what was written there before still goes up
  }
  const size_t sent = n > 0 ? static_cast<size_t>(n) : 0;
  down_.assign(bytes + sent, size - sent);
  return sent > 0;
}

TlsWaits TlsPipe::Waits() const {
  if (stage_ == Stage::kOver || (ready_ && stage_ != Stage::kCarrying)) {
    return {};
  }
  if (stage_ != Stage::kCarrying) {
    return {shaking_writes_ ? UV_WRITABLE : UV_READABLE, 0};
  }
  TlsWaits out;
  out.socket = (down_.empty() && down_left_ > 0 ? UV_READABLE : 0) |
               (up_.empty() && !reading_writes_ ? 0 : static_cast<int>(UV_WRITABLE));
  out.inner = (up_.empty() && !socket_ended_ ? UV_READABLE : UV_DISCONNECT) |
              (down_.empty() ? 0 : static_cast<int>(UV_WRITABLE));
  return out;
}

}  // namespace muster
