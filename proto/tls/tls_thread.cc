#include "proto/tls/tls_thread.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/clock.h"
#include "proto/base/limits.h"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

// Of a connection two are under way at most, that it comes and that it is kept; of an agent there
// are as many again that come before others are gone.
constexpr size_t kCommandsMax = 4 * size_t{kNodesMax};
// Of these, for the owner's own rest and end, which no flood of callers keeps out: the next of them
// comes when the one before is through.
constexpr size_t kCommandsSpare = 1;

absl::Status MakePair(UniqueFd* one, UniqueFd* other) {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("socketpair: ", std::strerror(errno), ": raise `ulimit -n`"));
  }
  one->Reset(fds[0]);
  other->Reset(fds[1]);
  return absl::OkStatus();
}

// Each may be a handshake to begin, some 200 us; connections that carry have their turn in between.
constexpr int kCommandsPerTurn = 16;

}  // namespace

struct TlsThread::Connection {
  Connection(uint64_t its_id, TlsPipe its_pipe) : id(its_id), pipe(std::move(its_pipe)) {}

  const uint64_t id;
  TlsPipe pipe;
  std::unique_ptr<UvPoll> socket_poll;  // both of descriptors of the pipe's
  std::unique_ptr<UvPoll> inner_poll;
  TlsWaits waits;
  absl::Time deadline = absl::InfiniteFuture();
  OnArrival on_arrival;                 // of one that has called, until it is told
  std::shared_ptr<TlsOutcome> outcome;  // of one that was called, until it is settled
  bool hung_up = false;                 // inside
};

TlsThread::TlsThread(const TlsIdentity* identity, size_t unproved_max)
    : server_(identity == nullptr ? nullptr : std::make_unique<const TlsContext>(*identity)),
      mailbox_(kCommandsMax, [this] { wake_->Send(); }),
      unproved_(unproved_max),
      scratch_(new char[kTlsRecordBytes]) {
  CHECK(uv_loop_init(&loop_) == 0);
  wake_ = std::make_unique<UvAsync>(&loop_, [this] {
    if (taken_.empty()) {
      for (Command& command : mailbox_.TakeAll()) {
        taken_.push_back(std::move(command));
      }
    }
    if (taken_.empty()) {
      return;
    }
    for (int i = 0; i < kCommandsPerTurn && !taken_.empty(); ++i) {
      Command command = std::move(taken_.front());
      taken_.pop_front();
      Do(command);
    }
    wake_->Send();  // more may be there, or have come meanwhile
  });
  timer_ = std::make_unique<UvTimer>(&loop_, [this] { CutLate(); });
  Resume();
}

TlsThread::~TlsThread() {
  if (!thread_.joinable()) {
    Resume();
  }
  Command end;
  end.kind = Command::kEnd;
  CHECK(mailbox_.Post(std::move(end)));
  thread_.join();
  connections_.clear();
  timer_.reset();
  wake_.reset();
  uv_run(&loop_, UV_RUN_DEFAULT);  // close callbacks
  CHECK(uv_loop_close(&loop_) == 0);
}

