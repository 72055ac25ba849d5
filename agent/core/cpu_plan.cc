#include "agent/core/cpu_plan.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/core/cpu_shares.h"
#include "proto/base/limits.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"

namespace muster {
namespace {

size_t InCommon(const CpuSet& a, const CpuSet& b) {
  CpuSet both = a;
  both.Intersect(b);
  return both.Count();
}

Level MapLevelOf(const CpuBinding& binding) {
  switch (binding.map_by) {
    case MapBy::kL3Cache:
      return Level::kL3Cache;
    case MapBy::kNuma:
    case MapBy::kGpu:
      return Level::kNuma;
    case MapBy::kPackage:
      return Level::kPackage;
    case MapBy::kCore:
      if (binding.workers_per_object > 0) {
        return Level::kCore;
      }
      break;  // in order, as they are dealt out anyway
    case MapBy::kAuto:
      break;
  }
  switch (binding.bind_to) {
    case BindTo::kL3Cache:
      return Level::kL3Cache;
    case BindTo::kPackage:
      return Level::kPackage;
    default:
      return Level::kNuma;
  }
}

class Planner {
 public:
  Planner(const Topology& topology, const CpuSet& allowed, uint32_t workers,
          const CpuBinding& binding)
      : topology_(topology),
        binding_(binding),
        workers_(workers),
        cores_(UsableCores(topology, allowed)),
        all_(cores_.size()),
        cores_of_(workers) {
    std::iota(all_.begin(), all_.end(), size_t{0});
    plan_.workers.resize(workers);
  }

  absl::StatusOr<CpuPlan> Plan() {
    if (cores_.empty()) {
      return absl::FailedPreconditionError("none of the CPUs that workers may use is known");
    }
    RETURN_IF_ERROR(DealGpus());
    if (binding_.bind_to == BindTo::kNone) {
      for (WorkerShare& share : plan_.workers) {
        Give(share, all_, /*bound=*/false);
      }
    } else {
      RETURN_IF_ERROR(Map());
      if (deals_late_) {
        DealNearGpus();
      }
      RETURN_IF_ERROR(Bind());
    }
    Finish();
    RETURN_IF_ERROR(NameMemory());
    return std::move(plan_);
  }

 private:
  bool InUnits() const {
    return binding_.bind_to == BindTo::kHwthread || binding_.bind_to == BindTo::kCore ||
           binding_.cores_per_worker > 0;
  }

  // Over the objects that --map-by names.
  bool InTurn() const { return binding_.map_by != MapBy::kAuto && binding_.map_by != MapBy::kCore; }

  absl::Status DealGpus() {
    const size_t present = topology_.gpus.size();
    const bool own = binding_.gpus_per_worker > 0 || binding_.gpu_mode != GpuMode::kAll;
    const uint32_t each = std::max(binding_.gpus_per_worker, 1u);
    if (uint64_t{workers_} * each > present) {
      const bool asked = own && binding_.gpu_mode != GpuMode::kOneIfEnough;
      if (asked || binding_.map_by == MapBy::kGpu) {
        return absl::InvalidArgumentError(absl::StrCat(
            binding_.gpus_per_worker > 0     ? "--gpus-per-proc "
            : binding_.map_by == MapBy::kGpu ? "--map-by gpu, "
                                             : "--gpu-mode, ",
            each, " for each of ", Plural(workers_, "worker", "workers"), ": this node has ",
            present, "; run ", present / each, " workers on it, or leave the option out"));
      }
      return absl::OkStatus();
    }
    // Where each is bound to a place of its own choice, its GPUs follow it.
    deals_late_ =
        own && InTurn() && binding_.map_by != MapBy::kGpu && binding_.bind_to != BindTo::kNone;
    for (uint32_t worker = 0; worker < workers_ && !deals_late_; ++worker) {
      for (uint32_t i = 0; i < each; ++i) {
        plan_.workers[worker].gpus.push_back(worker * each + i);
      }
    }
    return absl::OkStatus();
  }

  // Of those that are left the nearest to the object that the worker is mapped to.
  void DealNearGpus() {
    std::vector<uint32_t> left(topology_.gpus.size());
    std::iota(left.begin(), left.end(), 0u);
    for (uint32_t worker = 0; worker < workers_; ++worker) {
      const size_t object = object_of_.empty() ? worker % objects_.size() : object_of_[worker];
      const CpuSet cpus = CpusOf(objects_[object]);
      for (uint32_t i = 0; i < std::max(binding_.gpus_per_worker, 1u); ++i) {
        const auto nearest =
            std::max_element(left.begin(), left.end(), [&](uint32_t a, uint32_t b) {
              return InCommon(topology_.gpus[a].near, cpus) <
                     InCommon(topology_.gpus[b].near, cpus);
            });
        plan_.workers[worker].gpus.push_back(*nearest);
        left.erase(nearest);
      }
    }
  }

