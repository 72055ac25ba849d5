#include "rendezvous/core/cause.h"

#include <cstdint>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "proto/base/mutation.h"
#include "proto/base/text.h"

namespace muster {
namespace {

int Class(const WorkerExit& exit) {
  if (exit.kind != ExitKind::kExited || exit.oom_killed) {
    return 0;
  }
  return exit.error_before.has_value() ? 1 : 2;
}

auto Key(const ExitRecord& r) {
  return std::make_tuple(Class(r.exit), Class(r.exit) == 1 ? FailedAt(r) : r.seen, r.exit.rank);
}

}  // namespace

absl::Time FailedAt(const ExitRecord& record) {
  return record.seen - record.exit.error_before.value_or(absl::ZeroDuration());
}

bool BeganAfter(const ExitRecord& record, absl::Time when) {
  return record.seen - record.exit.ran_for > when;
}

bool IsSuccess(const WorkerExit& exit) { return exit.Ok() && !exit.stopped_by_us; }

bool IsFailure(const WorkerExit& exit) { return !exit.Ok() && !exit.stopped_by_us; }

const ExitRecord* FirstCause(const std::vector<ExitRecord>& exits) {
  const ExitRecord* first = nullptr;
  for (const ExitRecord& record : exits) {
    if (IsFailure(record.exit) && (first == nullptr || Key(record) < Key(*first))) {
      first = &record;
    }
  }
  return first;
}

const ExitRecord* EarliestFailure(const std::vector<ExitRecord>& exits) {
  const ExitRecord* first = nullptr;
  for (const ExitRecord& record : exits) {
    if (IsFailure(record.exit) && (first == nullptr || FailedAt(record) < FailedAt(*first))) {
      first = &record;
    }
  }
  return first;
}

const ExitRecord& RootOf(const std::vector<ExitRecord>& exits, const ExitRecord& failure) {
  if (!failure.exit.because_of.has_value() || Mutated(Mutation::kBlameNotFollowed)) {
    return failure;
  }
  std::map<Rank, const ExitRecord*> failures;
  for (const ExitRecord& record : exits) {
    if (IsFailure(record.exit)) {
      failures.emplace(record.exit.rank, &record);
    }
  }
  const ExitRecord* at = &failure;
  for (size_t steps = 0; steps < failures.size(); ++steps) {
    const auto next =
        at->exit.because_of.has_value() ? failures.find(*at->exit.because_of) : failures.end();
    if (next == failures.end() || BeganAfter(*next->second, at->seen)) {
      return *at;
    }
    at = next->second;
  }
  return failure;
}

std::string ExitSentence(const ExitRecord& record) {
  const WorkerExit& exit = record.exit;
  const std::string who = absl::StrCat("rank ", exit.rank.value, " on ", record.hostname);
  if (exit.kind == ExitKind::kSpawnFailed) {
    return absl::StrCat(who, " could not be started: ", exit.detail);
  }
  const std::string with_pid = absl::StrCat(who, " (pid ", exit.pid, ") ");
  const std::string after = absl::StrCat(" after ", ShortDuration(exit.ran_for));
  if (exit.oom_killed) {
    return absl::StrCat(with_pid, "was killed by the kernel for lack of memory (OOM)", after);
  }
  const std::string detail = exit.detail.empty() ? "" : absl::StrCat(": ", exit.detail);
  if (exit.kind == ExitKind::kSignaled) {
    return absl::StrCat(with_pid, "was ended by ", SignalName(exit.code), " (",
                        SignalWords(exit.code), exit.core_dumped ? ", core dumped)" : ")", after,
                        detail);
  }
  return absl::StrCat(with_pid, "ended with exit code ", exit.code, after, detail);
}

}  // namespace muster
