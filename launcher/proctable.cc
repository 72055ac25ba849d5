#include "launcher/proctable.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/core/programs.h"
#include "agent/io/node_facts.h"
#include "agent/io/program_facts.h"
#include "launcher/job_run.h"
#include "launcher/mpir.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

namespace muster {
namespace {

constexpr absl::Duration kLookAgain = absl::Milliseconds(20);

// A node beats at once when it is paused.
bool AllPaused(const RoundState& state) {
  return std::all_of(state.members.begin(), state.members.end(),
                     [&state](const Member& member) { return state.nodes.at(member.node).paused; });
}

// Of each program of the plan, on a machine like this one.
std::vector<std::string> Executables(const WorkPlan& plan) {
  std::vector<std::string> out;
  for (const PreparedProgram& program : PreparePrograms(plan, OwnEnvironment())) {
    const std::string& word = program.plan.argv.front();
    const std::string& wdir = program.plan.wdir;
    const std::string file =
        FindProgram(word, wdir.empty() ? OwnFolder() : wdir, program.environment);
    out.push_back(file.empty() ? word : file);
  }
  return out;
}

}  // namespace

std::vector<ProctableEntry> ProctableOf(const RoundState& state, const WorkPlan& plan,
                                        const std::vector<std::string>& executables,
                                        const std::function<std::string(NodeId)>& host_of) {
  std::vector<ProctableEntry> table(state.world_size);
  for (const Member& member : state.members) {
    const std::vector<int32_t>& pids = state.nodes.at(member.node).pids;
    for (uint32_t local = 0; local < member.workers && local < pids.size(); ++local) {
      const uint32_t rank =
          member.ranks.empty() ? member.rank_first.value + local : member.ranks[local];
      table[rank] = {host_of(member.node), executables[ProgramOf(plan, rank)], pids[local]};
    }
  }
  return table;
}

std::string ProctableText(const std::vector<ProctableEntry>& table) {
  std::string out = "rank\thost\tpid\texecutable\n";
  for (size_t rank = 0; rank < table.size(); ++rank) {
    absl::StrAppend(&out, rank, "\t", table[rank].host, "\t", table[rank].pid, "\t",
                    table[rank].executable, "\n");
  }
  return out;
}

void PublishProctable(const JobSpec& spec, const RoundState& state,
                      const std::function<std::string(NodeId)>& host_of) {
  if (!spec.plan.tell_pids) {
    return;
  }
  for (const Member& member : state.members) {
    if (state.nodes.at(member.node).pids.empty()) {  // typed there, without the option
      LogWarning(absl::StrCat("no table of the workers: ", host_of(member.node),
                              " does not tell their pids; ", "give --proctable on every node"));
      return;
    }
  }
  std::vector<ProctableEntry> table =
      ProctableOf(state, spec.plan, Executables(spec.plan), host_of);
  if (!spec.proctable_file.empty()) {
    const absl::Status written = WriteWhole(spec.proctable_file, ProctableText(table), 0666);
    if (!written.ok()) {
      LogWarning(absl::StrCat("--proctable ", spec.proctable_file, ": ", written.message()));
    }
  }
  MpirShow(std::move(table), spec.plan.hold);
}

void PublishProctable(const JobSpec& spec, const RoundState& state) {
  PublishProctable(spec, state,
                   [&state](NodeId node) { return state.nodes.at(node).join.hostname; });
}

ProctableStop::ProctableStop(uv_loop_t* loop, const JobSpec& spec, Job job)
    : spec_(spec), job_(std::move(job)), timer_(loop, [this] { Publish(); }) {
  timer_.Unref();
}

void ProctableStop::Started() {
  if (!spec_.plan.hold) {
    return PublishProctable(spec_, *job_.state(), job_.host_of);
  }
  round_ = job_.state()->round;
  job_.pause(true);
  give_up_ = BootNow() + kPauseTakes;
  timer_.StartAfter(kLookAgain);
}

void ProctableStop::Publish() {
  const RoundState* state = job_.state();
  if (state != nullptr && state->phase == JobPhase::kRunning && state->round == round_) {
    if (!state->paused) {
      return Started();  // a continue has undone our pause
    }
    if (!AllPaused(*state) && BootNow() < give_up_) {
      return timer_.StartAfter(kLookAgain);
    }
    PublishProctable(spec_, *state, job_.host_of);
  }
  job_.pause(false);
}

}  // namespace muster
