// The control streams: handshake, messages up, messages down.
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/build_info.h"
#include "proto/base/check.h"
#include "proto/base/clock.h"
#include "proto/base/limits.h"
#include "proto/base/log.h"
#include "proto/wire/convert.h"
#include "rendezvous/service/handshake.h"
#include "rendezvous/service/master_impl.h"

namespace muster {

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
    attends_.erase(id);
    streams_.erase(id);
  }
}

void MasterServer::Impl::OnAttend(AttendSession& session, CallEventKind kind) {
  switch (kind) {
    case CallEventKind::kOpened: {
      if (closing_) {
        session.call->Finish(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the master ends"));
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
      if (session.proved) {
        OnFrame(session, session.call->incoming());
      } else {
        OnHello(session, session.call->incoming().hello());
      }
      // The frame may have ended this session, or another that replaced it.
      const auto again = attends_.find(id);
      if (again != attends_.end() && !again->second.gone && !again->second.call->finishing()) {
        again->second.call->Read();
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

void MasterServer::Impl::OnHello(AttendSession& session, const v1::Hello& hello) {
  std::string refusal = RefusalOf(hello, options_.secret, host_, &session.handshake);
  if (refusal.empty() && hello.has_terms()) {
    absl::StatusOr<JobTerms> terms = FromWire(hello.terms());
    refusal = terms.ok() ? "" : std::string(terms.status().message());
    session.terms = terms.ok() ? *std::move(terms) : JobTerms{};
  }
  v1::MasterFrame frame;
  if (!refusal.empty()) {
    LogWarning(
        absl::StrCat("refused an agent from ", edge_.PeerOf(session.call->peer()), ": ", refusal));
    frame.mutable_refusal()->set_reason(refusal);
    session.call->Write(std::move(frame));
    session.call->Finish(grpc::Status(grpc::StatusCode::PERMISSION_DENIED, refusal));
    return;
  }
  session.proved = true;
  unproved_.erase(session.id);
  frame.mutable_welcome()->set_proof(MasterProof(options_.secret, session.handshake));
  session.call->Write(std::move(frame));
}

void MasterServer::Impl::OnFrame(AttendSession& session, const v1::AgentFrame& frame) {
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
    join.address = edge_.PeerOf(session.call->peer());
  }
  if (join.address.empty()) {
    Refuse(session, absl::StrCat(join.hostname,
                                 " names no address by which other nodes reach it: give --iface"));
    return;
  }
  std::string refusal;
  Job* job = JobFor(session, join, &refusal);
  if (job == nullptr) {
    session.reply = Refused{join.life, refusal};
    Pump(session);
    return;
  }
  job->Feed(JoinReceived{ReplyId{session.id}, std::move(join)});
}

void MasterServer::Impl::OnBeat(AttendSession& session, Beat beat) {
  Job* job = FindJob(session.handshake.job_id);
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

void MasterServer::Impl::OnLeave(AttendSession& session, Leave leave) {
  Job* job = FindJob(session.handshake.job_id);
  if (job != nullptr && session.node == leave.node && session.incarnation == leave.incarnation) {
    job->Feed(LeaveReceived{std::move(leave)});
  }
}

void MasterServer::Impl::Refuse(AttendSession& session, const std::string& reason) {
  LogWarning(absl::StrCat("closed the connection of an agent (", edge_.PeerOf(session.call->peer()),
                          "): ", reason));
  v1::MasterFrame frame;
  frame.mutable_refusal()->set_reason(reason);
  session.call->Write(std::move(frame));
  session.call->Finish(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, reason));
}

void MasterServer::Impl::Pump(AttendSession& session) {
  if (session.call->writing() || session.call->finishing()) {
    return;
  }
  if (session.reply.has_value()) {
    const bool refused = std::holds_alternative<Refused>(*session.reply);
    session.call->Write(ToWire(*session.reply));
    session.reply.reset();
    if (refused) {
      session.call->Finish(grpc::Status::OK);
    }
  } else if (session.directive.has_value()) {
    session.call->Write(ToWire(MasterMessage(*std::move(session.directive))));
    session.directive.reset();
  }
}

void MasterServer::Impl::Close(AttendSession& session) {
  session.call->Finish(grpc::Status::OK);
  if (session.gone) {
    return;
  }
  session.gone = true;
  Job* job = FindJob(session.handshake.job_id);
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
  if (!unproved_.empty()) {
    sweep_.StartAt(unproved_.begin()->second);
  }
}

}  // namespace muster
