#include "launcher/schedule/pbs.h"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proto/base/env_names.h"
#include "proto/base/limits.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"

namespace muster {
namespace {

using Variables = std::map<std::string, std::string>;

constexpr char kWayOut[] = "; --hosts or --standalone says where to run without PBS's words";

// "" = not set.
std::string Value(const Variables& environment, const char* name) {
  const auto at = environment.find(name);
  return at == environment.end() ? "" : at->second;
}

// P3. 0 = it does not say.
absl::StatusOr<uint32_t> SlotsByTorque(const Variables& environment) {
  const std::string text = Value(environment, "PBS_NUM_PPN");
  uint32_t slots = 0;
  if (!text.empty() &&
      (!absl::SimpleAtoi(text, &slots) || slots < 1 || slots > kWorkersPerNodeMax)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "PBS_NUM_PPN=", text, ": want 1..", kWorkersPerNodeMax, " processes a node", kWayOut));
  }
  return slots;
}

}  // namespace

bool InPbs(const Variables& environment) {
  return !Value(environment, "PBS_JOBID").empty() && Value(environment, "SLURM_JOB_ID").empty() &&
         environment.count(kEnvJobId) == 0;
}

absl::StatusOr<std::optional<GivenHosts>> HostsOfPbs(const Variables& environment,
                                                     const FileReader& read_file) {
  if (!InPbs(environment)) {
    return std::nullopt;
  }
  if (const std::string task = Value(environment, "PBS_TASKNUM"); !task.empty() && task != "1") {
    return absl::InvalidArgumentError(absl::StrCat(
        "launch is a task of pbsdsh (PBS_TASKNUM=", task, "), and each task would start the whole ",
        "job: leave pbsdsh out, or say --standalone for a job on each host"));
  }
  const std::string path = Value(environment, "PBS_NODEFILE");
  if (path.empty()) {
    return std::nullopt;
  }
  const absl::StatusOr<std::string> text = read_file(path);
  if (!text.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("PBS_NODEFILE=", path, ": ",
                                                   text.status().message(),
                                                   " (only the job's first host has it)", kWayOut));
  }
  absl::StatusOr<std::vector<HostEntry>> hosts = ParseHostFile(*text, path);
  if (!hosts.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("PBS_NODEFILE: ", hosts.status().message(), kWayOut));
  }
  GivenHosts out;
  out.scheduler = Scheduler::kPbs;
  out.job = absl::StrCat("PBS job ", Value(environment, "PBS_JOBID"));
  out.slots_are = "lines in PBS_NODEFILE";
  out.hosts = *std::move(hosts);
  const bool one_each = std::all_of(out.hosts.begin(), out.hosts.end(),
                                    [](const HostEntry& host) { return host.slots == 1; });
  ASSIGN_OR_RETURN(const uint32_t by_torque, SlotsByTorque(environment));
  for (HostEntry& host : out.hosts) {
    host.slots = one_each && by_torque > 0 ? by_torque : host.slots;
    host.slots_given = true;
  }
  if (one_each) {
    out.slots_are =
        by_torque > 0 ? "PBS_NUM_PPN" : "lines in PBS_NODEFILE: one a node, as without mpiprocs";
  }
  return std::optional<GivenHosts>(std::move(out));
}

std::string SubmitFolder(const Variables& environment) {
  return InPbs(environment) && Value(environment, "PBS_ENVIRONMENT") == "PBS_BATCH"
             ? Value(environment, "PBS_O_WORKDIR")
             : "";
}

std::vector<std::string> PbsdshCommand(const std::string& host, const std::string& agent_path,
                                       const std::vector<std::string>& ticket) {
  std::vector<std::string> out = {"pbsdsh", "-h", host, "--", agent_path, "--dial", host};
  out.insert(out.end(), ticket.begin(), ticket.end());
  return out;
}

StepEnd TaskEnd(absl::string_view line) {
  constexpr absl::string_view kTask = "task ";
  constexpr absl::string_view kStatus = " exit status ";
  constexpr int kBySignal = 256;
  constexpr int kNotRun = 254;
  const size_t task = line.find(kTask);
  const size_t status = line.find(kStatus);
  int code = 0;
  if (task == absl::string_view::npos || status == absl::string_view::npos || status < task ||
      !absl::SimpleAtoi(line.substr(status + kStatus.size()), &code)) {
    return {};
  }
  if (code == kNotRun) {
    return {{}, "PBS could not run the agent (status 254): is its program at the same path there?"};
  }
  if (code > kBySignal) {
    const int signo = code - kBySignal;
    return {{}, absl::StrCat("the agent was ended by ", SignalName(signo)), signo == SIGKILL};
  }
  return {
      {},
      absl::StrCat("the agent ended with status ", code, "; what it said is in the job's output")};
}

}  // namespace muster
