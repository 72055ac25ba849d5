#include "tests/scenarios/transcript.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proto/base/check.h"
#include "proto/base/text.h"

namespace muster {
namespace {

Command Parse(const std::string& line) {
  Command command;
  for (const absl::string_view word : absl::StrSplit(line, ' ', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> pair = absl::StrSplit(word, absl::MaxSplits('=', 1));
    if (command.verb.empty()) {
      command.verb = std::string(word);
    } else if (absl::StrContains(word, "=")) {
      command.values[pair.first] = pair.second;
      command.all.push_back(pair);
    } else {
      command.words.emplace_back(word);
    }
  }
  return command;
}

std::string Read(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// The text with each command's outcome replaced by what the machine says now.
std::string Replay(const std::string& text, const Executor& execute) {
  std::string out;
  for (const absl::string_view line : absl::StrSplit(absl::StripSuffix(text, "\n"), '\n')) {
    if (absl::StartsWith(line, "> ")) {
      absl::StrAppend(&out, line, "\n", execute(Parse(std::string(line.substr(2)))));
    } else if (line.empty() || absl::StartsWith(line, "#")) {
      absl::StrAppend(&out, line, "\n");
    }
  }
  return out;
}

}  // namespace

std::string Command::Text(const std::string& name, const std::string& otherwise) const {
  const auto it = values.find(name);
  return it == values.end() ? otherwise : it->second;
}

int64_t Command::Number(const std::string& name, int64_t otherwise) const {
  const auto it = values.find(name);
  int64_t number = otherwise;
  CHECK(it == values.end() || absl::SimpleAtoi(it->second, &number));
  return number;
}

void RunTranscripts(const std::string& prefix, const std::function<Executor()>& run) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(MUSTER_SCENARIOS)) {
    if (entry.path().extension() == ".txt" &&
        absl::StartsWith(entry.path().filename().string(), prefix)) {
      paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  EXPECT_FALSE(paths.empty());
  for (const std::filesystem::path& path : paths) {
    SCOPED_TRACE(path.filename().string());
    const std::string want = Read(path);
    const std::string got = Replay(want, run());
    if (std::getenv("MUSTER_REWRITE") != nullptr) {
      std::ofstream(path) << got;
    } else {
      EXPECT_EQ(got, want);
    }
  }
}

absl::Time AtSeconds(const std::string& text) {
  double seconds = 0;
  CHECK(absl::SimpleAtod(text, &seconds));
  return absl::UnixEpoch() + absl::Seconds(seconds);
}

std::string Seconds(absl::Time at) {
  return at == absl::InfiniteFuture()
             ? "never"
             : absl::StrFormat("%.10g s", absl::ToDoubleSeconds(at - absl::UnixEpoch()));
}

WorkerExit ExitOf(const std::string& text) {
  WorkerExit exit;
  exit.pid = 4711;
  exit.ran_for = absl::Seconds(1);
  const auto number = [&](const char* prefix) {
    int32_t value = 0;
    CHECK(absl::SimpleAtoi(absl::StripPrefix(text, prefix), &value));
    return value;
  };
  if (text == "oom") {
    exit.kind = ExitKind::kSignaled;
    exit.code = SIGKILL;
    exit.oom_killed = true;
  } else if (text == "enoent") {
    exit.kind = ExitKind::kSpawnFailed;
    exit.code = ENOENT;
    exit.detail = "prog: No such file or directory";
  } else if (absl::StartsWith(text, "code")) {
    exit.code = number("code");
  } else if (absl::StartsWith(text, "sig")) {
    exit.kind = ExitKind::kSignaled;
    exit.code = number("sig");
  } else if (absl::StartsWith(text, "stoppedcode")) {
    exit.code = number("stoppedcode");
    exit.stopped_by_us = true;
  } else if (absl::StartsWith(text, "stopped")) {
    exit.kind = ExitKind::kSignaled;
    exit.code = number("stopped");
    exit.stopped_by_us = true;
  } else {
    CHECK(text == "ok");
  }
  return exit;
}

std::string Show(const WorkerExit& exit) {
  const std::string how = exit.kind == ExitKind::kSpawnFailed ? "not started"
                          : exit.kind == ExitKind::kSignaled  ? SignalName(exit.code)
                          : exit.code == 0                    ? "ok"
                                                              : absl::StrCat("code ", exit.code);
  return absl::StrCat(
      exit.local_rank.value, ":", how, exit.oom_killed ? " oom" : "",
      exit.stopped_by_us ? " stopped" : "",
      exit.because_of.has_value() ? absl::StrCat(" after ", exit.because_of->value) : "");
}

}  // namespace muster
