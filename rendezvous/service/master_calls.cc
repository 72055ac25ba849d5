// The control streams: handshake, messages up, messages down.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/build_info.h"
#include "proto/base/check.h"
#include "proto/base/clock.h"
#include "proto/base/limits.h"
#include "proto/base/log.h"
#include "proto/base/text.h"
#include "proto/wire/convert.h"
#include "proto/wire/convert_fence.h"
#include "proto/wire/convert_modex.h"
#include "proto/wire/grpc_runtime.h"
#include "rendezvous/core/agreement.h"
#include "rendezvous/core/liveness.h"
#include "rendezvous/core/modex_relay.h"
#include "rendezvous/service/handshake.h"
#include "rendezvous/service/master_impl.h"

namespace muster {
namespace {

// To an agent, which asks once for each fence that it is in, and hears of their ends; one that asks
// for more means harm, and loses what it asks for.
constexpr size_t kFencesWaitingMax = 4 * kFencesKept;

// It asks again for what it has not been sent yet: one answer is enough.
bool IsWaiting(const std::deque<FencePiece>& fences, const FencePiece& piece) {
  return std::any_of(fences.begin(), fences.end(), [&piece](const FencePiece& one) {
    return one.round == piece.round && one.number == piece.number && one.offset == piece.offset;
  });
}

}  // namespace

void MasterServer::Impl::OnEvent(const CallEvent& event) {
  if (event.kind == CallEventKind::kOpened) {
    const uint64_t id = ++next_id_;
    ids_[event.call] = id;
    unproved_[id] = BootNow() + kHelloTime;
    if (!sweep_.active()) {
      sweep_.StartAfter(kHelloTime);
    }
    if (auto* attend = dynamic_cast<AttendCall*>(event.call)) {
      AttendSession& session = attends_[id];
      session.id = id;
      session.peer = edge_.PeerOf(attend->peer());
      session.handshake.channel = session.peer.channel;
      session.call.reset(attend);
    } else {
      StreamSession& session = streams_[id];
      session.id = id;
      session.call.reset(dynamic_cast<StreamCall*>(event.call));
    }
  }
  const uint64_t id = ids_.at(event.call);
  const auto attend = attends_.find(id);
  if (attend != attends_.end()) {
    OnAttend(attend->second, event.kind);
  } else {
    OnStream(streams_.at(id), event.kind);
  }
  if (event.kind == CallEventKind::kDone) {
    unproved_.erase(id);
    ids_.erase(event.call);
    if (const auto ended = attends_.find(id); ended != attends_.end()) {
      Uncount(ended->second);
      attends_.erase(ended);
    }
    streams_.erase(id);
  }
}

void MasterServer::Impl::OnAttend(AttendSession& session, CallEventKind kind) {
  switch (kind) {
    case CallEventKind::kOpened: {
      if (const grpc::Status status = Unserved(); !status.ok()) {
        session.call->Finish(status);
        return;
      }
      absl::StatusOr<std::string> nonce = MakeNonce();
      CHECK(nonce.ok());  // getrandom fails on no kernel we run on
      session.handshake.master_nonce = *std::move(nonce);
      v1::MasterFrame frame;
      frame.mutable_challenge()->set_protocol(kProtocolVersion);
      frame.mutable_challenge()->set_build(std::string(BuildName()));
      frame.mutable_challenge()->set_nonce(session.handshake.master_nonce);
      session.call->Write(std::move(frame));
      session.call->Read();
      return;
    }
    case CallEventKind::kRead: {
      if (session.gone || session.call->finishing()) {
        return;
      }
      const uint64_t id = session.id;
      const auto goes_on = [this, id] {  // the frame may have ended this session
        const auto it = attends_.find(id);
        return it != attends_.end() && !it->second.gone && !it->second.call->finishing();
      };
      reading_ = id;
      for (const v1::AgentFrame* frame = &session.call->incoming(); frame != nullptr && goes_on();
           frame = frame->has_next() ? &frame->next() : nullptr) {
        if (session.proved) {
          OnFrame(session, *frame);
        } else {
          OnHello(session, frame->hello());
        }
      }
      reading_ = 0;
      if (goes_on()) {
        Pump(session);
        if (!session.call->finishing()) {
          session.call->Read();
        }
      }
      return;
    }
    case CallEventKind::kWritten:
      session.call->WriteNext();
      Pump(session);
      return;
    case CallEventKind::kBroken:
      session.call->SetBroken();
      Close(session);
      return;
    case CallEventKind::kReadEnded:
    case CallEventKind::kDone:
      Close(session);
      return;
  }
}

grpc::Status MasterServer::Impl::Unserved() const {
  return closing_           ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "the master ends")
         : standby_.empty() ? grpc::Status::OK
                            : grpc::Status(grpc::StatusCode::UNAVAILABLE, standby_);
}

