#include "rendezvous/service/master_server.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/clock.h"
#include "proto/base/limits.h"
#include "proto/base/log.h"
#include "rendezvous/core/job_line.h"
#include "rendezvous/service/master_impl.h"

namespace muster {
namespace {

std::string OwnHostName() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

// The jobs of one master that fail together do not come back together (FNV-1a).
uint64_t SeedOf(const std::string& job_id) {
  uint64_t seed = 0xCBF29CE484222325u;
  for (const char c : job_id) {
    seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  }
  return seed;
}

// An agent's in a lease: a few may be lost.
constexpr int kBeatsOfLease = 5;

// What `unsent` has for the user goes with what takes its place, as far as there is room.
void KeepNotices(const std::optional<Directive>& unsent, Directive& next) {
  if (unsent.has_value() && unsent->notices.size() + next.notices.size() <= kNoticesMax) {
    next.notices.insert(next.notices.begin(), unsent->notices.begin(), unsent->notices.end());
  }
}

grpc::Status Ended() { return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the master ends"); }

}  // namespace

RoundConfig ConfigFromTerms(const std::string& job_id, const JobTerms& terms) {
  RoundConfig config;
  config.job_id = job_id;
  config.nodes_min = terms.nodes_min;
  config.nodes_max = terms.nodes_max;
  config.spares = terms.spares;
  config.lease = terms.lease.value_or(kLease);
  config.beat_interval = std::min(kBeatInterval, config.lease / kBeatsOfLease);
  config.restarts_max = terms.restarts_max;
  config.restart = terms.restart;
  config.rules = terms.restart_rules;
  config.seed = SeedOf(job_id);
  config.on_failure = terms.on_failure;
  config.join_timeout = terms.join_timeout;
  config.last_call = terms.last_call;
  config.grace = terms.grace;
  config.restart_grace = terms.restart_grace;
  config.time_limit = terms.time_limit;
  config.tell_idle = terms.tell_idle;
  config.master_port = terms.master_port;
  config.master_addr = terms.master_addr;
  return config;
}

MasterServer::MasterServer(uv_loop_t* loop, MasterOptions options)
    : impl_(std::make_unique<Impl>(loop, std::move(options))) {}
MasterServer::~MasterServer() = default;

absl::StatusOr<uint16_t> MasterServer::Listen(absl::string_view address, PortRange ports) {
  impl_->CheckThread();
  return impl_->Listen(address, ports);
}
void MasterServer::Prepare() {
  impl_->CheckThread();
  impl_->Prepare();
}
void MasterServer::AdoptConnection(UniqueFd socket, std::string peer) {
  impl_->CheckThread();
  impl_->Adopt(std::move(socket), {std::move(peer)});
}
void MasterServer::SetUsers(std::vector<KnownUser> users) {
  impl_->CheckThread();
  impl_->SetUsers(std::move(users));
}
std::string MasterServer::IssueNonce() {
  impl_->CheckThread();
  return impl_->IssueNonce();
}
void MasterServer::Post(const std::string& job_id, RoundEvent event) {
  impl_->CheckThread();
  impl_->Post(job_id, std::move(event));
}
size_t MasterServer::StdinRoom(const std::string& job_id, StdinTo to) const {
  impl_->CheckThread();
  return impl_->StdinRoom(job_id, to);
}
bool MasterServer::SendStdin(const std::string& job_id, StdinTo to, absl::string_view bytes,
                             bool eof) {
  impl_->CheckThread();
  return impl_->SendStdin(job_id, to, bytes, eof);
}
bool MasterServer::SendWindow(const std::string& job_id, Rank rank, uint16_t rows,
                              uint16_t columns) {
  impl_->CheckThread();
  return impl_->SendWindow(job_id, rank, rows, columns);
}
const RoundState* MasterServer::FindJob(const std::string& job_id) const {
  impl_->CheckThread();
  const Job* job = impl_->FindJob(job_id);
  return job == nullptr ? nullptr : &job->state();
}
std::vector<std::string> MasterServer::JobLines() const {
  impl_->CheckThread();
  return impl_->JobLines();
}
absl::StatusOr<size_t> MasterServer::TakeOver() {
  impl_->CheckThread();
  return impl_->TakeOver();
}
void MasterServer::StandBy(std::string why) {
  impl_->CheckThread();
  impl_->StandBy(std::move(why));
}
absl::StatusOr<size_t> MasterServer::Lead(Journal* journal, std::function<bool()> leads) {
  impl_->CheckThread();
  return impl_->Lead(journal, std::move(leads));
}
void MasterServer::Shutdown(std::function<void()> done) {
  impl_->CheckThread();
  impl_->Shutdown(std::move(done));
}

MasterServer::Impl::Impl(uv_loop_t* loop, MasterOptions options)
    : loop_(loop),
      thread_(uv_thread_self()),
      options_(std::move(options)),
      host_(OwnHostName()),
      users_(options_.users),
      edge_(loop, [this](const CallEvent& event) { OnEvent(event); }),
      listener_(loop, {[this](UniqueFd socket, const std::string& peer) {
                         TakeTls(std::move(socket), peer);
                       },
                       [this](UniqueFd socket, std::string peer) {
                         TakeClear(std::move(socket), std::move(peer));
                       },
                       options_.on_foreign}),
      sweep_(loop, [this] { SweepUnproved(); }),
      forget_(loop, [this] { ForgetJobs(); }) {
  if (!options_.many_jobs) {
    AddJob(options_.job.job_id, ConfigFor(options_.job.job_id, options_.terms), options_.terms);
  }
}

MasterServer::Impl::~Impl() { CHECK(attends_.empty() && streams_.empty()); }

void MasterServer::Impl::CheckThread() const {
  const uv_thread_t self = uv_thread_self();
  CHECK(uv_thread_equal(&self, &thread_) != 0);
}

void MasterServer::Impl::Adopt(UniqueFd socket, EdgePeer peer) {
  if (!closing_) {
    edge_.Adopt(std::move(socket), std::move(peer));
  }
}

std::string MasterServer::Impl::IssueNonce() {
  const absl::StatusOr<std::string> nonce = MakeNonce();
  CHECK(nonce.ok());  // getrandom fails on no kernel we run on
  issued_.insert(*nonce);
  return *nonce;
}

Job* MasterServer::Impl::FindJob(const std::string& job_id) {
  const auto it = jobs_.find(job_id);
  return it == jobs_.end() ? nullptr : &it->second;
}

std::vector<std::string> MasterServer::Impl::JobLines() const {
  std::vector<std::string> lines;
  lines.reserve(jobs_.size());
  for (const auto& [key, job] : jobs_) {
    lines.push_back(absl::StrCat("job ", key, ": ", JobLine(job.config(), job.state(), BootNow())));
  }
  return lines;
}

void MasterServer::Impl::Post(const std::string& job_id, RoundEvent event) {
  if (Job* job = FindJob(job_id); job != nullptr && !closing_) {
    job->Feed(std::move(event));
  }
}

void MasterServer::Impl::AddJob(const std::string& key, const RoundConfig& config,
                                const JobTerms& terms) {
  if (Job* old = FindJob(key); old != nullptr) {
    CloseLinks(*old);
    RemoveFile(*old);
    jobs_.erase(key);
  }
  const auto added = jobs_.try_emplace(
      key, loop_, config, [this, key](RoundEffect effect) { Execute(key, std::move(effect)); });
  added.first->second.terms = terms;
  added.first->second.Feed(TimePassed{});  // arms the first timer: a job that nobody joins ends too
}

Job* MasterServer::Impl::JobFor(const AttendSession& session, const Join& join,
                                std::string* refusal) {
  Job* job = FindJob(session.job);
  if (!options_.many_jobs) {
    if (job == nullptr) {
      *refusal = absl::StrCat("this master serves the job '", options_.job.job_id, "', ",
                              join.hostname, " asks for '", session.handshake.job_id,
                              "': give the same --rdzv-id on all nodes");
    }
    return job;
  }
  // The same command typed again after its job ended is a new job; a node of the old one that comes
  // late hears how it ended. So is one typed after the first try died before any round.
  const bool deserted = job != nullptr && job->IsDeserted();
  if (job != nullptr && (job->KnowsLife(join.life) || !(job->ended() || deserted))) {
    return job;
  }
  if (job != nullptr && job->terms == session.terms && job->ComesTooLate(join)) {
    return job;
  }
  if (job == nullptr) {
    *refusal = WhyNoJob(session.user.name);
    if (!refusal->empty()) {
      return nullptr;
    }
  }
  if (deserted && options_.on_tell) {
    options_.on_tell(session.job, absl::StrCat("begins anew with ", join.hostname,
                                               ": it had no round yet, and nobody waits in it"));
  }
  AddJob(session.job, ConfigFor(session.handshake.job_id, session.terms), session.terms);
  return FindJob(session.job);
}

void MasterServer::Impl::Execute(const std::string& job_id, RoundEffect effect) {
  Job* job = FindJob(job_id);
  CHECK(job != nullptr);
  if (auto* reply = std::get_if<Reply>(&effect)) {
    Deliver(job_id, std::move(*reply));
  } else if (auto* send = std::get_if<Send>(&effect)) {
    AttendSession* link = LinkOf(*job, send->node);
    if (link != nullptr && link->incarnation == send->incarnation) {
      // A newer directive replaces one not yet sent, but an answered beat stays answered.
      const uint64_t answered = link->directive.has_value() ? link->directive->beat_seq : 0;
      send->directive.beat_seq = std::max(send->directive.beat_seq, answered);
      KeepNotices(link->directive, send->directive);
      link->directive = std::move(send->directive);
      Pump(*link);
    }
  } else if (auto* persist = std::get_if<Persist>(&effect)) {
    persist->record.wall_at = absl::Now();
    Write(job_id, persist->record);
  } else if (auto* drop = std::get_if<DropLink>(&effect)) {
    FinishLink(*job, drop->node, drop->incarnation);
  } else if (auto* tell = std::get_if<Tell>(&effect)) {
    if (options_.on_tell) {
      options_.on_tell(job_id, tell->text);
    }
  } else if (auto* started = std::get_if<RoundStarted>(&effect)) {
    rounds_given_ = std::max(rounds_given_, started->round.n);
    if (options_.on_round_started) {
      options_.on_round_started(job_id, *started);
    }
  } else if (auto* all = std::get_if<WorkersStarted>(&effect)) {
    if (options_.on_workers_started) {
      options_.on_workers_started(job_id, *all);
    }
  } else if (const auto* missing = std::get_if<NodeMissing>(&effect)) {
    if (missing->round == job->state().round) {
      AnswerFences(*job, job->fences.Lose(missing->round, missing->place, missing->why));
    }
  } else if (auto* heard = std::get_if<SignalHeard>(&effect)) {
    if (options_.on_signal_heard) {
      options_.on_signal_heard(job_id, *heard);
    }
  } else if (auto* answered = std::get_if<OrderAnswered>(&effect)) {
    if (options_.on_order_answered) {
      options_.on_order_answered(job_id, *answered);
    }
  } else if (auto* again = std::get_if<StartAgain>(&effect)) {
    if (options_.on_start_again) {
      options_.on_start_again(job_id, *again);
    }
  } else if (std::holds_alternative<JobEnded>(effect)) {
    if (options_.many_jobs) {
      ForgetLater(*job);
    } else {
      RemoveFile(*job);
    }
    if (options_.on_job_ended) {
      options_.on_job_ended(job_id, job->state().report);
    }
  }
}

void MasterServer::Impl::Deliver(const std::string& job_id, Reply reply) {
  const auto it = attends_.find(reply.to.value);
  Job* job = FindJob(job_id);
  if (it == attends_.end() || it->second.gone) {
    // It went while the core thought: what it was admitted as has no connection from the start.
    if (const auto* admitted = std::get_if<Admitted>(&reply.message)) {
      job->Feed(LinkClosed{admitted->node, admitted->incarnation});
    }
    return;
  }
  AttendSession& session = it->second;
  if (reply.asks_again) {
    return AskAgain(session, std::get<Refused>(reply.message).reason);
  }
  if (const auto* admitted = std::get_if<Admitted>(&reply.message)) {
    Bind(*job, session, admitted->node, admitted->incarnation);
  }
  session.reply = std::move(reply.message);
  Pump(session);
}

void MasterServer::Impl::Bind(Job& job, AttendSession& session, NodeId node,
                              Incarnation incarnation) {
  AttendSession* old = LinkOf(job, node);
  session.node = node;
  session.incarnation = incarnation;
  job.links[node] = session.id;
  if (old != nullptr && old->id != session.id) {
    old->node.reset();  // its end is no news any more
    old->call->Finish(grpc::Status(grpc::StatusCode::ABORTED, "replaced by a newer connection"));
  }
}

AttendSession* MasterServer::Impl::LinkOf(const Job& job, NodeId node) {
  const auto link = job.links.find(node);
  const auto it = link == job.links.end() ? attends_.end() : attends_.find(link->second);
  return it == attends_.end() ? nullptr : &it->second;
}

void MasterServer::Impl::FinishLink(Job& job, NodeId node, Incarnation incarnation) {
  AttendSession* link = LinkOf(job, node);
  if (link != nullptr && link->incarnation == incarnation) {
    link->node.reset();
    job.links.erase(node);
    link->call->Finish(grpc::Status(grpc::StatusCode::ABORTED, "the master gave this node up"));
  }
  const auto stream = job.streams.find(node);
  if (stream != job.streams.end()) {
    const auto it = streams_.find(stream->second);
    if (it != streams_.end() && it->second.incarnation == incarnation) {
      Close(it->second);
    }
  }
}

// Nothing that still comes on them is believed.
void MasterServer::Impl::CloseLinks(Job& job) {
  for (const auto& [node, id] : job.links) {
    if (const auto link = attends_.find(id); link != attends_.end()) {
      link->second.node.reset();
      link->second.call->Finish(Ended());
    }
  }
}

void MasterServer::Impl::ForgetLater(Job& job) {
  job.forget_at = BootNow() + kEndedJobKept;
  if (!forget_.active()) {  // ForgetJobs sets it again for those that end later
    forget_.StartAfter(kEndedJobKept);
  }
}

void MasterServer::Impl::ForgetJobs() {
  const absl::Time now = BootNow();
  absl::Time next = absl::InfiniteFuture();
  for (auto it = jobs_.begin(); it != jobs_.end();) {
    if (it->second.forget_at <= now) {
      CloseLinks(it->second);
      RemoveFile(it->second);
      it = jobs_.erase(it);
    } else {
      next = std::min(next, it->second.forget_at);
      ++it;
    }
  }
  forget_.StartAt(next);
}

void MasterServer::Impl::Shutdown(std::function<void()> done) {
  CHECK(!closing_);
  closing_ = true;
  listener_.Close();
  sweep_.Stop();
  forget_.Stop();
  for (auto& [id, session] : attends_) {
    session.node.reset();
    session.call->Finish(Ended());
  }
  for (auto& [id, session] : streams_) {
    Close(session);
  }
  edge_.Shutdown([this, done = std::move(done)] {
    // Every call has ended by now; its last event may still lie in the mailbox.
    edge_.Drain();
    tls_.reset();  // sends what is left
    jobs_.clear();
    done();
  });
}

}  // namespace muster
