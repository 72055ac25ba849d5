#include "launcher/report.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "launcher/cpu_advice.h"
#include "launcher/tail_hint.h"
#include "proto/base/text.h"

namespace muster {
namespace {

const char* CauseName(CauseKind cause) {
  switch (cause) {
    case CauseKind::kNone:
      return "none";
    case CauseKind::kNodeLost:
      return "node_lost";
    case CauseKind::kWorker:
      return "worker";
    case CauseKind::kUser:
      return "user";
    case CauseKind::kTimeout:
      return "timeout";
    case CauseKind::kNeverFormed:
      return "never_formed";
  }
  return "none";
}

std::string How(const WorkerExit& exit) {
  switch (exit.kind) {
    case ExitKind::kExited:
      return absl::StrCat("exit code ", exit.code);
    case ExitKind::kSignaled:
      return absl::StrCat(SignalName(exit.code), exit.core_dumped ? ", core dumped" : "",
                          exit.oom_killed ? ", out of memory" : "");
    case ExitKind::kSpawnFailed:
      return absl::StrCat("not started: ", exit.detail);
  }
  return "";
}

std::string Indented(absl::string_view text) {
  std::string out;
  for (const absl::string_view line : absl::StrSplit(absl::StripSuffix(text, "\n"), '\n')) {
    absl::StrAppend(&out, "    | ", line, "\n");
  }
  return out;
}

enum class Fate : uint8_t {
  kFailed,           // before anybody was stopped
  kFailedMeanwhile,  // while others were stopped for a failure, and perhaps by itself
  kStopped,
};

// An exit code of its own may be an answer to the stop, or of what stopped the job.
Fate FateOf(const JobReport& report, const WorkerExit& exit) {
  const bool failure = report.cause == CauseKind::kWorker || report.cause == CauseKind::kNodeLost;
  const bool own_code = exit.kind == ExitKind::kExited && exit.code < 128;
  return !exit.stopped_by_us   ? Fate::kFailed
         : failure && own_code ? Fate::kFailedMeanwhile
                               : Fate::kStopped;
}

// "ranks 0-2,4" of any order.
std::string Ranks(std::vector<uint32_t> ranks) {
  std::sort(ranks.begin(), ranks.end());
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", RangeList(ranks));
}

// "ranks 0-2,4 (SIGTERM)" for all that ended alike.
std::string Grouped(const JobReport& report, Fate fate) {
  std::map<std::string, std::vector<uint32_t>> by_how;
  for (const ExitRecord& record : report.exits) {
    const bool is_first = report.first.has_value() && record.exit.rank == report.first->exit.rank;
    if (FateOf(report, record.exit) == fate && !record.exit.Ok() && !is_first) {
      const std::optional<Rank>& because_of = record.exit.because_of;
      const std::string after = because_of.has_value() && fate == Fate::kFailed
                                    ? absl::StrCat(", after rank ", because_of->value)
                                    : "";
      const bool alike = report.first.has_value() && record.exit.kind == ExitKind::kSpawnFailed &&
                         record.exit.detail == report.first->exit.detail;
      by_how[alike ? "not started either" : How(record.exit) + after].push_back(
          record.exit.rank.value);
    }
  }
  std::string out;
  for (auto& [how, ranks] : by_how) {
    absl::StrAppend(&out, out.empty() ? "" : "; ", Ranks(std::move(ranks)), " (", how, ")");
  }
  return out;
}

// "b, c: ranks 2-5" for all nodes that were lost while the others went on.
std::string LostWithNodes(const JobReport& report) {
  std::vector<std::string> hosts;
  std::vector<uint32_t> ranks;
  for (const LostNode& node : report.lost_nodes) {
    hosts.push_back(node.hostname);
    ranks.insert(ranks.end(), node.ranks.begin(), node.ranks.end());
  }
  return absl::StrCat(absl::StrJoin(hosts, ", "), ": ", Ranks(std::move(ranks)));
}

nlohmann::json ExitJson(const ExitRecord& record) {
  const WorkerExit& exit = record.exit;
  nlohmann::json out = {
      {"rank", exit.rank.value},
      {"local_rank", exit.local_rank.value},
      {"host", record.hostname},
      {"pid", exit.pid},
      {"exit_code", exit.ExitCode()},
      {"how", How(exit)},
      {"ran_for_s", absl::ToDoubleSeconds(exit.ran_for)},
      {"oom_killed", exit.oom_killed},
      {"core_dumped", exit.core_dumped},
      {"stopped_by_muster", exit.stopped_by_us},
      {"rss_max_bytes", exit.rss_max_bytes},
      {"stderr_tail", exit.stderr_tail},
      {"error_message", exit.error_message},
      {"round", record.round.ToString()},
  };
  if (exit.kind == ExitKind::kSignaled) {
    out["signal"] = SignalName(exit.code);
  }
  if (exit.because_of.has_value()) {
    out["because_of"] = exit.because_of->value;
  }
  return out;
}

nlohmann::json UseJson(const UseRecord& record) {
  const NodeUse& use = record.use;
  nlohmann::json out = {
      {"host", record.hostname},
      {"workers", use.workers},
      {"cpus", use.cpus},
      {"lasted_s", absl::ToDoubleSeconds(use.lasted)},
      {"cpu_s", absl::ToDoubleSeconds(use.cpu_time)},
      {"ran_s", absl::ToDoubleSeconds(use.ran)},
      {"waited_s", absl::ToDoubleSeconds(use.waited)},
      {"waited_share", WaitedShare(use)},
      {"pressed_s", absl::ToDoubleSeconds(use.pressed)},
      {"steps", use.steps},
  };
  if (use.steps > 0) {
    out["steps_per_s"] = static_cast<double>(use.steps) / absl::ToDoubleSeconds(use.steps_took);
  }
  return out;
}

// What is known of the first cause.
std::string CauseText(const WorkerExit& exit, const std::string& python_dir) {
  std::string out;
  if (!exit.error_message.empty()) {
    absl::StrAppend(&out, "  its error file says:\n", Indented(exit.error_message));
  }
  if (!exit.stderr_tail.empty()) {
    absl::StrAppend(&out, "  its last lines on stderr:\n", Indented(exit.stderr_tail));
  }
  if (const std::string hint = TailHint(exit.stderr_tail, python_dir); !hint.empty()) {
    absl::StrAppend(&out, "  hint: ", hint, "\n");
  }
  if (exit.oom_killed) {
    absl::StrAppend(&out, "  peak memory ", exit.rss_max_bytes >> 20,
                    " MiB; the limit of its cgroup was reached, or the machine had no more "
                    "(dmesg tells which): ask for more memory or start fewer workers\n");
  }
  return out;
}

}  // namespace

std::string ReportText(const JobReport& report, const std::string& job_id,
                       const std::vector<std::string>& before, const std::string& python_dir) {
  if (report.exit_code == 0 && report.headline.empty()) {
    return "";
  }
  std::string out = absl::StrCat("muster: job ", job_id, ": ",
                                 report.headline.empty() ? "ended" : report.headline, "\n");
  if (report.first.has_value() && report.cause == CauseKind::kWorker) {
    out += CauseText(report.first->exit, python_dir);
  }
  if (!report.lost_nodes.empty()) {
    absl::StrAppend(&out, "  lost with ", LostWithNodes(report), "\n");
  }
  for (const auto& [fate, title] : {std::pair(Fate::kFailed, "failed as well"),
                                    std::pair(Fate::kStopped, "stopped because of that"),
                                    std::pair(Fate::kFailedMeanwhile, "failed meanwhile")}) {
    const std::string others = Grouped(report, fate);
    if (!others.empty()) {
      absl::StrAppend(&out, "  ", title, ": ", others, "\n");
    }
  }
  if (!report.ended_well.empty()) {  // others may have needed them
    absl::StrAppend(&out, "  ended with exit code 0: ", Ranks(report.ended_well), "\n");
  }
  if (!report.no_restart.empty()) {
    absl::StrAppend(&out, "  not started again: ", report.no_restart, "\n");
  }
  if (report.requeued > 0) {
    absl::StrAppend(&out, "  before: Slurm has restarted this job ",
                    Plural(report.requeued, "time", "times"), "\n");
  }
  for (const std::string& line : before) {
    absl::StrAppend(&out, "  before: ", line, "\n");
  }
  if (report.restarts > report.history.size()) {
    absl::StrAppend(&out, "  before: ", report.restarts - report.history.size(),
                    " rounds that are not shown\n");
  }
  for (const std::string& line : report.history) {
    absl::StrAppend(&out, "  before: ", line, "\n");
  }
  absl::StrAppend(&out, "  exit code ", report.exit_code, "\n");
  return out;
}

std::string StateText(const JobReport& report) {
  if (report.cause != CauseKind::kTimeout || report.exits.empty()) {
    return "";
  }
  std::map<Rank, const ExitRecord*> running;
  for (const ExitRecord& record : report.exits) {
    if (record.exit.stopped_by_us) {
      running[record.exit.rank] = &record;
    }
  }
  std::string out = "  when the time was over:\n";
  for (const auto& [rank, record] : running) {
    const WorkerExit& exit = record->exit;
    absl::StrAppend(&out, "    rank ", rank.value, " on ", record->hostname, ", pid ", exit.pid,
                    ": running, then ", How(exit), " after ", ShortDuration(exit.ran_for), "\n");
  }
  return out;
}

std::string AdviceText(const JobReport& report) {
  return absl::StrCat("muster: ", CpuAdvice(report.uses), "\n");
}

std::string ReportJson(const JobReport& report, const std::string& job_id,
                       const std::vector<std::string>& before) {
  std::vector<std::string> history = before;
  history.insert(history.end(), report.history.begin(), report.history.end());
  nlohmann::json out = {
      {"format", "muster-report-1"},         {"job_id", job_id},
      {"exit_code", report.exit_code},       {"cause", CauseName(report.cause)},
      {"headline", report.headline},         {"lost_node", report.lost_node},
      {"restarts", report.restarts},         {"history", history},
      {"no_restart", report.no_restart},     {"restarts_used", report.restarts_used},
      {"restarts_max", report.restarts_max}, {"requeued", report.requeued},
      {"exits", nlohmann::json::array()},    {"lost_nodes", nlohmann::json::array()},
      {"uses", nlohmann::json::array()},     {"advice", CpuAdvice(report.uses)},
      {"ended_well", report.ended_well},
  };
  if (report.first.has_value()) {
    out["first"] = ExitJson(*report.first);
  }
  for (const ExitRecord& record : report.exits) {
    out["exits"].push_back(ExitJson(record));
  }
  for (const LostNode& node : report.lost_nodes) {
    out["lost_nodes"].push_back(
        {{"host", node.hostname}, {"headline", node.headline}, {"ranks", node.ranks}});
  }
  for (const UseRecord& record : report.uses) {
    out["uses"].push_back(UseJson(record));
  }
  // Bytes of a worker's stderr need not be UTF-8.
  return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string CallersErrorText(const JobReport& report, absl::Time now) {
  if (report.cause != CauseKind::kWorker || !report.first.has_value() ||
      report.first->exit.error_message.empty()) {
    return "";
  }
  const WorkerExit& exit = report.first->exit;
  const nlohmann::json said = {
      {"message", exit.error_message},
      {"errorCode", exit.ExitCode()},
      {"extraInfo", {{"timestamp", absl::StrCat(absl::ToUnixSeconds(now))}}},
  };
  return nlohmann::json({{"message", said}})
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace muster
