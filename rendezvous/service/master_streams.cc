// The output streams: chunks up to the consumer, stdin down to the workers.
#include <algorithm>
#include <utility>

#include "proto/base/limits.h"
#include "proto/base/log.h"
#include "proto/wire/convert.h"
#include "proto/wire/field_checker.h"
#include "rendezvous/service/handshake.h"
#include "rendezvous/service/master_impl.h"

namespace muster {

void MasterServer::Impl::OnStream(StreamSession& session, CallEventKind kind) {
  switch (kind) {
    case CallEventKind::kOpened:
      if (const grpc::Status status = Unserved(); !status.ok()) {
        session.call->Finish(status);
      } else if (!options_.on_chunk) {
        session.call->Finish(grpc::Status(grpc::StatusCode::UNIMPLEMENTED,
                                          "this master shows no output of other nodes"));
      } else {
        session.call->Read();
      }
      return;
    case CallEventKind::kRead:
      if (!session.gone && !session.call->finishing()) {
        OnStreamFrame(session);
      }
      return;
    case CallEventKind::kReadEnded:
      session.half_closed = true;
      PassChunks(session.id);
      return;
    case CallEventKind::kWritten:
      session.call->WriteNext();
      return;
    case CallEventKind::kBroken:
      session.call->SetBroken();
      Close(session);
      return;
    case CallEventKind::kDone:
      Close(session);
      return;
  }
}

const AttendSession* MasterServer::Impl::AgentOf(const v1::StreamHello& hello,
                                                 grpc::Status* refusal) {
  // Where its control stream is not there (any more), the agent tries again when it is.
  *refusal = grpc::Status(grpc::StatusCode::UNAVAILABLE, "no such agent is connected");
  const NodeId node{hello.node()};
  for (const KnownUser& user : users_) {
    const Job* job = FindJob(user.KeyOf(hello.job_id()));
    const AttendSession* link = job == nullptr ? nullptr : LinkOf(*job, node);
    if (link == nullptr || link->node != node ||
        link->incarnation != Incarnation{hello.incarnation()}) {
      continue;
    }
    const std::string wrong = RefusalOf(hello, link->user.secret, link->handshake);
    if (wrong.empty()) {
      return link;
    }
    *refusal = grpc::Status(grpc::StatusCode::PERMISSION_DENIED, wrong);
  }
  return nullptr;
}

void MasterServer::Impl::OnStreamHello(StreamSession& session, const v1::StreamHello& hello) {
  const NodeId node{hello.node()};
  const Incarnation incarnation{hello.incarnation()};
  grpc::Status refusal;
  const AttendSession* link = AgentOf(hello, &refusal);
  if (link == nullptr) {
    if (refusal.error_code() == grpc::StatusCode::PERMISSION_DENIED) {
      LogWarning("refused an output stream: " + refusal.error_message());
    }
    session.call->Finish(refusal);
    return;
  }
  Job* job = FindJob(link->job);
  unproved_.erase(session.id);
  session.job = link->job;
  session.node = node;
  session.incarnation = incarnation;
  session.stdin_room = kStdinWindow;
  const auto old = job->streams.find(node);
  if (old != job->streams.end()) {
    if (const auto it = streams_.find(old->second); it != streams_.end()) {
      Close(it->second);
    }
  }
  job->streams[node] = session.id;
  v1::StreamDown welcome;
  welcome.set_welcome(true);
  session.call->Write(std::move(welcome));
  if (options_.on_stdin_room) {
    options_.on_stdin_room(session.job);
  }
}

void MasterServer::Impl::OnStreamFrame(StreamSession& session) {
  v1::StreamUp& frame = session.call->incoming();
  const uint64_t id = session.id;
  if (session.job.empty()) {
    OnStreamHello(session, frame.hello());
    if (session.job.empty()) {
      return;  // refused, and finishing
    }
  }
  const auto refuse = [&session](const std::string& why) {
    LogWarning("closed an output stream: " + why);
    session.call->Finish(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, why));
  };
  for (v1::OutputChunk& wire : *frame.mutable_chunks()) {
    absl::StatusOr<OutputChunk> chunk = FromWire(std::move(wire));
    if (!chunk.ok()) {
      refuse(std::string(chunk.status().message()));
      return Close(session);
    }
    session.chunks.push_back(*std::move(chunk));
  }
  FieldChecker check("stream");
  const std::string lost = check.Text("lost", frame.lost(), kTextBytesMax);
  if (!check.ok()) {
    refuse(std::string(check.status().message()));
    return Close(session);
  }
  if (!lost.empty() && options_.on_lost) {
    options_.on_lost(session.job, session.node, lost);
  }
  if (frame.stdin_taken() > 0) {
    session.stdin_room = std::min<size_t>(
        kStdinWindow, session.stdin_room + std::min<uint64_t>(frame.stdin_taken(), kStdinWindow));
    if (options_.on_stdin_room) {
      options_.on_stdin_room(session.job);
    }
  }
  PassChunks(id);
}

