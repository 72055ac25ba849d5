// The round machine's transcripts: master_*.txt.
#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "proto/base/check.h"
#include "proto/base/text.h"
#include "rendezvous/core/invariants.h"
#include "rendezvous/core/liveness.h"
#include "rendezvous/core/replay.h"
#include "rendezvous/core/round_machine.h"
#include "tests/rendezvous/core/kept_journal.h"
#include "tests/scenarios/transcript.h"

namespace muster {
namespace {

// What a scripted agent knows of itself.
struct Agent {
  uint64_t life = 0;
  NodeId node;
  Incarnation incarnation;
  uint64_t seq = 0;
  uint32_t epoch = 0;  // of the master that admitted it
  RoundId round;
  uint32_t rank_first = 0;
  uint32_t exits = 0;  // of `round`
};

class MasterScript {
 public:
  std::string Execute(const Command& c) {
    if (c.verb == "config") {
      Configure(c);
      return "";
    }
    if (c.verb == "at") {
      now_ = AtSeconds(c.Word(0));
      if (now_ - state_.timer_at > kStallTolerance) {
        RenewAll(config_, state_, now_);  // the master was awake, and agents have beaten
        state_.timer_at = now_;
      }
      return "";
    }
    if (c.verb == "asleep") {  // until then: the master itself did not run
      now_ = AtSeconds(c.Word(0));
      return "";
    }
    if (c.verb == "killed") {
      return TakeOver();
    }
    const std::vector<RoundEffect> effects = Step(config_, state_, EventOf(c), now_);
    if (checker_ == nullptr) {
      checker_ = std::make_unique<InvariantChecker>(config_);
    }
    std::string out;
    for (const RoundEffect& effect : effects) {
      std::visit([&](const auto& one) { absl::StrAppend(&out, Show(one), "\n"); }, effect);
    }
    const absl::Status checked = checker_->Check(state_, effects);
    return checked.ok() ? out : absl::StrCat(out, "BROKEN ", checked.message(), "\n");
  }

 private:
  // The next master, which has what the journal was given.
  std::string TakeOver() {
    ++config_.epoch;
    state_ = RoundState();
    for (const JournalRecord& record : journal_) {
      const absl::Status replayed = Replay(config_, state_, record);
      if (!replayed.ok()) {
        return absl::StrCat("BROKEN ", replayed.message(), "\n");
      }
    }
    if (!journal_.empty()) {
      Resurrect(config_, state_, now_);
    }
    const absl::Status checked = checker_->TakenOver(state_);
    return checked.ok() ? absl::StrCat("knows round ", state_.round.ToString(), "\n")
                        : absl::StrCat("BROKEN ", checked.message(), "\n");
  }

  void Configure(const Command& c) {
    const std::vector<std::string> nodes = absl::StrSplit(c.Text("nodes", "1"), ':');
    config_.nodes_min = static_cast<uint32_t>(std::stoul(nodes.front()));
    config_.nodes_max = static_cast<uint32_t>(std::stoul(nodes.back()));
    config_.restarts_max = static_cast<uint32_t>(c.Number("restarts", 0));
    const std::string restart = c.Text("restart", "all");
    config_.restart = restart == "never" ? RestartMode::kNever
                      : restart == "one" ? RestartMode::kOne
                                         : RestartMode::kAll;
    ConfigureRules(c, config_.rules);
    if (c.Text("failure", "stop") == "continue") {
      config_.on_failure = OnFailure::kContinue;
    }
    if (c.values.count("expected") != 0) {
      config_.expected = absl::StrSplit(c.Text("expected", ""), ',');
    }
    if (c.values.count("agree") != 0) {
      config_.agreed = {{absl::StrSplit(c.Text("agree", ""), absl::MaxSplits(':', 1))}, "server"};
    }
    config_.starts_again = c.Number("starter", 0) != 0;
    config_.machines_return = c.Number("return", 0) != 0;
    config_.refused_is_final = c.Number("final", 0) != 0;
    config_.sigterm_told = c.Text("sigterm", "");
    if (c.values.count("spares") != 0) {
      config_.spares = static_cast<uint32_t>(c.Number("spares", 0));
    }
    config_.journal = c.Number("journal", 0) != 0;
    config_.next_job_follows = c.Number("daemon", 0) != 0;
    if (c.values.count("limit") != 0) {
      config_.time_limit = absl::Seconds(c.Number("limit", 0));
    }
  }

