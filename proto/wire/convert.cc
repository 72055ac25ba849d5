#include "proto/wire/convert.h"

#include <algorithm>
#include <utility>

#include "proto/base/limits.h"
#include "proto/base/status_macros.h"
#include "proto/wire/convert_parts.h"
#include "proto/wire/field_checker.h"

namespace muster {
namespace {

constexpr uint32_t kAny = std::numeric_limits<uint32_t>::max();

void SetExit(const WorkerExit& exit, v1::WorkerExit* wire) {
  wire->set_local_rank(exit.local_rank.value);
  wire->set_rank(exit.rank.value);
  wire->set_pid(exit.pid);
  wire->set_kind(static_cast<v1::ExitKind>(ChoiceToWire(exit.kind)));
  wire->set_code(exit.code);
  wire->set_core_dumped(exit.core_dumped);
  wire->set_oom_killed(exit.oom_killed);
  wire->set_stopped_by_us(exit.stopped_by_us);
  wire->set_ran_for(absl::ToInt64Nanoseconds(exit.ran_for));
  wire->set_age(absl::ToInt64Nanoseconds(exit.age));
  wire->set_rss_max_bytes(exit.rss_max_bytes);
  wire->set_detail(Cut(exit.detail, kTextBytesMax));
  wire->set_error_message(Cut(exit.error_message, kErrorMessageBytesMax));
  if (exit.error_before.has_value()) {
    wire->set_error_before(absl::ToInt64Nanoseconds(*exit.error_before));
  }
  // The end of it is what matters.
  wire->set_stderr_tail(exit.stderr_tail.size() <= kStderrTailBytes
                            ? exit.stderr_tail
                            : exit.stderr_tail.substr(exit.stderr_tail.size() - kStderrTailBytes));
  if (exit.because_of.has_value()) {
    wire->set_because_of(exit.because_of->value);
  }
}

absl::StatusOr<WorkerExit> ExitOf(const v1::WorkerExit& wire) {
  FieldChecker check("exit");
  WorkerExit exit;
  exit.local_rank.value = check.Number("local_rank", wire.local_rank(), 0, kWorkersPerNodeMax - 1);
  exit.rank.value = check.Number("rank", wire.rank(), 0, kWorldSizeMax - 1);
  exit.pid = wire.pid();
  exit.kind = check.Choice("kind", wire.kind(), ExitKind::kSpawnFailed);
  exit.code = wire.code();
  exit.core_dumped = wire.core_dumped();
  exit.oom_killed = wire.oom_killed();
  exit.stopped_by_us = wire.stopped_by_us();
  exit.ran_for = check.Time("ran_for", wire.ran_for());
  exit.age = check.Time("age", wire.age());
  exit.rss_max_bytes = wire.rss_max_bytes();
  exit.detail = check.Text("detail", wire.detail(), kTextBytesMax);
  exit.error_message = check.Text("error_message", wire.error_message(), kErrorMessageBytesMax);
  if (wire.has_error_before()) {
    exit.error_before = check.Time("error_before", wire.error_before());
  }
  exit.stderr_tail = check.Text("stderr_tail", wire.stderr_tail(), kStderrTailBytes);
  if (wire.has_because_of()) {
    exit.because_of = Rank{check.Number("because_of", wire.because_of(), 0, kWorldSizeMax - 1)};
  }
  RETURN_IF_ERROR(check.status());
  return exit;
}

void SetUse(const NodeUse& use, v1::NodeUse* wire) {
  wire->set_workers(use.workers);
  wire->set_cpus(use.cpus);
  wire->set_lasted(absl::ToInt64Nanoseconds(use.lasted));
  wire->set_cpu_time(absl::ToInt64Nanoseconds(use.cpu_time));
  wire->set_ran(absl::ToInt64Nanoseconds(use.ran));
  wire->set_waited(absl::ToInt64Nanoseconds(use.waited));
  wire->set_pressed(absl::ToInt64Nanoseconds(use.pressed));
  wire->set_idle(absl::ToInt64Nanoseconds(use.idle));
  for (const WaitPlace& place : use.waits) {
    v1::WaitPlace* out = wire->add_waits();
    out->set_what(Cut(place.what, kTextBytesMax));
    out->set_pid(place.pid);
    out->mutable_locals()->Assign(place.locals.begin(), place.locals.end());
  }
  wire->set_steps(use.steps);
  wire->set_steps_took(absl::ToInt64Nanoseconds(use.steps_took));
}

NodeUse UseOf(const v1::NodeUse& wire, FieldChecker& check) {
  NodeUse use;
  use.workers = check.Number("use.workers", wire.workers(), 0, kWorkersPerNodeMax);
  use.cpus = check.Number("use.cpus", wire.cpus(), 0, kCpusMax);
  use.lasted = check.Time("use.lasted", wire.lasted());
  use.cpu_time = check.Time("use.cpu_time", wire.cpu_time());
  use.ran = check.Time("use.ran", wire.ran());
  use.waited = check.Time("use.waited", wire.waited());
  use.pressed = check.Time("use.pressed", wire.pressed());
  use.idle = check.Time("use.idle", wire.idle());
  check.Bound("use.waits", static_cast<size_t>(wire.waits_size()), 0, kWaitPlacesMax);
  if (!check.status().ok()) {
    return use;
  }
  for (const v1::WaitPlace& place : wire.waits()) {
    use.waits.push_back(
        {check.Text("use.waits", place.what(), kTextBytesMax), place.pid(),
         RanksOf("use.waits", place.locals(), static_cast<uint32_t>(place.locals_size()),
                 kWorkersPerNodeMax, check)});
  }
  use.steps = wire.steps();
  use.steps_took = check.Time("use.steps_took", wire.steps_took());
  return use;
}

void SetBeat(const Beat& beat, v1::Beat* wire) {
  wire->set_node(beat.node.value);
  wire->set_incarnation(beat.incarnation.value);
  wire->set_seq(beat.seq);
  wire->set_phase(static_cast<v1::AgentPhase>(ChoiceToWire(beat.phase)));
  SetRound(beat.round, wire->mutable_round());
  wire->set_store_port(beat.store_port);
  wire->set_workers_alive(beat.workers_alive);
  wire->set_workers_started(beat.workers_started);
  wire->mutable_pids()->Assign(beat.pids.begin(), beat.pids.end());
  wire->set_exits_from(beat.exits_from);
  for (const WorkerExit& exit : beat.exits) {
    SetExit(exit, wire->add_exits());
  }
  wire->set_signals_done(beat.signals_done);
  wire->set_drills_done(beat.drills_done);
  wire->set_paused(beat.paused);
  wire->set_stop_asked(beat.stop_asked);
  wire->set_kill_asked(beat.kill_asked);
  wire->set_leaves(beat.leaves);
  if (!beat.restart_asked.IsNone()) {
    SetRound(beat.restart_asked, wire->mutable_restart_asked());
  }
  for (const NodeRank node : beat.sought) {
    wire->add_sought(node.value);
  }
  for (const Rank rank : beat.awaited) {
    wire->add_awaited(rank.value);
  }
  for (const HeardSignal& heard : beat.heard) {
    v1::HeardSignal* out = wire->add_heard();
    out->set_signo(heard.signo);
    out->set_times(heard.times);
  }
  if (beat.use != NodeUse()) {
    SetUse(beat.use, wire->mutable_use());
  }
}

absl::StatusOr<AgentMessage> BeatOf(const v1::Beat& wire) {
  FieldChecker check("beat");
  Beat beat;
  beat.node.value = wire.node();
  beat.incarnation.value = wire.incarnation();
  beat.seq = wire.seq();
  beat.phase = check.Choice("phase", wire.phase(), AgentPhase::kStopping);
  beat.round = RoundOf(wire.round());
  beat.store_port = check.Port("store_port", wire.store_port());
  beat.workers_alive = check.Number("workers_alive", wire.workers_alive(), 0, kWorkersPerNodeMax);
  beat.workers_started =
      check.Number("workers_started", wire.workers_started(), 0, kWorkersPerNodeMax);
  check.Bound("pids", static_cast<size_t>(wire.pids_size()), 0, kWorkersPerNodeMax);
  if (check.ok()) {
    beat.pids.assign(wire.pids().begin(), wire.pids().end());
  }
  beat.exits_from = wire.exits_from();
  check.Bound("exits", static_cast<size_t>(wire.exits_size()), 0, kExitsPerBeatMax);
  beat.signals_done = wire.signals_done();
  beat.drills_done = wire.drills_done();
  beat.paused = wire.paused();
  beat.stop_asked = check.Signal("stop_asked", wire.stop_asked());
  beat.kill_asked = wire.kill_asked();
  beat.leaves = check.Signal("leaves", wire.leaves());
  beat.restart_asked = RoundOf(wire.restart_asked());
  beat.use = UseOf(wire.use(), check);
  check.Bound("sought", static_cast<size_t>(wire.sought_size()), 0, kPeersPerBeatMax);
  check.Bound("awaited", static_cast<size_t>(wire.awaited_size()), 0, kPeersPerBeatMax);
  check.Bound("heard", static_cast<size_t>(wire.heard_size()), 0, kHeardSignalsMax);
  RETURN_IF_ERROR(check.status());
  for (const uint32_t node : wire.sought()) {
    beat.sought.push_back({check.Number("sought", node, 0, kNodesMax - 1)});
  }
  for (const uint32_t rank : wire.awaited()) {
    beat.awaited.push_back({check.Number("awaited", rank, 0, kWorldSizeMax - 1)});
  }
  for (const v1::HeardSignal& heard : wire.heard()) {
    beat.heard.push_back({check.Signal("heard.signo", heard.signo()), heard.times()});
  }
  RETURN_IF_ERROR(check.status());
  for (const v1::WorkerExit& one : wire.exits()) {
    ASSIGN_OR_RETURN(WorkerExit exit, ExitOf(one));
    beat.exits.push_back(std::move(exit));
  }
  return beat;
}

void SetDirective(const Directive& directive, v1::Directive* wire) {
  wire->set_node(directive.node.value);
  wire->set_incarnation(directive.incarnation.value);
  wire->set_beat_seq(directive.beat_seq);
  wire->set_wanted(static_cast<v1::Wanted>(ChoiceToWire(directive.wanted)));
  SetRound(directive.round, wire->mutable_round());
  if (directive.assignment != Assignment{}) {
    SetAssignment(directive.assignment, wire->mutable_assignment());
  }
  wire->set_stop_signal(directive.stop_signal);
  wire->set_grace(absl::ToInt64Nanoseconds(directive.grace));
  wire->set_stop_is_final(directive.stop_is_final);
  wire->set_exits_seen(directive.exits_seen);
  for (const SignalOrder& order : directive.signals) {
    v1::SignalOrder* one = wire->add_signals();
    one->set_seq(order.seq);
    one->set_signo(order.signo);
  }
  SetDrills(directive.drills, wire);
  wire->set_paused(directive.paused);
  wire->set_note(Cut(directive.note, kTextBytesMax));
  wire->mutable_outcome()->set_exit_code(directive.outcome.exit_code);
  wire->mutable_outcome()->set_headline(Cut(directive.outcome.headline, kTextBytesMax));
  for (const PeerNode& peer : directive.peers) {
    v1::PeerNode* one = wire->add_peers();
    one->set_node_rank(peer.node_rank.value);
    one->set_address(peer.address);
    one->set_port(peer.port);
  }
  for (const Rank rank : directive.gone) {
    wire->add_gone(rank.value);
  }
  if (directive.ended_well.has_value()) {
    wire->set_ended_well(directive.ended_well->value);
  }
  for (const std::string& notice : directive.notices) {
    wire->add_notices(Cut(notice, kTextBytesMax));
  }
}

absl::StatusOr<MasterMessage> DirectiveOf(const v1::Directive& wire) {
  FieldChecker check("directive");
  Directive directive;
  directive.node.value = wire.node();
  directive.incarnation.value = wire.incarnation();
  directive.beat_seq = wire.beat_seq();
  directive.wanted = check.Choice("wanted", wire.wanted(), Wanted::kEnd);
  directive.round = RoundOf(wire.round());
  if (wire.has_assignment()) {
    directive.assignment = AssignmentOf(wire.assignment(), check);
  }
  directive.stop_signal = check.Signal("stop_signal", wire.stop_signal());
  directive.grace = check.Time("grace", wire.grace());
  directive.stop_is_final = wire.stop_is_final();
  directive.exits_seen = check.Number("exits_seen", wire.exits_seen(), 0, kAny);
  check.Bound("signals", static_cast<size_t>(wire.signals_size()), 0, kSignalOrdersMax);
  check.Bound("peers", static_cast<size_t>(wire.peers_size()), 0, kPeersPerBeatMax);
  check.Bound("gone", static_cast<size_t>(wire.gone_size()), 0, kPeersPerBeatMax);
  check.Bound("notices", static_cast<size_t>(wire.notices_size()), 0, kNoticesMax);
  RETURN_IF_ERROR(check.status());
  for (const v1::SignalOrder& order : wire.signals()) {
    directive.signals.push_back({order.seq(), check.Signal("signals.signo", order.signo())});
  }
  directive.drills = DrillsOf(wire, check);
  directive.paused = wire.paused();
  directive.note = check.Text("note", wire.note(), kTextBytesMax);
  directive.outcome.exit_code = wire.outcome().exit_code();
  directive.outcome.headline =
      check.Text("outcome.headline", wire.outcome().headline(), kTextBytesMax);
  for (const v1::PeerNode& peer : wire.peers()) {
    directive.peers.push_back(
        {{check.Number("peers.node_rank", peer.node_rank(), 0, kNodesMax - 1)},
         check.Text("peers.address", peer.address(), kNameBytesMax),
         check.Port("peers.port", peer.port())});
  }
  for (const uint32_t rank : wire.gone()) {
    directive.gone.push_back({check.Number("gone", rank, 0, kWorldSizeMax - 1)});
  }
  if (wire.has_ended_well()) {
    directive.ended_well =
        Rank{check.Number("ended_well", wire.ended_well(), 0, kWorldSizeMax - 1)};
  }
  for (const std::string& notice : wire.notices()) {
    directive.notices.push_back(check.Text("notices", notice, kTextBytesMax));
  }
  RETURN_IF_ERROR(check.status());
  return directive;
}

absl::StatusOr<MasterMessage> AdmittedOf(const v1::Admitted& wire) {
  FieldChecker check("admitted");
  Admitted admitted;
  admitted.life = wire.life();
  admitted.node.value = wire.node();
  admitted.incarnation.value = wire.incarnation();
  admitted.beat_interval = check.Time("beat_interval", wire.beat_interval());
  if (admitted.beat_interval < absl::Milliseconds(1)) {
    check.Fail("beat_interval", "below 1 ms");  // an agent would do nothing else
  }
  admitted.lease = check.Time("lease", wire.lease());
  admitted.epoch = wire.epoch();
  admitted.journal = wire.journal();
  RETURN_IF_ERROR(check.status());
  return admitted;
}

}  // namespace

v1::Join ToWire(const Join& join) {
  v1::Join wire;
  wire.set_key(join.key);
  wire.set_key_is_exact(join.key_is_exact);
  wire.set_life(join.life);
  wire.set_node_rank(join.node_rank);
  wire.set_hostname(join.hostname);
  wire.set_address(join.address);
  wire.set_interface(join.interface);
  wire.set_workers(join.workers);
  wire.set_store_port(join.store_port);
  wire.set_agent_store(join.agent_store);
  for (const auto& [name, value] : join.must_agree) {
    v1::Option* option = wire.add_must_agree();
    option->set_name(name);
    option->set_value(value);
  }
  wire.mutable_ranks()->Assign(join.ranks.begin(), join.ranks.end());
  for (const std::string& doubt : join.doubts) {
    wire.add_doubts(doubt);
  }
  for (const ProgramFile& file : join.program_files) {
    v1::Option* out = wire.add_program_files();
    out->set_name(Cut(file.name, kNameBytesMax));
    out->set_value(file.mark);
  }
  SetRound(join.holds, wire.mutable_holds());
  for (const std::string& address : join.addresses) {
    wire.add_addresses(address);
  }
  wire.mutable_worker_ports()->Assign(join.worker_ports.begin(), join.worker_ports.end());
  wire.set_hold(join.hold.id);
  wire.set_hold_taken(join.hold.taken);
  return wire;
}

absl::StatusOr<Join> FromWire(const v1::Join& wire) {
  FieldChecker check("join");
  Join join;
  join.key = check.Text("key", wire.key(), kNameBytesMax);
  join.key_is_exact = wire.key_is_exact();
  join.life = wire.life();
  join.node_rank = wire.node_rank();
  if (join.node_rank < -1 || join.node_rank >= static_cast<int32_t>(kNodesMax)) {
    check.Fail("node_rank", absl::StrCat("want -1..", kNodesMax - 1, ", got ", join.node_rank));
  }
  join.hostname = check.Text("hostname", wire.hostname(), kNameBytesMax);
  join.address = check.Text("address", wire.address(), kNameBytesMax);
  join.interface = check.Text("interface", wire.interface(), kNameBytesMax);
  join.workers = check.Number("workers", wire.workers(), 0, kWorkersPerNodeMax);
  join.store_port = check.Port("store_port", wire.store_port());
  join.agent_store = wire.agent_store();
  check.Bound("must_agree", static_cast<size_t>(wire.must_agree_size()), 0, kOptionsMax);
  RETURN_IF_ERROR(check.status());
  for (const v1::Option& option : wire.must_agree()) {
    join.must_agree.emplace_back(check.Text("must_agree", option.name(), kNameBytesMax),
                                 check.Text("must_agree", option.value(), kTextBytesMax));
  }
  join.holds = RoundOf(wire.holds());
  join.hold = {check.Text("hold", wire.hold(), kNameBytesMax), wire.hold_taken()};
  join.ranks = RanksOf("ranks", wire.ranks(), join.workers, kWorldSizeMax, check);
  join.worker_ports = WorkerPortsOf("worker_ports", wire.worker_ports(), join.workers, check);
  check.Bound("doubts", static_cast<size_t>(wire.doubts_size()), 0, kDoubtsMax);
  RETURN_IF_ERROR(check.status());
  for (const std::string& doubt : wire.doubts()) {
    join.doubts.push_back(check.Text("doubts", doubt, kTextBytesMax));
  }
  check.Bound("program_files", static_cast<size_t>(wire.program_files_size()), 0, kProgramFilesMax);
  RETURN_IF_ERROR(check.status());
  for (const v1::Option& file : wire.program_files()) {
    join.program_files.push_back({check.Text("program_files", file.name(), kNameBytesMax),
                                  check.Text("program_files", file.value(), kNameBytesMax)});
  }
  check.Bound("addresses", static_cast<size_t>(wire.addresses_size()), 0, kNodeAddressesMax);
  RETURN_IF_ERROR(check.status());
  for (const std::string& address : wire.addresses()) {
    join.addresses.push_back(check.Text("addresses", address, kNameBytesMax));
  }
  RETURN_IF_ERROR(check.status());
  return join;
}

v1::AgentFrame ToWire(const AgentMessage& message) {
  v1::AgentFrame frame;
  if (const auto* join = std::get_if<Join>(&message)) {
    *frame.mutable_join() = ToWire(*join);
  } else if (const auto* beat = std::get_if<Beat>(&message)) {
    SetBeat(*beat, frame.mutable_beat());
  } else {
    const auto& leave = std::get<Leave>(message);
    frame.mutable_leave()->set_node(leave.node.value);
    frame.mutable_leave()->set_incarnation(leave.incarnation.value);
    frame.mutable_leave()->set_reason(Cut(leave.reason, kTextBytesMax));
  }
  return frame;
}

absl::StatusOr<AgentMessage> FromWire(const v1::AgentFrame& frame) {
  switch (frame.kind_case()) {
    case v1::AgentFrame::kJoin: {
      ASSIGN_OR_RETURN(Join join, FromWire(frame.join()));
      FieldChecker check("join");
      check.Bound("key", join.key.size(), 0, kJoinKeyBytesMax);
      // A skeleton from a starter may lack them, a node that joins may not.
      check.Bound("workers", join.workers, 1, kWorkersPerNodeMax);
      RETURN_IF_ERROR(check.status());
      return join;
    }
    case v1::AgentFrame::kBeat:
      return BeatOf(frame.beat());
    case v1::AgentFrame::kLeave: {
      FieldChecker check("leave");
      Leave leave{{frame.leave().node()},
                  {frame.leave().incarnation()},
                  check.Text("reason", frame.leave().reason(), kTextBytesMax)};
      RETURN_IF_ERROR(check.status());
      return leave;
    }
    default:
      return absl::InvalidArgumentError("a frame of an agent that is no message");
  }
}

v1::MasterFrame ToWire(const MasterMessage& message) {
  v1::MasterFrame frame;
  if (const auto* admitted = std::get_if<Admitted>(&message)) {
    v1::Admitted* wire = frame.mutable_admitted();
    wire->set_life(admitted->life);
    wire->set_node(admitted->node.value);
    wire->set_incarnation(admitted->incarnation.value);
    wire->set_beat_interval(absl::ToInt64Nanoseconds(admitted->beat_interval));
    wire->set_lease(absl::ToInt64Nanoseconds(admitted->lease));
    wire->set_epoch(admitted->epoch);
    wire->set_journal(admitted->journal);
  } else if (const auto* refused = std::get_if<Refused>(&message)) {
    frame.mutable_refused()->set_life(refused->life);
    frame.mutable_refused()->set_reason(Cut(refused->reason, kTextBytesMax));
  } else {
    SetDirective(std::get<Directive>(message), frame.mutable_directive());
  }
  return frame;
}

absl::StatusOr<MasterMessage> FromWire(const v1::MasterFrame& frame) {
  switch (frame.kind_case()) {
    case v1::MasterFrame::kAdmitted:
      return AdmittedOf(frame.admitted());
    case v1::MasterFrame::kRefused: {
      FieldChecker check("refused");
      Refused refused{frame.refused().life(),
                      check.Text("reason", frame.refused().reason(), kTextBytesMax)};
      RETURN_IF_ERROR(check.status());
      return refused;
    }
    case v1::MasterFrame::kDirective:
      return DirectiveOf(frame.directive());
    default:
      return absl::InvalidArgumentError("a frame of the master that is no message");
  }
}

v1::OutputChunk ToWire(OutputChunk&& chunk) {
  v1::OutputChunk wire;
  wire.set_rank(chunk.rank);
  wire.set_local_rank(chunk.local_rank);
  wire.set_node_rank(chunk.node_rank);
  wire.set_stream(chunk.stream);
  wire.set_ends_line(chunk.ends_line);
  wire.set_split(chunk.split);
  wire.set_bytes(std::move(chunk.bytes));
  return wire;
}

absl::StatusOr<OutputChunk> FromWire(v1::OutputChunk&& wire) {
  FieldChecker check("chunk");
  OutputChunk chunk;
  chunk.rank = check.Number("rank", wire.rank(), 0, kWorldSizeMax - 1);
  chunk.local_rank = check.Number("local_rank", wire.local_rank(), 0, kWorkersPerNodeMax - 1);
  chunk.node_rank = check.Number("node_rank", wire.node_rank(), 0, kNodesMax - 1);
  chunk.stream = static_cast<uint8_t>(check.Number("stream", wire.stream(), 1, 2));
  chunk.ends_line = wire.ends_line();
  chunk.split = wire.split();
  check.Bound("bytes", wire.bytes().size(), 0, kChunkBytesMax);
  RETURN_IF_ERROR(check.status());
  chunk.bytes = std::move(*wire.mutable_bytes());
  return chunk;
}

}  // namespace muster
