// Small words for messages to people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster {

std::string SignalName(int signo);   // "SIGTERM"; "signal 64" where there is no name
std::string SignalWords(int signo);  // "segmentation fault"
// Signal number of "TERM", "SIGTERM", "15"; 0 when it is none.
int SignalNumber(absl::string_view name);
std::string Plural(size_t n, absl::string_view one, absl::string_view many);  // "1 node", "3 nodes"
std::string ShortDuration(absl::Duration d);  // "850 ms", "12.3 s", "4 min 10 s"
// "0-3,7,9-10" of ascending numbers; at most `items_max` groups, then ", ...".
std::string RangeList(const std::vector<uint32_t>& numbers, size_t items_max = 16);
std::string ShowSent(absl::string_view bytes);  // a peer's, quoted: escaped, cut after 80
std::string HostPort(absl::string_view host, uint16_t port);  // "node0:29400", "[::1]:29400"
bool HasWord(const std::vector<std::string>& words, absl::string_view word);
// For a shell line that a person may copy: quoted only where it must be.
std::string ShellQuote(absl::string_view word);

}  // namespace muster
