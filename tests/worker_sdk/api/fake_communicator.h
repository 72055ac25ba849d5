// A Communicator that does nothing: rank 1 of 3 on one node, and a note of each call.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "muster/status.h"
#include "muster/types.h"

namespace muster {

struct FakeCommunicator {
  std::string calls;                     // "all_reduce 8 float32 sum;"
  Status answer;                         // of every call, and of FromEnvironment
  std::function<void()> before = [] {};  // of each of them
  std::chrono::nanoseconds timeout{-1};
  Wire wire = Wire::kFull;
  int alive = 0;
  bool fails_at_once = false;  // what is started has ended with `answer` already
  bool ended = false;          // what was started
  int source = kAnyRank;       // of what was started
};

FakeCommunicator& TheFake();

}  // namespace muster
