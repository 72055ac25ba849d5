#include "launcher/described_topology.h"

#include <dlfcn.h>
#include <hwloc.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "launcher/find_symbol.h"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

constexpr char kXml[] = "HWLOC_XMLFILE";
constexpr char kSynthetic[] = "HWLOC_SYNTHETIC";
constexpr char kLibrary[] = "libhwloc.so.15";

// What we call of it.
struct Hwloc {
  decltype(&hwloc_topology_init) init;
  decltype(&hwloc_topology_destroy) destroy;
  decltype(&hwloc_topology_set_xml) set_xml;
  decltype(&hwloc_topology_set_synthetic) set_synthetic;
  decltype(&hwloc_topology_set_io_types_filter) set_io_types_filter;
  decltype(&hwloc_topology_load) load;
  decltype(&hwloc_get_type_depth) type_depth;
  decltype(&hwloc_get_nbobjs_by_depth) count_at;
  decltype(&hwloc_get_obj_by_depth) object_at;
  decltype(&hwloc_topology_get_allowed_cpuset) allowed;
  decltype(&hwloc_bitmap_next) next;
  decltype(&hwloc_cpukinds_get_by_cpuset) kind_of;
};

// Stays loaded.
absl::StatusOr<Hwloc> LoadHwloc(absl::string_view source) {
  setenv("HWLOC_PLUGINS_PATH", "/nonexistent", 0);  // they look at this machine, and take long
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  Hwloc out = {};
  const bool all =
      library != nullptr && FindSymbol(library, "hwloc_topology_init", out.init) &&
      FindSymbol(library, "hwloc_topology_destroy", out.destroy) &&
      FindSymbol(library, "hwloc_topology_set_xml", out.set_xml) &&
      FindSymbol(library, "hwloc_topology_set_synthetic", out.set_synthetic) &&
      FindSymbol(library, "hwloc_topology_set_io_types_filter", out.set_io_types_filter) &&
      FindSymbol(library, "hwloc_topology_load", out.load) &&
      FindSymbol(library, "hwloc_get_type_depth", out.type_depth) &&
      FindSymbol(library, "hwloc_get_nbobjs_by_depth", out.count_at) &&
      FindSymbol(library, "hwloc_get_obj_by_depth", out.object_at) &&
      FindSymbol(library, "hwloc_topology_get_allowed_cpuset", out.allowed) &&
      FindSymbol(library, "hwloc_bitmap_next", out.next) &&
      FindSymbol(library, "hwloc_cpukinds_get_by_cpuset", out.kind_of);
  if (!all) {
    return absl::FailedPreconditionError(
        absl::StrCat(source, ": ", kLibrary, " is needed to read it, and is not here: install ",
                     "hwloc (Debian: libhwloc15), or unset the variable"));
  }
  return out;
}

class Reader {
 public:
  Reader(const Hwloc& hwloc, hwloc_topology_t topology) : hwloc_(hwloc), topology_(topology) {}

  void Read(DescribedTopology& out) {
    out.allowed = SetOf(hwloc_.allowed(topology_));
    ReadNumaNodes(out.topology);
    int depth = hwloc_.type_depth(topology_, HWLOC_OBJ_CORE);
    if (depth < 0) {  // such a description has hardware threads alone
      depth = hwloc_.type_depth(topology_, HWLOC_OBJ_PU);
    }
    for (unsigned i = 0; i < hwloc_.count_at(topology_, depth); ++i) {
      TopologyCore core = CoreOf(hwloc_.object_at(topology_, depth, i));
      if (!core.cpus.empty()) {
        out.topology.cores.push_back(std::move(core));
      }
    }
    Arrange(out.topology);
    ReadDevices(out.topology);
  }

 private:
  CpuSet SetOf(hwloc_const_bitmap_t bitmap) const {
    CpuSet out;
    for (int cpu = hwloc_.next(bitmap, -1); cpu >= 0; cpu = hwloc_.next(bitmap, cpu)) {
      out.Add(static_cast<uint32_t>(cpu));
    }
    return out;
  }

  // Its number among those of its type; 0 where nothing around it is of that type.
  static uint32_t Around(hwloc_obj_t object, hwloc_obj_type_t type) {
    for (hwloc_obj_t at = object; at != nullptr; at = at->parent) {
      if (at->type == type) {
        return at->logical_index;
      }
    }
    return 0;
  }

