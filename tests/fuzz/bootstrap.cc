// What comes to a new agent on its stdin: length, then a Bootstrap.
#include "proto/wire/bootstrap.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/base/check.h"
#include "proto/base/clock.h"
#include "proto/base/unique_fd.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/proto/wire/random_values.h"

namespace muster::fuzz {

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  RandomValues make(1);
  for (int i = 0; i < 8; ++i) {
    const auto frame = BootstrapFrame(make.Bootstrap());
    CHECK(frame.ok());
    seeds.push_back(*frame);
  }
  seeds.push_back(std::string(4, '\0'));
  seeds.emplace_back("\0\0\0\1x", 5);
  return seeds;
}

void Run(absl::string_view bytes) {
  const UniqueFd in(memfd_create("stdin", MFD_CLOEXEC));
  CHECK(pwrite(in.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  const auto got = ReadBootstrap(in.get(), BootNow() + absl::Seconds(60));
  if (!got.ok()) {
    CHECK(absl::IsInvalidArgument(got.status()) || absl::IsUnavailable(got.status()));
    return;
  }
  const auto again = BootstrapFrame(*got);
  CHECK(again.ok());
}

}  // namespace muster::fuzz