  static void ConfigureRules(const Command& c, RestartRules& rules) {
    rules.wait_first = absl::Seconds(c.Number("wait", 1));
    rules.window = absl::Seconds(c.Number("window", 0));
    if (c.values.count("of_rank") != 0) {
      rules.of_rank = static_cast<uint32_t>(c.Number("of_rank", 0));
    }
    if (c.values.count("of_node") != 0) {
      rules.of_node = static_cast<uint32_t>(c.Number("of_node", 0));
    }
    rules.bad_node_after = static_cast<uint32_t>(c.Number("bad_after", 3));
    rules.bad_node_for = absl::Seconds(c.Number("bad_for", 300));
    const std::map<std::string, ExitRule> known = {
        {"free75", {ExitMatch::kCode, {75}, ExitAction::kRestartFree}},
        {"stop2", {ExitMatch::kCode, {2}, ExitAction::kStop}},
        {"replace_bus", {ExitMatch::kSignal, {SIGBUS}, ExitAction::kReplaceNode}}};
    for (const absl::string_view rule :
         absl::StrSplit(c.Text("rules", ""), ',', absl::SkipEmpty())) {
      rules.on_exit.push_back(known.at(std::string(rule)));
    }
  }

  RoundEvent EventOf(const Command& c) {
    if (c.verb == "join") {
      return JoinOf(c);
    } else if (c.verb == "beat") {
      return BeatReceived{BeatOf(c)};
    } else if (c.verb == "leave") {
      return LeaveReceived{{Of(c).node, Of(c).incarnation, "asked to"}};
    } else if (c.verb == "closed") {
      return LinkClosed{Of(c).node, Of(c).incarnation};
    } else if (c.verb == "failed") {
      return StartFailed{c.Word(0), absl::StrCat(c.Word(0), " could not be started"),
                         static_cast<uint32_t>(c.Number("attempt", 0)), c.Word(1) == "killed"};
    } else if (c.verb == "stop") {
      StopAsked stop{SignalNumber(c.Word(0)), c.Word(1) == "now"};
      if (c.values.count("grace") != 0) {
        stop.grace = absl::Seconds(c.Number("grace", 0));
      }
      stop.told = c.Text("told", "");
      return stop;
    } else if (c.verb == "signal") {
      return SignalAsked{SignalNumber(c.Word(0))};
    } else if (c.verb == "drill") {
      return DrillOf(c);
    } else if (c.verb == "restart") {
      return RestartAsked{8};
    } else if (c.verb == "pause") {
      return PauseAsked{c.Word(0) == "on"};
    }
    CHECK(c.verb == "time");
    return TimePassed{};
  }

  static DrillAsked DrillOf(const Command& c) {
    const std::map<std::string, DrillKind> kinds = {{"kill", DrillKind::kKillWorker},
                                                    {"crash", DrillKind::kKillNode},
                                                    {"freeze", DrillKind::kFreeze},
                                                    {"cut", DrillKind::kCut},
                                                    {"slow", DrillKind::kSlow}};
    DrillAsked asked;
    asked.ask = 7;
    asked.drill.kind = kinds.at(c.Word(0));
    asked.drill.delay = absl::Milliseconds(200);
    asked.drill.length = absl::Seconds(10);
    asked.target = c.Word(1);
    return asked;
  }

