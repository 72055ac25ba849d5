#include "agent/io/mpi_watch.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "agent/io/elf_file.h"
#include "agent/io/process_tree.h"
#include "agent/io/small_file.h"
#include "proto/base/log.h"

namespace muster {
namespace {

// After a quarter of a second, and each time after twice as long, up to a minute: programs import
// and open at their beginning what they use.
constexpr absl::Duration kMapsFirst = absl::Milliseconds(250);
constexpr absl::Duration kMapsLast = absl::Seconds(64);
constexpr absl::Duration kMpichTime = absl::Seconds(4);  // to come to its server
constexpr size_t kMapsBytesMax = 4u << 20;               // torch's are 200 KiB
constexpr size_t kNameBytesMax = 64;
constexpr size_t kChildrenMax = 16;

LoadedMpi MpiOfProcess(pid_t pid) {
  return MpiOfMaps(ReadHead(absl::StrCat("/proc/", pid, "/maps"), kMapsBytesMax));
}

// Whose children are ranks that it serves.
bool StartsRanks(pid_t pid) {
  const std::string name = ReadHead(absl::StrCat("/proc/", pid, "/comm"), kNameBytesMax);
  return absl::StartsWith(name, "mpi") || absl::StartsWith(name, "orte") ||
         absl::StartsWith(name, "prte") || absl::StartsWith(name, "hydra");
}

LoadedMpi MpiOfTree(pid_t pid) {
  LoadedMpi found = MpiOfProcess(pid);
  const std::vector<pid_t> children =
      StartsRanks(pid) ? std::vector<pid_t>() : ProcessesStartedBy(pid);
  for (size_t i = 0; i < children.size() && i < kChildrenMax && found.mpi.empty(); ++i) {
    found = MpiOfProcess(children[i]);
  }
  return found;
}

}  // namespace

LoadedMpi MpiOfMaps(const std::string& maps) {
  for (const absl::string_view line : absl::StrSplit(maps, '\n')) {
    const size_t path = line.find('/');
    if (path == absl::string_view::npos) {
      continue;
    }
    const absl::string_view name = line.substr(line.rfind('/') + 1);
    if (std::string mpi = MpiOfLibraries({std::string(name)}); !mpi.empty()) {
      return {std::move(mpi), std::string(line.substr(path))};
    }
  }
  return {};
}

MpiWatch::MpiWatch(uv_loop_t* loop) : loop_(loop), timer_(loop, [this] { LookAgain(); }) {}

void MpiWatch::Begin(uint32_t rank, pid_t pid, uint32_t world_size,
                     std::function<bool()> has_come) {
  if (told_) {
    return;
  }
  rank_ = rank;
  pid_ = pid;
  world_size_ = world_size;
  has_come_ = std::move(has_come);
  wait_ = kMapsFirst;
  reader_ = std::make_unique<DiskThread>(loop_);
  timer_.StartAfter(wait_);
}

void MpiWatch::End() {
  timer_.Stop();
  reader_.reset();
}

// Where there is no thread to be had, nothing is said.
void MpiWatch::LookAgain() {
  if (reader_->Start().ok()) {
    const auto found = std::make_shared<LoadedMpi>();
    reader_->Run([pid = pid_, found] { *found = MpiOfTree(pid); },
                 [this, found] { Found(*found); });
  }
}

void MpiWatch::Found(const LoadedMpi& found) {
  const bool mpich = found.mpi == "MPICH";
  if (mpich && has_come_()) {
    return;  // all is well
  }
  // It asks for its server some time after it was loaded.
  if (!found.mpi.empty() && (!mpich || wait_ >= kMpichTime)) {
    told_ = true;
    LogWarning(LoadedMpiNotice(rank_, found, world_size_));
  } else if (wait_ < kMapsLast) {
    wait_ *= 2;
    timer_.StartAfter(wait_);
  }
}

}  // namespace muster
