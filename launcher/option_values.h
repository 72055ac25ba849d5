// Values of options: text in, value or a message "--flag: want ..., got '...'" out. Pure;
// thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "launcher/options.h"
#include "proto/base/work_plan.h"

namespace muster {

absl::Status WantError(const OptionValue& value, absl::string_view want);

// Into `out`, unchanged. Error: there is no text.
absl::Status NotEmpty(const OptionValue& value, std::string& out);

absl::StatusOr<uint32_t> ParseNumber(const OptionValue& value, uint32_t low, uint32_t high);
// "" 0 1 true false yes no, for PET_ flags.
absl::StatusOr<bool> ParseBool(const OptionValue& value);
// "90", "1.5" (seconds), "90m", "1h30m", "500ms", "2d", "1:30" (m:s), "h:m:s", "d:h:m:s". At most
// 10 years.
absl::StatusOr<absl::Duration> ParseTime(const OptionValue& value);
// "512", "64K", "1G", "1GiB": bytes, in powers of 1024.
absl::StatusOr<uint64_t> ParseSize(const OptionValue& value);
// torchrun's Std: "3", or "0:1,1:2" by local rank.
absl::StatusOr<StreamSelect> ParseStreams(const OptionValue& value);
// "0,3-5", ascending and without repeats whatever the order of the text.
absl::StatusOr<std::vector<uint32_t>> ParseRanks(const OptionValue& value);
// "loss,step time": texts to look for.
absl::StatusOr<std::vector<std::string>> ParseFilters(const OptionValue& value);
// "NAME=value" words of --rdzv-conf: "k=v,k2=v2".
absl::StatusOr<std::map<std::string, std::string>> ParsePairs(const OptionValue& value);

struct Endpoint {
  std::string host;  // IPv6 without brackets
  uint16_t port = 0;
  std::string file;  // of file:///path
};
// HOST, HOST:PORT, [::1]:PORT, ::1, file:///path.
absl::StatusOr<Endpoint> ParseEndpoint(const OptionValue& value, uint16_t port_default);
// One, or several separated by commas, each with a port that is not 0; file:// stands alone.
absl::StatusOr<std::vector<Endpoint>> ParseEndpoints(const OptionValue& value,
                                                     uint16_t port_default);
// "SHA256:" and 43 characters of base64, as muster-rendezvous says it.
absl::StatusOr<std::string> ParseFingerprint(const OptionValue& value);
// 0 or 1024..65535: what lies below belongs to system services (22 was somebody's sshd).
absl::StatusOr<uint16_t> ParsePort(const OptionValue& value);
// "20000-20100", or "20000:20100" as MPICH has it.
absl::StatusOr<PortRange> ParsePortRange(const OptionValue& value);
// One of `words`, as its place; the message lists them.
absl::StatusOr<size_t> ParseWord(const OptionValue& value,
                                 absl::Span<const absl::string_view> words);
// Words of a command line, split at blanks; '...', "..." and \ quote as in a shell.
absl::StatusOr<std::vector<std::string>> ParseWords(const OptionValue& value);

// Edits (insert, delete, replace, swap neighbours) from one word to the other.
size_t EditDistance(absl::string_view a, absl::string_view b);

}  // namespace muster
