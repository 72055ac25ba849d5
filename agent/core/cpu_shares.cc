#include "agent/core/cpu_shares.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

namespace muster {
namespace {

uint32_t NumberAt(const TopologyCore& core, Level level) {
  switch (level) {
    case Level::kPackage:
      return core.package;
    case Level::kNuma:
      return core.numa;
    case Level::kL3Cache:
      return core.l3;
    case Level::kCore:  // each is its own: Objects
      break;
  }
  return 0;
}

}  // namespace

std::vector<TopologyCore> UsableCores(const Topology& topology, const CpuSet& allowed) {
  std::vector<TopologyCore> out;
  for (TopologyCore core : topology.cores) {
    core.cpus.Intersect(allowed);
    if (!core.cpus.empty()) {
      out.push_back(std::move(core));
    }
  }
  return out;
}

std::vector<Cores> Objects(const std::vector<TopologyCore>& cores, Level level) {
  std::vector<Cores> out;
  for (size_t core = 0; core < cores.size(); ++core) {
    if (out.empty() || level == Level::kCore ||
        NumberAt(cores[out.back().back()], level) != NumberAt(cores[core], level)) {
      out.emplace_back();
    }
    out.back().push_back(core);
  }
  return out;
}

std::vector<size_t> DealInProportion(const std::vector<Cores>& objects, size_t workers) {
  uint64_t total = 0;
  for (const Cores& object : objects) {
    total += object.size();
  }
  std::vector<size_t> out;
  size_t at = 0;
  uint64_t behind = objects[0].size();  // cores of the objects up to `at`
  for (uint64_t worker = 0; worker < workers; ++worker) {
    const uint64_t middle = (2 * worker + 1) * total / (2 * uint64_t{workers});
    while (behind <= middle) {
      behind += objects[++at].size();
    }
    out.push_back(at);
  }
  return out;
}

std::vector<Cores> Runs(const std::vector<Cores>& objects, size_t workers) {
  std::vector<Cores> out(workers);
  Cores all;
  for (const Cores& object : objects) {
    all.insert(all.end(), object.begin(), object.end());
  }
  uint64_t before = 0;
  for (const Cores& object : objects) {
    const uint64_t middle = 2 * before + object.size();
    Cores& run = out[middle * workers / (2 * all.size())];
    run.insert(run.end(), object.begin(), object.end());
    before += object.size();
  }
  if (std::any_of(out.begin(), out.end(), [](const Cores& run) { return run.empty(); })) {
    for (uint64_t i = 0; i < workers; ++i) {
      out[i].assign(all.begin() + static_cast<ptrdiff_t>(i * all.size() / workers),
                    all.begin() + static_cast<ptrdiff_t>((i + 1) * all.size() / workers));
    }
  }
  return out;
}

std::vector<Cores> Shares(const std::vector<TopologyCore>& cores, const Cores& object,
                          size_t workers) {
  std::vector<uint32_t> speeds;
  for (const size_t core : object) {
    speeds.push_back(cores[core].speed);
  }
  std::sort(speeds.begin(), speeds.end(), std::greater<>());
  speeds.erase(std::unique(speeds.begin(), speeds.end()), speeds.end());
  std::vector<Cores> out(workers);
  for (const uint32_t speed : speeds) {
    Cores kind;
    std::copy_if(object.begin(), object.end(), std::back_inserter(kind),
                 [&](size_t core) { return cores[core].speed == speed; });
    std::vector<size_t> sizes(workers);
    std::transform(out.begin(), out.end(), sizes.begin(), [](const Cores& c) { return c.size(); });
    const std::vector<size_t> had = sizes;
    for (size_t i = 0; i < kind.size(); ++i) {
      ++*std::min_element(sizes.begin(), sizes.end());
    }
    size_t next = 0;
    for (size_t worker = 0; worker < workers; ++worker) {
      for (size_t i = had[worker]; i < sizes[worker]; ++i) {
        out[worker].push_back(kind[next++]);
      }
    }
  }
  return out;
}

}  // namespace muster