void MasterServer::Impl::OnHello(AttendSession& session, const v1::Hello& hello) {
  const bool issued = issued_.erase(hello.master_nonce()) > 0;
  if (issued) {
    session.handshake.master_nonce = hello.master_nonce();
  }
  std::string refusal = issued || hello.master_nonce().empty()
                            ? RefusalOf(hello, users_, host_, &session.handshake, &session.user)
                            : "a hello that answers no challenge of this master";
  if (refusal.empty() && hello.has_terms()) {
    absl::StatusOr<JobTerms> terms = FromWire(hello.terms());
    refusal = terms.ok() ? "" : std::string(terms.status().message());
    session.terms = terms.ok() ? *std::move(terms) : JobTerms{};
  }
  v1::MasterFrame frame;
  if (!refusal.empty()) {
    LogWarning(absl::StrCat("refused an agent from ", session.peer.address, ": ", refusal));
    frame.mutable_refusal()->set_reason(refusal);
    session.call->Write(std::move(frame));
    session.call->Finish(grpc::Status(grpc::StatusCode::PERMISSION_DENIED, refusal));
    return;
  }
  session.proved = true;
  CountAgent(session);
  if (session.peer.tls_id != 0) {
    tls_->Keep(session.peer.tls_id);
  }
  session.job = session.user.KeyOf(session.handshake.job_id);
  unproved_.erase(session.id);
  if (const std::string why = WhyNoAgent(session.user.name, /*asks=*/true); !why.empty()) {
    session.call->Finish(grpc::Status(kAskAgain, why));
    return;
  }
  v1::Welcome& welcome = session.welcome.emplace();
  welcome.set_proof(MasterProof(session.user.secret, session.handshake));
  welcome.set_is_daemon(options_.many_jobs);
}

void MasterServer::Impl::OnFrame(AttendSession& session, const v1::AgentFrame& frame) {
  if (frame.has_fence()) {
    const absl::StatusOr<FencePiece> piece = FenceOf(frame.fence());
    return piece.ok() ? OnFence(session, *piece)
                      : Refuse(session, std::string(piece.status().message()));
  }
  if (frame.has_modex()) {
    const absl::StatusOr<ModexNote> note = ModexOf(frame.modex());
    return note.ok() ? OnModex(session, *note)
                     : Refuse(session, std::string(note.status().message()));
  }
  absl::StatusOr<AgentMessage> message = FromWire(frame);
  if (!message.ok()) {
    Refuse(session, std::string(message.status().message()));
    return;
  }
  if (auto* join = std::get_if<Join>(&*message)) {
    OnJoin(session, std::move(*join));
  } else if (auto* beat = std::get_if<Beat>(&*message)) {
    OnBeat(session, std::move(*beat));
  } else {
    OnLeave(session, std::get<Leave>(std::move(*message)));
  }
}

void MasterServer::Impl::OnJoin(AttendSession& session, Join join) {
  if (join.address.empty()) {
    join.address = session.peer.address;
  }
  if (join.address.empty()) {
    Refuse(session, absl::StrCat(join.hostname,
                                 " names no address by which other nodes reach it: give --iface"));
    return;
  }
  Job* job = FindJob(session.job);
  if (job != nullptr && !WhyNotYet(*job, session, join).empty()) {
    job->Feed(JoinPutOff{join});
    if (const std::string why = WhyNotYet(*job, session, join); !why.empty()) {
      return AskAgain(session, why);
    }
  }
  // It asks again, until it can be the first of the next one; but the job hears that it has come.
  if (job != nullptr && options_.many_jobs && job->IsEnding() && join.holds.IsNone()) {
    return job->Feed(JoinReceived{ReplyId{session.id}, std::move(join)});
  }
  // One that is back with what it runs is no newcomer.
  std::string refusal = job != nullptr && job->KnowsLife(join.life)
                            ? ""
                            : WhyNoAgent(session.user.name, /*asks=*/false);
  job = refusal.empty() ? JobFor(session, join, &refusal) : nullptr;
  if (job == nullptr) {
    session.reply = Refused{join.life, refusal};
    Pump(session);
    return;
  }
  job->Feed(JoinReceived{ReplyId{session.id}, std::move(join)});
}

