#include "rendezvous/service/journal_codec.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "proto/base/build_info.h"
#include "proto/base/limits.h"
#include "proto/base/status_macros.h"
#include "proto/wire/convert.h"
#include "proto/wire/field_checker.h"
#include "proto/wire/journal.pb.h"

namespace muster {
namespace {

constexpr uint32_t kFormat = 1;

int64_t ToNanos(absl::Time time) { return absl::ToUnixNanos(time); }
absl::Time ToTime(int64_t nanos) { return absl::FromUnixNanos(nanos); }

template <typename Enum>
uint32_t Choice(Enum value) {
  return static_cast<uint32_t>(ChoiceToWire(value));
}

void SetRoundId(RoundId round, v1::RoundId* wire) {
  wire->set_epoch(round.epoch);
  wire->set_n(round.n);
}

void SetNode(const DurableNode& node, v1::KeptNode* wire) {
  wire->set_node(node.node.value);
  wire->set_incarnation(node.incarnation.value);
  *wire->mutable_join() = ToWire(node.join);
  wire->set_store_port(node.store_port);
  if (node.rank_kept.has_value()) {
    wire->set_rank_kept(node.rank_kept->value);
  }
  SetRoundId(node.since, wire->mutable_since());
  wire->set_signals_before(node.signals_before);
  wire->set_exits_before(node.exits_before);
}

absl::StatusOr<DurableNode> NodeOf(const v1::KeptNode& wire) {
  FieldChecker check("node");
  DurableNode node;
  node.node.value = wire.node();
  node.incarnation.value = wire.incarnation();
  node.store_port = check.Port("store_port", wire.store_port());
  node.since = {wire.since().epoch(), wire.since().n()};
  node.signals_before = wire.signals_before();
  node.exits_before = wire.exits_before();
  if (wire.has_rank_kept()) {
    node.rank_kept = NodeRank{check.Number("rank_kept", wire.rank_kept(), 0, kNodesMax - 1)};
  }
  RETURN_IF_ERROR(check.status());
  ASSIGN_OR_RETURN(node.join, FromWire(wire.join()));
  return node;
}

void SetRound(const DurableRound& round, v1::KeptRound* wire) {
  SetRoundId(round.round, wire->mutable_round());
  for (const DurableNode& member : round.members) {
    SetNode(member, wire->add_members());
  }
  for (const DurableNode& other : round.others) {
    SetNode(other, wire->add_others());
  }
  wire->set_node_ids(round.node_ids);
  wire->set_incarnations(round.incarnations);
  for (const auto& [name, value] : round.agreed.options) {
    v1::Option* option = wire->add_agreed();
    option->set_name(name);
    option->set_value(value);
  }
  wire->set_agreed_by(round.agreed.by);
  SetRoundId(round.chain, wire->mutable_chain());
  wire->mutable_started_in()->Assign(round.started_in.begin(), round.started_in.end());
}

absl::StatusOr<DurableRound> RoundOf(const v1::KeptRound& wire) {
  DurableRound round;
  round.round = {wire.round().epoch(), wire.round().n()};
  for (const v1::KeptNode& member : wire.members()) {
    ASSIGN_OR_RETURN(DurableNode node, NodeOf(member));
    round.members.push_back(std::move(node));
  }
  for (const v1::KeptNode& other : wire.others()) {
    ASSIGN_OR_RETURN(DurableNode node, NodeOf(other));
    round.others.push_back(std::move(node));
  }
  round.node_ids = wire.node_ids();
  round.incarnations = wire.incarnations();
  for (const v1::Option& option : wire.agreed()) {
    round.agreed.options.emplace_back(option.name(), option.value());
  }
  round.agreed.by = wire.agreed_by();
  round.chain = {wire.chain().epoch(), wire.chain().n()};
  round.started_in.assign(wire.started_in().begin(), wire.started_in().end());
  return round;
}

template <typename Key>
void SetCounts(const std::map<Key, uint32_t>& counts,
               google::protobuf::RepeatedPtrField<v1::KeptCount>* wire) {
  for (const auto& [key, count] : counts) {
    v1::KeptCount* one = wire->Add();
    one->set_of(key.value);
    one->set_count(count);
  }
}

template <typename Key>
std::map<Key, uint32_t> CountsOf(const google::protobuf::RepeatedPtrField<v1::KeptCount>& wire) {
  std::map<Key, uint32_t> counts;
  for (const v1::KeptCount& one : wire) {
    counts[Key{one.of()}] = one.count();
  }
  return counts;
}

void SetReplacement(const DurableReplacement& next, v1::KeptReplacement* wire) {
  wire->mutable_ranks()->Assign(next.ranks.begin(), next.ranks.end());
  for (const auto& [place, headline] : next.vacant) {
    v1::KeptVacancy* one = wire->add_vacant();
    one->set_place(place);
    one->set_headline(headline);
  }
  wire->set_restarts(next.restarts);
  for (const std::string& line : next.lines) {
    wire->add_lines(line);
  }
  if (next.used_before.has_value()) {
    wire->set_used_before(next.used_before->job);
    SetCounts(next.used_before->by_rank, wire->mutable_used_before_by_rank());
    SetCounts(next.used_before->by_node, wire->mutable_used_before_by_node());
  }
}

DurableReplacement ReplacementOf(const v1::KeptReplacement& wire) {
  DurableReplacement next;
  next.ranks.assign(wire.ranks().begin(), wire.ranks().end());
  for (const v1::KeptVacancy& one : wire.vacant()) {
    next.vacant.emplace_back(one.place(), one.headline());
  }
  next.restarts = wire.restarts();
  next.lines.assign(wire.lines().begin(), wire.lines().end());
  if (wire.has_used_before()) {
    next.used_before = {wire.used_before(), CountsOf<Rank>(wire.used_before_by_rank()),
                        CountsOf<NodeId>(wire.used_before_by_node())};
  }
  return next;
}

void SetRestarts(const DurableProgress& progress, v1::KeptProgress* wire) {
  wire->set_restarts(progress.restarts);
  wire->set_used(progress.used.job);
  SetCounts(progress.used.by_rank, wire->mutable_used_by_rank());
  SetCounts(progress.used.by_node, wire->mutable_used_by_node());
  SetCounts(progress.failures, wire->mutable_failures());
  for (const auto& [node, aside] : progress.set_aside) {
    v1::KeptAside* one = wire->add_set_aside();
    one->set_node(node.value);
    one->set_until(ToNanos(aside.until));
    one->set_why(aside.why);
  }
  wire->set_short_rounds(progress.short_rounds);
  if (progress.not_before != absl::InfinitePast()) {
    wire->set_not_before(ToNanos(progress.not_before));
  }
  wire->set_restart_text(progress.restart_text);
  wire->set_lived(absl::ToInt64Nanoseconds(progress.lived));
}

void TakeRestarts(const v1::KeptProgress& wire, FieldChecker& check, DurableProgress& progress) {
  progress.restarts = check.Number("restarts", wire.restarts(), 0, kRestartsMax);
  progress.used.job = check.Number("used", wire.used(), 0, kRestartsMax);
  progress.used.by_rank = CountsOf<Rank>(wire.used_by_rank());
  progress.used.by_node = CountsOf<NodeId>(wire.used_by_node());
  progress.failures = CountsOf<NodeId>(wire.failures());
  for (const v1::KeptAside& one : wire.set_aside()) {
    progress.set_aside[NodeId{one.node()}] = {ToTime(one.until()), one.why()};
  }
  progress.short_rounds = wire.short_rounds();
  if (wire.has_not_before()) {
    progress.not_before = ToTime(wire.not_before());
  }
  progress.restart_text = wire.restart_text();
  progress.lived = check.Time("lived", wire.lived());
}

void SetProgress(const DurableProgress& progress, v1::KeptProgress* wire) {
  wire->set_phase(Choice(progress.phase));
  wire->set_stop_reason(Choice(progress.stop_reason));
  wire->set_stop_signal(progress.stop_signal);
  wire->set_stop_grace(absl::ToInt64Nanoseconds(progress.stop_grace));
  wire->set_stop_is_final(progress.stop_is_final);
  wire->set_user_signo(progress.user_signo);
  wire->set_lost_id(progress.lost_id.value);
  wire->set_lost_node(progress.lost_node);
  wire->set_lost_headline(progress.lost_headline);
  for (const SignalOrder& order : progress.signals) {
    v1::SignalOrder* one = wire->add_signals();
    one->set_seq(order.seq);
    one->set_signo(order.signo);
  }
  SetReplacement(progress.next, wire->mutable_next());
  wire->mutable_paid_for()->Assign(progress.paid_for.begin(), progress.paid_for.end());
  SetRestarts(progress, wire);
  wire->set_begun(ToNanos(progress.begun));
  if (progress.round_began != absl::InfinitePast()) {
    wire->set_round_began(ToNanos(progress.round_began));
  }
  if (progress.stop_began != absl::InfinitePast()) {
    wire->set_stop_began(ToNanos(progress.stop_began));
  }
  if (progress.paused_since.has_value()) {
    wire->set_paused_since(ToNanos(*progress.paused_since));
  }
  wire->set_regroupings(progress.regroupings);
  wire->set_ended(progress.ended);
  wire->set_exit_code(progress.exit_code);
  wire->set_cause(Choice(progress.cause));
  wire->set_headline(progress.headline);
  wire->set_blamed_node(progress.blamed_node);
  if (progress.first.has_value()) {
    wire->set_first(progress.first->value);
  }
  for (const std::string& line : progress.history) {
    wire->add_history(line);
  }
}

absl::StatusOr<DurableProgress> ProgressOf(const v1::KeptProgress& wire) {
  FieldChecker check("progress");
  DurableProgress progress;
  progress.phase = check.Choice("phase", wire.phase(), JobPhase::kEnded);
  progress.stop_reason = check.Choice("stop_reason", wire.stop_reason(), StopReason::kUserRestart);
  progress.stop_signal = check.Signal("stop_signal", wire.stop_signal());
  progress.stop_grace = check.Time("stop_grace", wire.stop_grace());
  progress.stop_is_final = wire.stop_is_final();
  progress.user_signo = check.Signal("user_signo", wire.user_signo());
  progress.lost_id.value = wire.lost_id();
  progress.lost_node = wire.lost_node();
  progress.lost_headline = wire.lost_headline();
  for (const v1::SignalOrder& order : wire.signals()) {
    progress.signals.push_back({order.seq(), check.Signal("signals.signo", order.signo())});
  }
  progress.next = ReplacementOf(wire.next());
  progress.paid_for.assign(wire.paid_for().begin(), wire.paid_for().end());
  TakeRestarts(wire, check, progress);
  progress.begun = ToTime(wire.begun());
  if (wire.has_round_began()) {
    progress.round_began = ToTime(wire.round_began());
  }
  if (wire.has_stop_began()) {
    progress.stop_began = ToTime(wire.stop_began());
  }
  if (wire.has_paused_since()) {
    progress.paused_since = ToTime(wire.paused_since());
  }
  progress.regroupings = wire.regroupings();
  progress.ended = wire.ended();
  progress.exit_code = wire.exit_code();
  progress.cause = check.Choice("cause", wire.cause(), CauseKind::kNeverFormed);
  progress.headline = wire.headline();
  progress.blamed_node = wire.blamed_node();
  if (wire.has_first()) {
    progress.first = Rank{check.Number("first", wire.first(), 0, kWorldSizeMax - 1)};
  }
  progress.history.assign(wire.history().begin(), wire.history().end());
  RETURN_IF_ERROR(check.status());
  return progress;
}

absl::StatusOr<JournalRecord> RecordOf(v1::JournalRecord&& wire) {
  JournalRecord record;
  record.at = ToTime(wire.at());
  if (wire.has_wall_at()) {
    record.wall_at = ToTime(wire.wall_at());
  }
  if (wire.has_round()) {
    ASSIGN_OR_RETURN(record.round, RoundOf(wire.round()));
  }
  for (v1::Beat& exits : *wire.mutable_exits()) {
    v1::AgentFrame frame;
    *frame.mutable_beat() = std::move(exits);
    ASSIGN_OR_RETURN(AgentMessage beat, FromWire(frame));
    record.exits.push_back(std::get<Beat>(std::move(beat)));
  }
  for (const v1::KeptLoss& loss : wire.losses()) {
    record.losses.push_back({{loss.node()}, loss.left(), loss.why()});
  }
  for (const v1::KeptLostNode& lost : wire.lost_nodes()) {
    record.lost_nodes.push_back({lost.hostname(),
                                 lost.headline(),
                                 {lost.ranks().begin(), lost.ranks().end()},
                                 ToTime(lost.last_sign()),
                                 {lost.node()}});
  }
  if (wire.has_progress()) {
    ASSIGN_OR_RETURN(record.progress, ProgressOf(wire.progress()));
  }
  return record;
}

absl::StatusOr<JournalHeader> HeaderOf(const v1::JournalHeader& wire) {
  if (wire.format() != kFormat || wire.build() != std::string(BuildName())) {
    return absl::FailedPreconditionError(absl::StrCat(
        "muster ", wire.build(), " wrote it (format ", wire.format(), "), this is ", BuildName(),
        " (format ", kFormat, "): start that one, or remove it to give its job up"));
  }
  ASSIGN_OR_RETURN(JobTerms terms, FromWire(wire.terms()));
  return JournalHeader{wire.key(), wire.job_id(), wire.clock(), std::move(terms)};
}

template <typename Message>
absl::StatusOr<Message> Parsed(absl::string_view payload, size_t offset) {
  Message message;
  if (!message.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    return absl::DataLossError(absl::StrCat("no record at byte ", offset));
  }
  return message;
}

absl::Status At(size_t offset, const absl::Status& status) {
  return absl::DataLossError(absl::StrCat("at byte ", offset, ": ", status.message()));
}

}  // namespace

absl::StatusOr<std::string> EncodeHeader(const JournalHeader& header) {
  v1::JournalHeader wire;
  wire.set_format(kFormat);
  wire.set_build(std::string(BuildName()));
  wire.set_clock(header.clock);
  wire.set_key(header.key);
  wire.set_job_id(header.job_id);
  *wire.mutable_terms() = ToWire(header.terms);
  return FrameJournal(wire.SerializeAsString());
}

absl::StatusOr<std::string> EncodeRecord(const JournalRecord& record) {
  v1::JournalRecord wire;
  wire.set_at(ToNanos(record.at));
  if (record.wall_at != absl::InfinitePast()) {
    wire.set_wall_at(ToNanos(record.wall_at));
  }
  if (record.round.has_value()) {
    SetRound(*record.round, wire.mutable_round());
  }
  for (const Beat& exits : record.exits) {
    *wire.add_exits() = std::move(*ToWire(AgentMessage(exits)).mutable_beat());
  }
  for (const DurableLoss& loss : record.losses) {
    v1::KeptLoss* one = wire.add_losses();
    one->set_node(loss.node.value);
    one->set_left(loss.left);
    one->set_why(loss.why);
  }
  for (const LostNode& lost : record.lost_nodes) {
    v1::KeptLostNode* one = wire.add_lost_nodes();
    one->set_hostname(lost.hostname);
    one->set_headline(lost.headline);
    one->mutable_ranks()->Assign(lost.ranks.begin(), lost.ranks.end());
    one->set_last_sign(ToNanos(lost.last_sign));
    one->set_node(lost.node.value);
  }
  if (record.progress.has_value()) {
    SetProgress(*record.progress, wire.mutable_progress());
  }
  return FrameJournal(wire.SerializeAsString());
}

absl::StatusOr<JournalFile> DecodeJournal(absl::string_view bytes) {
  JournalFile out;
  bool has_header = false;
  while (out.good_bytes < bytes.size()) {
    const size_t offset = out.good_bytes;
    ASSIGN_OR_RETURN(const JournalFrame frame, FrameAt(bytes, offset));
    if (!frame.whole) {
      break;
    }
    for (const absl::string_view payload : frame.payloads) {
      if (!has_header) {
        ASSIGN_OR_RETURN(const auto wire, Parsed<v1::JournalHeader>(payload, offset));
        ASSIGN_OR_RETURN(out.header, HeaderOf(wire));
        has_header = true;
        continue;
      }
      ASSIGN_OR_RETURN(auto wire, Parsed<v1::JournalRecord>(payload, offset));
      absl::StatusOr<JournalRecord> record = RecordOf(std::move(wire));
      if (!record.ok()) {
        return At(offset, record.status());
      }
      out.records.push_back(*std::move(record));
    }
    out.good_bytes += frame.bytes;
  }
  if (out.records.empty()) {  // a file gets its name when these are on the disk
    return absl::DataLossError(absl::StrCat("damaged at byte ", out.good_bytes));
  }
  return out;
}

}  // namespace muster
