// Reads fields of a message from the wire, and keeps the first thing that is wrong with them. One
// message, one checker.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster {

class FieldChecker {
 public:
  explicit FieldChecker(absl::string_view message) : message_(message) {}

  const absl::Status& status() const { return status_; }
  bool ok() const { return status_.ok(); }

  void Fail(absl::string_view field, absl::string_view why) {
    if (status_.ok()) {
      status_ =
          absl::InvalidArgumentError(absl::StrCat("message ", message_, ".", field, ": ", why));
    }
  }
  void Bound(absl::string_view field, uint64_t value, uint64_t min, uint64_t max) {
    if (value < min || value > max) {
      Fail(field, absl::StrCat("want ", min, "..", max, ", got ", value));
    }
  }

  template <typename T>
  T Number(absl::string_view field, T value, uint64_t min, uint64_t max) {
    Bound(field, value, min, max);
    return value;
  }
  uint16_t Port(absl::string_view field, uint32_t value) {
    Bound(field, value, 0, 65535);
    return static_cast<uint16_t>(value);
  }
  int32_t Signal(absl::string_view field, int32_t value) {
    if (value < 0 || value > 64) {
      Fail(field, absl::StrCat("not a signal: ", value));
    }
    return value;
  }
  std::string Text(absl::string_view field, const std::string& value, size_t max) {
    Bound(field, value.size(), 0, max);
    return ok() ? value : std::string();
  }
  // Nanoseconds, not negative; INT64_MAX = infinite.
  absl::Duration Time(absl::string_view field, int64_t nanoseconds) {
    if (nanoseconds < 0) {
      Fail(field, absl::StrCat("negative duration ", nanoseconds));
    }
    return nanoseconds == std::numeric_limits<int64_t>::max() ? absl::InfiniteDuration()
                                                              : absl::Nanoseconds(nanoseconds);
  }
  // On the wire values start at 1; ours at 0.
  template <typename Enum>
  Enum Choice(absl::string_view field, int64_t wire, Enum last) {
    if (wire < 1 || wire > static_cast<int64_t>(last) + 1) {
      Fail(field, absl::StrCat("unknown value ", wire));
      return last;
    }
    return static_cast<Enum>(wire - 1);
  }

 private:
  const absl::string_view message_;  // a literal
  absl::Status status_;
};

template <typename Enum>
constexpr int ChoiceToWire(Enum value) {
  return static_cast<int>(value) + 1;
}

}  // namespace muster