void MasterServer::Impl::PassChunks(uint64_t id) {
  while (true) {
    const auto it = streams_.find(id);
    if (it == streams_.end() || it->second.with_consumer || it->second.gone) {
      return;
    }
    StreamSession& session = it->second;
    if (session.chunks.empty()) {
      if (session.half_closed) {
        session.call->Finish(grpc::Status::OK);  // the agent's sign that all was taken
      } else if (!session.call->finishing()) {
        session.call->Read();
      }
      return;
    }
    OutputChunk chunk = std::move(session.chunks.front());
    session.chunks.pop_front();
    session.with_consumer = true;
    // `taken` may come at once: then this loop goes on; or later: then it begins anew.
    const auto state = std::make_shared<TakenState>();
    const std::weak_ptr<const bool> alive = alive_;
    options_.on_chunk(session.job, session.node, std::move(chunk), [this, alive, id, state] {
      if (state->taken || alive.expired()) {
        return;
      }
      state->taken = true;
      const auto again = streams_.find(id);
      if (again != streams_.end()) {
        again->second.with_consumer = false;
        if (!state->inside) {
          PassChunks(id);
        }
      }
    });
    state->inside = false;
  }
}

void MasterServer::Impl::Close(StreamSession& session) {
  if (!session.gone) {
    session.gone = true;
    for (OutputChunk& chunk : std::exchange(session.chunks, {})) {  // a crash's last words
      options_.on_chunk(session.job, session.node, std::move(chunk), [] {});
    }
  }
  session.call->Finish(grpc::Status::OK);
  if (Job* job = FindJob(session.job); job != nullptr) {
    const auto it = job->streams.find(session.node);
    if (it != job->streams.end() && it->second == session.id) {
      job->streams.erase(it);
    }
  }
}

std::vector<StreamSession*> MasterServer::Impl::StreamsOf(const std::string& job_id, StdinTo to) {
  std::vector<StreamSession*> out;
  const Job* job = FindJob(job_id);
  if (job == nullptr || job->state().phase != JobPhase::kRunning) {
    return out;
  }
  for (const Member& member : job->state().members) {
    if (to.rank.has_value() && !member.Runs(*to.rank)) {
      continue;
    }
    const auto number = job->streams.find(member.node);
    const auto it = number == job->streams.end() ? streams_.end() : streams_.find(number->second);
    if (it == streams_.end() || it->second.gone || it->second.incarnation != member.incarnation) {
      return {};
    }
    out.push_back(&it->second);
  }
  return out;
}

size_t MasterServer::Impl::StdinRoom(const std::string& job_id, StdinTo to) {
  size_t room = kStdinWindow;
  const std::vector<StreamSession*> streams = StreamsOf(job_id, to);
  for (const StreamSession* session : streams) {
    room = std::min(room, session->stdin_room);
  }
  return streams.empty() ? 0 : room;
}

bool MasterServer::Impl::SendStdin(const std::string& job_id, StdinTo to, absl::string_view bytes,
                                   bool eof) {
  const std::vector<StreamSession*> streams = StreamsOf(job_id, to);
  if (streams.empty() || bytes.size() > StdinRoom(job_id, to)) {
    return false;
  }
  for (StreamSession* session : streams) {
    session->stdin_room -= bytes.size();
    v1::StreamDown frame;
    frame.set_stdin(std::string(bytes));
    frame.set_stdin_eof(eof);
    session->call->Write(std::move(frame));
  }
  return true;
}

bool MasterServer::Impl::SendWindow(const std::string& job_id, Rank rank, uint16_t rows,
                                    uint16_t columns) {
  StdinTo to;
  to.rank = rank;
  const std::vector<StreamSession*> streams = StreamsOf(job_id, to);
  for (StreamSession* session : streams) {
    v1::StreamDown frame;
    frame.set_rows(rows);
    frame.set_columns(columns);
    session->call->Write(std::move(frame));
  }
  return !streams.empty();
}

}  // namespace muster