  JoinReceived JoinOf(const Command& c) {
    const std::string name = c.Word(0);
    Agent& agent = agents_[name];
    const auto number = static_cast<int64_t>(agents_.size());
    const auto life = static_cast<uint64_t>(c.Number("life", number));
    if (life != agent.life) {
      agent = Agent();
      agent.life = life;
    }
    Join join;
    join.key = c.Text("key", name);
    join.key_is_exact = c.Number("exact", 1) != 0;
    join.life = life;
    join.node_rank = static_cast<int32_t>(c.Number("rank", -1));
    join.hostname = name;
    join.address = c.Text("addr", absl::StrCat("10.0.0.", number));
    join.addresses = absl::StrSplit(c.Text("also", ""), ',', absl::SkipEmpty());
    join.workers = static_cast<uint32_t>(c.Number("workers", 1));
    join.holds = agent.round;
    join.hold = {c.Text("hold", ""), static_cast<uint64_t>(c.Number("taken", number))};
    join.store_port = static_cast<uint16_t>(c.Number("port", 4000));
    for (absl::string_view port : absl::StrSplit(c.Text("keeps", ""), ',', absl::SkipEmpty())) {
      join.worker_ports.push_back(static_cast<uint16_t>(std::stoul(std::string(port))));
    }
    if (c.values.count("agree") != 0) {
      join.must_agree = {absl::StrSplit(c.Text("agree", ""), absl::MaxSplits(':', 1))};
    }
    replies_[++reply_] = name;
    return {ReplyId{reply_}, join};
  }

  Agent& Of(const Command& c) { return agents_[c.Word(0)]; }

  Beat BeatOf(const Command& c) {
    Agent& agent = Of(c);
    Beat beat;
    beat.node = agent.node;
    beat.incarnation = Incarnation{
        static_cast<uint64_t>(c.Number("inc", static_cast<int64_t>(agent.incarnation.value)))};
    beat.seq = ++agent.seq;
    const auto n = static_cast<uint32_t>(c.Number("round", agent.round.n));
    const auto epoch = static_cast<uint32_t>(c.Number("epoch", std::max(agent.round.epoch, 1u)));
    beat.round = n == 0 ? RoundId() : RoundId{epoch, n};
    if (beat.round != agent.round) {
      agent.round = beat.round;
      agent.exits = c.Number("kept", 0) != 0 ? agent.exits : 0;
    }
    const std::string phase = c.Text("phase", n == 0 ? "ready" : "running");
    beat.phase = phase == "ready"     ? AgentPhase::kReady
                 : phase == "running" ? AgentPhase::kRunning
                                      : AgentPhase::kStopping;
    beat.store_port = static_cast<uint16_t>(c.Number("port", phase == "ready" ? 4000 : 0));
    beat.workers_alive = static_cast<uint32_t>(c.Number("alive", phase == "ready" ? 0 : 1));
    beat.workers_started = static_cast<uint32_t>(c.Number("started", 0));
    beat.use.waited = absl::Seconds(c.Number("waited", 0));
    beat.use.workers = c.values.count("waited") != 0 ? 1 : 0;
    beat.stop_asked = SignalNumber(c.Text("stop", "0"));
    beat.leaves = SignalNumber(c.Text("leaves", "0"));
    beat.signals_done = static_cast<uint32_t>(c.Number("signals", 0));
    beat.drills_done = static_cast<uint32_t>(c.Number("drills", 0));
    if (const int64_t asked = c.Number("restart", 0); asked != 0) {
      beat.restart_asked = {1, static_cast<uint32_t>(asked)};
    }
    beat.exits_from = agent.exits;
    for (const auto& [name, value] : c.all) {
      if (name == "exit") {
        const std::vector<std::string> parts = absl::StrSplit(value, ':');
        WorkerExit exit = ExitOf(parts[1]);
        exit.age = absl::Seconds(c.Number("age", 0));
        exit.local_rank = LocalRank{static_cast<uint32_t>(std::stoul(parts[0]))};
        exit.rank = Rank{agent.rank_first + exit.local_rank.value};
        if (parts.size() > 2) {
          exit.because_of = Rank{static_cast<uint32_t>(std::stoul(parts[2]))};
        }
        beat.exits.push_back(exit);
        ++agent.exits;
      } else if (name == "seek") {
        beat.sought.push_back({static_cast<uint32_t>(std::stoul(value))});
      } else if (name == "await") {
        beat.awaited.push_back({static_cast<uint32_t>(std::stoul(value))});
      } else if (name == "heard") {
        const std::vector<std::string> parts = absl::StrSplit(value, ':');
        beat.heard.push_back({SignalNumber(parts[0]), static_cast<uint32_t>(std::stoul(parts[1]))});
      }
    }
    return beat;
  }

