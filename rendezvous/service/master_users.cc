// How much of a daemon one user has.
#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rendezvous/service/master_impl.h"

namespace muster {
namespace {

// Sessions beyond the limit that may ask, and hear why they are refused.
constexpr size_t kAskingMax = 1024;

std::string Refusal(const std::string& has, size_t limit, const std::string& next) {
  return absl::StrCat(has, " at this master, the limit of a user is ", limit, ": ", next);
}

}  // namespace

std::string MasterServer::Impl::UserOf(const std::string& key, const Job& job) {
  const size_t id = job.config().job_id.size();
  return key.size() > id ? key.substr(0, key.size() - id - 1) : "";
}

template <typename Bytes>
size_t MasterServer::Impl::SumOfJobs(const std::string& user, const Bytes& bytes) const {
  const std::string prefix = user + "/";
  size_t sum = 0;
  for (auto it = jobs_.lower_bound(prefix);
       it != jobs_.end() && absl::StartsWith(it->first, prefix); ++it) {
    sum += bytes(it->second);
  }
  return sum;
}

std::string MasterServer::Impl::WhyNoJob(const std::string& user) const {
  if (jobs_.size() >= kJobsMax) {
    return absl::StrCat("this master has ", kJobsMax, " jobs, its limit: try again later");
  }
  const size_t owned = user.empty() ? 0 : SumOfJobs(user, [](const Job&) { return size_t{1}; });
  return owned < options_.per_user.jobs
             ? ""
             : Refusal(absl::StrCat(user, " has ", owned, " jobs"), options_.per_user.jobs,
                       "try again when one of them has been over for a minute");
}

std::string MasterServer::Impl::WhyNoAgent(const std::string& user, bool asks) const {
  const auto use = uses_.find(user);
  const size_t limit = options_.per_user.agents;
  if (use == uses_.end() || use->second.agents <= limit + (asks ? kAskingMax : 0)) {
    return "";
  }
  return Refusal(absl::StrCat(user, " has ", limit, " agents connected"), limit,
                 "end a job, or start this one when one has ended");
}

size_t MasterServer::Impl::FenceRoom(const std::string& user) const {
  const size_t limit = options_.per_user.fence_bytes;
  const size_t held =
      user.empty() ? 0 : SumOfJobs(user, [](const Job& job) { return job.fences.bytes(); });
  return user.empty() ? SIZE_MAX : limit - std::min(limit, held);
}

std::string MasterServer::Impl::WhyNoFence(const std::string& user) const {
  const size_t limit = options_.per_user.fence_bytes;
  return Refusal(absl::StrCat("what the MPI jobs of ", user, " tell each other in barriers has ",
                              "more than ", limit, " bytes"),
                 limit, "run fewer of them at one time");
}

absl::Status MasterServer::Impl::MayWrite(const std::string& key, const Job& job, bool anew,
                                          size_t bytes) const {
  const std::string user = UserOf(key, job);
  if (user.empty()) {
    return absl::OkStatus();
  }
  const Journal& journal = *options_.journal;
  const size_t held =
      SumOfJobs(user, [&journal](const Job& one) { return journal.BytesOf(one.file); });
  const size_t displaced = anew ? journal.BytesOf(job.file) : 0;
  const size_t limit = options_.per_user.journal_bytes;
  return held - displaced + bytes <= limit
             ? absl::OkStatus()
             : absl::ResourceExhaustedError(
                   Refusal(absl::StrCat("the jobs of ", user, " have ", held,
                                        " bytes in the journal and this one ", bytes, " more"),
                           limit, "it is kept again from its next round on, if others have ended"));
}

void MasterServer::Impl::CountAgent(const AttendSession& session) {
  if (!session.user.name.empty()) {
    ++uses_[session.user.name].agents;
  }
}

void MasterServer::Impl::Uncount(const AttendSession& session) {
  const auto use = uses_.find(session.user.name);
  if (!session.proved || use == uses_.end()) {
    return;
  }
  use->second.modex_bytes -= session.modexes.bytes();
  if (--use->second.agents == 0) {
    uses_.erase(use);
  }
}

void MasterServer::Impl::PushModex(AttendSession& link, ModexNote note) {
  const auto use = uses_.find(link.user.name);
  if (use == uses_.end()) {
    return link.modexes.Push(std::move(note));
  }
  const size_t limit = options_.per_user.modex_bytes;
  if (note.answers && use->second.modex_bytes + note.bytes.size() > limit) {
    note.bytes.clear();
    note.refused =
        Refusal(absl::StrCat("what ranks of the MPI jobs of ", link.user.name,
                             " have asked of each other has more than ", limit, " bytes"),
                limit, "run fewer of them at one time");
  }
  const size_t before = link.modexes.bytes();
  link.modexes.Push(std::move(note));
  use->second.modex_bytes += link.modexes.bytes() - before;
}

ModexNote MasterServer::Impl::PopModex(AttendSession& link) {
  const size_t before = link.modexes.bytes();
  ModexNote note = link.modexes.Pop();
  if (const auto use = uses_.find(link.user.name); use != uses_.end()) {
    use->second.modex_bytes -= before - link.modexes.bytes();
  }
  return note;
}

}  // namespace muster
