#include "agent/core/cpu_count.h"

#include <algorithm>
#include <bit>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/base/limits.h"

namespace muster {

void CpuSet::Add(uint32_t cpu) {
  if (words_.size() <= cpu / 64) {
    words_.resize(cpu / 64 + 1);
  }
  words_[cpu / 64] |= uint64_t{1} << (cpu % 64);
}

bool CpuSet::Has(uint32_t cpu) const {
  return cpu / 64 < words_.size() && (words_[cpu / 64] >> (cpu % 64) & 1) != 0;
}

uint32_t CpuSet::Count() const {
  uint32_t n = 0;
  for (const uint64_t word : words_) {
    n += static_cast<uint32_t>(std::popcount(word));
  }
  return n;
}

void CpuSet::Intersect(const CpuSet& other) {
  words_.resize(std::min(words_.size(), other.words_.size()));
  for (size_t i = 0; i < words_.size(); ++i) {
    words_[i] &= other.words_[i];
  }
}

void CpuSet::Unite(const CpuSet& other) {
  words_.resize(std::max(words_.size(), other.words_.size()));
  for (size_t i = 0; i < other.words_.size(); ++i) {
    words_[i] |= other.words_[i];
  }
}

std::vector<uint32_t> CpuSet::Members() const {
  std::vector<uint32_t> out;
  for (uint32_t w = 0; w < words_.size(); ++w) {
    for (uint64_t left = words_[w]; left != 0; left &= left - 1) {
      out.push_back(64 * w + static_cast<uint32_t>(std::countr_zero(left)));
    }
  }
  return out;
}

std::string CpuSet::Text() const {
  const std::vector<uint32_t> members = Members();
  std::string out;
  for (size_t i = 0; i < members.size();) {
    size_t end = i + 1;
    while (end < members.size() && members[end] == members[end - 1] + 1) {
      ++end;
    }
    absl::StrAppend(&out, out.empty() ? "" : ",", members[i]);
    if (end - i > 1) {
      absl::StrAppend(&out, "-", members[end - 1]);
    }
    i = end;
  }
  return out;
}

bool CpuSet::operator==(const CpuSet& other) const {
  CpuSet both = *this;
  both.Intersect(other);
  return both.Count() == Count() && both.Count() == other.Count();
}

std::optional<CpuSet> ParseCpuList(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  if (text.empty()) {
    return std::nullopt;
  }
  CpuSet set;
  for (const absl::string_view item : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> ends =
        absl::StrSplit(item, absl::MaxSplits('-', 1));
    uint32_t first = 0;
    if (!absl::SimpleAtoi(ends.first, &first)) {
      return std::nullopt;
    }
    uint32_t last = first;
    if (item.size() != ends.first.size() && !absl::SimpleAtoi(ends.second, &last)) {
      return std::nullopt;
    }
    if (last < first || last >= kCpusMax) {
      return std::nullopt;
    }
    for (uint32_t cpu = first; cpu <= last; ++cpu) {
      set.Add(cpu);
    }
  }
  return set;
}

double ParseCpuMax(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(absl::StripAsciiWhitespace(text), absl::MaxSplits(' ', 1));
  return ParseCfsQuota(parts.first, parts.second);
}

double ParseCfsQuota(absl::string_view quota_us, absl::string_view period_us) {
  int64_t quota = 0;
  int64_t period = 0;
  if (!absl::SimpleAtoi(quota_us, &quota) || !absl::SimpleAtoi(period_us, &period) || quota <= 0 ||
      period <= 0) {
    return 0;
  }
  return static_cast<double>(quota) / static_cast<double>(period);
}

double TighterQuota(double a, double b) {
  if (a <= 0 || b <= 0) {
    return std::max(a, b);
  }
  return std::min(a, b);
}

std::vector<CgroupLine> ParseCgroupFile(absl::string_view text) {
  std::vector<CgroupLine> out;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() == 3 && !fields[2].empty()) {
      out.push_back({std::string(fields[1]), std::string(fields[2])});
    }
  }
  return out;
}

const CgroupLine* FindCgroup(const std::vector<CgroupLine>& lines, absl::string_view controller) {
  const CgroupLine* v2 = nullptr;
  for (const CgroupLine& line : lines) {
    if (line.controllers.empty()) {
      v2 = &line;
      continue;
    }
    const std::vector<absl::string_view> names = absl::StrSplit(line.controllers, ',');
    if (std::find(names.begin(), names.end(), controller) != names.end()) {
      return &line;
    }
  }
  return v2;
}

uint32_t CpusUsable(uint32_t allowed, double quota) {
  uint32_t usable = std::max(allowed, 1u);
  if (quota > 0 && quota < usable) {
    usable = std::max(static_cast<uint32_t>(quota), 1u);
  }
  return usable;
}

uint32_t ThreadsPerWorker(uint32_t usable, uint32_t workers) {
  return std::max(usable / std::max(workers, 1u), 1u);
}

}  // namespace muster
