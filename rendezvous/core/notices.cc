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
constexpr char kNoSuchFile[] = "";  // its mark
constexpr size_t kPlacesTold = 5;
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

std::string HostsAt(const RoundState& s, std::vector<size_t> places) {
  std::sort(places.begin(), places.end());
  std::vector<std::string> names;
  names.reserve(places.size());
  for (const size_t place : places) {
    names.push_back(s.nodes.at(s.members[place].node).join.hostname);
  }
  return FewNames(std::move(names));
}

// A sentence about the nodes that have another file, and one about those that have none.
std::vector<std::string> Unlike(const RoundState& s, const std::string& name, NodesByMark nodes) {
  constexpr absl::string_view kAdvice = "copy it to all nodes, or let --ship do it";
  std::vector<size_t> without;
  if (auto none = nodes.extract(kNoSuchFile); !none.empty()) {
    without = std::move(none.mapped());
  }
  // That of most nodes; of as many the one of the first node.
  const auto usual =
      std::min_element(nodes.begin(), nodes.end(), [](const auto& one, const auto& other) {
        return std::pair(other.second.size(), one.second[0]) <
               std::pair(one.second.size(), other.second[0]);
      });
  const std::string there = HostsAt(s, {usual->second[0]});
  std::vector<size_t> others;
  for (const auto& [mark, places] : nodes) {
    if (mark != usual->first) {
      others.insert(others.end(), places.begin(), places.end());
    }
  }
  std::vector<std::string> out;
  if (!others.empty()) {
    out.push_back(absl::StrCat(name, " on ", HostsAt(s, std::move(others)),
                               " is not the same file as on ", there, ": ranks run unlike code; ",
                               kAdvice));
  }
  if (!without.empty()) {
    out.push_back(absl::StrCat(name, " is not on ", HostsAt(s, std::move(without)),
                               " where it is on ", there, ": ", kAdvice));
  }
  return out;
}

// What the workers of the round wait for, all together.
struct Idleness {
  // None of those that live did anything for so long; zero where one did, or none lives, or not
  // every node says so.
  absl::Duration lasts;
  uint32_t living = 0;
  struct Waiting {
    std::vector<uint32_t> ranks;
    std::string first;  // "pid 4711 on node1"
  };
  std::map<std::string, Waiting> places;  // where it is known
};

Idleness IdlenessOf(const RoundState& s) {
  Idleness out;
  out.lasts = absl::InfiniteDuration();
  for (const Member& member : s.members) {
    const NodeState& node = s.nodes.at(member.node);
    if (!node.IsLive() || !InRound(s, node) || s.unstarted.count(member.node) != 0) {
      return {};
    }
    if (node.workers_alive == 0) {
      continue;
    }
    out.lasts = std::min(out.lasts, node.use.idle);
    out.living += node.workers_alive;
    if (out.lasts < s.tell_idle) {
      return {};
    }
    for (const WaitPlace& place : node.use.waits) {
      Idleness::Waiting& there = out.places[place.what];
      if (there.ranks.empty()) {
        there.first = absl::StrCat("pid ", place.pid, " on ", node.join.hostname);
      }
      for (const uint32_t local : place.locals) {
        if (local < member.workers) {
          there.ranks.push_back(member.RankAt(local));
        }
      }
    }
  }
  return out.living == 0 ? Idleness() : out;
}

// The odd one out first.
void AddPlaces(Idleness& idle, std::vector<std::string>& lines) {
  std::vector<std::pair<const std::string, Idleness::Waiting>*> places;
  for (auto& place : idle.places) {
    if (!place.second.ranks.empty()) {
      std::sort(place.second.ranks.begin(), place.second.ranks.end());
      places.push_back(&place);
    }
  }
  std::sort(places.begin(), places.end(), [](const auto* one, const auto* other) {
    return std::pair(one->second.ranks.size(), one->second.ranks[0]) <
           std::pair(other->second.ranks.size(), other->second.ranks[0]);
  });
  for (size_t i = 0; i < std::min(places.size(), kPlacesTold); ++i) {
    const auto& [what, there] = *places[i];
    const bool one = there.ranks.size() == 1;
    lines.push_back(absl::StrCat("  ", one ? "rank " : "ranks ", RangeList(there.ranks), " (",
                                 one ? "" : "the first: ", there.first, ") in ", what));
  }
  if (places.size() > kPlacesTold) {
    lines.push_back(absl::StrCat("  the others in ", places.size() - kPlacesTold, " more places"));
  }
}

}  // namespace

void TellUser(Machine& m, std::vector<std::string> lines) {
  for (const std::string& line : lines) {
    m.out.push_back(Tell{line});
  }
  if (!m.config.users_at_nodes || lines.empty()) {
    return;
  }
  for (const Member& member : m.state.members) {
    if (m.state.nodes.at(member.node).IsLive()) {
      return SendNotices(m, member.node, std::move(lines));
    }
  }
}

void TellUnlikePrograms(Machine& m) {
  RoundState& s = m.state;
  size_t programs = 0;
  for (const Member& member : s.members) {
    programs = std::max(programs, s.nodes.at(member.node).join.program_files.size());
  }
  std::vector<std::string> lines;
  for (size_t i = 0; i < programs; ++i) {
    std::string name;
    const NodesByMark nodes = WhoHasWhich(s, i, name);
    if (nodes.size() < 2) {
      continue;
    }
    for (std::string& told : Unlike(s, name, nodes)) {
      if (s.unlike_told.size() < kUnlikeToldMax && s.unlike_told.insert(told).second) {
        lines.push_back(std::move(told));
      }
    }
  }
  TellUser(m, std::move(lines));
}

void TellIdle(Machine& m, const NodeState& node) {
  RoundState& s = m.state;
  if (s.phase != JobPhase::kRunning || s.paused || m.config.tell_idle <= absl::ZeroDuration()) {
    return;
  }
  if (s.idle_round != s.round) {
    s.idle_round = s.round;
    s.tell_idle = m.config.tell_idle;
  }
  if (s.tell_idle == absl::InfiniteDuration() || node.use.idle < s.tell_idle ||
      m.now < s.idle_looked + kLookForIdleEvery) {
    return;
  }
  s.idle_looked = m.now;
  Idleness idle = IdlenessOf(s);
  if (idle.lasts < s.tell_idle) {
    return;
  }
  while (s.tell_idle <= idle.lasts && s.tell_idle < absl::InfiniteDuration()) {
    s.tell_idle *= 2;  // up to infinite
  }
  const uint32_t ended = s.world_size - idle.living;
  std::vector<std::string> lines = {absl::StrCat(
      idle.living == 1 ? "the worker has neither run nor"
                       : absl::StrCat("none of the ", idle.living, " workers has run or"),
      " written a line for ", ShortDuration(absl::Floor(idle.lasts, absl::Seconds(1))),
      ended == 0 ? "" : absl::StrCat(" (", ended, " of ", s.world_size, " have ended)"),
      "; next word after ", ShortDuration(s.tell_idle), " (--tell-idle). ",
      idle.living == 1 ? "It waits" : "They wait",
      idle.places.empty() ? "; py-spy dump --pid PID or gdb -p PID on their node shows where"
                          : " (py-spy dump --pid PID or gdb -p PID there shows more):")};
  AddPlaces(idle, lines);
  TellUser(m, std::move(lines));
}

}  // namespace muster
