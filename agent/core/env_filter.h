// What a worker inherits: the agent's own environment, less the identity an outer launcher (srun,
// mpirun, torchrun, ourselves) left in it, plus what the user named. Once a round; pure.
//
// Invariants (cited by tests):
//  E1 bytes stay as they are: newlines, bytes that are not UTF-8, exported shell functions;
//  E2 no identity of an outer launcher survives, unless the user named the variable (-x);
//  E3 each name occurs once; of inherited duplicates the first counts, as for getenv().
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/base/work_plan.h"

namespace muster {

struct EnvVar {
  std::string name;
  std::string value;
  std::string why;  // for --explain-env
};

// What becomes of the SLURM_* variables that describe a task.
enum class SlurmMode : uint8_t {
  kNone,     // not under Slurm, not asked for
  kRewrite,  // per worker: the default under Slurm, and --dialect slurm
  kKeep,     // as inherited: --dialect slurm-keep
  kScrub,    // no SLURM_* at all: --dialect slurm-scrub
};

struct EnvBase {
  std::vector<std::string> entries;  // "K=V", by name
  std::vector<EnvVar> removed;       // what the workers do not get, and why
  std::set<std::string> unset;       // the user wants these absent, so we do not set them either
  SlurmMode slurm = SlurmMode::kNone;
  std::string slurm_nodelist;        // of launch's job, the step or the job, "" = unknown
  bool slurm_cpus_per_task = false;  // it was set here, or where launch is
  uint32_t pbs_cpus = 0;             // PBS has given each of its processes threads for so many

  // Value of a variable; null when it is not there. The pointer lives as long as `entries`.
  const char* Find(absl::string_view name) const;
};

// Layers, later ones win: `inherited` cleaned; plan.env_base where the agent has none of its own
// (search paths and virtual environments, ForwardWins, replace the agent's); of all these only what
// a login needs if plan.env_none; less plan.env_unset; plan.env_set.
EnvBase FilterEnvironment(const std::vector<std::string>& inherited, const WorkPlan& plan);

// Where programs are looked for when PATH is not set, as in glibc's execvp.
inline constexpr char kDefaultPath[] = "/bin:/usr/bin";

// `base` less the names of `variables`: with these the block for exec, each name once.
std::vector<std::string> EntriesWithout(const EnvBase& base, const std::vector<EnvVar>& variables);

// Of the launcher's own environment what goes along to a node whose agent does not inherit it. To
// one reached over ssh (kSettings): search paths, virtual environments and settings of the
// libraries; never secrets, DISPLAY, SSH_*, XDG_*, HOME. To one of the same PBS job, as srun does
// it in a job of Slurm's, or where the user asks for it (kAll): all but what belongs to this host
// or to its terminal. With plan.env_none only what programs are found by.
enum class Forwarded : uint8_t { kSettings, kAll };
std::vector<std::string> EnvironmentToForward(const std::vector<std::string>& own,
                                              const WorkPlan& plan, Forwarded what);

// True for names by which a program and its libraries are found: the launcher's value is meant.
bool ForwardWins(absl::string_view name);

// Why a variable of this name is identity and is not inherited; "" when it is not.
absl::string_view IdentityReason(absl::string_view name);

// Whether a variable of this name says which GPUs of a node a process sees.
bool ChoosesDevices(absl::string_view name);

// "K" of "K=V".
absl::string_view NameOf(absl::string_view entry);

}  // namespace muster