void TlsThread::Resume() {
  CHECK(!thread_.joinable());
  sigset_t all, before;  // signals are for the other threads
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] {
    prctl(PR_SET_NAME, "tls");
    uv_run(&loop_, UV_RUN_DEFAULT);
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void TlsThread::Rest() {
  CHECK(mailbox_.Post(Command()));
  thread_.join();
}

bool TlsThread::Tell(Command command) { return mailbox_.Post(std::move(command), kCommandsSpare); }

absl::StatusOr<TlsThread::Dialed> TlsThread::Connect(UniqueFd socket, TlsExpected expected,
                                                     absl::Duration within) {
  Dialed out;
  Command command;
  RETURN_IF_ERROR(MakePair(&command.inner, &out.inner));
  command.kind = Command::kConnect;
  command.id = ++next_id_;
  command.socket = std::move(socket);
  command.expected = std::move(expected);
  command.within = within;
  command.outcome = std::make_shared<TlsOutcome>();
  out.outcome = command.outcome;
  if (!Tell(std::move(command))) {
    return absl::UnavailableError(
        absl::StrCat("the thread of TLS has ", kCommandsMax, " connections before this one"));
  }
  return out;
}

void TlsThread::Accept(UniqueFd socket, std::string source, bool hear, absl::Duration within,
                       OnArrival on_arrival) {
  CHECK(server_ != nullptr);
  Command command;
  command.kind = Command::kAccept;
  command.id = ++next_id_;
  command.socket = std::move(socket);
  command.source = std::move(source);
  command.hear = hear;
  command.within = within;
  command.on_arrival = std::move(on_arrival);
  (void)Tell(std::move(command));  // where there is no room, it is closed: it comes again
}

void TlsThread::Keep(uint64_t id) {
  Command command;
  command.kind = Command::kKeep;
  command.id = id;
  (void)Tell(std::move(command));  // where there is no room, it is cut: it comes again
}

void TlsThread::Do(Command& command) {
  switch (command.kind) {
    case Command::kAccept: {
      if (const std::optional<uint64_t> gone = unproved_.Enter(command.id, command.source)) {
        Drop(*gone, absl::ResourceExhaustedError("others came after it"));
      }
      const int fd = command.socket.get();
      auto connection = std::make_unique<Connection>(
          command.id,
          TlsPipe(std::move(command.socket), TlsSession::Accept(*server_, fd), command.hear));
      connection->pipe.SetDownMax(kUnprovedBytesMax);
      connection->on_arrival = std::move(command.on_arrival);
      Add(std::move(connection), command.within);
      return;
    }
    case Command::kConnect: {
      const int fd = command.socket.get();
      auto connection = std::make_unique<Connection>(
          command.id,
          TlsPipe(std::move(command.socket),
                  TlsSession::Connect(client_, fd, std::move(command.expected)), false));
      connection->pipe.SetInner(std::move(command.inner));
      connection->outcome = std::move(command.outcome);
      Add(std::move(connection), command.within);
      return;
    }
    case Command::kKeep:
      if (const auto at = connections_.find(command.id);
          at != connections_.end() && !at->second->hung_up) {
        unproved_.Leave(command.id);
        SetDeadline(*at->second, absl::InfiniteFuture());
        at->second->pipe.SetDownMax(std::numeric_limits<size_t>::max());
        Turn(command.id);  // what was held back comes with no event where TLS has read it
      }
      return;
    case Command::kRest:
      uv_stop(&loop_);
      return;
    case Command::kEnd:
      End();
      return;
  }
}

void TlsThread::Add(std::unique_ptr<Connection> connection, absl::Duration within) {
  Connection& added = *connection;
  const uint64_t id = added.id;
  connections_[id] = std::move(connection);
  SetDeadline(added, BootNow() + within);
  added.socket_poll =
      std::make_unique<UvPoll>(&loop_, added.pipe.socket(), [this, id](int) { Turn(id); });
  Turn(id);
}

void TlsThread::Turn(uint64_t id) {
  Connection& connection = *connections_.at(id);
  TlsPipe& pipe = connection.pipe;
  const bool was_ready = pipe.ready();
  pipe.Turn(scratch_.get());
  if (!was_ready && pipe.ready()) {
    Arrive(connection);
    pipe.Turn(scratch_.get());  // TLS may hold bytes: no descriptor tells of them
  }
  if (pipe.stage() == TlsPipe::Stage::kOver) {
    Drop(id, pipe.session().failure());
  } else {
    Watch(connection);
  }
}

void TlsThread::Arrive(Connection& connection) {
  TlsPipe& pipe = connection.pipe;
  if (connection.outcome != nullptr) {
    const TlsSession& session = pipe.session();
    std::exchange(connection.outcome, nullptr)
        ->Settle({absl::OkStatus(), session.channel(), session.fingerprint(), session.is_site()});
    SetDeadline(connection, absl::InfiniteFuture());
    return;
  }
  Arrival arrival;
  UniqueFd inner;
  const OnArrival on_arrival = std::exchange(connection.on_arrival, nullptr);
  if (const absl::Status made = MakePair(&inner, &arrival.inner); !made.ok()) {
    SetDeadline(connection, BootNow());
    return on_arrival(made);
  }
  pipe.SetInner(std::move(inner));
  arrival.id = connection.id;
  arrival.channel = pipe.session().channel();
  on_arrival(std::move(arrival));
}

void TlsThread::Watch(Connection& connection) {
  const uint64_t id = connection.id;
  TlsWaits waits = connection.pipe.Waits();
  waits.inner &= connection.hung_up ? ~UV_DISCONNECT : ~0;
  if (waits.inner != 0 && connection.inner_poll == nullptr) {
    connection.inner_poll =
        std::make_unique<UvPoll>(&loop_, connection.pipe.inner(), [this, id](int events) {
          Connection& one = *connections_.at(id);
          if ((events & UV_DISCONNECT) != 0 && !std::exchange(one.hung_up, true)) {
            SetDeadline(one, std::min(one.deadline, BootNow() + kLingerTime));
          }
          Turn(id);
        });
  }
  const auto start = [](UvPoll* poll, int events, int before) {
    // Behind an error there may still be bytes.
    if (poll == nullptr || (events == before && (events == 0 || poll->active()))) {
      return;
    }
    if (events == 0) {
      poll->Stop();
    } else {
      poll->Start(events);
    }
  };
  start(connection.socket_poll.get(), waits.socket, connection.waits.socket);
  start(connection.inner_poll.get(), waits.inner, connection.waits.inner);
  connection.waits = waits;
}

void TlsThread::Drop(uint64_t id, const absl::Status& why) {
  const auto at = connections_.find(id);
  const std::unique_ptr<Connection> gone = std::move(at->second);
  connections_.erase(at);
  unproved_.Leave(id);
  SetDeadline(*gone, absl::InfiniteFuture());
  if (gone->on_arrival) {
    gone->on_arrival(why);
  } else if (gone->outcome != nullptr) {
    const TlsSession& session = gone->pipe.session();
    gone->outcome->Settle({why, "", session.fingerprint(), session.is_site()});
  }
  // Whoever sees the end knows why by then. A process that was forked meanwhile has both, too.
  for (const int fd : {gone->pipe.inner(), gone->pipe.socket()}) {
    if (fd >= 0) {
      (void)shutdown(fd, SHUT_RDWR);
    }
  }
  if (ending_ && connections_.empty()) {
    uv_stop(&loop_);
  }
}

void TlsThread::SetDeadline(Connection& connection, absl::Time deadline) {
  deadlines_.erase({connection.deadline, connection.id});
  connection.deadline = deadline;
  if (deadline != absl::InfiniteFuture()) {
    deadlines_.emplace(deadline, connection.id);
    if (deadlines_.begin()->second == connection.id || !timer_->active()) {
      timer_->StartAt(deadlines_.begin()->first);
    }
  }
}

void TlsThread::CutLate() {
  const absl::Time now = BootNow();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    Drop(deadlines_.begin()->second, absl::UnavailableError("it did not answer in time"));
  }
  if (!deadlines_.empty()) {
    timer_->StartAt(deadlines_.begin()->first);
  }
}

void TlsThread::End() {
  ending_ = true;
  const absl::Time deadline = BootNow() + kDrainTime;
  std::vector<uint64_t> idle;
  for (const auto& [id, connection] : connections_) {
    if (connection->pipe.stage() == TlsPipe::Stage::kCarrying) {
      SetDeadline(*connection, deadline);
    } else {
      idle.push_back(id);
    }
  }
  for (const uint64_t id : idle) {
    Drop(id, absl::CancelledError("this side ends"));
  }
  timer_->StartAt(deadline);
  if (connections_.empty()) {
    uv_stop(&loop_);
  }
}

}  // namespace muster
