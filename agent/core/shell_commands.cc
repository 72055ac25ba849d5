#include "agent/core/shell_commands.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"

namespace muster {
namespace {

using Words = std::vector<std::string>;

// Words at the end of which a command begins.
constexpr absl::string_view kBefore[] = {"!",     "builtin", "command", "do",   "elif",
                                         "else",  "exec",    "if",      "then", "time",
                                         "until", "while",   "{"};
// What they begin is no program's.
constexpr absl::string_view kNoProgram[] = {"case", "done", "esac",   "fi", "for",
                                            "in",   "}",    "select", "[[", "function"};

template <size_t kSize>
bool IsAmong(const absl::string_view (&words)[kSize], absl::string_view word) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

bool IsAssignment(absl::string_view word) {
  const size_t equals = word.find('=');
  if (equals == absl::string_view::npos || equals == 0 ||
      absl::ascii_isdigit(static_cast<unsigned char>(word[0]))) {
    return false;
  }
  absl::string_view name = word.substr(0, equals);
  absl::ConsumeSuffix(&name, "+");
  return std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return absl::ascii_isalnum(c) || c == '_'; });
}

// "2>file", ">>", "<": whether the word is one, and whether the file is the next word.
struct Redirection {
  bool is_one = false;
  bool takes_next = false;
};
Redirection RedirectionOf(absl::string_view word) {
  word.remove_prefix(std::min(word.find_first_not_of("0123456789&"), word.size()));
  if (word.empty() || (word[0] != '<' && word[0] != '>')) {
    return {};
  }
  return {true, word.find_first_not_of("<>&|-") == absl::string_view::npos && word.back() != '-'};
}

// Cuts text into words, and those into lists that end where a command does.
class Cutter {
 public:
  explicit Cutter(absl::string_view text) : text_(text) {}

  // nullopt: there is no more.
  std::optional<Words> Next() {
    words_.clear();
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '\\') {
        Escaped();
      } else if (c == '\'' || c == '"') {
        Quoted(c);
      } else if (c == '#' && !in_word_) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == '&' && (absl::EndsWith(word_, ">") || absl::EndsWith(word_, "<"))) {
        word_ += c;  // 2>&1
      } else if (absl::StrContains("\n;&|()`", c) && !BeginsRedirection(c)) {
        EndWord();
        if (!words_.empty()) {
          return std::move(words_);
        }
      } else if (absl::ascii_isspace(static_cast<unsigned char>(c))) {
        EndWord();
      } else {
        Add(c);
      }
    }
    EndWord();
    return words_.empty() ? std::nullopt : std::optional<Words>(std::move(words_));
  }

 private:
  bool BeginsRedirection(char c) const {  // &>file
    return c == '&' && at_ < text_.size() && text_[at_] == '>';
  }
  void Add(char c) {
    word_ += c;
    in_word_ = true;
  }
  void Escaped() {
    if (at_ < text_.size() && text_[at_] == '\n') {
      ++at_;
    } else if (at_ < text_.size()) {
      Add(text_[at_++]);
    }
  }
  void Quoted(char quote) {
    in_word_ = true;
    for (; at_ < text_.size() && text_[at_] != quote; ++at_) {
      const bool escapes = quote == '"' && text_[at_] == '\\' && at_ + 1 < text_.size();
      word_ += text_[escapes ? ++at_ : at_];
    }
    ++at_;
  }
  void EndWord() {
    if (in_word_) {
      words_.push_back(std::exchange(word_, ""));
      in_word_ = false;
    }
  }

  const absl::string_view text_;
  size_t at_ = 0;
  std::string word_;
  bool in_word_ = false;
  Words words_;
};

class Reader {
 public:
  explicit Reader(const Words& arguments) : arguments_(arguments) {}

  std::vector<ShellCommand> Read(absl::string_view text) {
    Cutter cutter(text);
    while (out_.size() < kShellCommandsMax) {
      std::optional<Words> words = cutter.Next();
      if (!words.has_value()) {
        break;
      }
      Take(*words);
    }
    return std::move(out_);
  }

 private:
  void Take(const Words& words) {
    ShellCommand command;
    bool begun = false;
    for (size_t i = 0; i < words.size(); ++i) {
      const std::string& word = words[i];
      if (const Redirection to = RedirectionOf(word); to.is_one) {
        i += to.takes_next ? 1 : 0;
      } else if (!begun && (IsAmong(kBefore, word) || IsAssignment(word))) {
        continue;
      } else if (!begun && IsAmong(kNoProgram, word)) {
        return;
      } else {
        begun = true;
        Expand(word, command.words);
      }
    }
    if (command.words.empty() || absl::StrContains(command.words[0], '$')) {
      return;
    }
    if (command.words[0] == "shift") {
      size_t by = 1;
      shifted_ += command.words.size() < 2 || !absl::SimpleAtoi(command.words[1], &by) ? 1 : by;
      return;
    }
    out_.push_back(std::move(command));
  }

  void Expand(absl::string_view word, Words& out) const {
    absl::string_view inner = word;
    if (!absl::ConsumePrefix(&inner, "$")) {
      return out.emplace_back(word), void();
    }
    if (absl::ConsumePrefix(&inner, "{") && !absl::ConsumeSuffix(&inner, "}")) {
      inner = "";
    }
    size_t number = 0;
    if (inner == "@" || inner == "*") {
      AddFrom(1, out);
    } else if ((absl::ConsumePrefix(&inner, "@:") || absl::ConsumePrefix(&inner, "*:")) &&
               absl::SimpleAtoi(inner, &number)) {
      AddFrom(number, out);
    } else if (absl::SimpleAtoi(inner, &number) && number > 0) {
      if (number <= arguments_.size() && shifted_ <= arguments_.size() - number) {
        out.push_back(arguments_[shifted_ + number - 1]);
      }
    } else {
      out.emplace_back(word);
    }
  }
  // Arguments from the `first`-th on, which counts from 1.
  void AddFrom(size_t first, Words& out) const {
    for (size_t i = std::max<size_t>(first, 1);
         shifted_ < arguments_.size() && i <= arguments_.size() - shifted_; ++i) {
      out.push_back(arguments_[shifted_ + i - 1]);
    }
  }

  const Words& arguments_;
  size_t shifted_ = 0;
  std::vector<ShellCommand> out_;
};

}  // namespace

std::vector<ShellCommand> ShellCommands(absl::string_view text, const Words& arguments) {
  return Reader(arguments).Read(text);
}

}  // namespace muster
