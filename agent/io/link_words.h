// What the agent says to workers and hears from them, one message each (proto/base/worker_link.h).
#pragma once

#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/base/fd_message.h"
#include "proto/base/unique_fd.h"
#include "proto/base/worker_link.h"

namespace muster {

// `out` is zero-filled before.
template <size_t kSize>
void WriteText(absl::string_view why, char (&out)[kSize]) {
  why.substr(0, kSize - 1).copy(out, kSize - 1);
}

inline absl::Status GoneError(uint32_t rank, LineEnd how) {
  return absl::UnavailableError(absl::StrCat(
      "rank ", rank, how == LineEnd::kDied ? " has died" : " has closed its communicator"));
}

inline void Welcome(int link, LinkWelcome welcome, int memory) {
  iovec part = {&welcome, sizeof(welcome)};
  // An empty socket takes one message; a worker that is gone again needs none.
  (void)SendWithFd(link, &part, 1, memory, MSG_DONTWAIT);
}

inline void Refuse(int link, absl::string_view why, LinkAnswer answer = LinkAnswer::kRefused) {
  LinkWelcome refusal;
  refusal.answer = answer;
  WriteText(why, refusal.why);
  Welcome(link, refusal, -1);
}

enum class Came : uint8_t { kNothing, kWord, kEnd };  // kEnd: or nonsense

inline Came Receive(int link, LinkWord* word) {
  iovec part = {word, sizeof(*word)};
  UniqueFd fd;
  const ssize_t got = ReceiveWithFd(link, &part, 1, fd, MSG_DONTWAIT);
  if (got < 0 && errno == EAGAIN) {
    return Came::kNothing;
  }
  return got == sizeof(*word) && word->magic == kLinkMagic ? Came::kWord : Came::kEnd;
}

inline constexpr int kWordsAtOnce = 64;     // then others of the loop have their turn
inline constexpr int kLastWordsMax = 1024;  // more than a socket holds; a child may go on

}  // namespace muster
