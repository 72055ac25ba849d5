#include "agent/io/worker_pmi.h"

#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/base/limits.h"
#include "proto/base/log.h"

namespace muster {
namespace {

constexpr size_t kReadBytes = 16u << 10;

}  // namespace

WorkerPmi::WorkerPmi(uv_loop_t* loop, Callbacks callbacks)
    : loop_(loop), callbacks_(std::move(callbacks)), patience_(loop, [this] {
        for (const LocalRank worker : std::exchange(aborted_, {})) {
          callbacks_.kill(worker);
        }
      }) {
  patience_.Unref();
}

void WorkerPmi::BeginRound(Pmi1Round round) {
  EndRound();
  links_.resize(round.appnums.size());
  server_ = std::make_unique<Pmi1Server>(std::move(round), kFenceBytesMax);
}

void WorkerPmi::EndRound() {
  links_.clear();
  server_.reset();
  aborted_.clear();
  patience_.Stop();
}

absl::StatusOr<UniqueFd> WorkerPmi::Open(LocalRank worker) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("no socket for PMI: ", std::strerror(errno)));
  }
  Link& link = links_[worker.value];
  link.ended = false;
  link.fd = UniqueFd(ends[0]);
  link.poll.emplace(loop_, link.fd.get(), [this, worker](int) { OnReady(worker); });
  link.poll->Start(UV_READABLE);
  link.poll->Unref();
  return UniqueFd(ends[1]);
}

void WorkerPmi::OnReady(LocalRank worker) {
  if (links_[worker.value].out.empty()) {
    Read(worker);
  } else {
    Flush(worker);
  }
}

size_t WorkerPmi::Read(LocalRank worker) {
  Link& link = links_[worker.value];
  std::array<char, kReadBytes> bytes;
  const ssize_t got = recv(link.fd.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got > 0) {
    link.in.append(bytes.data(), static_cast<size_t>(got));
    TakeLines(worker);
    return static_cast<size_t>(got);
  }
  if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
    Close(worker);
  }
  return 0;
}

void WorkerPmi::TakeLines(LocalRank worker) {
  Link& link = links_[worker.value];
  const std::string text = std::exchange(link.in, "");
  size_t at = 0;
  for (size_t end = text.find('\n'); !link.dropped && end != std::string::npos;
       end = text.find('\n', at)) {
    Execute(server_->Take(worker, absl::string_view(text).substr(at, end - at)));
    at = end + 1;
  }
  if (!link.fd.valid()) {
    return;  // it was no PMI
  }
  link.in = text.substr(at);
  if (link.in.size() > kPmi1LineMax) {  // no line any more, whatever follows
    Execute(server_->Take(worker, std::exchange(link.in, "")));
  }
}

void WorkerPmi::Flush(LocalRank worker) {
  Link& link = links_[worker.value];
  while (!link.out.empty()) {
    const ssize_t put =
        send(link.fd.get(), link.out.data(), link.out.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (put < 0) {
      if (errno != EAGAIN && errno != EINTR) {
        return Close(worker);
      }
      return link.poll->Start(UV_WRITABLE);
    }
    link.out.erase(0, static_cast<size_t>(put));
  }
  link.poll->Start(UV_READABLE);
}

void WorkerPmi::Close(LocalRank worker) {
  Link& link = links_[worker.value];
  link.poll.reset();
  link.fd.Reset();
  link.in.clear();
  link.out.clear();
}

void WorkerPmi::Execute(const std::vector<Pmi1Effect>& effects) {
  for (const Pmi1Effect& effect : effects) {
    if (const auto* reply = std::get_if<Pmi1Reply>(&effect)) {
      if (Link& link = links_[reply->to.value]; link.fd.valid() && !link.ended) {
        link.out += reply->line;
        Flush(reply->to);
      }
    } else if (const auto* drop = std::get_if<Pmi1Drop>(&effect)) {
      LogWarning(absl::StrCat("local rank ", drop->worker.value,
                              " does not speak PMI-1 on PMI_FD: ", drop->why));
      links_[drop->worker.value].dropped = true;
      Close(drop->worker);
    } else if (const auto* abort = std::get_if<Pmi1Abort>(&effect)) {
      if (aborted_.empty()) {
        patience_.StartAfter(kMpiAbortPatience);
      }
      aborted_.push_back(abort->by);
    } else if (const auto* notice = std::get_if<Pmi1Notice>(&effect)) {
      LogWarning(notice->text);
    } else {
      callbacks_.enter(std::get<Pmi1Enter>(effect).pairs);
    }
  }
}

bool WorkerPmi::HasCome(LocalRank worker) const {
  return server_ != nullptr && worker.value < links_.size() &&
         server_->End(worker).kind != MpiEnd::Kind::kNoMpi;
}

void WorkerPmi::Fenced(const absl::StatusOr<std::string>& pairs) {
  if (server_ != nullptr) {
    Execute(server_->Fenced(pairs));
  }
}

MpiEnd WorkerPmi::WorkerEnded(LocalRank worker, bool well) {
  if (server_ == nullptr || links_.size() <= worker.value) {
    return {};
  }
  Link& link = links_[worker.value];
  link.ended = true;
  // What it has said so far: a child of it may have the other end, and say more for ever.
  int said = 0;
  if (link.fd.valid() && ioctl(link.fd.get(), FIONREAD, &said) == 0) {
    for (auto left = static_cast<size_t>(said); left > 0 && link.fd.valid();) {
      const size_t got = Read(worker);
      left = got == 0 ? 0 : left - std::min(left, got);
    }
  }
  Close(worker);
  std::erase(aborted_, worker);
  Execute(server_->Ended(worker, well));
  return server_->End(worker);
}

}  // namespace muster
