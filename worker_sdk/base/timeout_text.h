// How a timeout that ended a wait is told, whoever waited.
#pragma once

#include <chrono>
#include <string>

namespace muster {

// "within 20 ms".
inline std::string Within(std::chrono::nanoseconds timeout) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count();
  return "within " + std::to_string(ms) + " ms";
}

// Who may have said so: torch's timeout= and Python's set_timeout() are the program, too.
inline constexpr char kWhoseTimeout[] = " (the timeout: the program's, or MUSTER_TIMEOUT)";

}  // namespace muster
