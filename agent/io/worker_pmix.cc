#include "agent/io/worker_pmix.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/base/log.h"
#include "proto/base/text.h"

namespace muster {
namespace {

constexpr size_t kReadBytes = 64u << 10;
// It takes 50 ms; libraries on a slow file system take longer.
constexpr absl::Duration kStartWithin = absl::Seconds(30);
constexpr absl::string_view kHelperName = "muster-pmix";

}  // namespace

WorkerPmix::WorkerPmix(uv_loop_t* loop, Callbacks callbacks)
    : loop_(loop),
      callbacks_(std::move(callbacks)),
      patience_(loop,
                [this] {
                  for (const LocalRank worker : std::exchange(aborted_, {})) {
                    callbacks_.kill(worker);
                  }
                }),
      deadline_(loop, [this] {
        Lose(absl::StrCat("it did not start within ", ShortDuration(kStartWithin)));
      }) {
  patience_.Unref();
}

void WorkerPmix::BeginRound(PmixWorld world) {
  EndRound();
  node_ = std::make_unique<PmixNode>(std::move(world));
  std::array<int, 2> ends{};
  const std::string& folder = node_->world().folder;
  if (mkdir(folder.c_str(), 0700) != 0) {
    return Lose(absl::StrCat("no folder ", folder, ": ", std::strerror(errno)));
  }
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return Lose(absl::StrCat("no socket: ", std::strerror(errno)));
  }
  socket_.Reset(ends[0]);
  poll_.emplace(loop_, socket_.get(), [this](int events) { OnReady(events); });
  poll_->Start(UV_READABLE);
  poll_->Unref();
  deadline_.StartAfter(kStartWithin);
  callbacks_.start(UniqueFd(ends[1]));
  if (starting()) {
    Say(PmixServe{node_->world()});
  }
}

void WorkerPmix::Closing() {
  if (node_ == nullptr) {
    return;
  }
  while (socket_.valid() && Read()) {  // who has aborted, or finalized
  }
  poll_.reset();
  socket_.Reset();
  aborted_.clear();
  deadline_.Stop();
  node_->Closing();
}

void WorkerPmix::EndRound() {
  if (node_ == nullptr) {
    return;
  }
  std::error_code ignored;  // what a dying process still holds is in memory, and goes with it
  std::filesystem::remove_all(node_->world().folder, ignored);
  poll_.reset();
  socket_.Reset();
  node_.reset();
  reader_ = PmixReader();
  out_.clear();
  sent_ = 0;
  aborted_.clear();
  patience_.Stop();
  deadline_.Stop();
}

void WorkerPmix::OnReady(int events) {
  if ((events & UV_WRITABLE) != 0) {
    Flush();
  }
  if (poll_.has_value() && (events & UV_READABLE) != 0) {
    Read();
  }
}

bool WorkerPmix::Read() {
  std::array<char, kReadBytes> bytes;
  const ssize_t got = recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
    return errno == EINTR;
  }
  if (got <= 0) {
    Lose("its process, muster-pmix, has ended");
    return false;
  }
  reader_.Put({bytes.data(), static_cast<size_t>(got)});
  while (socket_.valid()) {
    absl::StatusOr<std::optional<PmixMessage>> next = reader_.Next();
    if (!next.ok()) {
      Lose(absl::StrCat("it sent ", next.status().message()));
    } else if (!next->has_value()) {
      break;
    } else {
      Execute(node_->Take(**std::move(next)));
    }
  }
  return socket_.valid();
}

void WorkerPmix::Say(const PmixMessage& message) {
  absl::StatusOr<std::string> bytes = EncodePmix(message);
  if (!bytes.ok()) {
    return Lose(bytes.status().message());
  }
  out_ += *bytes;
  Flush();
}

