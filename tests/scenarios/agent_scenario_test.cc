// The agent machine's transcripts: agent_*.txt.
#include <gtest/gtest.h>

#include <csignal>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "agent/core/agent_machine.h"
#include "proto/base/check.h"
#include "proto/base/text.h"
#include "tests/scenarios/transcript.h"

namespace muster {
namespace {

constexpr uint64_t kLife = 77;

template <typename Message>
AgentEvent Received(Message message) {
  AgentEvent event = MessageReceived();
  std::get<MessageReceived>(event).message.emplace<Message>(std::move(message));
  return event;
}

class AgentScript {
 public:
  AgentScript() {
    config_.join.key = std::string(1, 'a');
    config_.join.life = kLife;
    config_.join.workers = 2;
  }

  std::string Execute(const Command& c) {
    if (c.verb == "config") {
      config_.in_process = c.Word(0) == "in_process";
      config_.tell_pids = c.Word(0) == "tell_pids";
      config_.hold = c.Word(0) == "hold";
      config_.in_process = config_.in_process || config_.hold;
      return "";
    }
    if (c.verb == "at") {
      now_ = AtSeconds(c.Word(0));
      return "";
    }
    std::string out;
    for (const AgentEffect& effect : Step(config_, state_, EventOf(c), now_)) {
      std::visit([&](const auto& one) { absl::StrAppend(&out, Show(one), "\n"); }, effect);
    }
    return out;
  }

 private:
  RoundId Round(const Command& c) {
    const auto n = static_cast<uint32_t>(c.Number("round", state_.round.n));
    return n == 0 ? RoundId() : RoundId{1, n};
  }

  AgentEvent EventOf(const Command& c) {
    if (c.verb == "up") {
      return LinkUp{};
    } else if (c.verb == "down") {
      return LinkDown{c.Word(0), c.Number("final", 0) != 0, c.Number("told", 0) != 0};
    } else if (c.verb == "port") {
      return StorePortReady{static_cast<uint16_t>(c.Number("port", 4000))};
    } else if (c.verb == "no-port") {
      return StorePortFailed{"the port is in use"};
    } else if (c.verb == "shown") {
      return RestShown{};
    } else if (c.verb == "admitted") {
      incarnation_ = static_cast<uint64_t>(c.Number("inc", 1));
      return Received(Admitted{kLife, NodeId{1}, Incarnation{incarnation_}, kBeatInterval, kLease,
                               static_cast<uint32_t>(c.Number("epoch", 1)),
                               c.Number("journal", 0) != 0});
    } else if (c.verb == "refused") {
      return Received(Refused{kLife, absl::StrJoin(c.words, " ")});
    } else if (c.verb == "ended") {
      WorkerExit exit = ExitOf(c.Word(1));
      exit.local_rank = LocalRank{static_cast<uint32_t>(std::stoul(c.Word(0)))};
      if (c.values.count("because") != 0) {
        exit.because_of = Rank{static_cast<uint32_t>(c.Number("because", 0))};
      }
      if (c.values.count("failed-before") != 0) {
        exit.error_before = absl::Milliseconds(c.Number("failed-before", 0));
      }
      return WorkerEnded{Round(c), exit, c.Number("left", 0) == 0};
    } else if (c.verb == "groups-ended") {
      return GroupsEnded{Round(c)};
    } else if (c.verb == "spawned") {
      return WorkerSpawned{Round(c), LocalRank{static_cast<uint32_t>(std::stoul(c.Word(0)))},
                           static_cast<int32_t>(c.Number("pid", 4711))};
    } else if (c.verb == "lease-ended") {
      return LeaseEnded{};
    } else if (c.verb == "cleared") {
      return RoundCleared{Round(c)};
    } else if (c.verb == "seek") {
      return PeerSought{Round(c), NodeRank{static_cast<uint32_t>(std::stoul(c.Word(0)))}};
    } else if (c.verb == "await") {
      std::vector<Rank> ranks;
      for (const std::string& word : c.words) {
        ranks.push_back(Rank{static_cast<uint32_t>(std::stoul(word))});
      }
      return PeersAwaited{Round(c), ranks};
    } else if (c.verb == "ctrl-c") {
      return UserStop{SIGINT, c.Word(0) == "now"};
    } else if (c.verb == "leave") {
      return UserStop{SIGTERM, c.Word(0) == "now", "left it (SIGTERM)", /*leaves=*/true};
    } else if (c.verb == "restart") {
      return UserRestart{};
    } else if (c.verb == "scheduler") {
      return SchedulerSignal{SignalNumber(c.Word(0))};
    } else if (c.verb == "used") {
      NodeUse use;
      use.workers = 2;
      use.waited = absl::Seconds(c.Number("waited", 0));
      return UseSeen{use};
    } else if (c.verb == "time") {
      return TimeElapsed{};
    }
    return Received(DirectiveOf(c));
  }

