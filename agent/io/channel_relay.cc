#include "agent/io/channel_relay.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/io/thread.h"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

constexpr size_t kRelayBytes = 256u << 10;  // each way

void SetNonBlocking(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

bool IsOneSocket(int in, int out) {
  struct stat a {};
  struct stat b {};
  return fstat(in, &a) == 0 && fstat(out, &b) == 0 && S_ISSOCK(a.st_mode) && a.st_ino == b.st_ino &&
         a.st_dev == b.st_dev;
}

class DirectSocket final : public ChannelRelay {
 public:
  explicit DirectSocket(UniqueFd socket) : socket_(std::move(socket)) {}
  UniqueFd TakeSocket() override { return std::move(socket_); }
  void Drain(absl::Duration /*within*/) override {}

 private:
  UniqueFd socket_;
};

// Bytes from one descriptor to another, through a bounded buffer.
class Pipe {
 public:
  Pipe(int from, int to) : from_(from), to_(to), buffer_(new char[kRelayBytes]) {}

  bool WantsRead() const { return !ended_ && have_ < kRelayBytes; }
  bool WantsWrite() const { return sent_ < have_; }
  bool Finished() const { return ended_ && !WantsWrite(); }
  int from() const { return from_; }
  int to() const { return to_; }

  void Read() {
    if (sent_ == have_) {
      sent_ = have_ = 0;
    }
    const ssize_t n = read(from_, buffer_.get() + have_, kRelayBytes - have_);
    if (n > 0) {
      have_ += static_cast<size_t>(n);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
      ended_ = true;
    }
  }
  void Write() {
    const ssize_t n = write(to_, buffer_.get() + sent_, have_ - sent_);
    if (n > 0) {
      sent_ += static_cast<size_t>(n);
    } else if (n < 0 && errno != EAGAIN && errno != EINTR) {
      ended_ = true;  // nobody takes it: what is left is dropped
      sent_ = have_;
    }
    if (sent_ == have_) {
      sent_ = have_ = 0;
    }
  }

 private:
  const int from_;
  const int to_;
  const std::unique_ptr<char[]> buffer_;  // not cleared: its pages come as they are used
  size_t have_ = 0;
  size_t sent_ = 0;
  bool ended_ = false;
};

// The two pipes tell without a lock: `stop_` is closed by the owner when it has waited enough,
// `ended_` by the thread when all is copied.
class ThreadRelay final : public ChannelRelay {
 public:
  struct Fds {
    UniqueFd in, out, inner, outer, stop_read, stop_write, ended_read, ended_write;
  };
  explicit ThreadRelay(Fds fds)
      : outer_(std::move(fds.outer)),
        stop_(std::move(fds.stop_write)),
        ended_(std::move(fds.ended_read)),
        fds_(std::move(fds)) {}
  ~ThreadRelay() override {
    stop_.Reset();
    thread_.reset();  // waits
  }
  ThreadRelay(const ThreadRelay&) = delete;
  ThreadRelay& operator=(const ThreadRelay&) = delete;

  absl::Status Start() {
    ASSIGN_OR_RETURN(Thread thread, Thread::Start("relay", [this] { Run(std::move(fds_)); }));
    thread_.emplace(std::move(thread));
    return absl::OkStatus();
  }
  UniqueFd TakeSocket() override { return std::move(outer_); }
  void Drain(absl::Duration within) override {
    outer_.Reset();
    pollfd entry{ended_.get(), POLLIN, 0};
    poll(&entry, 1, static_cast<int>(absl::ToInt64Milliseconds(within)));
  }

 private:
  static void Run(Fds fds);

  UniqueFd outer_;
  UniqueFd stop_;
  UniqueFd ended_;
  Fds fds_;  // the thread's from Start on
  std::optional<Thread> thread_;
};

void ThreadRelay::Run(Fds fds) {
  Pipe inward(fds.in.get(), fds.inner.get());
  Pipe outward(fds.inner.get(), fds.out.get());
  bool told_end = false;
  while (!outward.Finished()) {
    if (inward.Finished() && !std::exchange(told_end, true)) {
      shutdown(fds.inner.get(), SHUT_WR);  // gRPC sees the end of the connection
    }
    // A negative descriptor is left out (poll(2)).
    pollfd entries[] = {
        {fds.stop_read.get(), POLLIN, 0},
        {inward.WantsRead() ? inward.from() : -1, POLLIN, 0},
        {inward.WantsWrite() ? inward.to() : -1, POLLOUT, 0},
        {outward.WantsRead() ? outward.from() : -1, POLLIN, 0},
        {outward.WantsWrite() ? outward.to() : -1, POLLOUT, 0},
    };
    if (poll(entries, std::size(entries), -1) < 0) {
      continue;  // EINTR
    }
    if (entries[0].revents != 0) {
      return;
    }
    if (entries[1].revents != 0) inward.Read();
    if (entries[2].revents != 0) inward.Write();
    if (entries[3].revents != 0) outward.Read();
    if (entries[4].revents != 0) outward.Write();
  }
}

bool MakePipe(UniqueFd* read_end, UniqueFd* write_end) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) {
    return false;
  }
  read_end->Reset(fds[0]);
  write_end->Reset(fds[1]);
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChannelRelay>> ChannelRelay::Start(UniqueFd in, UniqueFd out) {
  if (IsOneSocket(in.get(), out.get())) {
    return std::unique_ptr<ChannelRelay>(std::make_unique<DirectSocket>(std::move(in)));
  }
  ThreadRelay::Fds fds;
  int pair[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0 ||
      !MakePipe(&fds.stop_read, &fds.stop_write) || !MakePipe(&fds.ended_read, &fds.ended_write)) {
    return absl::InternalError(absl::StrCat("channel: socketpair: ", std::strerror(errno)));
  }
  fds.inner.Reset(pair[0]);
  fds.outer.Reset(pair[1]);
  SetNonBlocking(in.get());
  SetNonBlocking(out.get());
  fds.in = std::move(in);
  fds.out = std::move(out);
  auto relay = std::make_unique<ThreadRelay>(std::move(fds));
  RETURN_IF_ERROR(relay->Start());
  return std::unique_ptr<ChannelRelay>(std::move(relay));
}

}  // namespace muster
