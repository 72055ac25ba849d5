// The thread of TorchStoreServer: its epoll loop, its clients, and what it says while workers are
// missing. Only torch_store_server.cc and torch_store_progress.cc include this.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/core/torch_store.h"
#include "agent/io/torch_store_server.h"

namespace muster {

using Clock = std::chrono::steady_clock;

inline constexpr uint64_t kListenerId = 0;  // epoll's name for the listening socket
inline constexpr uint64_t kFirstClientId = 3;
inline constexpr size_t kReadBytes = 64u
                                     << 10;   // per client and turn: others get theirs in between
inline constexpr size_t kNewcomersMax = 256;  // one more is turned away at once
inline constexpr std::chrono::milliseconds kAskEvery{50};
inline constexpr absl::Duration kProgressAfterMax = absl::Hours(24 * 365);

class TorchStoreServer::Loop {
 public:
  Loop(UniqueFd listener, int stop_fd, UniqueFd adopted, Options options)
      : options_(std::move(options)),
        listener_(std::move(listener)),
        stop_fd_(stop_fd),
        adopted_(std::move(adopted)),
        store_(TorchStoreConfig{.world_size = options_.world_size, .limits = options_.limits}),
        progress_after_(absl::ToChronoNanoseconds(
            std::clamp(options_.progress_after, absl::Milliseconds(1), kProgressAfterMax))) {}

  absl::Status Open();
  void Run();

 private:
  struct Piece {
    std::string head;
    StoreValue body;
    size_t size() const { return head.size() + (body == nullptr ? 0 : body->size()); }
  };
  struct Client {
    UniqueFd fd;
    std::string peer;  // address
    std::vector<Piece> out;
    size_t out_first = 0;  // pieces of `out` before it are gone
    size_t out_sent = 0;   // bytes of out[out_first] that are gone
    size_t out_bytes = 0;  // of all pieces, less out_sent
    bool last = false;     // nothing follows `out`
    uint32_t watched = 0;  // epoll events asked for
  };

  struct Held {  // not let in yet, nor turned away
    UniqueFd fd;
    std::string peer;
    Clock::time_point until;
  };

  void Accept();
  void TakeAdopted();
  bool AddClient(UniqueFd fd, std::string peer);
  bool LetIn(UniqueFd fd, std::string peer);
  void AskForHeld();
  void PauseAccepting();
  void Read(uint64_t id);
  // False: the client is gone.
  bool Write(uint64_t id, Client& client);
  void Watch(uint64_t id, Client& client);
  void Apply(std::vector<StoreEffect> effects);
  void Drop(uint64_t id);
  void Refuse(const std::string& peer, const std::string& reason);
  void SayRefusals();
  void Say(std::string line);
  int TimeoutMs() const;
  void OnTime();
  std::string ProgressLine(const StoreProgress& progress, absl::Duration since) const;

  const Options options_;
  const UniqueFd listener_;
  const int stop_fd_;  // the server's, which joins this thread before it closes it
  const UniqueFd adopted_;
  UniqueFd epoll_;
  TorchStore store_;
  std::map<uint64_t, Client> clients_;
  std::vector<Held> held_;  // at most kNewcomersMax
  Clock::time_point ask_again_;
  std::vector<char> buffer_ = std::vector<char>(kReadBytes);
  uint64_t next_id_ = kFirstClientId;
  size_t refusals_ = 0;  // connections that were closed for what they are or said
  bool accepting_ = true;
  bool said_no_descriptor_ = false;
  Clock::time_point accept_again_;
  std::chrono::nanoseconds progress_after_;
  std::optional<Clock::time_point> first_bytes_;  // of any client; who only looks says nothing
  bool progress_done_ = false;
  bool progress_said_ = false;
};

}  // namespace muster
