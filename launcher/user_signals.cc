#include "launcher/user_signals.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <iterator>
#include <utility>

#include "launcher/jobs/keeper_link.h"
#include "proto/base/clock.h"
#include "proto/base/passed_signals.h"
#include "proto/base/signal_mask.h"
#include "proto/base/unique_fd.h"

namespace muster {
namespace {

StopWish WishOf(const StopOrder& order) {
  StopWish out{order.signo, order.now, StopBy::kCommand};
  if (order.grace_ms >= 0) {
    out.grace = absl::Milliseconds(order.grace_ms);
  }
  return out;
}

}  // namespace

UserSignals::UserSignals(uv_loop_t* loop, Callbacks callbacks, std::vector<int> also_stop,
                         int keeper_fd)
    : callbacks_(std::move(callbacks)), also_stop_(std::move(also_stop)), keeper_fd_(keeper_fd) {
  const auto hear = [this, loop](int signo) {
    struct sigaction old {};
    if (sigaction(signo, nullptr, &old) == 0 && old.sa_handler == SIG_IGN) {
      return;  // nohup, or a shell's background job: our caller does not want it noticed
    }
    signals_.emplace_back(loop, signo, [this, signo] { On(signo); });
    signals_.back().Unref();
  };
  std::for_each(std::begin(kPassedSignals), std::end(kPassedSignals), hear);
  hear(SIGTSTP);
  hear(SIGCONT);
  HearAllSignals();  // HoldStopsIfFirst
  if (keeper_fd_ >= 0) {
    keeper_.emplace(loop, keeper_fd_, [this](int) { OnKeeper(); });
    keeper_->Start(UV_READABLE);
    keeper_->Unref();
    SendPacket(keeper_fd_, Packet::kListens, callbacks_.master_elsewhere);
  }
}

void UserSignals::OnKeeper() {
  bool closed = false;
  while (const std::optional<KeeperPacket> packet = ReceivePacket(keeper_fd_, closed)) {
    if (const auto order = ParseStop(packet->text); packet->kind == Packet::kStop && order) {
      Stop(WishOf(*order));
    } else if (packet->kind == Packet::kDrill) {
      OnDrill(packet->text);
    } else if (const auto ask = ParseNumbered(packet->text);
               packet->kind == Packet::kRestart && ask.has_value()) {
      callbacks_.on_restart(ask->number);
    }
  }
  if (closed) {
    keeper_->Stop();
  }
}

void UserSignals::OnDrill(const std::string& text) {
  const std::optional<Numbered> ask = ParseNumbered(text);
  const std::optional<DrillWords> drill =
      ask.has_value() ? ParseDrillText(ask->text) : std::nullopt;
  if (drill.has_value()) {
    callbacks_.on_drill(ask->number, *drill);
  }
}

void UserSignals::Heard(int signo, NodeId agent) {
  if (fold_.IsNew(signo, agent, BootNow())) {
    Obey(signo);
  }
}

void UserSignals::On(int signo) {
  if (fold_.IsNew(signo, std::nullopt, BootNow())) {
    Obey(signo);
  }
}

void UserSignals::Obey(int signo) {
  switch (signo) {
    case SIGUSR1:
    case SIGUSR2:
      return std::count(also_stop_.begin(), also_stop_.end(), signo) > 0
                 ? Stop({signo})
                 : callbacks_.on_pass(signo);
    case SIGTSTP:
      return callbacks_.on_suspend();
    case SIGCONT:
      return callbacks_.on_continue();
    default: {
      const bool again = signo == SIGINT && interrupted_;
      interrupted_ = interrupted_ || signo == SIGINT;
      return Stop({signo, again});
    }
  }
}

void UserSignals::Stop(const StopWish& wish) {
  stop_asked_ = true;
  callbacks_.on_stop(wish);
}

bool UserSignals::HaveTerminal() {
  return UniqueFd(open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC)).valid();
}

void UserSignals::SuspendSelf() { kill(getpid(), SIGSTOP); }

}  // namespace muster
