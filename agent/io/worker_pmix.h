// The PMIx server of this node's workers: a process of its own for each round, muster-pmix, with
// which this talks over a socket; agent/core/pmix_node decides. Loop thread only; costs nothing
// where no worker is served.
#pragma once

#include <uv.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/core/pmix_node.h"
#include "agent/core/pmix_world.h"
#include "proto/base/unique_fd.h"
#include "proto/wire/uv_handles.h"

namespace muster {

class WorkerPmix {
 public:
  struct Callbacks {
    // Starts the helper with this end of its socket; HelperFailed() says where it could not.
    std::function<void(UniqueFd socket)> start;
    // The variables of the workers, by local rank, or why there is no server; once a round.
    std::function<void(absl::StatusOr<std::vector<std::vector<std::string>>> variables)> on_ready;
    std::function<void(std::string bytes)> enter;  // as PmixEnter; Fenced() answers
    // As PmixSeek; Found() answers.
    std::function<void(uint32_t node, uint32_t rank)> seek;
    // As PmixTell.
    std::function<void(uint32_t rank, const absl::StatusOr<std::string>& bytes)> tell;
    std::function<void(LocalRank)> kill;
  };
  WorkerPmix(uv_loop_t* loop, Callbacks callbacks);

  // Makes world.folder, which EndRound() removes with all that is in it.
  void BeginRound(PmixWorld world);
  // What lives of the round is about to be killed, the helper too. No callback comes any more.
  void Closing();
  void EndRound();
  bool serving() const { return node_ != nullptr; }
  // Of the round, for files of its MPI; "" = none is served.
  std::string folder() const { return serving() ? node_->world().folder : ""; }
  // A round has begun, and on_ready has not been called.
  bool starting() const { return node_ != nullptr && node_->starting(); }
  void Fenced(const absl::StatusOr<std::string>& bytes);
  void Found(uint32_t rank, const absl::StatusOr<std::string>& bytes);
  // As PmixNode's, while serving.
  void Show(uint32_t rank);
  void HelperFailed(const std::string& why);
  // Its process has ended: what it was to its MPI, also by what was said last. `well`: it exited
  // with status 0.
  MpiEnd WorkerEnded(LocalRank worker, bool well);

 private:
  void OnReady(int events);
  // Whether there may be more to read.
  bool Read();
  void Say(const PmixMessage& message);
  void Flush();
  void Lose(absl::string_view why);
  void Execute(const std::vector<PmixEffect>& effects);

  uv_loop_t* const loop_;  // of the agent; outlives this
  const Callbacks callbacks_;
  std::unique_ptr<PmixNode> node_;
  UniqueFd socket_;
  std::optional<UvPoll> poll_;
  PmixReader reader_;
  // Not all taken by the socket yet: one order, one fence, what is found of each rank, and asks for
  // those of this node.
  std::string out_;
  size_t sent_ = 0;  // of it
  std::vector<LocalRank> aborted_;
  UvTimer patience_;  // with those that have aborted
  UvTimer deadline_;  // for the server's start
};

// Where muster-pmix is: beside this program, else where the workers' `path` (PATH) finds it, for an
// agent that was sent to its node. NotFound says what to install.
absl::StatusOr<std::string> FindPmixHelper(const char* path);

}  // namespace muster
