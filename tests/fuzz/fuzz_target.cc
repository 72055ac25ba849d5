#include "tests/fuzz/fuzz_target.h"

#include <cstdlib>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  const char* folder = std::getenv("MUSTER_SEEDS");
  if (folder == nullptr) {
    return 0;
  }
  int number = 0;
  for (const std::string& seed : muster::fuzz::Seeds()) {
    std::ofstream out(absl::StrCat(folder, "/seed-", number++), std::ios::binary);
    out << seed;
    CHECK(out.flush().good());
  }
  std::exit(0);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  muster::fuzz::Run(absl::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