  // Where there is a GPU for each worker, and it is known where they are.
  bool NearGpus() const {
    return (binding_.map_by == MapBy::kGpu || binding_.map_by == MapBy::kAuto) &&
           std::all_of(plan_.workers.begin(), plan_.workers.end(), [&](const WorkerShare& share) {
             return !share.gpus.empty() && !topology_.gpus[share.gpus[0]].near.empty();
           });
  }

  // objects_, and object_of_ but for those that are found while they are bound.
  absl::Status Map() {
    objects_ = Objects(cores_, MapLevelOf(binding_));
    const uint32_t each = binding_.workers_per_object;
    if (each > 0) {
      if (workers_ > uint64_t{each} * objects_.size()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "--map-by ppr:", each, ": ", Plural(workers_, "worker", "workers"), " want ",
            (workers_ + each - 1) / each, " of these, and this node's workers may use ",
            objects_.size(), ": fewer workers, or a larger number behind ppr"));
      }
      for (uint32_t worker = 0; worker < workers_; ++worker) {
        object_of_.push_back(worker / each);
      }
    } else if (NearGpus()) {
      for (const WorkerShare& share : plan_.workers) {
        object_of_.push_back(Nearest(topology_.gpus[share.gpus[0]].near));
      }
      if (binding_.map_by == MapBy::kAuto && IsCrowded()) {
        object_of_.clear();  // a core for each comes first
        DealObjects();
      }
    } else {
      DealObjects();
    }
    return absl::OkStatus();
  }

  // Some object has fewer cores than its workers want.
  bool IsCrowded() const {
    const size_t each = std::max(binding_.cores_per_worker, 1u);
    for (size_t i = 0; i < objects_.size(); ++i) {
      const auto here = static_cast<size_t>(std::count(object_of_.begin(), object_of_.end(), i));
      if (here * each > objects_[i].size()) {
        return true;
      }
    }
    return false;
  }

  // In turn where that is asked for, else in proportion; units are found while they are bound.
  void DealObjects() {
    if (InUnits()) {
      return;
    }
    if (InTurn()) {
      for (uint32_t worker = 0; worker < workers_; ++worker) {
        object_of_.push_back(worker % objects_.size());
      }
    } else {
      if (binding_.bind_to == BindTo::kAuto && workers_ < objects_.size()) {
        objects_ = Runs(objects_, workers_);
      }
      object_of_ = DealInProportion(objects_, workers_);
    }
  }

  // The object with most of these CPUs; of equal ones that with the fewest workers so far.
  size_t Nearest(const CpuSet& cpus) const {
    size_t best = 0;
    size_t most = 0;
    int64_t fewest = 0;
    for (size_t i = 0; i < objects_.size(); ++i) {
      const size_t common = InCommon(CpusOf(objects_[i]), cpus);
      const int64_t there = std::count(object_of_.begin(), object_of_.end(), i);
      if (i == 0 || common > most || (common == most && there < fewest)) {
        best = i;
        most = common;
        fewest = there;
      }
    }
    return best;
  }

  absl::Status Bind() {
    if (InUnits()) {
      return BindUnits();
    }
    for (size_t i = 0; i < objects_.size(); ++i) {
      std::vector<WorkerShare*> here;
      for (uint32_t worker = 0; worker < workers_; ++worker) {
        if (object_of_[worker] == i) {
          here.push_back(&plan_.workers[worker]);
        }
      }
      if (binding_.bind_to == BindTo::kAuto) {
        BindShares(objects_[i], here);
      } else {
        BindWhole(objects_[i], here);
      }
    }
    return absl::OkStatus();
  }

  void BindShares(const Cores& object, const std::vector<WorkerShare*>& here) {
    // Either each has cores of its own, or none has.
    if (here.empty() || workers_ > all_.size() || here.size() > object.size()) {
      for (WorkerShare* share : here) {
        Give(*share, object);
      }
      return;
    }
    const std::vector<Cores> shares = Shares(cores_, object, here.size());
    for (size_t i = 0; i < here.size(); ++i) {
      Give(*here[i], shares[i]);
    }
  }