void MasterServer::Impl::AskAgain(AttendSession& session, const std::string& why) {
  if (session.welcome.has_value()) {  // that it has reached its master: else it would not say why
    v1::MasterFrame frame;
    *frame.mutable_welcome() = *std::exchange(session.welcome, std::nullopt);
    session.call->Write(std::move(frame));
  }
  session.call->Finish(grpc::Status(kAskAgain, why));
}

std::string MasterServer::Impl::WhyNotYet(const Job& job, const AttendSession& session,
                                          const Join& join) const {
  if (!options_.many_jobs || job.KnowsLife(join.life)) {
    return "";
  }
  const Agreement& agreed = job.state().agreed;
  const bool same =
      job.terms == session.terms && !FirstDifference(agreed.options, join.must_agree).has_value();
  if (job.IsUnconnected() && !same) {
    absl::Time back_by = absl::InfinitePast();
    for (const auto& [id, node] : job.state().nodes) {
      back_by = node.IsLive() ? std::max(back_by, node.expires) : back_by;
    }
    const absl::Duration left = std::max(back_by - BootNow(), absl::ZeroDuration());
    return absl::StrCat("the job '", session.handshake.job_id, "' waits for ", agreed.by,
                        ", which has other options and whose connection broke: this one begins if ",
                        "that is not back within ",
                        ShortDuration(absl::Ceil(left, absl::Seconds(1))),
                        "; give another job another --rdzv-id");
  }
  return "";
}

void MasterServer::Impl::OnBeat(AttendSession& session, Beat beat) {
  Job* job = FindJob(session.job);
  if (job == nullptr) {
    return;
  }
  const bool bound = session.node == beat.node && session.incarnation == beat.incarnation;
  if (!bound && !job->Holds(beat.node, beat.incarnation)) {
    return;  // of an older life (M2)
  }
  if (!bound) {
    Bind(*job, session, beat.node, beat.incarnation);
  }
  job->Feed(BeatReceived{std::move(beat)});
}

// Of the present round, from one of its nodes; what else comes is of one that is over. While it is
// stopped, too: a worker that is told to end may leave its MPI in good order.
void MasterServer::Impl::OnFence(const AttendSession& session, const FencePiece& piece) {
  Job* job = FindJob(session.job);
  if (job == nullptr || session.node != piece.node || session.incarnation != piece.incarnation) {
    return;
  }
  const RoundState& state = job->state();
  const auto node = state.nodes.find(piece.node);
  if (state.round != piece.round || node == state.nodes.end() || !InRound(state, node->second)) {
    return;
  }
  const FenceBoard::Room room = {FenceRoom(session.user.name),
                                 [&] { return WhyNoFence(session.user.name); }};
  AnswerFences(*job, job->fences.Take(piece, static_cast<uint32_t>(node->second.place),
                                      static_cast<uint32_t>(state.members.size()), room));
}

void MasterServer::Impl::AnswerFences(const Job& job, std::vector<FenceBoard::Answer> answers) {
  for (FenceBoard::Answer& answer : answers) {
    const NodeId to = job.state().members[answer.place].node;
    if (AttendSession* link = LinkOf(job, to); link != nullptr &&
                                               link->fences.size() < kFencesWaitingMax &&
                                               !IsWaiting(link->fences, answer.piece)) {
      answer.piece.node = to;
      answer.piece.incarnation = link->incarnation;
      link->fences.push_back(std::move(answer.piece));
      Pump(*link);
    }
  }
}

