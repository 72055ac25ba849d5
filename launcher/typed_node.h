// What a launch that is typed on its node settles before it joins: where the nodes meet, and what
// this node's agent is.
#pragma once

#include <sys/resource.h>
#include <uv.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/core/env_filter.h"
#include "agent/io/agent_loop.h"
#include "agent/io/node_facts.h"
#include "launcher/job_spec.h"
#include "launcher/meet_at_file.h"

namespace muster {

// How long a node waits for a master before it says so, and how to mend it.
inline constexpr absl::Duration kNoServerHint = absl::Seconds(5);
// That, of the master at `place` (or one of them). `taken`: why this node, which should, does not
// serve there, else
// ""; `tried`: what was heard there last.
std::string NoMasterYet(const JobSpec& spec, const std::string& place, const std::string& taken,
                        const std::string& tried);

// Where this node serves at the loopback address, as --rdzv-endpoint or --master-addr names it:
// each machine has that one, and elsewhere a master of its own would wait. "" = another address.
std::string ServesThisMachine(const JobSpec& spec, const std::string& hostname);

// Says so, or that this node serves at what is no address of it (ServesElsewhere).
void TellOfPlace(const JobSpec& spec, const std::string& hostname);

// What this node says while it waits for a master. Loop thread only.
class MasterWait {
 public:
  explicit MasterWait(const JobSpec& spec) : spec_(spec) {}

  // What each address has said, when none was a master's.
  void Tried(const std::string& told);
  void Answered();  // one was: what was tried counts no more
  const std::string& tried() const { return tried_; }
  // It has waited for kNoServerHint, for a master at `place`: says so, and that another program
  // answers there as soon as one does. `taken`: as NoMasterYet's.
  void Due(const std::string& place, const std::string& taken);

 private:
  bool TellStranger();  // once; whether it is one

  const JobSpec& spec_;  // the job's, which outlives this
  std::string tried_;
  std::string place_;  // once Due; "" = not yet, or a port of our own is taken there
  bool told_ = false;
};

// Warns of what of this node may keep its workers from working.
void SayDoubts(const JobSpec& spec, NodeFacts facts, const rlimit& worker_files,
               const EnvBase& environment);

struct TypedSecret {
  std::string secret;      // "" = --insecure
  std::string credential;  // of munge, that has it; "" = none is given
};

// The user's, or, in a task of a step that does not serve, that of the task that does, by munge:
// their homes may be two. Blocking, there for the join time-out at most.
absl::StatusOr<TypedSecret> TypedSecretOf(const JobSpec& spec);

// Makes of file:///path the endpoint that its nodes agreed on. Blocking, for the join time-out at
// most. `loop` outlives the meeting.
absl::StatusOr<std::unique_ptr<FileMeeting>> GoToMeeting(uv_loop_t* loop, JobSpec& spec);

// Whether the master is to be in this process, if the place where the nodes meet is free: a name is
// looked up.
bool ShallServe(const JobSpec& spec);

// Settles what of the plan depends on this node, too.
absl::StatusOr<AgentLoop::Options> TypedAgent(JobSpec& spec);

}  // namespace muster
