#include "proto/base/log.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/log_waiting.h"

namespace muster {
namespace {

std::atomic<LogLevel> g_level{LogLevel::kInfo};

std::function<void(LogLevel, absl::string_view)>& Sink() {
  static auto* sink = new std::function<void(LogLevel, absl::string_view)>;
  return *sink;
}

}  // namespace

void SetLogLevel(LogLevel level) { g_level = level; }

void SetLogLevelByName(absl::string_view name) {
  constexpr std::pair<absl::string_view, LogLevel> kNames[] = {{"debug", LogLevel::kDebug},
                                                               {"info", LogLevel::kInfo},
                                                               {"warning", LogLevel::kWarning},
                                                               {"error", LogLevel::kError}};
  for (const auto& [known, level] : kNames) {
    if (name == known) {
      SetLogLevel(level);
    }
  }
}

void SetLogLevelFromEnvironment() {
  const char* level = std::getenv("MUSTER_LOG");
  if (level != nullptr) {
    SetLogLevelByName(level);
  }
}

void SetLogSink(std::function<void(LogLevel, absl::string_view)> sink) { Sink() = std::move(sink); }

void Log(LogLevel level, absl::string_view text) {
  if (level < g_level) {
    return;
  }
  if (Sink()) {
    Sink()(level, text);
    return;
  }
  const std::string line = absl::StrCat("muster: ", text, "\n");
  if (!LogAside(line)) {
    // One write, so that lines of several processes do not mix; what stderr refuses is lost.
    [[maybe_unused]] const ssize_t n = write(STDERR_FILENO, line.data(), line.size());
  }
}

}  // namespace muster
