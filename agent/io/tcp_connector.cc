#include "agent/io/tcp_connector.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/base/check.h"

namespace muster {

struct TcpConnector::Lookup {
  uv_getaddrinfo_t request{};
  TcpConnector* owner = nullptr;  // null: nobody waits any more
};

absl::StatusOr<std::pair<std::string, std::string>> SplitTarget(absl::string_view target) {
  const size_t colon = target.rfind(':');
  uint32_t port = 0;
  if (colon != absl::string_view::npos && absl::SimpleAtoi(target.substr(colon + 1), &port) &&
      port >= 1 && port <= 65535) {
    absl::string_view host = target.substr(0, colon);
    const bool bracketed = absl::ConsumePrefix(&host, "[") && absl::ConsumeSuffix(&host, "]");
    if (!host.empty() && (bracketed || host.find(':') == absl::string_view::npos)) {
      return std::pair(std::string(host), std::string(target.substr(colon + 1)));
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("want HOST:PORT or [ADDR]:PORT with port 1..65535, got '", target, "'"));
}

TcpConnector::TcpConnector(uv_loop_t* loop, const std::string& target, absl::Duration within,
                           std::function<void(absl::StatusOr<UniqueFd>)> done)
    : loop_(loop), target_(target), within_(within), done_(std::move(done)), timer_(loop, [this] {
        if (lookup_ != nullptr) {
          std::exchange(lookup_, nullptr)->owner = nullptr;
          Report(absl::UnavailableError(absl::StrCat(target_, ": the name was not resolved within ",
                                                     absl::FormatDuration(within_))));
        } else if (poll_ != nullptr) {
          Failed("no answer");
        } else {
          const std::string why = absl::StrCat(target_, ": ", failures_);
          Report(refused_ > 0 && refused_ == addresses_.size() ? absl::FailedPreconditionError(why)
                                                               : absl::UnavailableError(why));
        }
      }) {
  const auto parts = SplitTarget(target);
  if (!parts.ok()) {
    failures_ = std::string(parts.status().message());
    timer_.StartAfter(absl::ZeroDuration());
    return;
  }
  auto lookup = std::make_unique<Lookup>();
  lookup->owner = this;
  lookup->request.data = lookup.get();
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  lookup_ = lookup.release();  // libuv's now
  const int error = uv_getaddrinfo(
      loop, &lookup_->request,
      [](uv_getaddrinfo_t* request, int status, addrinfo* found) {
        const std::unique_ptr<Lookup> self(static_cast<Lookup*>(request->data));
        if (self->owner != nullptr) {
          self->owner->lookup_ = nullptr;
          self->owner->Resolved(status, found);
        }
        uv_freeaddrinfo(found);
      },
      parts->first.c_str(), parts->second.c_str(), &hints);
  CHECK(error == 0);
  timer_.StartAfter(within_);
}

TcpConnector::~TcpConnector() {
  if (lookup_ != nullptr) {
    lookup_->owner = nullptr;
  }
}

void TcpConnector::Resolved(int error, const addrinfo* found) {
  if (error != 0) {
    failures_ = absl::StrCat("the name is not known (", uv_strerror(error), ")");
    timer_.StartAfter(absl::ZeroDuration());
    return;
  }
  for (; found != nullptr; found = found->ai_next) {
    char text[NI_MAXHOST] = "?";
    getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof(text), nullptr, 0, NI_NUMERICHOST);
    addresses_.push_back(
        {std::string(reinterpret_cast<const char*>(found->ai_addr), found->ai_addrlen), text});
  }
  TryNext();
}

void TcpConnector::TryNext() {
  while (next_ < addresses_.size()) {
    const std::string& bytes = addresses_[next_].bytes;
    const auto* address = reinterpret_cast<const sockaddr*>(bytes.data());
    socket_.Reset(
        ::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
    if (socket_.valid() &&
        (connect(socket_.get(), address, static_cast<socklen_t>(bytes.size())) == 0 ||
         errno == EINPROGRESS)) {
      poll_ =
          std::make_unique<UvPoll>(loop_, socket_.get(), [this](int events) { Connected(events); });
      poll_->Start(UV_WRITABLE);
      timer_.StartAfter(within_ / static_cast<int64_t>(addresses_.size()));
      return;
    }
    refused_ += errno == ECONNREFUSED ? 1 : 0;
    absl::StrAppend(&failures_, failures_.empty() ? "" : "; ", addresses_[next_].text, ": ",
                    std::strerror(errno));
    ++next_;
  }
  timer_.StartAfter(absl::ZeroDuration());  // reports, but not from inside a call of the owner's
}

void TcpConnector::Connected(int /*events*/) {
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) {
    refused_ += error == ECONNREFUSED ? 1 : 0;
    Failed(std::strerror(error));
    return;
  }
  poll_.reset();
  timer_.Stop();
  const int on = 1;
  setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(socket_.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  Report(std::move(socket_));
}

void TcpConnector::Report(absl::StatusOr<UniqueFd> result) {
  const auto done = done_;  // the owner may destroy this object from inside
  done(std::move(result));
}

void TcpConnector::Failed(const std::string& why) {
  poll_.reset();
  socket_.Reset();
  absl::StrAppend(&failures_, failures_.empty() ? "" : "; ", addresses_[next_].text, ": ", why);
  ++next_;
  TryNext();
}

}  // namespace muster