  std::string Name(NodeId node) const {
    for (const auto& [name, agent] : agents_) {
      if (agent.node == node) {
        return name;
      }
    }
    return absl::StrCat("node ", node.value);
  }

  std::string Show(const Persist& persist) {
    const JournalRecord& record = persist.record;
    KeepInJournal(record, journal_);
    std::string out = "KEEP";
    if (record.round.has_value()) {
      absl::StrAppend(&out, " round ", record.round->round.ToString());
    }
    for (const Beat& exits : record.exits) {
      absl::StrAppend(&out, " exits ", exits.exits_from, "+", exits.exits.size(), " of ",
                      Name(exits.node));
      for (const WorkerExit& exit : exits.exits) {
        absl::StrAppend(&out, exit.code == 0 ? "" : absl::StrCat(" rank ", exit.rank.value));
      }
    }
    for (const DurableLoss& loss : record.losses) {
      absl::StrAppend(&out, " loss of ", Name(loss.node));
    }
    for (const LostNode& lost : record.lost_nodes) {
      absl::StrAppend(&out, " without ", lost.hostname);
    }
    if (record.progress.has_value()) {
      constexpr const char* kPhases[] = {"gathering", "running", "stopping", "ending", "ended"};
      absl::StrAppend(&out, " ", kPhases[static_cast<size_t>(record.progress->phase)], " restarts ",
                      record.progress->restarts);
    }
    return out;
  }

  std::string Show(const Reply& reply) {
    const std::string& name = replies_[reply.to.value];
    if (const auto* refused = std::get_if<Refused>(&reply.message)) {
      return absl::StrCat(name,
                          reply.asks_again ? " <- not yet: " : " <- refused: ", refused->reason);
    }
    const Admitted& admitted = std::get<Admitted>(reply.message);
    Agent& agent = agents_[name];
    agent.node = admitted.node;
    agent.incarnation = admitted.incarnation;
    agent.exits = std::exchange(agent.epoch, admitted.epoch) == admitted.epoch ? agent.exits : 0;
    return absl::StrCat(name, " <- admitted node ", admitted.node.value, " life ",
                        admitted.incarnation.value);
  }

