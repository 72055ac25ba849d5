// Shared by the files of invariants.h.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "rendezvous/core/types.h"

namespace muster {

template <typename... T>
absl::Status Broken(const char* invariant, const T&... text) {
  return absl::InternalError(absl::StrCat(invariant, ": ", text...));
}

// Of one round, or of two that keep the same worker.
inline bool Same(const Member& a, const Member& b) {
  return a.node == b.node && a.incarnation == b.incarnation && a.rank_first == b.rank_first &&
         a.workers == b.workers && a.ranks == b.ranks && a.port == b.port && a.since == b.since;
}

}  // namespace muster
