#include "agent/io/worker_limits.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "proto/base/core_limit.h"
#include "proto/base/limit_names.h"

namespace muster {
namespace {

const LimitName* Find(absl::string_view name) {
  const auto* it = std::find_if(std::begin(kLimitNames), std::end(kLimitNames),
                                [&](const LimitName& known) { return known.name == name; });
  return it == std::end(kLimitNames) ? nullptr : it;
}

rlimit Own(__rlimit_resource resource, const rlimit& files) {
  if (resource == RLIMIT_NOFILE) {
    return files;
  }
  if (resource == RLIMIT_CORE) {
    return CoreLimitOfOthers();
  }
  rlimit out{};
  getrlimit(resource, &out);
  return out;
}

std::string Text(uint64_t limit) {
  return limit == RLIM_INFINITY ? "unlimited" : absl::StrCat(limit);
}

}  // namespace

absl::StatusOr<rlimit> RaiseDescriptorLimit() {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit raised = before;
  raised.rlim_cur = raised.rlim_max;
  setrlimit(RLIMIT_NOFILE, &raised);
  if (raised.rlim_max < kDescriptorsMin) {
    return absl::ResourceExhaustedError(
        absl::StrCat("this process may open ", raised.rlim_max, " files, ", kDescriptorsMin,
                     " are the least: raise the hard limit (ulimit -Hn)"));
  }
  return before;
}

std::vector<WorkerLimit> OwnLimits(const std::vector<std::string>& names, const rlimit& files) {
  std::vector<WorkerLimit> out;
  for (const std::string& name : names) {
    if (const LimitName* known = Find(name); known != nullptr) {
      out.push_back({name, Own(known->resource, files).rlim_cur});
    }
  }
  return out;
}

NodeLimits LimitsOnNode(const std::vector<WorkerLimit>& wanted, const rlimit& files,
                        absl::string_view host) {
  NodeLimits out;
  out.limits.push_back({RLIMIT_NOFILE, files});
  out.limits.push_back({RLIMIT_CORE, CoreLimitOfOthers()});
  for (const WorkerLimit& limit : wanted) {
    const LimitName* known = Find(limit.name);
    if (known == nullptr) {
      continue;  // of another build; those do not meet
    }
    rlimit value = Own(known->resource, files);
    value.rlim_cur = std::min<rlim_t>(limit.soft, value.rlim_max);
    if (value.rlim_cur < limit.soft) {
      absl::StrAppend(&out.warning,
                      out.warning.empty() ? absl::StrCat(host, ": --propagate: ") : ", ",
                      limit.name, " is ", Text(value.rlim_cur), ", the hard limit there, not ",
                      Text(limit.soft));
    }
    out.limits.push_back({known->resource, value});
  }
  return out;
}

}  // namespace muster