void MasterServer::Impl::OnModex(const AttendSession& session, const ModexNote& note) {
  Job* job = FindJob(session.job);
  if (job == nullptr || session.node != note.node || session.incarnation != note.incarnation) {
    return;
  }
  std::optional<ModexNote> out = RelayModex(job->state(), note);
  AttendSession* link = out.has_value() ? LinkOf(*job, out->node) : nullptr;
  if (link != nullptr && link->incarnation == out->incarnation) {
    PushModex(*link, *std::move(out));
    Pump(*link);
  }
}

void MasterServer::Impl::OnLeave(AttendSession& session, Leave leave) {
  Job* job = FindJob(session.job);
  if (job != nullptr && session.node == leave.node && session.incarnation == leave.incarnation) {
    job->Feed(LeaveReceived{std::move(leave)});
  }
}

void MasterServer::Impl::Refuse(AttendSession& session, const std::string& reason) {
  LogWarning(
      absl::StrCat("closed the connection of an agent (", session.peer.address, "): ", reason));
  v1::MasterFrame frame;
  frame.mutable_refusal()->set_reason(reason);
  session.call->Write(std::move(frame));
  session.call->Finish(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, reason));
}

void MasterServer::Impl::Pump(AttendSession& session) {
  if (session.id == reading_ || session.call->writing() || session.call->finishing() ||
      !standby_.empty() || !leads_()) {
    return;
  }
  v1::MasterFrame frame;
  v1::MasterFrame* next = &frame;
  const auto add = [&next](v1::MasterFrame&& one) {
    next = next->kind_case() == v1::MasterFrame::KIND_NOT_SET ? next : next->mutable_next();
    *next = std::move(one);
  };
  bool refused = false;
  if (session.welcome.has_value()) {
    v1::MasterFrame welcome;
    *welcome.mutable_welcome() = *std::exchange(session.welcome, std::nullopt);
    add(std::move(welcome));
  }
  if (session.reply.has_value()) {
    refused = std::holds_alternative<Refused>(*session.reply);
    add(ToWire(*std::exchange(session.reply, std::nullopt)));
  }
  if (session.directive.has_value() && !refused) {
    add(ToWire(MasterMessage(*std::exchange(session.directive, std::nullopt))));
  }
  if (!session.fences.empty() && !refused) {
    v1::MasterFrame fence;
    SetFence(session.fences.front(), fence.mutable_fence());
    session.fences.pop_front();
    add(std::move(fence));
  }
  if (!session.modexes.empty() && !refused) {
    v1::MasterFrame modex;
    SetModex(PopModex(session), modex.mutable_modex());
    add(std::move(modex));
  }
  if (next->kind_case() != v1::MasterFrame::KIND_NOT_SET) {
    session.call->Write(std::move(frame));
  }
  if (refused) {
    session.call->Finish(grpc::Status::OK);
  }
}

void MasterServer::Impl::Close(AttendSession& session) {
  session.call->Finish(grpc::Status::OK);
  if (session.gone) {
    return;
  }
  session.gone = true;
  Job* job = FindJob(session.job);
  if (job == nullptr || !session.node.has_value()) {
    return;
  }
  const LinkClosed closed{*session.node, session.incarnation};
  session.node.reset();
  const auto link = job->links.find(closed.node);
  if (link != job->links.end() && link->second == session.id) {
    job->links.erase(link);
    if (!closing_) {
      job->Feed(closed);
    }
  }
}

void MasterServer::Impl::SweepUnproved() {
  const absl::Time now = BootNow();
  while (!unproved_.empty() && unproved_.begin()->second <= now) {
    const uint64_t id = unproved_.begin()->first;
    unproved_.erase(unproved_.begin());
    const grpc::Status late(grpc::StatusCode::DEADLINE_EXCEEDED, "no hello came");
    if (const auto attend = attends_.find(id); attend != attends_.end()) {
      attend->second.call->Finish(late);
    } else if (const auto stream = streams_.find(id); stream != streams_.end()) {
      stream->second.call->Finish(late);
    }
  }
  while (!guests_.empty() && guests_.front().until <= now) {
    guests_.pop_front();
  }
  const absl::Time next =
      std::min(unproved_.empty() ? absl::InfiniteFuture() : unproved_.begin()->second,
               guests_.empty() ? absl::InfiniteFuture() : guests_.front().until);
  sweep_.StartAt(next);
}

}  // namespace muster
