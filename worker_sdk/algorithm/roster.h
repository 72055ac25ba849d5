// What processes that meet at a store say of themselves, and the group that they become. Pure:
// every rank computes the same.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/status.h"
#include "worker_sdk/algorithm/split.h"

namespace muster {

// Travels through the store as it is here.
struct RankCard {
  static constexpr uint32_t kMagic = 0x4452434d;  // "MCRD"
  static constexpr uint32_t kVersion = 2;
  static constexpr uint32_t kAddressesMax = 8;
  static constexpr uint32_t kCpusMax = 1024;

  uint32_t magic = kMagic;
  uint32_t version = kVersion;
  // Of a worker of launch's.
  uint32_t launched = 0;
  uint32_t rank = 0;  // in the job, as its node
  uint32_t node = 0;
  uint32_t pid = 0;
  uint64_t round = 0;
  char job[80] = {};
  // Processes with the same one can open each other's memory.
  char host[120] = {};
  uint32_t reserved = 0;
  // Where it listens, and what whoever knocks there has to say.
  uint32_t port = 0;
  uint64_t token[2] = {};
  char addresses[kAddressesMax][48] = {};
  uint64_t cpus[kCpusMax / 64] = {};  // that it may run on
};

std::string TextOf(const RankCard& card);

struct Roster {
  uint64_t number = 0;          // of the communicator
  std::vector<RankCard> cards;  // by rank

  std::string Text() const;
};

// What came out of the store. FailedPrecondition: it is of another build.
StatusOr<RankCard> ReadCard(const std::string& text, uint32_t rank);
StatusOr<Roster> ReadRoster(const std::string& text, uint32_t size);

// All are workers of one round of one job, each another one: their agents bring them together.
// Processes that a worker has started say that they are that worker.
bool IsOfOneJob(const Roster& roster);
// FailedPrecondition: one process is there twice.
Status CheckAllDiffer(const Roster& roster);
// Of all of them. Nodes are those of the job, in its order, or else what shares a `host`, in the
// order of the lowest ranks.
SplitGroup GroupOf(const Roster& roster, uint32_t rank);

}  // namespace muster
