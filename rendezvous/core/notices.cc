// What the user should know of a round though nothing has failed: its nodes have unlike files of
// the program, or none of its workers does anything.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/text.h"
#include "rendezvous/core/machine.h"
#include "rendezvous/core/why_waiting.h"

namespace muster {
namespace {

constexpr size_t kUnlikeToldMax = 8;
constexpr absl::Duration kLookForIdleEvery = absl::Seconds(1);

// Which nodes have which file, by its mark: places in the order of node ranks.
using NodesByMark = std::map<std::string, std::vector<size_t>>;

NodesByMark WhoHasWhich(const RoundState& s, size_t program, std::string& name) {
  NodesByMark out;
  for (size_t place = 0; place < s.members.size(); ++place) {
    const std::vector<ProgramFile>& files = s.nodes.at(s.members[place].node).join.program_files;
    if (program < files.size() && !files[program].name.empty()) {
      out[files[program].mark].push_back(place);
      name = files[program].name;
    }
  }
  return out;
}

std::string Unlike(const RoundState& s, const std::string& name, const NodesByMark& nodes) {
  // That of most nodes; of as many the one of the first node.
  const auto usual =
      std::min_element(nodes.begin(), nodes.end(), [](const auto& one, const auto& other) {
        return std::pair(other.second.size(), one.second[0]) <
               std::pair(one.second.size(), other.second[0]);
      });
  std::vector<size_t> others;
  for (const auto& [mark, places] : nodes) {
    if (mark != usual->first) {
      others.insert(others.end(), places.begin(), places.end());
    }
  }
  std::sort(others.begin(), others.end());
  const auto name_of = [&](size_t place) {
    return s.nodes.at(s.members[place].node).join.hostname;
  };
  std::vector<std::string> names;
  for (const size_t place : others) {
    names.push_back(name_of(place));
  }
  return absl::StrCat(name, " on ", FewNames(std::move(names)), " is not the same file as on ",
                      name_of(usual->second[0]),
                      ": ranks run unlike code; copy it to all nodes, or let --ship do it");
}

// How long each of the round's workers that live has done nothing; zero where one has, or none
// lives, or not every node says so. `living` counts them.
absl::Duration Idle(const RoundState& s, uint32_t& living) {
  absl::Duration idle = absl::InfiniteDuration();
  for (const Member& member : s.members) {
    const NodeState& node = s.nodes.at(member.node);
    if (!node.IsLive() || !InRound(s, node)) {
      return absl::ZeroDuration();
    }
    if (node.workers_alive > 0) {
      idle = std::min(idle, node.use.idle);
      living += node.workers_alive;
    }
  }
  return living == 0 ? absl::ZeroDuration() : idle;
}

}  // namespace

void TellUnlikePrograms(Machine& m) {
  RoundState& s = m.state;
  size_t programs = 0;
  for (const Member& member : s.members) {
    programs = std::max(programs, s.nodes.at(member.node).join.program_files.size());
  }
  for (size_t i = 0; i < programs; ++i) {
    std::string name;
    const NodesByMark nodes = WhoHasWhich(s, i, name);
    if (nodes.size() < 2) {
      continue;
    }
    std::string told = Unlike(s, name, nodes);
    if (s.unlike_told.size() < kUnlikeToldMax && s.unlike_told.insert(told).second) {
      m.out.push_back(Tell{std::move(told)});
    }
  }
}

void TellIdle(Machine& m, const NodeState& node) {
  RoundState& s = m.state;
  if (s.phase != JobPhase::kRunning || s.paused) {
    return;
  }
  if (s.idle_round != s.round) {
    s.idle_round = s.round;
    s.tell_idle = m.config.tell_idle;
  }
  if (node.use.idle < s.tell_idle || m.now < s.idle_looked + kLookForIdleEvery) {
    return;
  }
  s.idle_looked = m.now;
  uint32_t living = 0;
  const absl::Duration idle = Idle(s, living);
  if (idle < s.tell_idle) {
    return;
  }
  const std::string others =
      living < s.world_size
          ? absl::StrCat(" (", s.world_size - living, " of ", s.world_size, " workers have ended)")
          : "";
  m.out.push_back(Tell{absl::StrCat(
      living == 1 ? "the worker has neither run nor"
                  : absl::StrCat("none of the ", living, " workers has run or"),
      " written a line for ", ShortDuration(absl::Floor(idle, absl::Seconds(1))), others,
      ": what do they wait for? py-spy dump --pid or gdb -p on a node shows it; next word ",
      "after ", ShortDuration(2 * s.tell_idle), " (--tell-idle)")});
  s.tell_idle *= 2;
}

}  // namespace muster
