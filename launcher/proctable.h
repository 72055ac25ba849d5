// Where each worker runs: the table of --proctable, and of parallel debuggers. Values; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "launcher/job_spec.h"
#include "proto/wire/uv_handles.h"
#include "rendezvous/core/types.h"

namespace muster {

struct ProctableEntry {
  std::string host;
  std::string executable;
  int32_t pid = 0;
  bool operator==(const ProctableEntry&) const = default;
};

// Of the present round, by rank, once all its workers have been started. `host_of` names a node
// as a debugger can reach it, `executables` has the file of each program of the plan.
std::vector<ProctableEntry> ProctableOf(const RoundState& state, const WorkPlan& plan,
                                        const std::vector<std::string>& executables,
                                        const std::function<std::string(NodeId)>& host_of);

// "rank", host, pid and executable, a line for each rank, with a heading; between them tabs.
std::string ProctableText(const std::vector<ProctableEntry>& table);

// To --proctable's file, and to a debugger that asked for it; nothing where nobody did.
void PublishProctable(const JobSpec& spec, const RoundState& state,
                      const std::function<std::string(NodeId)>& host_of);
// The same, with the names that nodes give themselves.
void PublishProctable(const JobSpec& spec, const RoundState& state);

// The first where the plan may hold the workers: while a debugger has stopped us to look, the job
// is paused, so that no lease ends; then those to which it has not attached go on. Loop thread
// only.
class ProctableStop {
 public:
  struct Job {
    std::function<const RoundState*()> state;  // nullptr: over
    std::function<void(bool paused)> pause;
    std::function<std::string(NodeId)> host_of;
  };

  // `spec` must outlive it.
  ProctableStop(uv_loop_t* loop, const JobSpec& spec, Job job);

  // All workers of a round have been started.
  void Started();
  // The job is paused for the table's sake: whoever pauses it besides leaves its going on to us.
  bool holds() const { return timer_.active(); }

  // How long nodes may take to say that they are paused; then the debugger looks anyway.
  static constexpr absl::Duration kPauseTakes = absl::Seconds(5);

 private:
  void Publish();

  const JobSpec& spec_;
  const Job job_;
  RoundId round_;
  absl::Time give_up_;
  UvTimer timer_;
};

}  // namespace muster