  // To all of what --bind-to names: what holds the object they are mapped to, or parts of it.
  void BindWhole(const Cores& object, const std::vector<WorkerShare*>& here) {
    const Level level = binding_.bind_to == BindTo::kL3Cache   ? Level::kL3Cache
                        : binding_.bind_to == BindTo::kPackage ? Level::kPackage
                                                               : Level::kNuma;
    std::vector<Cores> wholes;
    for (Cores& whole : Objects(cores_, level)) {
      const bool holds = std::any_of(whole.begin(), whole.end(), [&](size_t core) {
        return std::find(object.begin(), object.end(), core) != object.end();
      });
      if (holds) {
        wholes.push_back(std::move(whole));
      }
    }
    const std::vector<size_t> of = DealInProportion(wholes, here.size());
    for (size_t i = 0; i < here.size(); ++i) {
      Give(*here[i], wholes[of[i]]);
    }
  }

  struct Unit {
    size_t core;
    CpuSet cpus;
    size_t object;
    uint32_t workers = 0;
  };

  // Single cores or hardware threads, so many for each.
  absl::Status BindUnits() {
    for (size_t i = 0; i < objects_.size(); ++i) {
      for (const size_t core : objects_[i]) {
        AddUnits(core, i);
      }
    }
    const size_t each = std::max(binding_.cores_per_worker, 1u);
    for (uint32_t worker = 0; worker < workers_; ++worker) {
      std::vector<size_t> objects;  // to be tried, in this order
      if (!object_of_.empty()) {
        objects = {object_of_[worker]};
      } else {
        for (size_t i = 0; i < objects_.size(); ++i) {
          objects.push_back(((InTurn() ? worker : 0) + i) % objects_.size());
        }
      }
      const std::vector<Unit*> units = FindUnits(objects, each);
      if (units.empty()) {
        return TooFewUnits(each);
      }
      CpuSet cpus;
      Cores cores;
      for (Unit* unit : units) {
        ++unit->workers;
        cpus.Unite(unit->cpus);
        if (cores.empty() || cores.back() != unit->core) {
          cores.push_back(unit->core);
        }
      }
      Give(plan_.workers[worker], std::move(cores));
      plan_.workers[worker].cpus = std::move(cpus);
    }
    return absl::OkStatus();
  }

  void AddUnits(size_t core, size_t object) {
    if (binding_.bind_to != BindTo::kHwthread) {
      units_.push_back({core, cores_[core].cpus, object});
      return;
    }
    for (const uint32_t cpu : cores_[core].cpus.Members()) {
      CpuSet one;
      one.Add(cpu);
      units_.push_back({core, std::move(one), object});
    }
  }

  // Of one object where one has so many left, else of several; empty where they have not. Those of
  // least workers first.
  std::vector<Unit*> FindUnits(const std::vector<size_t>& objects, size_t count) {
    for (uint32_t load = 0; load <= (binding_.overload ? workers_ : 0); ++load) {
      std::vector<Unit*> all;
      for (const size_t object : objects) {
        std::vector<Unit*> here;
        for (Unit& unit : units_) {
          if (unit.object == object && unit.workers <= load && here.size() < count) {
            here.push_back(&unit);
          }
        }
        if (here.size() == count) {
          return here;
        }
        all.insert(all.end(), here.begin(), here.end());
      }
      if (all.size() >= count) {
        all.resize(count);
        return all;
      }
    }
    return {};
  }

  absl::Status TooFewUnits(size_t each) const {
    const bool threads = binding_.bind_to == BindTo::kHwthread;
    const char* one = threads ? "hardware thread" : "core";
    const char* several = threads ? "hardware threads" : "cores";
    const std::string option = binding_.cores_per_worker > 0
                                   ? absl::StrCat("--pe ", binding_.cores_per_worker)
                                   : absl::StrCat("--bind-to ", threads ? "hwthread" : "core");
    return absl::InvalidArgumentError(absl::StrCat(
        option, ": ", Plural(workers_, "worker", "workers"), " want ", Plural(each, one, several),
        " each, and those that this node's workers may use are ", units_.size(),
        object_of_.empty() ? "" : ", not enough of them where --map-by puts a worker",
        ": fewer workers, --bind-to none, or --bind-to core:overload-allowed"));
  }

  CpuSet CpusOf(const Cores& cores) const {
    CpuSet out;
    for (const size_t core : cores) {
      out.Unite(cores_[core].cpus);
    }
    return out;
  }

  void Give(WorkerShare& share, Cores cores, bool bound = true) {
    share.cpus = CpusOf(cores);
    share.bound = bound;
    share.cores = static_cast<uint32_t>(cores.size());
    cores_of_[static_cast<size_t>(&share - plan_.workers.data())] = std::move(cores);
  }

