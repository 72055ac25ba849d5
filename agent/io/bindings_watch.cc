#include "agent/io/bindings_watch.h"

#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "agent/io/process_tree.h"
#include "agent/io/small_file.h"
#include "proto/base/log.h"

namespace muster {
namespace {

// After 1 s, 5 s, 25 s and 125 s: at the second, and later ones for who is slow, torch, MKL and
// OpenBLAS have their threads.
constexpr absl::Duration kFirstLook = absl::Seconds(1);
constexpr absl::Duration kLastLook = absl::Seconds(125);
constexpr int kLaterBy = 5;
constexpr absl::Duration kToldLook = absl::Seconds(5);  // what it finds is said
constexpr size_t kThreadsMax = 4096;                    // of a worker
constexpr size_t kStatusBytesMax = 64u << 10;

std::optional<CpuSet> CpusOfStatus(const std::string& text) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::ConsumePrefix(&line, "Cpus_allowed_list:")) {
      return ParseCpuList(line);
    }
  }
  return std::nullopt;
}

// Of the worker's process and all below it: a script's Python, a DataLoader's.
std::vector<ThreadCpus> ThreadsOfWorker(pid_t pid) {
  std::vector<ThreadCpus> out = ReadThreads(pid);
  for (const pid_t below : ProcessesBelow(pid)) {
    for (ThreadCpus& thread : ReadThreads(below)) {
      if (out.size() < kThreadsMax) {
        out.push_back(std::move(thread));
      }
    }
  }
  return out;
}

void LogLines(const std::string& text) {
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    LogInfo(line);
  }
}

}  // namespace

std::vector<ThreadCpus> ReadThreads(pid_t pid, const std::string& root) {
  std::vector<ThreadCpus> out;
  std::error_code error;
  const std::string folder = absl::StrCat(root, "/proc/", pid, "/task");
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    ThreadCpus thread;
    std::optional<CpuSet> cpus =
        CpusOfStatus(ReadHead((it->path() / "status").string(), kStatusBytesMax));
    if (absl::SimpleAtoi(it->path().filename().string(), &thread.tid) && cpus.has_value()) {
      thread.cpus = *std::move(cpus);
      out.push_back(std::move(thread));
    }
  }
  return out;
}

BindingsWatch::BindingsWatch(uv_loop_t* loop, std::string host)
    : host_(std::move(host)), timer_(loop, [this] { LookAgain(); }) {}

void BindingsWatch::Begin(const WorkerPlacement& placement, std::vector<uint32_t> ranks,
                          const std::vector<pid_t>& pids) {
  const CpuPlan& plan = *placement.plan();
  LogLines(PlacesText({host_, *placement.topology(), placement.allowed(), ranks, plan}));
  workers_.clear();
  for (size_t local = 0; local < pids.size(); ++local) {
    workers_.push_back({ranks[local], pids[local], plan.workers[local].cpus});
    LogInfo(absl::StrCat(
        host_, ": ",
        ThreadsText(ranks[local], pids[local], workers_.back().planned, ReadThreads(pids[local]))));
  }
  wait_ = kFirstLook;
  timer_.StartAfter(wait_);
}

void BindingsWatch::WorkerEnded(uint32_t local_rank) {
  if (local_rank < workers_.size()) {
    workers_[local_rank].done = true;
  }
}

void BindingsWatch::LookAgain() {
  for (Watched& worker : workers_) {
    if (worker.done) {
      continue;
    }
    const std::vector<ThreadCpus> threads = ThreadsOfWorker(worker.pid);
    const std::string text =
        absl::StrCat(host_, ": ", ThreadsText(worker.rank, worker.pid, worker.planned, threads));
    if (Drifted(worker.planned, threads)) {
      worker.done = true;
      LogWarning(text);
    } else if (wait_ == kToldLook && !threads.empty()) {
      LogInfo(text);
    }
  }
  if (wait_ < kLastLook) {
    wait_ *= kLaterBy;
    timer_.StartAfter(wait_);
  }
}

}  // namespace muster
