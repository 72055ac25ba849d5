#include "launcher/jobs/attach_question.h"

#include <unistd.h>

#include <cerrno>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proto/base/clock.h"

namespace muster {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(1);  // then the output goes on
constexpr size_t kAnswerBytesMax = 256;

void Say(absl::string_view text) {
  [[maybe_unused]] const ssize_t n = write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

std::optional<AttachAnswer> ParseAttachAnswer(absl::string_view line) {
  const std::string word = absl::AsciiStrToLower(absl::StripAsciiWhitespace(line));
  return word.empty()                      ? std::optional(AttachAnswer::kGoOn)
         : word == "d" || word == "detach" ? std::optional(AttachAnswer::kDetach)
         : word == "s" || word == "stop"   ? std::optional(AttachAnswer::kStop)
                                           : std::nullopt;
}

std::string AttachQuestion(const std::string& job, bool stopping) {
  return absl::StrCat("\n[d]etach (", job, " goes on", stopping ? " ending" : "", "), [s]top ",
                      stopping ? "it at once" : "the job", ", Enter: go on: ");
}

bool CanAskAtTerminal() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (isatty(fd) == 0) {
      return false;
    }
  }
  pollfd free = {STDERR_FILENO, POLLOUT, 0};
  return tcgetpgrp(STDIN_FILENO) == getpgrp() && poll(&free, 1, 0) == 1;
}

AttachAnswer AskAtTerminal(const std::string& question, int keeper,
                           const std::function<bool()>& over, const WaitSignals& signals) {
  Say(question);
  const absl::Time until = BootNow() + kPatience;
  for (;;) {
    pollfd fds[] = {{STDIN_FILENO, POLLIN, 0}, {keeper, POLLIN, 0}};
    signals.Poll(absl::MakeSpan(fds), until - BootNow());
    if (WaitSignals::Take() != 0) {
      Say("\n");
      return AttachAnswer::kDetach;
    }
    if (BootNow() >= until || (fds[1].revents != 0 && over())) {
      Say("\n");
      return AttachAnswer::kGoOn;
    }
    if (fds[0].revents == 0) {
      continue;
    }
    char line[kAnswerBytesMax];
    const ssize_t n = read(STDIN_FILENO, line, sizeof(line));
    if (n <= 0) {
      return AttachAnswer::kDetach;
    }
    if (const auto answer = ParseAttachAnswer({line, static_cast<size_t>(n)}); answer.has_value()) {
      return *answer;
    }
    Say(question);
  }
}

}  // namespace muster
