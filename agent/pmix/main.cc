// muster-pmix: the PMIx server of one node and round. An agent starts it, and it ends with the
// agent's shepherd, or when the agent closes the socket between them. Only this program links
// libpmix, which brings threads and libraries that an agent cannot have.
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/pmix/pmix_server.h"
#include "proto/base/build_info.h"
#include "proto/base/log.h"
#include "proto/base/passed_signals.h"
#include "proto/base/unique_fd.h"
#include "proto/base/worker_link.h"

namespace muster {
namespace {

constexpr size_t kReadBytes = 64u << 10;

class Helper {
 public:
  Helper() : socket_(kWorkerPmiFd), woken_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  // Until the agent is gone.
  void Run() {
    while (open_) {
      pollfd fds[2] = {{socket_.get(), POLLIN, 0}, {woken_.get(), POLLIN, 0}};
      if (poll(fds, 2, -1) < 0 && errno != EINTR) {
        return;
      }
      if (fds[1].revents != 0) {
        TellUpCalls();
      }
      if (fds[0].revents != 0) {
        Read();
      }
    }
  }

 private:
  void TellUpCalls() {
    uint64_t count = 0;
    while (read(woken_.get(), &count, sizeof(count)) > 0) {
    }
    for (PmixUpCall& call : server_->TakeUpCalls()) {
      Tell(call.tell);  // before the client goes on, and maybe ends
      if (call.then != nullptr) {
        call.then();
      }
    }
  }

  void Read() {
    std::array<char, kReadBytes> bytes;
    const ssize_t got = recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got <= 0) {
      open_ = got < 0 && (errno == EAGAIN || errno == EINTR);
      return;
    }
    reader_.Put({bytes.data(), static_cast<size_t>(got)});
    while (open_) {
      absl::StatusOr<std::optional<PmixMessage>> next = reader_.Next();
      if (!next.ok()) {
        LogError(absl::StrCat("muster-pmix: its agent sent ", next.status().message()));
        open_ = false;
      } else if (!next->has_value()) {
        return;
      } else {
        Obey(**std::move(next));
      }
    }
  }

  void Obey(PmixMessage message) {
    if (auto* serve = std::get_if<PmixServe>(&message); serve != nullptr && server_ == nullptr) {
      server_ = std::make_unique<PmixServer>(std::move(serve->world), [this] {
        const uint64_t one = 1;
        static_cast<void>(!write(woken_.get(), &one, sizeof(one)));
      });
      absl::StatusOr<PmixReady> ready = server_->Start();
      Tell(ready.ok() ? PmixMessage(*std::move(ready))
                      : PmixMessage(PmixFailed{std::string(ready.status().message())}));
    } else if (auto* fenced = std::get_if<PmixFenced>(&message);
               fenced != nullptr && server_ != nullptr) {
      server_->Fenced(std::move(*fenced));
    } else if (const auto* found = std::get_if<PmixFound>(&message);
               found != nullptr && server_ != nullptr) {
      server_->Found(*found);
    } else if (const auto* show = std::get_if<PmixShow>(&message);
               show != nullptr && server_ != nullptr) {
      server_->Show(show->client);
    } else {
      LogError("muster-pmix: its agent sent what it never sends here");
      open_ = false;
    }
  }

  // Waits while the agent reads nothing: whoever holds the agent up ends this, too.
  void Tell(const PmixMessage& message) {
    const absl::StatusOr<std::string> bytes = EncodePmix(message);
    if (!bytes.ok()) {
      LogError(bytes.status().message());
      open_ = false;
      return;
    }
    for (absl::string_view rest = *bytes; !rest.empty() && open_;) {
      const ssize_t put = send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
      if (put >= 0) {
        rest.remove_prefix(static_cast<size_t>(put));
      } else if (errno != EINTR) {
        open_ = false;
      }
    }
  }

  const UniqueFd socket_;
  const UniqueFd woken_;
  std::unique_ptr<PmixServer> server_;
  PmixReader reader_;
  bool open_ = true;
};

}  // namespace
}  // namespace muster

// Its one argument is the agent's build: the messages are only for that.
int main(int argc, char** argv) {
  if (argc != 2 || argv[1] != muster::BuildName()) {
    muster::LogError(absl::StrCat("muster-pmix: this is build ", muster::BuildName(),
                                  ", started by an agent of build ", argc == 2 ? argv[1] : "none",
                                  ": it is started by muster-agent and launch only, of one build"));
    return 2;
  }
  // For the workers: PBS signals all of the job on its first host. We end with the round.
  for (const int signo : muster::kPassedSignals) {
    signal(signo, SIG_IGN);
  }
  signal(SIGPIPE, SIG_IGN);      // a client may die while libpmix answers it
  static muster::Helper helper;  // libpmix's threads call it to the end
  helper.Run();
  _exit(0);  // they still run, and nothing is left to be said
}