  void ReadNumaNodes(Topology& out) {
    for (unsigned i = 0; i < hwloc_.count_at(topology_, HWLOC_TYPE_DEPTH_NUMANODE); ++i) {
      const hwloc_obj_t node = hwloc_.object_at(topology_, HWLOC_TYPE_DEPTH_NUMANODE, i);
      CpuSet cpus = SetOf(node->cpuset);
      const bool known = std::find(numa_.begin(), numa_.end(), cpus) != numa_.end();
      if (!cpus.empty() && !known) {  // else memory alone, or more of it (HBM) at the same cores
        out.numa_nodes.push_back(node->os_index);
        numa_.push_back(std::move(cpus));
      }
    }
  }

  TopologyCore CoreOf(hwloc_obj_t object) const {
    TopologyCore out;
    out.cpus = SetOf(object->cpuset);
    out.package = Around(object, HWLOC_OBJ_PACKAGE);
    out.l3 = Around(object, HWLOC_OBJ_L3CACHE);
    for (uint32_t i = 0; i < numa_.size() && !out.cpus.empty(); ++i) {
      out.numa = numa_[i].Has(out.cpus.Members().front()) ? i : out.numa;
    }
    const int kind = hwloc_.kind_of(topology_, object->cpuset, 0);
    out.speed = kind > 0 ? static_cast<uint32_t>(kind) : 0;
    return out;
  }

  // GPUs are PCI devices of class 3 (a display or 3D controller) of NVIDIA.
  void ReadDevices(Topology& out) {
    constexpr unsigned kNvidia = 0x10de;
    constexpr unsigned kDisplay = 3;
    for (unsigned i = 0; i < hwloc_.count_at(topology_, HWLOC_TYPE_DEPTH_PCI_DEVICE); ++i) {
      const hwloc_obj_t device = hwloc_.object_at(topology_, HWLOC_TYPE_DEPTH_PCI_DEVICE, i);
      const auto& pci = device->attr->pcidev;
      if (pci.vendor_id == kNvidia && pci.class_id >> 8 == kDisplay) {
        out.gpus.push_back({device->name == nullptr ? "" : device->name, "", Near(device)});
      }
    }
    for (unsigned i = 0; i < hwloc_.count_at(topology_, HWLOC_TYPE_DEPTH_OS_DEVICE); ++i) {
      const hwloc_obj_t device = hwloc_.object_at(topology_, HWLOC_TYPE_DEPTH_OS_DEVICE, i);
      if (device->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS && device->name != nullptr) {
        out.nics.push_back({device->name, "", Near(device)});
      }
    }
  }

  // The CPUs of what it hangs at.
  CpuSet Near(hwloc_obj_t device) const {
    hwloc_obj_t at = device;
    while (at->parent != nullptr && at->cpuset == nullptr) {
      at = at->parent;
    }
    return at->cpuset == nullptr ? CpuSet() : SetOf(at->cpuset);
  }

  const Hwloc& hwloc_;
  const hwloc_topology_t topology_;
  std::vector<CpuSet> numa_;
};

}  // namespace

absl::StatusOr<std::optional<DescribedTopology>> ReadDescribedTopology() {
  const char* xml = std::getenv(kXml);
  const char* synthetic = std::getenv(kSynthetic);
  if (xml == nullptr && synthetic == nullptr) {
    return std::nullopt;
  }
  DescribedTopology out;
  out.source =
      xml != nullptr ? absl::StrCat(kXml, "=", xml) : absl::StrCat(kSynthetic, "=", synthetic);
  const std::string text = xml != nullptr ? xml : synthetic;
  const bool is_xml = xml != nullptr;
  unsetenv(kXml);  // else hwloc takes it by itself, and says nothing of what is wrong
  unsetenv(kSynthetic);
  ASSIGN_OR_RETURN(const Hwloc hwloc, LoadHwloc(out.source));
  hwloc_topology_t topology = nullptr;
  if (hwloc.init(&topology) != 0) {
    return absl::InternalError("hwloc_topology_init");
  }
  const absl::Cleanup destroy = [&] { hwloc.destroy(topology); };
  hwloc.set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  const int set =
      is_xml ? hwloc.set_xml(topology, text.c_str()) : hwloc.set_synthetic(topology, text.c_str());
  if (set != 0 || hwloc.load(topology) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        out.source, ": want ",
        is_xml
            ? "a file that lstopo has written (lstopo node.xml)"
            : "hwloc's words from the package to its hardware threads, as 'pack:2 core:8 pu:2'"));
  }
  Reader(hwloc, topology).Read(out);
  if (out.topology.cores.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(out.source, ": has no core"));
  }
  return out;
}

}  // namespace muster
