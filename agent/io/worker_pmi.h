// The sockets on which workers talk PMI-1 to their agent, one each; agent/core/pmi1 answers. Loop
// thread only; costs nothing where no worker is given one.
#pragma once

#include <uv.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/core/pmi1.h"
#include "proto/base/unique_fd.h"
#include "proto/wire/uv_handles.h"

namespace muster {

class WorkerPmi {
 public:
  struct Callbacks {
    std::function<void(std::string pairs)> enter;  // as Pmi1Enter; Fenced() answers
    // This worker has aborted, and has not ended by itself.
    std::function<void(LocalRank)> kill;
  };
  WorkerPmi(uv_loop_t* loop, Callbacks callbacks);

  void BeginRound(Pmi1Round round);
  // The worker's end of its socket. Errors: ResourceExhausted (descriptors).
  absl::StatusOr<UniqueFd> Open(LocalRank worker);
  // It has called MPI_Init.
  bool HasCome(LocalRank worker) const;
  void Fenced(const absl::StatusOr<std::string>& pairs);
  // Its process has ended: what it was to its MPI, also by what it said last.
  MpiEnd WorkerEnded(LocalRank worker, bool well);
  void EndRound();

 private:
  struct Link {
    UniqueFd fd;
    std::optional<UvPoll> poll;
    std::string in;        // less than a line
    bool dropped = false;  // what it says more is not PMI
    bool ended = false;    // its process has, and hears nothing
    std::string out;       // not taken by the socket yet; while there is any, nothing is read
  };

  void OnReady(LocalRank worker);
  // Bytes; 0: there are none now, or ever again.
  size_t Read(LocalRank worker);
  void TakeLines(LocalRank worker);
  void Flush(LocalRank worker);
  void Close(LocalRank worker);
  void Execute(const std::vector<Pmi1Effect>& effects);

  uv_loop_t* const loop_;  // of the agent; outlives this
  const Callbacks callbacks_;
  std::unique_ptr<Pmi1Server> server_;
  std::vector<Link> links_;  // by local rank
  std::vector<LocalRank> aborted_;
  UvTimer patience_;
};

}  // namespace muster