  std::string Show(const Send& send) {
    const Directive& d = send.directive;
    const std::string name = Name(send.node);
    std::string out = absl::StrCat(name, " <- ");
    const std::string round = d.round.ToString();
    if (d.wanted == Wanted::kRun) {
      absl::StrAppend(&out, "run ", round);
      if (!d.assignment.round.IsNone()) {
        const Assignment& a = d.assignment;
        agents_[name].rank_first = a.rank_first.value;
        absl::StrAppend(&out, " node ", a.node_rank.value, "/", a.nodes, " ranks ",
                        a.rank_first.value, "+", a.workers, "/", a.world_size, " at ",
                        a.master_addr, ":", a.master_port, " restart ", a.restart_count, "/",
                        a.restarts_max, a.one_host ? " one host" : "");
        if (a.worker_addresses.size() > a.nodes) {
          absl::StrAppend(&out, " workers from ", absl::StrJoin(a.worker_addresses, ","));
        }
        for (const WorkerPorts& node : a.worker_ports) {
          absl::StrAppend(&out, " ", node.address, " keeps ", absl::StrJoin(node.ports, ","));
        }
        if (!a.started_in.empty()) {
          absl::StrAppend(&out, " started in ", absl::StrJoin(a.started_in, ","));
        }
        if (!a.keeps_from.IsNone()) {
          absl::StrAppend(&out, " keeps from ", a.keeps_from.ToString());
        }
      }
    } else if (d.wanted == Wanted::kWait) {
      absl::StrAppend(&out, "wait '", d.note, "'");
    } else {
      const std::string signal = d.stop_signal == 0 ? "SIGKILL" : SignalName(d.stop_signal);
      absl::StrAppend(&out, d.wanted == Wanted::kStop ? absl::StrCat("stop ", round) : "end", " ",
                      signal, " ", ShortDuration(d.grace));
      if (d.wanted == Wanted::kEnd) {
        absl::StrAppend(&out, " outcome ", d.outcome.exit_code);
      }
      if (d.stop_is_final) {
        absl::StrAppend(&out, " final");
      }
    }
    for (const SignalOrder& order : d.signals) {
      absl::StrAppend(&out, " signal ", order.seq, ":", SignalName(order.signo));
    }
    for (const DrillOrder& drill : d.drills) {
      absl::StrAppend(&out, " drill ", drill.seq, ":", static_cast<int>(drill.kind), " worker ",
                      drill.worker.value);
    }
    for (const PeerNode& peer : d.peers) {
      absl::StrAppend(&out, " peer ", peer.node_rank.value, "=", peer.address, ":", peer.port);
    }
    for (const Rank rank : d.gone) {
      absl::StrAppend(&out, " gone ", rank.value);
    }
    return absl::StrCat(out, d.paused ? " paused" : "",
                        d.exits_seen != 0 ? absl::StrCat(" seen ", d.exits_seen) : "",
                        d.ended_well ? absl::StrCat(" ended well: ", d.ended_well->value) : "",
                        d.beat_seq == 0 ? "" : absl::StrCat(" (answer)"));
  }

  std::string Show(const Tell& tell) { return absl::StrCat("tell: ", tell.text); }
  std::string Show(const ArmTimer& timer) { return absl::StrCat("timer ", Seconds(timer.at)); }
  std::string Show(const DropLink& drop) {
    return absl::StrCat("drop ", Name(drop.node), " life ", drop.incarnation.value);
  }
  std::string Show(const RoundStarted& r) {
    return absl::StrCat("ROUND ", r.round.ToString(), " nodes ", r.nodes, " world ", r.world_size);
  }
  std::string Show(const WorkersStarted& all) {
    return absl::StrCat("ALL STARTED ", all.round.ToString(), " nodes ", all.nodes, " world ",
                        all.world_size);
  }
  static std::string Show(const NodeMissing& missing) {
    return absl::StrCat("MISSING in ", missing.round.ToString(), " place ", missing.place, ": ",
                        missing.why);
  }
  std::string Show(const SignalHeard& heard) {
    return absl::StrCat("HEARD ", SignalName(heard.signo), " at ", Name(heard.node));
  }
  static std::string Show(const OrderAnswered& answered) {
    return absl::StrCat("ANSWER ", answered.ask, answered.ok ? " ok: " : " no: ", answered.text);
  }
  std::string Show(const StartAgain& again) {
    return absl::StrCat("START AGAIN ", again.key, " attempt ", again.attempt);
  }
  std::string Show(const JobEnded&) {
    std::string out =
        absl::StrCat("ENDED exit code ", state_.report.exit_code,
                     state_.report.headline.empty() ? "" : ": ", state_.report.headline);
    for (const UseRecord& one : state_.report.uses) {
      absl::StrAppend(&out, ", ", one.hostname, " waited ", ShortDuration(one.use.waited));
    }
    return out;
  }

  RoundConfig config_;
  RoundState state_;
  std::unique_ptr<InvariantChecker> checker_;
  std::vector<JournalRecord> journal_;
  absl::Time now_ = AtSeconds("0");
  std::map<std::string, Agent> agents_;
  std::map<uint64_t, std::string> replies_;
  uint64_t reply_ = 0;
};

TEST(Scenario, Master) {
  RunTranscripts("master_", [] {
    return [script = std::make_shared<MasterScript>()](const Command& c) {
      return script->Execute(c);
    };
  });
}

}  // namespace
}  // namespace muster
