// Turns pieces of workers' output into the bytes for one destination (stdout or stderr of
// `launch`): prefixes, time stamps, and on a terminal lines that are still growing. Pure: the time
// of day comes as text.
//
// Invariants:
//  F1 into a pipe or file only whole lines of one worker stand on a line;
//  F2 on a terminal, output of another worker never continues a started line: it begins on a fresh
//  one; F3 without prefix, time stamps and other workers, bytes pass unchanged.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace muster {

struct OutputSource {
  uint32_t rank = 0;
  uint32_t local_rank = 0;
  uint32_t node_rank = 0;
  std::string host;
  std::string role;
  uint8_t stream = 1;
  bool operator==(const OutputSource&) const = default;
};

struct FormatOptions {
  bool prefix = false;
  std::string prefix_template;
  bool timestamps = false;
  bool terminal = false;
  bool many_workers = false;  // what follows a last line without newline is not glued to it
};

class OutputFormatter {
 public:
  explicit OutputFormatter(FormatOptions options) : options_(std::move(options)) {}

  // Appends to `out` what to write for `bytes` of `source`. `time` is used by {time} and time
  // stamps.
  void Format(const OutputSource& source, absl::string_view bytes, bool ends_line, bool split,
              absl::string_view time, std::string& out);

  // Nothing changes in whole lines of any source: they may be written as they are.
  bool Transparent() const { return !decorated() && !options_.terminal && !line_open_; }
  const FormatOptions& options() const { return options_; }

 private:
  bool decorated() const { return options_.prefix || options_.timestamps; }
  using Owner = std::pair<uint32_t, uint8_t>;  // rank, stream
  struct CachedPrefix {
    OutputSource source;  // a rank may live elsewhere in a later round
    std::string text;
  };
  std::string Prefix(const OutputSource& source, absl::string_view time);
  void FormatLines(const std::string& prefix, absl::string_view bytes, bool fresh,
                   std::string& out) const;

  const FormatOptions options_;
  std::map<Owner, CachedPrefix> prefixes_;  // of templates without {time}
  bool line_open_ = false;  // an unfinished line stands on the terminal, or a split one in a pipe
  bool returned_ = false;   // its last byte took the terminal's cursor back to the prefix's place
  static constexpr Owner kNobody = {UINT32_MAX, 0};
  Owner line_owner_;
};

// The text of a template: {rank} {local_rank} {node_rank} {host} {role} {stream} {time}; unknown
// names stay.
std::string ExpandPrefix(absl::string_view prefix_template, const OutputSource& source,
                         absl::string_view time);

}  // namespace muster
