// Sentences in messages to workers (proto/base/worker_link.h).
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/base/worker_link.h"

namespace muster {

// `out` is zero-filled before.
template <size_t kSize>
void WriteText(absl::string_view why, char (&out)[kSize]) {
  why.substr(0, kSize - 1).copy(out, kSize - 1);
}

inline absl::Status GoneError(uint32_t rank, LineEnd how) {
  return absl::UnavailableError(absl::StrCat(
      "rank ", rank, how == LineEnd::kDied ? " has died" : " has closed its communicator"));
}

}  // namespace muster
