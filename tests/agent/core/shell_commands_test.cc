#include "agent/core/shell_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/rng.h"

namespace muster {
namespace {

// Words in brackets.
std::string Text(const std::string& script, const std::vector<std::string>& arguments = {}) {
  return absl::StrJoin(ShellCommands(script, arguments), " ",
                       [](std::string* out, const ShellCommand& command) {
                         absl::StrAppend(out, "[", absl::StrJoin(command.words, " "), "]");
                       });
}

TEST(ShellCommands, OfScriptsThatRunAProgram) {
  const struct {
    const char* script;
    const char* want;
  } cases[] = {
      {"", ""},
      {"#!/bin/bash\n./prog\nexit $?\n", "[./prog] [exit $?]"},
      {"  exec ./prog --size 3 # quickly\n", "[./prog --size 3]"},
      {"A=1 B= C+=x ./prog", "[./prog]"},
      {"./prog 2>&1 >out | tee log; echo end", "[./prog] [tee log] [echo end]"},
      {"./prog > out < in 2> /dev/null &>> both &", "[./prog]"},
      {"./prog &>both && ./other || ./third", "[./prog] [./other] [./third]"},
      {"if [ $RANK = 0 ]; then ./first; elif ! ./second; then exec nice ./third; fi",
       "[[ $RANK = 0 ]] [./first] [./second] [nice ./third]"},
      {"for i in 1 2; do ./prog $i; done; ./last", "[./prog $i] [./last]"},
      {"while true; do for i in 1; do ./a; done; ./b; done\n./c", "[true] [./a] [./b] [./c]"},
      {"case $1 in x) ./prog;; esac", "[./prog]"},
      {"f() { ./prog; }\nf", "[f] [./prog] [f]"},
      {"x=$(./prog -v) y=`./other`", "[./prog -v] [./other]"},
      {"./prog 'one word' \"an other\" a\\ b \"q\\\"q\"", "[./prog one word an other a b q\"q]"},
      {"./prog \\\n  --more", "[./prog --more]"},
      {"$PROGRAM x; \"$HOME\"/prog; ./prog $HOME", "[./prog $HOME]"},
      {"cd /data && ./prog", "[cd /data] [./prog]"},
      {"echo 'unclosed ; ./prog", "[echo unclosed ; ./prog]"},
      {"echo \\", "[echo]"},
      {"echo ''& ./prog", "[echo ] [./prog]"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(Text(c.script), c.want) << c.script;
  }
}

TEST(ShellCommands, HaveTheScriptsArguments) {
  const struct {
    const char* script;
    const char* want;
  } cases[] = {
      {"exec \"$@\"", "[./prog -n 2]"},
      {"nice $*", "[nice ./prog -n 2]"},
      {"${1} x", "[./prog x]"},
      {"run=$1; shift; \"$run\" \"$@\"; echo \"${@}\"", "[echo -n 2]"},
      {"shift; echo $1; shift 1; echo $1 $2 $0", "[echo -n] [echo 2 $0]"},
      {"\"${@:2}\"; ${@:x}", "[-n 2]"},
      {"shift 9; echo $@ $1", "[echo]"},
      {"shift x; echo $1", "[echo -n]"},
      {"echo ${1 $ ${", "[echo ${1 $ ${]"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(Text(c.script, {"./prog", "-n", "2"}), c.want) << c.script;
  }
}

TEST(ShellCommands, AreBounded) {
  std::string script;
  for (size_t i = 0; i < kShellCommandsMax + 10; ++i) {
    absl::StrAppend(&script, "./prog ", i, "\n");
  }
  EXPECT_EQ(ShellCommands(script, {}).size(), kShellCommandsMax);
}

TEST(ShellCommands, OfNonsenseAreSomething) {
  constexpr absl::string_view kLetters = "a '\"\\\n;&|()`$@{}1:<>#=-*";
  SplitMix64 random(5);
  for (int i = 0; i < 20'000; ++i) {
    std::string script;
    for (uint64_t length = random.Next() % 40; length > 0; --length) {
      script += kLetters[random.Next() % kLetters.size()];
    }
    for (const ShellCommand& command : ShellCommands(script, {"one", "two"})) {
      ASSERT_FALSE(command.words.empty()) << script;
    }
  }
}

}  // namespace
}  // namespace muster
