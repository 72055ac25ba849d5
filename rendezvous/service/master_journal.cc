// What the jobs of this master leave in its journal, and what it finds there.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/clock.h"
#include "proto/base/limits.h"
#include "proto/base/log.h"
#include "proto/base/status_macros.h"
#include "rendezvous/core/agreement.h"
#include "rendezvous/core/replay.h"
#include "rendezvous/service/master_impl.h"

namespace muster {

RoundConfig MasterServer::Impl::ConfigFor(const std::string& job_id, const JobTerms& terms) const {
  RoundConfig config = options_.many_jobs ? ConfigFromTerms(job_id, terms) : options_.job;
  config.epoch = options_.many_jobs ? options_.epoch : config.epoch;
  config.users_at_nodes = config.next_job_follows = options_.many_jobs;
  config.rounds_before = rounds_given_;
  config.journal = options_.journal != nullptr;
  if (config.journal && !terms.lease.has_value()) {
    config.lease = kLeaseWithJournal;
  }
  return config;
}

absl::StatusOr<size_t> MasterServer::Impl::TakeOver() {
  if (options_.journal == nullptr) {
    return size_t{0};
  }
  for (const absl::Status& damaged : options_.journal->TakeDamaged()) {
    RETURN_IF_ERROR(GoOnWithout(damaged));
  }
  size_t jobs = 0;
  for (Journal::Found& found : options_.journal->TakeFound()) {
    RETURN_IF_ERROR(CheckOwn(found));
    const std::string key = found.content.header.key;
    const absl::Status taken = TakeOverOne(std::move(found));
    RETURN_IF_ERROR(GoOnWithout(taken));
    const Job* const job = taken.ok() ? FindJob(key) : nullptr;
    jobs += job != nullptr && !job->ended() ? 1 : 0;
  }
  return jobs;
}

// A daemon serves many users: one job's damaged file ends none of the others.
absl::Status MasterServer::Impl::GoOnWithout(const absl::Status& damaged) const {
  if (!absl::IsDataLoss(damaged)) {
    return damaged;
  }
  if (!options_.many_jobs) {
    return absl::DataLossError(absl::StrCat(damaged.message(), "; remove it to give its job up"));
  }
  LogError(absl::StrCat(damaged.message(),
                        ": the nodes of its job are refused, the other jobs go on; the file stays "
                        "until you remove it"));
  return absl::OkStatus();
}

// Who serves one job goes on with that one, as it was.
absl::Status MasterServer::Impl::CheckOwn(const Journal::Found& found) const {
  const JournalHeader& header = found.content.header;
  if (options_.many_jobs) {
    return absl::OkStatus();
  }
  if (header.key != options_.job.job_id) {
    return absl::FailedPreconditionError(
        absl::StrCat(found.path, " is of the job '", header.key, "', this is '",
                     options_.job.job_id, "': give each a folder of its own (--rdzv-id names it)"));
  }
  if (header.terms != options_.terms) {
    return absl::FailedPreconditionError(
        absl::StrCat(found.path,
                     " is of this job with other options: type the same as before, or "
                     "remove the file to give that one up"));
  }
  const Agreement& now = options_.job.agreed;
  for (const JournalRecord& record : found.content.records) {
    const bool told = record.round.has_value() && !record.round->agreed.options.empty();
    const auto differs = told && !now.options.empty()
                             ? FirstDifference(record.round->agreed.options, now.options)
                             : std::nullopt;
    if (differs.has_value()) {
      return absl::FailedPreconditionError(
          absl::StrCat(found.path, " is of this job with another ", differs->option, " (",
                       differs->one == nullptr ? "none" : *differs->one, ", and not ",
                       differs->other == nullptr ? "none" : *differs->other,
                       "): type the same as before, or remove the file to give that one up"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> MasterServer::Impl::Lead(Journal* journal, std::function<bool()> leads) {
  options_.journal = journal;
  options_.epoch = journal->epoch();
  leads_ = std::move(leads);
  standby_.clear();
  return TakeOver();
}

absl::Status MasterServer::Impl::TakeOverOne(Journal::Found found) {
  const JournalHeader& header = found.content.header;
  const RoundConfig config = ConfigFor(header.job_id, header.terms);
  const absl::Time now = BootNow();
  std::vector<JournalRecord>& records = found.content.records;
  if (!found.same_clock) {
    // Of another machine, or of before a reboot.
    const absl::Duration shift = ShiftTo(now, absl::Now(), records.back());
    for (JournalRecord& record : records) {
      record = Shifted(std::move(record), shift);
    }
  }
  RoundState state;
  for (const JournalRecord& record : records) {
    const absl::Status replayed = Replay(config, state, record);
    if (!replayed.ok()) {
      return absl::DataLossError(absl::StrCat(found.path, ": ", replayed.message()));
    }
  }
  Resurrect(config, state, now);
  const std::string key = header.key;
  jobs_.erase(key);  // one that nobody has joined yet
  const auto added =
      jobs_.try_emplace(key, loop_, config, std::move(state),
                        [this, key](RoundEffect effect) { Execute(key, std::move(effect)); });
  Job& job = added.first->second;
  job.terms = header.terms;
  job.file = job.first_file = found.file;
  if (!found.same_clock) {
    WriteInOurClock(key, job, records);
  }
  for (const LostNode& lost : job.state().report.lost_nodes) {
    const std::vector<Member>& members = job.state().members;
    const auto member = std::find_if(members.begin(), members.end(), [&lost](const Member& one) {
      return !lost.ranks.empty() && one.Runs(Rank{lost.ranks.front()});
    });
    if (member != members.end()) {
      job.fences.Lose(job.state().round, static_cast<uint32_t>(member - members.begin()),
                      lost.headline);
    }
  }
  if (job.ended() && !options_.many_jobs) {
    Execute(key, JobEnded{});  // who was to hear of it was killed at that moment
    return absl::OkStatus();
  }
  if (job.ended()) {
    ForgetLater(job);
  }
  job.Feed(TimePassed{});
  return absl::OkStatus();
}

absl::StatusOr<std::string> MasterServer::Impl::HeaderOf(const std::string& key,
                                                         const Job& job) const {
  return EncodeHeader({key, job.config().job_id, options_.journal->clock(), job.terms});
}

// What this master appends, and whoever comes next, shall find one clock in the file.
void MasterServer::Impl::WriteInOurClock(const std::string& key, const Job& job,
                                         const std::vector<JournalRecord>& records) {
  absl::StatusOr<std::string> bytes = HeaderOf(key, job);
  for (size_t i = 0; i < records.size() && bytes.ok(); ++i) {
    const absl::StatusOr<std::string> record = EncodeRecord(records[i]);
    bytes = record.ok() ? absl::StrCat(*bytes, *record) : record;
  }
  if (!bytes.ok()) {
    return Unwritten(key, job.file, bytes.status());
  }
  options_.journal->Write(job.file, /*anew=*/true, *std::move(bytes),
                          [this, alive = std::weak_ptr<const bool>(alive_), key,
                           file = job.file](const absl::Status& status) {
                            if (!alive.expired() && !status.ok()) {
                              Unwritten(key, file, status);
                            }
                          });
}

void MasterServer::Impl::Write(const std::string& key, const JournalRecord& record) {
  Job* job = FindJob(key);
  if (job->journal_lost && !record.round.has_value()) {
    return job->Durable();
  }
  const bool anew = job->file == 0 || record.round.has_value();
  if (job->file == 0 || std::exchange(job->journal_lost, false)) {
    job->file = options_.journal->NewFile();
    job->first_file = job->first_file == 0 ? job->file : job->first_file;
  }
  absl::StatusOr<std::string> bytes = EncodeRecord(record);
  if (bytes.ok() && anew) {
    absl::StatusOr<std::string> header = HeaderOf(key, *job);
    bytes = header.ok() ? absl::StrCat(*header, *bytes) : header;
  }
  if (bytes.ok()) {
    if (absl::Status may = MayWrite(key, *job, anew, bytes->size()); !may.ok()) {
      bytes = std::move(may);
    }
  }
  if (!bytes.ok()) {
    return Written(key, job->file, bytes.status());
  }
  options_.journal->Write(job->file, anew, *std::move(bytes),
                          [this, alive = std::weak_ptr<const bool>(alive_), key,
                           file = job->file](const absl::Status& status) {
                            if (!alive.expired()) {
                              Written(key, file, status);
                            }
                          });
}

void MasterServer::Impl::Written(const std::string& key, uint64_t file,
                                 const absl::Status& status) {
  Job* job = FindJob(key);
  if (job == nullptr || job->first_file == 0 || file < job->first_file || closing_) {
    return;  // of a job before it
  }
  if (!status.ok()) {
    Unwritten(key, file, status);
  } else if (job->file == file && !job->journal_lost && std::exchange(job->loss_told, false)) {
    job->Feed(NewsForUser{"this job can survive a master restart again"});
  }
  job->Durable();
}

void MasterServer::Impl::Unwritten(const std::string& key, uint64_t file,
                                   const absl::Status& status) {
  Job* job = FindJob(key);
  if (job == nullptr || job->file != file || closing_ || job->journal_lost) {
    return;
  }
  job->journal_lost = true;
  options_.journal->Remove(file);
  if (!std::exchange(job->loss_told, true)) {
    job->Feed(NewsForUser{
        absl::StrCat("this job can no longer survive a master restart: ", status.message())});
  }
}

void MasterServer::Impl::RemoveFile(Job& job) {
  if (job.file != 0) {
    options_.journal->Remove(job.file);
  }
}

}  // namespace muster