  Directive DirectiveOf(const Command& c) {
    Directive d;
    d.node = NodeId{1};
    d.incarnation =
        Incarnation{static_cast<uint64_t>(c.Number("inc", static_cast<int64_t>(incarnation_)))};
    d.beat_seq = static_cast<uint64_t>(c.Number("answers", 0));
    d.round = Round(c);
    d.exits_seen = static_cast<uint32_t>(c.Number("seen", 0));
    d.paused = c.Number("paused", 0) != 0;
    d.stop_signal = SignalNumber(c.Word(0));
    d.grace = absl::Seconds(c.Number("grace", 5));
    if (c.values.count("signal") != 0) {
      const std::vector<std::string> parts = absl::StrSplit(c.Text("signal", ""), ':');
      d.signals = {{static_cast<uint32_t>(std::stoul(parts[0])), SignalNumber(parts[1])}};
    }
    for (const auto& [name, value] : c.all) {
      if (name == "peer") {
        const std::vector<std::string> parts = absl::StrSplit(value, ':');
        d.peers.push_back({{static_cast<uint32_t>(std::stoul(parts[0]))},
                           parts[1],
                           static_cast<uint16_t>(std::stoul(parts[2]))});
      } else if (name == "drill") {
        DrillOrder order;
        order.seq = static_cast<uint32_t>(std::stoul(value));
        order.kind = DrillKind::kCut;
        d.drills.push_back(order);
      } else if (name == "gone") {
        d.gone.push_back({static_cast<uint32_t>(std::stoul(value))});
      } else if (name == "well") {
        d.ended_well = Rank{static_cast<uint32_t>(std::stoul(value))};
      }
    }
    if (c.verb == "run") {
      d.wanted = Wanted::kRun;
      if (d.round != state_.round && c.Number("bare", 0) == 0) {
        d.assignment.round = d.round;
        d.assignment.workers = config_.join.workers;
        d.assignment.world_size = 4;
        d.assignment.nodes = static_cast<uint32_t>(c.Number("nodes", 2));
        for (const auto text : absl::StrSplit(c.Text("started", ""), ',', absl::SkipEmpty())) {
          d.assignment.started_in.push_back(static_cast<uint32_t>(std::stoul(std::string(text))));
        }
        const auto keeps = static_cast<uint32_t>(c.Number("keeps", 0));
        d.assignment.keeps_from = keeps == 0 ? RoundId() : RoundId{1, keeps};
      }
    } else if (c.verb == "stop") {
      d.wanted = Wanted::kStop;
      d.stop_is_final = c.Number("final", 0) != 0;
    } else if (c.verb == "end") {
      d.wanted = Wanted::kEnd;
      d.outcome.exit_code = static_cast<int32_t>(c.Number("code", 0));
    } else {
      CHECK(c.verb == "wait");
      d.wanted = Wanted::kWait;
      d.note = absl::StrJoin(c.words, " ");
    }
    if (c.values.count("notice") != 0) {
      d.notices.push_back(c.Text("notice", ""));
    }
    return d;
  }

