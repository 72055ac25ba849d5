#include "agent/io/program_giver.h"

#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>
#include <vector>

#include "proto/base/clock.h"
#include "proto/base/proof_text.h"
#include "proto/wire/bootstrap.h"

namespace muster {
namespace {

class SaysToken final : public Greeting {
 public:
  explicit SaysToken(const std::string& token) : token_(token + "\n") {}

  // One more than there are, so that who says more is known.
  size_t Wants() const override { return done_ ? 0 : token_.size() + 1 - said_.size(); }
  bool Take(absl::string_view bytes) override {
    said_.append(bytes.data(), bytes.size());
    done_ = said_.size() == token_.size() && ConstantTimeEqual(said_, token_);
    return done_ || said_.size() < token_.size();
  }
  bool Done() const override { return done_; }

 private:
  const std::string token_;
  std::string said_;
  bool done_ = false;
};

// What the process has but for standard ones and these; on an old kernel it keeps the rest.
void CloseOthers(int one, int other) {
  const auto [low, high] = std::minmax({static_cast<unsigned>(one), static_cast<unsigned>(other)});
  for (const auto& [first, last] :
       {std::pair{3u, low - 1}, std::pair{low + 1, high - 1}, std::pair{high + 1, ~0u}}) {
    if (first <= last) {
      syscall(SYS_close_range, first, last, 0u);
    }
  }
}

}  // namespace

std::unique_ptr<Greeting> TokenGreeting(const std::string& token) {
  return std::make_unique<SaysToken>(token);
}

void GiveWhileTheyCome(FileGiverOptions options, absl::Duration idle_max) {
  const absl::Duration look = std::min(options.stall_max, idle_max) / 4;
  FileGiver giver(std::move(options));
  while (giver.busy() || BootNow() - giver.last_came() < idle_max) {
    std::vector<pollfd> fds;
    giver.Watch(fds);
    if (poll(fds.data(), fds.size(), static_cast<int>(absl::ToInt64Milliseconds(look))) >= 0) {
      giver.Go(fds.data());
    }
  }
}

bool GiveBeside(UniqueFd listening, UniqueFd program, const std::string& token,
                std::function<void()> on_given) {
  const pid_t agent = getpid();
  const pid_t child = fork();
  if (child != 0) {
    return child > 0;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != agent) {
    _exit(0);
  }
  prctl(PR_SET_NAME, "muster-giver");
  CloseOthers(listening.get(), program.get());
  struct stat info {};
  FileGiverOptions options;
  options.listening = std::move(listening);
  options.file = program.get();
  options.bytes = fstat(program.get(), &info) == 0 ? static_cast<uint64_t>(info.st_size) : 0;
  options.greet = [token] { return TokenGreeting(token); };
  options.on_given = std::move(on_given);
  GiveWhileTheyCome(std::move(options), kAgentGivesFor);
  while (true) {
    pause();  // the agent has no use for the news that this has ended
  }
}

}  // namespace muster
