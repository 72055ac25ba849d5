// Shared by the two halves of the torch store: what entries cost, and the answer to a wait.
#pragma once

#include <cstddef>
#include <string>

namespace muster {

// A tree node, two string objects and the control block: what an entry costs beside its bytes.
inline constexpr size_t kStoreEntryBytes = 160;
// An awaited key: once in the client's list, once in the waiters' map.
inline size_t StoreWaitCost(const std::string& key) { return 2 * key.size() + 192; }

inline constexpr char kStoreStopWaiting = 0;  // reply to WAIT and BARRIER; wire

}  // namespace muster