  // What follows from the cores: who shares them, and what is near.
  void Finish() {
    std::vector<uint32_t> load(cores_.size(), 0);
    for (const Cores& cores : cores_of_) {
      for (const size_t core : cores) {
        ++load[core];
      }
    }
    for (uint32_t worker = 0; worker < workers_; ++worker) {
      WorkerShare& share = plan_.workers[worker];
      for (const size_t core : cores_of_[worker]) {
        share.sharers = std::max(share.sharers, load[core]);
        const uint32_t numa = cores_[core].numa;
        if (numa < topology_.numa_nodes.size() &&
            (share.memory.empty() || share.memory.back() != topology_.numa_nodes[numa])) {
          share.memory.push_back(topology_.numa_nodes[numa]);
        }
      }
      size_t most = 0;
      for (uint32_t nic = 0; nic < topology_.nics.size(); ++nic) {
        const size_t common = InCommon(topology_.nics[nic].near, share.cpus);
        if (common > most) {
          most = common;
          share.nic = nic;
        }
      }
    }
  }

  // --membind with a list: the same for all.
  absl::Status NameMemory() {
    if (binding_.memory_nodes.empty()) {
      return absl::OkStatus();
    }
    const std::vector<uint32_t>& present = topology_.numa_nodes;
    const bool all = binding_.memory_nodes == kAllMemoryNodes;
    const std::vector<uint32_t> wanted =
        all ? present : ParseCpuList(binding_.memory_nodes).value_or(CpuSet()).Members();
    const bool there = std::all_of(wanted.begin(), wanted.end(), [&](uint32_t node) {
      return std::find(present.begin(), present.end(), node) != present.end();
    });
    if (wanted.empty() || !there) {
      std::vector<uint32_t> sorted = present;
      std::sort(sorted.begin(), sorted.end());
      return absl::InvalidArgumentError(absl::StrCat(
          "--membind ", binding_.memory_nodes, ": ",
          present.empty() ? "nothing is known of this node's NUMA nodes: leave the list out"
                          : absl::StrCat("this node's NUMA nodes with CPUs are ", RangeList(sorted),
                                         ": name some of these, or all")));
    }
    for (WorkerShare& share : plan_.workers) {
      share.memory = wanted;
      share.memory_named = true;
    }
    return absl::OkStatus();
  }

  const Topology& topology_;  // of the caller's, for the one call that we live in
  const CpuBinding& binding_;
  const uint32_t workers_;
  const std::vector<TopologyCore> cores_;  // that may be used
  Cores all_;
  bool deals_late_ = false;        // GPUs, after Map
  std::vector<Cores> objects_;     // that workers are mapped to
  std::vector<size_t> object_of_;  // each worker's; empty: where the next free unit is
  std::vector<Unit> units_;
  std::vector<Cores> cores_of_;  // each worker's
  CpuPlan plan_;
};

}  // namespace

absl::StatusOr<CpuPlan> PlanCpus(const Topology& topology, const CpuSet& allowed, uint32_t workers,
                                 const CpuBinding& binding) {
  return Planner(topology, allowed, workers, binding).Plan();
}

bool AsTheyCome(const CpuBinding& binding) {
  return binding.bind_to == BindTo::kAuto && binding.map_by == MapBy::kAuto &&
         binding.cores_per_worker == 0;
}

bool WantsPlan(const CpuBinding& binding, uint32_t workers) {
  return binding.report || binding.gpu_mode != GpuMode::kAll || binding.gpus_per_worker > 0 ||
         binding.memory != MemoryBinding::kNone ||
         (binding.bind_to != BindTo::kNone && !(AsTheyCome(binding) && workers == 1));
}

uint32_t PlacesByObjects(const Topology& topology, const CpuSet& allowed,
                         const CpuBinding& binding) {
  const size_t objects = Objects(UsableCores(topology, allowed), MapLevelOf(binding)).size();
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(uint64_t{binding.workers_per_object} * objects, 1, kWorkersPerNodeMax));
}

uint32_t CpusToWaitWith(const CpuPlan& plan, uint32_t usable) {
  std::map<uint32_t, uint64_t> load;  // workers, by CPU: a core may have one for each of several
  for (const WorkerShare& share : plan.workers) {
    for (const uint32_t cpu : share.cpus.Members()) {
      ++load[cpu];
    }
  }
  uint64_t out = usable;
  for (const WorkerShare& share : plan.workers) {
    const uint64_t cpus = share.cpus.Count();
    for (const uint32_t cpu : share.cpus.Members()) {
      out = load[cpu] > cpus ? std::min(out, cpus * plan.workers.size() / load[cpu]) : out;
    }
  }
  return static_cast<uint32_t>(out);
}

}  // namespace muster
