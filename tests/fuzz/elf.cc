// The libraries that a user's program asks for, read from its file.
#include <sys/mman.h>
#include <unistd.h>

#include "agent/io/elf_file.h"
#include "proto/base/check.h"
#include "proto/base/unique_fd.h"
#include "tests/agent/io/small_elf.h"
#include "tests/fuzz/fuzz_target.h"

namespace muster::fuzz {

std::vector<std::string> Seeds() {
  return {MakeElf({"libm.so.6", "libmpi.so.40"}), MakeElf({"libmpi.so.12"}),
          MakeElf({"libmpi_cxx.so.40", "libmpich.so.12"}), MakeElf({}), "#!/bin/sh\n"};
}

void Run(absl::string_view bytes) {
  const UniqueFd file(memfd_create("elf", MFD_CLOEXEC));
  CHECK(pwrite(file.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  const std::vector<std::string> needed = ElfNeeded(file.get());
  CHECK(needed.size() <= 1024);
  const std::string mpi = MpiOfLibraries(needed);
  CHECK(mpi.empty() || mpi == "MPICH" || mpi == "Open MPI");
}

}  // namespace muster::fuzz