  static std::string Show(const Drill& drill) {
    return absl::StrCat("drill ", drill.order.seq, ":", static_cast<int>(drill.order.kind));
  }
  std::string Show(const SendToMaster& send) {
    if (const auto* join = std::get_if<Join>(&send.message)) {
      return absl::StrCat("-> join port ", join->store_port);
    }
    if (std::holds_alternative<Leave>(send.message)) {
      return "-> leave";
    }
    const Beat& b = std::get<Beat>(send.message);
    const char* phase = b.phase == AgentPhase::kReady     ? "ready"
                        : b.phase == AgentPhase::kRunning ? "running"
                                                          : "stopping";
    std::string out = absl::StrCat("-> beat ", b.seq, " ", phase, " round ", b.round.ToString(),
                                   " alive ", b.workers_alive);
    if (b.workers_started != 0) {
      absl::StrAppend(&out, " started ", b.workers_started);
    }
    if (!b.pids.empty()) {
      absl::StrAppend(&out, " pids ", absl::StrJoin(b.pids, ","));
    }
    if (b.store_port != 0) {
      absl::StrAppend(&out, " port ", b.store_port);
    }
    for (size_t i = 0; i < b.exits.size(); ++i) {
      absl::StrAppend(&out, i == 0 ? absl::StrCat(" exits from ", b.exits_from, ": ") : ", ",
                      muster::Show(b.exits[i]));
    }
    return absl::StrCat(out, b.signals_done != 0 ? absl::StrCat(" signals ", b.signals_done) : "",
                        b.drills_done != 0 ? absl::StrCat(" drills ", b.drills_done) : "",
                        b.paused ? " paused" : "",
                        b.stop_asked != 0 ? absl::StrCat(" asks ", SignalName(b.stop_asked)) : "",
                        b.kill_asked ? " now" : "",
                        b.leaves != 0 ? absl::StrCat(" leaves by ", SignalName(b.leaves)) : "",
                        b.restart_asked.IsNone()
                            ? ""
                            : absl::StrCat(" asks to restart ", b.restart_asked.ToString()),
                        Sought(b));
  }
  static std::string Sought(const Beat& b) {
    std::string out;
    for (const NodeRank node : b.sought) {
      absl::StrAppend(&out, out.empty() ? " seeks " : ",", node.value);
    }
    for (const Rank rank : b.awaited) {
      absl::StrAppend(&out, " awaits ", rank.value);
    }
    for (const HeardSignal& heard : b.heard) {
      absl::StrAppend(&out, " heard ", SignalName(heard.signo), ":", heard.times);
    }
    if (b.use.workers != 0) {
      absl::StrAppend(&out, " waited ", ShortDuration(b.use.waited));
    }
    return out;
  }
  std::string Show(const OpenStore&) { return "open store"; }
  std::string Show(const ShowRest&) { return "show the rest"; }
  std::string Show(const SpawnRound& spawn) {
    return absl::StrCat("SPAWN ", spawn.assignment.round.ToString());
  }
  std::string Show(const KeepRound& keep) {
    std::string out = absl::StrCat("KEEP ", keep.assignment.round.ToString());
    for (const LocalRank local : keep.starts) {
      absl::StrAppend(&out, " start ", local.value);
    }
    return out;
  }
  std::string Show(const SignalRound& signal) {
    return absl::StrCat("signal ", signal.round.ToString(), " ", SignalName(signal.signo),
                        signal.stops ? " to stop" : "");
  }
  std::string Show(const ReleaseHeld& held) {
    return absl::StrCat("release ", held.round.ToString());
  }
  std::string Show(const KillRound& kill) { return absl::StrCat("KILL ", kill.round.ToString()); }
  std::string Show(const AwaitGroups& await) {
    return absl::StrCat("await groups ", await.round.ToString());
  }
  std::string Show(const CloseRound& close) {
    return absl::StrCat("close ", close.round.ToString(), ", drain ",
                        absl::FormatDuration(close.drain));
  }
  std::string Show(const EndDrain& end) { return absl::StrCat("end drain ", end.round.ToString()); }
  std::string Show(const PeerFound& found) {
    return absl::StrCat("PEER ", found.peer.node_rank.value, " at ", found.peer.address, ":",
                        found.peer.port);
  }
  std::string Show(const PeerGone& gone) { return absl::StrCat("GONE ", gone.rank.value); }
  std::string Show(const MeetNoMore& meet) {
    return absl::StrCat("MEET NO MORE, ended well: ", meet.ended_well.value);
  }
  std::string Show(const SetLease& lease) { return absl::StrCat("lease ", Seconds(lease.until)); }
  std::string Show(const SetTimer& timer) { return absl::StrCat("timer ", Seconds(timer.at)); }
  std::string Show(const ShowWaiting& show) { return absl::StrCat("show '", show.note, "'"); }
  std::string Show(const ShowNotice& show) { return absl::StrCat("NOTICE '", show.text, "'"); }
  std::string Show(const Finish& finish) {
    return absl::StrCat("FINISH ", finish.all_shown ? "" : "(output lost) ",
                        finish.outcome.exit_code, finish.outcome.headline.empty() ? "" : ": ",
                        finish.outcome.headline);
  }

  AgentConfig config_;
  AgentState state_;
  absl::Time now_ = AtSeconds("0");
  uint64_t incarnation_ = 0;
};

TEST(Scenario, Agent) {
  RunTranscripts("agent_", [] {
    return
        [script = std::make_shared<AgentScript>()](const Command& c) { return script->Execute(c); };
  });
}

}  // namespace
}  // namespace muster
