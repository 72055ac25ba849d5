// What our programs say to a person: one line a message on stderr, "muster: ..." in front, never
// interleaved. Thread-safe. A program may take the lines over (the agent sends them to `launch`).
#pragma once

#include <functional>

#include "absl/strings/string_view.h"

namespace muster {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Below this level nothing is said. Default kInfo; MUSTER_LOG=debug|info|warning|error is read by
// main().
void SetLogLevel(LogLevel level);
void SetLogLevelByName(absl::string_view name);  // an unknown name changes nothing
void SetLogLevelFromEnvironment();               // MUSTER_LOG
// Replaces the writer to stderr; an empty function restores it. Call before threads exist.
void SetLogSink(std::function<void(LogLevel, absl::string_view)> sink);
void Log(LogLevel level, absl::string_view text);

inline void LogDebug(absl::string_view text) { Log(LogLevel::kDebug, text); }
inline void LogInfo(absl::string_view text) { Log(LogLevel::kInfo, text); }
inline void LogWarning(absl::string_view text) { Log(LogLevel::kWarning, text); }
inline void LogError(absl::string_view text) { Log(LogLevel::kError, text); }

}  // namespace muster
