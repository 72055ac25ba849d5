// Connections between ranks of several hosts where no agent brokers them. Each rank listens; its
// card in the store says where, and a word that proves to it that a caller has read the store. The
// higher of two ranks calls, and each says the other's word:
//
//   caller -> called  Knock, with the called one's word
//   called -> caller  Knock, with the caller's word
//   caller -> called  kTaken, on the one of its calls that it goes on with
//
// The lower one calls, too, to hear of the other's end meanwhile (kLookout). A thread does all of
// that: callers are answered while the program computes.
#pragma once

#include <poll.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "muster/status.h"
#include "proto/base/rng.h"
#include "proto/base/unique_fd.h"
#include "proto/base/worker_link.h"
#include "worker_sdk/algorithm/roster.h"

namespace muster {

struct Knock {
  static constexpr uint32_t kMagic = 0x4b4e434d;  // "MCNK"
  static constexpr uint32_t kVersion = 1;
  static constexpr uint32_t kLookout = 1000;  // beside those of LinkChannel
  static constexpr uint8_t kTaken = 0x06;

  uint32_t magic = kMagic;
  uint32_t version = kVersion;
  uint64_t number = 0;  // Roster::number
  uint64_t token[2] = {};
  uint32_t from = 0;  // a rank
  uint32_t channel = 0;
  bool operator==(const Knock&) const = default;
};

class RankDoor {
 public:
  // A caller without a proof is kept for so long, and so many of them are.
  static constexpr std::chrono::seconds kProofWithin{10};
  static constexpr size_t kStrangersMax = 64;

  // Listens. Internal: why it cannot.
  static StatusOr<std::unique_ptr<RankDoor>> Open();
  ~RankDoor();
  RankDoor(const RankDoor&) = delete;
  RankDoor& operator=(const RankDoor&) = delete;

  // Writes into our card where we listen (as many of the addresses as it holds), and our word.
  void Describe(const std::vector<std::string>& addresses, RankCard& card) const;
  // From now on callers are answered. Internal: no thread is to be had.
  Status Start(const Roster& roster, uint32_t rank);

  // As Link has them, of ranks of other hosts; after Start, any thread.
  void Seek(uint32_t rank, LinkChannel channel);
  std::optional<StatusOr<UniqueFd>> Take(uint32_t rank, LinkChannel channel);
  // Until something has come of a Seek, for at most so long; false: nothing has meanwhile.
  bool Await(std::chrono::milliseconds nap);

 private:
  using Clock = std::chrono::steady_clock;
  using Sought = std::pair<uint32_t, LinkChannel>;  // a rank
  // A knock that is coming, from one who called us or whom we have called.
  struct Line {
    UniqueFd fd;
    Knock knock;
    size_t have = 0;  // of it
    // Whether all of it is there; `ended`: it never will be.
    bool IsWhole(bool& ended);
  };
  struct Guest {
    Line line;
    Clock::time_point until;  // without a proof
    bool proven = false;
  };
  struct Attempt {
    Line line;
    std::string where;
    bool connected = false;
  };
  // With one rank.
  struct Call {
    Sought sought;
    uint32_t channel = 0;  // that is said
    Clock::time_point until;
    Clock::time_point next_at;  // the next address is tried
    size_t next = 0;            // of its addresses
    int tries = 0;              // of all of them
    std::vector<Attempt> attempts;
    std::string errors;
    UniqueFd lookout;                           // once it is answered
    std::optional<Clock::time_point> ended_at;  // the other side, as it shows there
  };

  RankDoor(UniqueFd listener, UniqueFd wake, uint32_t port, const uint64_t (&token)[2]);

  // --- the thread ---
  void Loop();
  bool TakeWanted();  // false: it is the end
  std::vector<pollfd> Polls() const;
  Clock::time_point NextLook() const;
  void Accept();
  bool Stays(Guest& guest);
  bool IsProof(const Knock& knock) const;
  Knock KnockFor(uint32_t rank, uint32_t channel) const;
  bool GoesOn(Call& call);
  bool GoesOnAsLookout(Call& call);
  void TryNext(Call& call);
  void StartAttempt(Call& call, const std::string& address);
  enum class Came { kNothing, kAnswer, kEnd };
  Came Hear(Call& call, Attempt& attempt, std::string& why) const;
  void GiveUp(const Call& call, const std::string& why);
  void Finish(const Sought& sought, StatusOr<UniqueFd> result);
  bool IsFinished(const Sought& sought);

  const UniqueFd listener_;
  const UniqueFd wake_;  // an eventfd
  const uint32_t port_;
  const uint64_t token_[2];
  std::thread thread_;

  // Of the thread alone, once it runs.
  Roster roster_;
  uint32_t rank_ = 0;
  SplitMix64 jitter_;
  std::vector<Guest> guests_;
  std::vector<Call> calls_;
  Clock::time_point accept_at_;  // not before: there were no descriptors left

  std::mutex mutex_;
  std::condition_variable changed_;
  bool closing_ = false;
  std::vector<Sought> wanted_;
  std::map<Sought, std::optional<StatusOr<UniqueFd>>> results_;  // nullopt: it has been taken
};

}  // namespace muster
