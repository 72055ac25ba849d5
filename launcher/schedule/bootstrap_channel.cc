#include "launcher/schedule/bootstrap_channel.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/base/build_info.h"
#include "proto/base/check.h"
#include "proto/base/status_macros.h"
#include "proto/ship/sha256.h"

namespace muster {
namespace {

constexpr size_t kProgramBytesMax = 1u << 30;  // a debug build with sanitizers has 300 MB

std::string OwnMachine() {
  utsname name{};
  return uname(&name) == 0 ? name.machine : "";
}

}  // namespace

absl::StatusOr<absl::string_view> AgentProgram::Bytes() {
  if (!bytes_.empty()) {
    return absl::string_view(bytes_);
  }
  const UniqueFd file(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (!file.valid() || fstat(file.get(), &info) != 0) {
    return absl::NotFoundError(absl::StrCat(path_, ": ", std::strerror(errno)));
  }
  if (!S_ISREG(info.st_mode) || static_cast<uint64_t>(info.st_size) > kProgramBytesMax) {
    return absl::FailedPreconditionError(absl::StrCat(path_, " is no program"));
  }
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  for (size_t have = 0; have < bytes.size();) {
    const ssize_t n = read(file.get(), bytes.data() + have, bytes.size() - have);
    if (n == 0 || (n < 0 && errno != EINTR)) {
      return absl::UnavailableError(absl::StrCat("read ", path_, ": ", std::strerror(errno)));
    }
    have += n > 0 ? static_cast<size_t>(n) : 0;
  }
  bytes_ = std::move(bytes);
  return absl::string_view(bytes_);
}

absl::StatusOr<std::string> AgentProgram::Digest() {
  if (digest_.empty()) {
    ASSIGN_OR_RETURN(const absl::string_view bytes, Bytes());
    Sha256 sum;
    sum.Add(bytes);
    digest_ = absl::BytesToHexString(sum.Digest());
  }
  return digest_;
}

BootstrapChannel::BootstrapChannel(uv_loop_t* loop, UniqueFd socket, std::string frame,
                                   Callbacks callbacks)
    : socket_(std::move(socket)),
      frame_(std::move(frame)),
      callbacks_(std::move(callbacks)),
      poll_(
          std::make_unique<UvPoll>(loop, socket_.get(), [this](int events) { OnEvents(events); })) {
  Wait();
}

void BootstrapChannel::Wait() {
  const bool writing = !head_.empty() || !body_.empty();
  // While the program travels we still listen: a remote shell that gives up closes.
  poll_->Start((agent_is_there_ && writing ? 0 : UV_READABLE) | (writing ? UV_WRITABLE : 0));
}

void BootstrapChannel::OnEvents(int events) {
  if ((events & UV_WRITABLE) != 0 && (!head_.empty() || !body_.empty())) {
    Write();
  } else if ((events & UV_READABLE) != 0 && agent_is_there_) {
    OnGives();
  } else if ((events & UV_READABLE) != 0) {
    Read();
  }
}

void BootstrapChannel::Read() {
  char bytes[4096];
  const ssize_t n = recv(socket_.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  if (n <= 0) {
    Fail(sends_ != Sends::kNothing
             ? "the connection closed while the agent's program was being sent or started"
             : "the connection closed before an agent answered",
         true);
    return;
  }
  received_ += static_cast<size_t>(n);
  const bool asked = sends_ == Sends::kAsked;
  for (ssize_t i = 0; i < n; ++i) {
    if (bytes[i] != '\n') {
      line_.push_back(bytes[i]);
    } else if (!OnLine(std::exchange(line_, ""))) {
      return;  // this object may be gone
    }
  }
  if (received_ > kBannerBytesMax) {
    Fail(absl::StrCat("more than ", kBannerBytesMax,
                      " bytes came and no agent: does a start-up file of the shell print?"));
  } else if (sends_ == Sends::kAsked && !asked) {
    const auto on_wanted = callbacks_.on_wanted;
    on_wanted(fetches_);
  }
}

bool BootstrapChannel::OnLine(const std::string& line) {
  absl::string_view rest = line;
  if (absl::ConsumePrefix(&rest, kAgentReadyLine)) {
    if (rest != BuildName()) {
      Fail(absl::StrCat("the agent there is muster ", rest, ", this is ", BuildName(),
                        ": install the same build"));
      return false;
    }
    if (sends_ == Sends::kAsked) {
      Fail("the node asks for the agent's program, and has it");
      return false;
    }
    agent_is_there_ = true;
    head_.clear();
    body_ = frame_;
    Wait();
    return false;
  }
  if (absl::ConsumePrefix(&rest, kAgentWantedLine)) {
    return OnWanted(rest);
  }
  absl::StrAppend(&banner_, line, "\n");
  if (banner_.size() > kBannerTailBytes) {
    banner_.erase(0, banner_.size() - kBannerTailBytes);
  }
  return true;
}

bool BootstrapChannel::OnWanted(absl::string_view machine) {
  if (!callbacks_.on_wanted || sends_ == Sends::kAsked || sends_ == Sends::kSent) {
    Fail("the node asks for the agent's program again");
    return false;
  }
  fetches_ = absl::ConsumeSuffix(&machine, kAgentFetches);
  if (machine != OwnMachine()) {
    Fail(absl::StrCat("the node is ", machine, ", this machine ", OwnMachine(),
                      ": install muster there under the same path as here"));
    return false;
  }
  sends_ = Sends::kAsked;
  return true;
}

void BootstrapChannel::Send(absl::string_view program) {
  CHECK(sends_ == Sends::kAsked);
  sends_ = Sends::kSent;
  head_ = absl::StrCat(program.size(), "\n");
  body_ = program;
  Wait();
}

void BootstrapChannel::Refer(size_t bytes, const std::string& digest, const std::string& token,
                             const ProgramGiverAddress& from) {
  CHECK(sends_ == Sends::kAsked);
  sends_ = Sends::kReferred;
  head_ = absl::StrCat(bytes, " ", token, " ", from.address, " ", from.port, " ", digest, "\n");
  Wait();
}

// A byte at a time: what follows the line is gRPC's.
void BootstrapChannel::OnGives() {
  char byte = 0;
  ssize_t n = 0;
  while ((n = recv(socket_.get(), &byte, 1, MSG_DONTWAIT)) == 1 && byte != '\n' &&
         line_.size() < kAgentGivesBytesMax) {
    line_.push_back(byte);
  }
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  if (n <= 0) {
    return Fail("the connection closed before the agent joined", true);
  }
  if (byte != '\n' || !absl::StartsWith(line_, kAgentGivesLine)) {
    return Fail("the agent does not say where it gives its program");
  }
  callbacks_.on_gives(ParseGiving(line_));
  Ready();
}

void BootstrapChannel::Ready() {
  poll_.reset();
  const auto on_ready = callbacks_.on_ready;
  UniqueFd socket = std::move(socket_);
  on_ready(std::move(socket));
}

void BootstrapChannel::Write() {
  const absl::string_view next = head_.empty() ? body_ : absl::string_view(head_);
  const ssize_t n = send(socket_.get(), next.data(), next.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n < 0) {
    if (errno != EAGAIN && errno != EINTR) {
      Fail(absl::StrCat("the connection broke: ", std::strerror(errno)), true);
    }
    return;
  }
  if (head_.empty()) {
    body_.remove_prefix(static_cast<size_t>(n));
  } else {
    head_.erase(0, static_cast<size_t>(n));
  }
  if (callbacks_.on_progress) {
    callbacks_.on_progress();
  }
  if (!head_.empty() || !body_.empty()) {
    return;
  }
  const bool gives = sends_ != Sends::kNothing && callbacks_.on_gives;
  if (agent_is_there_ && !gives) {
    Ready();
    return;
  }
  Wait();
}

void BootstrapChannel::Fail(const std::string& why, bool closed) {
  poll_.reset();
  socket_.Reset();
  const auto on_failed = callbacks_.on_failed;
  on_failed(why, closed);
}

}  // namespace muster
