// How a call went. Standard C++ only: programs that load libmuster carry their own Abseil, or none.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "muster/export.h"

namespace muster {

// The numbers are part of the C ABI: they never change.
enum class StatusCode : int {
  kOk = 0,
  kInvalidArgument = 3,     // this call can never work: the message names argument and limit
  kDeadlineExceeded = 4,    // the time given was over
  kResourceExhausted = 8,   // no memory left, or too many messages wait to be received
  kFailedPrecondition = 9,  // ranks disagree on the call, or the communicator is closed
  kUnimplemented = 12,      // not on this machine
  kInternal = 13,           // a fault of ours, or of the system below
  kUnavailable = 14,        // a peer died or cannot be reached; the communicator is dead
};

class [[nodiscard]] MUSTER_EXPORT Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message, int peer = -1)
      : code_(code), peer_(peer), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }
  // The rank of the communicator that made the call fail: it has died or closed its communicator,
  // or cannot be reached. -1: that is not why, or not known.
  int peer() const { return peer_; }
  // "UNAVAILABLE: all_reduce 12: rank 3 on node1 died"
  std::string ToString() const;

 private:
  StatusCode code_ = StatusCode::kOk;
  int peer_ = -1;
  std::string message_;
};

// A value, or why there is none.
template <typename T>
class [[nodiscard]] StatusOr {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): as absl's
  StatusOr(Status status) : status_(std::move(status)) {}
  // NOLINTNEXTLINE(google-explicit-constructor): as absl's
  StatusOr(T value) : value_(std::move(value)) {}

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return *std::move(value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace muster
