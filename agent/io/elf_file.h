// The shared libraries an ELF file asks for by itself (DT_NEEDED), read with bounds: any bytes at
// all give at worst an empty list. Any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace muster {

bool IsElf(absl::string_view head);

// Of this machine's class and byte order only; empty for others, static programs and broken files.
std::vector<std::string> ElfNeeded(int fd);

// The MPI among those libraries: "Open MPI", "MPICH" (also its ABI: Intel MPI, MVAPICH, Cray) or
// "".
std::string MpiOfLibraries(const std::vector<std::string>& needed);

}  // namespace muster
