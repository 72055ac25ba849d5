#include "agent/io/exit_facts.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "agent/core/cpu_count.h"
#include "agent/io/small_file.h"
#include "proto/base/limits.h"

namespace muster {
namespace {

// "name VALUE" in a file of such lines; 0 when absent.
uint64_t Counter(const std::string& text, absl::string_view name) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    uint64_t value = 0;
    if (words.size() == 2 && words[0] == name && absl::SimpleAtoi(words[1], &value)) {
      return value;
    }
  }
  return 0;
}

// In a container without a cgroup namespace the path is the host's, and our own group is the root
// of what is mounted.
uint64_t KillsIn(const std::string& mount, const std::string& group, absl::string_view file) {
  const std::string path = absl::StrCat(mount, group, "/", file);
  return Counter(
      ReadHead(access(path.c_str(), F_OK) == 0 ? path : absl::StrCat(mount, "/", file), 4096),
      "oom_kill");
}

// Python writes numbers that JSON has not: NaN, Infinity, -Infinity. Outside strings they become
// null.
std::string WithJsonNumbersOnly(absl::string_view text) {
  std::string out;
  bool in_string = false;
  while (!text.empty()) {
    size_t taken = 1;
    if (in_string) {
      in_string = text[0] != '"';
      taken = text[0] == '\\' && text.size() > 1 ? 2 : 1;
    } else if (text[0] == '"') {
      in_string = true;
    } else if (absl::ConsumePrefix(&text, "NaN") || absl::ConsumePrefix(&text, "-Infinity") ||
               absl::ConsumePrefix(&text, "Infinity")) {
      out += "null";
      continue;
    }
    out.append(text.data(), taken);
    text.remove_prefix(taken);
  }
  return out;
}

}  // namespace

ErrorFile ReadErrorFile(const std::string& path) {
  ErrorFile out;
  out.text = ReadHead(path, kErrorFileBytesMax);
  const nlohmann::json root =
      nlohmann::json::parse(WithJsonNumbersOnly(out.text), nullptr, /*allow_exceptions=*/false);
  if (!root.is_object() || !root.contains("message")) {
    return out;
  }
  const nlohmann::json& message = root["message"];
  if (message.is_string()) {
    out.message = message.get<std::string>();
  } else if (message.is_object() && message.contains("message") && message["message"].is_string()) {
    out.message = message["message"].get<std::string>();
  }
  out.message.resize(std::min(out.message.size(), kErrorMessageBytesMax));
  if (struct stat st{}; !out.message.empty() && stat(path.c_str(), &st) == 0) {
    out.age = std::max(absl::Now() - absl::TimeFromTimespec(st.st_mtim), absl::ZeroDuration());
  }
  return out;
}

uint64_t OomKills(const std::string& proc_cgroup, const std::string& root) {
  const std::vector<CgroupLine> lines = ParseCgroupFile(ReadHead(proc_cgroup, 64u << 10));
  if (const CgroupLine* unified = FindCgroup(lines, ""); unified != nullptr) {
    const uint64_t kills = KillsIn(root, unified->path, "memory.events");
    if (kills > 0) {  // of the folder and those below it
      return kills;
    }
  }
  const CgroupLine* memory = FindCgroup(lines, "memory");
  return memory == nullptr ? 0 : KillsIn(root + "/memory", memory->path, "memory.oom_control");
}

}  // namespace muster
