#include "launcher/mpir.h"

#include <utility>

extern "C" {

// By these names and types debuggers know them.
// NOLINTBEGIN(readability-identifier-naming)
struct MPIR_PROCDESC {
  char* host_name;
  char* executable_name;
  int pid;
};

[[gnu::used]] MPIR_PROCDESC* MPIR_proctable = nullptr;
[[gnu::used]] int MPIR_proctable_size = 0;
[[gnu::used]] volatile int MPIR_debug_state = 0;
[[gnu::used]] volatile int MPIR_being_debugged = 0;  // set by the debugger
[[gnu::used]] int MPIR_i_am_starter = 1;             // launch is no worker itself
[[gnu::used]] int MPIR_partial_attach_ok = 1;        // launch lets go those that nobody attached to
[[gnu::used]] int MPIR_acquired_pre_main = 0;        // workers have not begun main yet

// Debuggers stop here.
[[gnu::used, gnu::noinline]] void MPIR_Breakpoint() { asm volatile("" ::: "memory"); }
// NOLINTEND(readability-identifier-naming)

}  // extern "C"

namespace muster {
namespace {

constexpr int kSpawned = 1;  // MPIR_DEBUG_SPAWNED

}  // namespace

bool MpirWanted() { return MPIR_being_debugged != 0; }

void MpirShow(std::vector<ProctableEntry> table, bool held) {
  // Both stay: a debugger reads what they point to at any time.
  static std::vector<ProctableEntry> shown;
  static std::vector<MPIR_PROCDESC> rows;
  MPIR_proctable_size = 0;
  shown = std::move(table);
  rows.clear();
  for (ProctableEntry& entry : shown) {
    rows.push_back({entry.host.data(), entry.executable.data(), entry.pid});
  }
  MPIR_proctable = rows.data();
  MPIR_proctable_size = static_cast<int>(rows.size());
  MPIR_acquired_pre_main = held ? 1 : 0;
  MPIR_debug_state = kSpawned;
  MPIR_Breakpoint();
}

}  // namespace muster
