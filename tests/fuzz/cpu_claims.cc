// What the kernel and other jobs say of CPUs: lists, cgroups, and the names in /proc/net/unix.
#include "agent/core/cpu_claims.h"

#include "absl/strings/str_cat.h"
#include "agent/core/cpu_count.h"
#include "proto/base/check.h"
#include "tests/agent/core/machines.h"
#include "tests/fuzz/fuzz_target.h"

namespace muster::fuzz {
namespace {

constexpr uint32_t kUid = 1000;
constexpr uint32_t kWorkers = 3;

bool IsAmong(const CpuSet& some, const CpuSet& all) {
  CpuSet both = some;
  both.Intersect(all);
  return both == some;
}

// Whatever others claim, our workers get what they would have got, or what nobody has.
void Plan(const CpuSet& taken, BindTo bind_to) {
  static const Topology topology = Machine({.packages = 2, .cores = 4, .threads = 2});
  CpuBinding binding;
  binding.bind_to = bind_to;
  CHECK(WantsOwnCpus(binding));
  const CpuSet all = AllCpus(topology);
  const auto beside = PlanBeside(topology, all, taken, kWorkers, binding);
  const auto alone = PlanCpus(topology, all, kWorkers, binding);
  CHECK(beside.ok() && alone.ok() && beside->workers.size() == kWorkers);
  CHECK(IsAmong(CpusOf(*beside), all));
  CHECK(SharedNotice(*beside, taken).empty() || CpusOf(*beside) == CpusOf(*alone));
}

void Claims(const CpuSet& cpus) {
  std::string sockets = "Num RefCount Protocol Flags Type St Inode Path\n";
  for (const std::string& name : ClaimNames(kUid, 1, cpus)) {
    CHECK(name.size() <= kClaimBytesMax);
    absl::StrAppend(&sockets, "0: 00000002 00000000 00000000 0002 01 1 @", name, "\n");
  }
  CHECK(ClaimedCpus(kUid, sockets) == cpus);
  CHECK(ClaimedCpus(kUid + 1, sockets).empty());
}

void Count(absl::string_view bytes) {
  const std::vector<CgroupLine> lines = ParseCgroupFile(bytes);
  for (const CgroupLine& line : lines) {
    CHECK(!line.path.empty());
  }
  CHECK(FindCgroup(lines, "cpu") == nullptr || !lines.empty());
  const double quota = TighterQuota(ParseCpuMax(bytes), 2.5);
  const uint32_t usable = CpusUsable(8, quota);
  CHECK(quota > 0 && usable >= 1 && usable <= 2);
  CHECK(ThreadsPerWorker(usable, kWorkers) == 1);
}

}  // namespace

std::vector<std::string> Seeds() {
  const std::string line = "0: 00000002 00000000 00000000 0002 01 123 ";
  return {"0-3,8",
          "0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30,32,34,36,38,40,42,44,46,48,50,52,54,56,58,60",
          "65536",
          "3-x",
          "",
          absl::StrCat(line, "@muster-cpus/1000/77/0-1,4\n"),
          absl::StrCat(line, "@muster-cpus/1000/77/0-7\n", line, "@muster-cpus/1000/78/9\n"),
          absl::StrCat(line, "@muster-cpus/1001/77/0-1\n", line, "/run/x/muster-cpus/1000/1/2\n"),
          absl::StrCat(line, "@muster-cpus/1000/77\n"),
          "0::/user.slice/a\n",
          "4:cpu,cpuacct:/a:b\n0::/\n:\n",
          "150000 100000\n",
          "max 100000"};
}

void Run(absl::string_view bytes) {
  if (const auto cpus = ParseCpuList(bytes); cpus.has_value()) {
    CHECK(!cpus->empty() && ParseCpuList(cpus->Text()) == *cpus);
    Claims(*cpus);
  }
  const CpuSet taken = ClaimedCpus(kUid, bytes);
  Plan(taken, BindTo::kCore);
  Plan(taken, BindTo::kHwthread);
  Count(bytes);
}

}  // namespace muster::fuzz
