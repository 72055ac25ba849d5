// Of one worker's byte stream the lines that hold one of some words, whole, each with a text in
// front. Pure. At most kLineBytesMax bytes of a line are looked at at a time.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "agent/core/line_assembler.h"

namespace muster {

class LineFilter {
 public:
  LineFilter(std::vector<std::string> words, std::string prefix)
      : words_(std::move(words)), prefix_(std::move(prefix)) {}

  std::string Put(absl::string_view bytes) { return Chosen(lines_.Put(bytes).bytes); }
  // The last line, where it has no newline.
  std::string Finish() { return Chosen(lines_.TakeHeld().bytes); }

 private:
  std::string Chosen(absl::string_view lines) const {
    std::string out;
    while (!lines.empty()) {
      const absl::string_view line = lines.substr(0, lines.find('\n'));
      lines.remove_prefix(line.size() < lines.size() ? line.size() + 1 : line.size());
      for (const std::string& word : words_) {
        if (absl::StrContains(line, word)) {
          absl::StrAppend(&out, prefix_, line, "\n");
          break;
        }
      }
    }
    return out;
  }

  const std::vector<std::string> words_;
  const std::string prefix_;
  LineAssembler lines_;
};

}  // namespace muster
