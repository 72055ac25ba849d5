// Host lists and run lengths, as Slurm writes them.
#include "launcher/schedule/hostlist.h"

#include "proto/base/check.h"
#include "tests/fuzz/fuzz_target.h"

namespace muster::fuzz {
namespace {

constexpr size_t kNamesMax = 64;

}  // namespace

std::vector<std::string> Seeds() {
  return {"node0",          "a,b , c",
          "n[008-010],x",   "r[1-2]n[01-02]-[7,9-11]",
          "fe80::1%eth0",   "[1-3]",
          "n9,n10,n11",     "a[1-60],b[1-4]",
          "2(x3),1",        "16,16,8(x2)",
          "n[3-1]",         "n[1,",
          "a,,b",           "-oProxyCommand=x",
          "n[1-1000000000]"};
}

void Run(absl::string_view bytes) {
  const auto names = ExpandHostList(bytes, kNamesMax);
  if (names.ok()) {
    CHECK(names->size() <= kNamesMax);  // H3
    for (const std::string& name : *names) {
      CHECK(CheckHostName(name).ok() && name[0] != '-');
    }
    const auto of_slurm = ExpandHostList(SlurmHostList(*names));
    CHECK(of_slurm.ok() && *of_slurm == *names);
    const std::string text = CompressHostList(*names);
    const auto again = ExpandHostList(text, kNamesMax);
    CHECK(again.ok() && *again == *names);  // H2
  }
  const auto numbers = ExpandRunLengths(bytes, kNamesMax);
  if (numbers.ok()) {
    CHECK(numbers->size() <= kNamesMax);
    const auto again = ExpandRunLengths(CompressRunLengths(*numbers), kNamesMax);
    CHECK(again.ok() && *again == *numbers);
  }
}

}  // namespace muster::fuzz
