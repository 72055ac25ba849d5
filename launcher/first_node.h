// A Slurm job whose nodes cannot connect to the machine where launch was typed (salloc's shell on a
// submit host behind a firewall): launch runs again as a task on the job's first node, started by
// srun, and the typed one is only its terminal. stdin, stdout, stderr, signals and the exit code
// pass through; what the typed one reads of Slurm's variables goes along, for a task has others.
//
// Invariants:
//  F1 every byte of stdin, stdout and stderr passes unchanged, but for the first line of stdout,
//     which says which step the other is (signals go there: srun's own end would kill it at once),
//     and srun's line about the exit code;
//  F2 the end of the typed launch, however it comes, is the end of srun and so of the step.
#pragma once

#include <uv.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "launcher/job_spec.h"

namespace muster {

// Whether the job may be served on its first node instead of here: nothing of it runs here, and
// nobody expects a terminal or a detached launch here.
bool MayServeOnFirstNode(const JobSpec& spec);

// Until the launch there has ended; its exit code. `agent_path`: launch lies beside it.
int RunOnFirstNode(uv_loop_t* loop, const JobSpec& spec, const std::string& agent_path);

// In a launch that was started so: the typed one's variables of Slurm become ours, and it is told
// the step. False: nobody has.
bool TakeTypedPlace();

// Pure, for the two above.

// `srun`: SrunOptions of that node.
std::vector<std::string> FirstNodeCommand(std::vector<std::string> srun,
                                          const std::string& launch_path,
                                          const std::vector<std::string>& arguments);
// Variables ("K=V") of Slurm's among `own` as one value.
std::string PackSlurmVariables(const std::vector<std::string>& own);
std::vector<std::string> UnpackSlurmVariables(absl::string_view packed);
// "17.3" of the line that TakeTypedPlace writes; no value: it is another line.
std::optional<std::string> StepOfLine(absl::string_view line);

// Whole lines of srun that say what the launch there has said already are left out; the rest passes
// at once, also what is no whole line yet.
class SrunErrors {
 public:
  explicit SrunErrors(std::string host) : host_(std::move(host)) {}
  // What is to be shown now.
  std::string Take(absl::string_view bytes);
  std::string Rest();

 private:
  bool LeftOut() const;

  const std::string host_;
  std::string held_;      // the beginning of a line that may be left out
  bool passing_ = false;  // the rest of the line is shown
};

}  // namespace muster
