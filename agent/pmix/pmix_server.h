// libpmix's server for one node and round, and no more of that library than this. Its up-calls come
// on a thread of its own; all they do is to post what they say. One object a process: the library
// has one server. Owner thread only, but for the up-calls.
//
// Keys and calls: the PMIx standard 4.1, chapters 5 (reserved keys) and 16 (server).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent/core/pmix_wire.h"
#include "agent/core/pmix_world.h"
#include "proto/base/mailbox.h"

namespace muster {

// What a client wants told, and what lets it go on once that has been told.
struct PmixUpCall {
  PmixMessage tell;
  std::function<void()> then;  // may be empty
};

class PmixServer {
 public:
  // `wake`: as Mailbox's, called on the library's thread.
  PmixServer(PmixWorld world, std::function<void()> wake);

  // Blocks until clients may come, some 50 ms. Errors: Internal (which call failed, and how).
  absl::StatusOr<PmixReady> Start();
  // All that clients have wanted since the last call, in order.
  std::vector<PmixUpCall> TakeUpCalls() { return up_calls_.TakeAll(); }
  // Answers the fence that was told last.
  void Fenced(PmixFenced result);
  // Answers PmixWant.
  void Found(const PmixFound& found);
  // A PmixShown follows, at once or when the client has put something.
  void Show(LocalRank client);

 private:
  friend struct PmixUpCalls;  // the functions that the library calls

  absl::Status RegisterWorld();
  absl::StatusOr<std::vector<std::string>> RegisterClient(uint32_t rank);

  const PmixWorld world_;
  Mailbox<PmixUpCall> up_calls_;
  using Give = std::function<void(bool ok, std::string bytes)>;

  Give leave_fence_;
  std::multimap<uint32_t, Give> wanting_;  // by rank of another node
  std::vector<LocalRank> clients_;         // fixed: the library points to them
};

}  // namespace muster