void WorkerPmix::Flush() {
  while (sent_ < out_.size() && socket_.valid()) {
    const ssize_t put =
        send(socket_.get(), out_.data() + sent_, out_.size() - sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (put < 0 && errno != EAGAIN && errno != EINTR) {
      while (socket_.valid() && Read()) {  // what it said last, and then its end
      }
      return;
    }
    if (put < 0) {
      return poll_->Start(UV_READABLE | UV_WRITABLE);
    }
    sent_ += static_cast<size_t>(put);
  }
  out_.clear();
  sent_ = 0;
  if (poll_.has_value()) {
    poll_->Start(UV_READABLE);
  }
}

void WorkerPmix::Lose(absl::string_view why) {
  poll_.reset();
  socket_.Reset();
  Execute(node_->Lost(why));
}

void WorkerPmix::HelperFailed(const std::string& why) {
  if (node_ != nullptr) {
    Lose(why);
  }
}

void WorkerPmix::Execute(const std::vector<PmixEffect>& effects) {
  for (const PmixEffect& effect : effects) {
    if (const auto* start = std::get_if<PmixStart>(&effect)) {
      deadline_.Stop();
      callbacks_.on_ready(start->variables);
    } else if (const auto* no_start = std::get_if<PmixNoStart>(&effect)) {
      deadline_.Stop();
      callbacks_.on_ready(absl::UnavailableError(no_start->why));
    } else if (const auto* enter = std::get_if<PmixEnter>(&effect)) {
      callbacks_.enter(enter->bytes);
    } else if (const auto* say = std::get_if<PmixSay>(&effect)) {
      Say(say->message);
    } else if (const auto* seek = std::get_if<PmixSeek>(&effect)) {
      callbacks_.seek(seek->node, seek->rank);
    } else if (const auto* tell = std::get_if<PmixTell>(&effect)) {
      callbacks_.tell(tell->rank, tell->bytes);
    } else if (const auto* kill = std::get_if<PmixKill>(&effect)) {
      if (kill->at_once) {
        callbacks_.kill(kill->worker);
      } else {
        aborted_.push_back(kill->worker);
        patience_.StartAfter(kMpiAbortPatience);
      }
    } else {
      LogWarning(std::get<PmixNotice>(effect).text);
    }
  }
}

void WorkerPmix::Fenced(const absl::StatusOr<std::string>& bytes) {
  if (node_ != nullptr) {
    Execute(node_->Fenced(bytes));
  }
}

void WorkerPmix::Found(uint32_t rank, const absl::StatusOr<std::string>& bytes) {
  if (node_ != nullptr) {
    Execute(node_->Found(rank, bytes));
  }
}

void WorkerPmix::Show(uint32_t rank) { Execute(node_->Show(rank)); }

MpiEnd WorkerPmix::WorkerEnded(LocalRank worker, bool well) {
  if (node_ == nullptr) {
    return {};
  }
  while (socket_.valid() && Read()) {
  }
  std::erase(aborted_, worker);
  Execute(node_->Ended(worker, well));
  return node_->End(worker);
}

absl::StatusOr<std::string> FindPmixHelper(const char* path) {
  std::array<char, 4096> self{};
  const ssize_t size = readlink("/proc/self/exe", self.data(), self.size());
  const std::string program(self.data(), size > 0 ? static_cast<size_t>(size) : 0);
  std::vector<std::string> folders = {program.substr(0, program.rfind('/'))};
  for (const absl::string_view folder : absl::StrSplit(path == nullptr ? "" : path, ':')) {
    if (!folder.empty() && folder.front() == '/') {
      folders.emplace_back(folder);
    }
  }
  for (const std::string& folder : folders) {
    std::string file = absl::StrCat(folder, "/", kHelperName);
    if (access(file.c_str(), X_OK) == 0) {
      return file;
    }
  }
  return absl::NotFoundError(absl::StrCat(
      "no ", kHelperName, " in ", folders.front(),
      " nor on PATH: install Muster there, from a build that has libpmix (Debian's libpmix-dev), "
      "or use --mpi none and the program's own mpirun"));
}

}  // namespace muster
