// The table that parallel debuggers (TotalView, DDT, scripts of gdb) read in the memory of a
// launcher to attach to its workers: the MPIR process acquisition interface, version 1.1, of which
// names and layout are given. Loop thread only.
#pragma once

#include <vector>

#include "launcher/proctable.h"

namespace muster {

// A debugger started us, or attached, and wants the table.
bool MpirWanted();

// The table, by rank; then the debugger that stopped us in MPIR_Breakpoint may look at it. Once a
// round: the newest one counts. `held`: the workers stand still until this returns.
void MpirShow(std::vector<ProctableEntry> table, bool held);

}  // namespace muster
