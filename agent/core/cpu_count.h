// How many CPUs a node's workers may use: texts of the kernel in, numbers out. Pure.
//
// Invariants (cited by tests):
//  C1 a mask or quota that cannot be read never makes the number smaller;
//  C2 the result is at least 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace muster {

// A set of CPU numbers. Ordered by number; grows as needed.
class CpuSet {
 public:
  void Add(uint32_t cpu);
  bool Has(uint32_t cpu) const;
  uint32_t Count() const;
  // Keeps only what `other` has too.
  void Intersect(const CpuSet& other);
  void Unite(const CpuSet& other);
  bool empty() const { return Count() == 0; }
  const std::vector<uint64_t>& words() const { return words_; }
  std::vector<uint32_t> Members() const;
  // "0-3,8", as ParseCpuList reads it; "" for none.
  std::string Text() const;
  bool operator==(const CpuSet& other) const;

 private:
  std::vector<uint64_t> words_;  // bit i of word w = CPU 64 w + i
};

// The kernel's list format, "0-3,8,10-11\n"; nullopt for what is not one or holds no CPU.
std::optional<CpuSet> ParseCpuList(absl::string_view text);

// cgroup v2 `cpu.max`: "150000 100000" -> 1.5 cores; "max 100000", or no such text -> 0 (none).
double ParseCpuMax(absl::string_view text);
// cgroup v1 cpu.cfs_quota_us and cpu.cfs_period_us: "-1" -> 0 (none).
double ParseCfsQuota(absl::string_view quota_us, absl::string_view period_us);
// The tighter of two quotas, where 0 means none.
double TighterQuota(double a, double b);

// One line of /proc/self/cgroup.
struct CgroupLine {
  std::string controllers;  // "" = cgroup v2
  std::string path;         // "/" at least
};
std::vector<CgroupLine> ParseCgroupFile(absl::string_view text);
// The line that carries `controller` ("cpu" of "cpu,cpuacct"), else the v2 line, else null.
const CgroupLine* FindCgroup(const std::vector<CgroupLine>& lines, absl::string_view controller);

// Whole CPUs: `allowed`, cut down to the quota where there is one; at least 1.
uint32_t CpusUsable(uint32_t allowed, double quota);
// OMP_NUM_THREADS for each of `workers`: max(1, floor(usable / workers)).
uint32_t ThreadsPerWorker(uint32_t usable, uint32_t workers);

}  // namespace muster
