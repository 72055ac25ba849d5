#include "agent/io/worker_stdin.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace muster {

WorkerStdin::WorkerStdin(uv_loop_t* loop, std::function<void(size_t)> taken)
    : loop_(loop), taken_(std::move(taken)) {}

WorkerStdin::~WorkerStdin() { CloseAll(); }

UniqueFd WorkerStdin::Open() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) {
    return UniqueFd();  // the worker reads /dev/null
  }
  Add(UniqueFd(fds[1]));
  return UniqueFd(fds[0]);
}

void WorkerStdin::OpenTerminal(UniqueFd terminal) { Add(std::move(terminal)); }

void WorkerStdin::Add(UniqueFd fd) {
  std::erase_if(pipes_, [](const auto& gone) { return !gone->fd.valid(); });
  auto pipe = std::make_unique<Pipe>();
  fcntl(fd.get(), F_SETFL, O_NONBLOCK);
  pipe->fd = std::move(fd);
  pipe->at = base_;
  pipes_.push_back(std::move(pipe));
  Flush(*pipes_.back());
}

void WorkerStdin::Put(absl::string_view bytes, bool eof) {
  waiting_.append(bytes.data(), bytes.size());
  eof_ = eof_ || eof;
  for (const auto& pipe : pipes_) {
    Flush(*pipe);
  }
  Trim();
}

void WorkerStdin::Flush(Pipe& pipe) {
  if (!pipe.fd.valid()) {
    return;
  }
  while (pipe.at < base_ + waiting_.size()) {
    const absl::string_view rest = absl::string_view(waiting_).substr(pipe.at - base_);
    const ssize_t n = write(pipe.fd.get(), rest.data(), rest.size());
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0 && errno == EAGAIN) {
      if (!pipe.poll) {
        pipe.poll.emplace(loop_, pipe.fd.get(), [this, &pipe](int) {
          Flush(pipe);
          Trim();
        });
      }
      pipe.poll->Start(UV_WRITABLE);
      return;
    }
    if (n < 0) {
      return Close(pipe);  // the worker does not read, or is gone
    }
    pipe.at += static_cast<uint64_t>(n);
  }
  if (pipe.poll) {
    pipe.poll->Stop();
  }
  if (eof_) {
    Close(pipe);
  }
}

void WorkerStdin::Close(Pipe& pipe) {
  pipe.poll.reset();
  pipe.fd.Reset();
}

void WorkerStdin::Trim() {
  if (pipes_.empty()) {
    return;  // kept for the worker that is about to start
  }
  uint64_t least = base_ + waiting_.size();
  for (const auto& pipe : pipes_) {
    if (pipe->fd.valid()) {
      least = std::min(least, pipe->at);
    }
  }
  const uint64_t done = least - base_;
  if (done > 0) {
    waiting_.erase(0, done);
    base_ = least;
    taken_(done);
  }
}

void WorkerStdin::CloseAll() {
  for (const auto& pipe : pipes_) {
    Close(*pipe);
  }
  Trim();
  pipes_.clear();
}

}  // namespace muster
