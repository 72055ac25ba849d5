// Where on a node the user wants its workers to run: CPUs, memory, GPUs. Values only.
#pragma once

#include <cstdint>
#include <string>

namespace muster {

enum class BindTo : uint8_t {  // --bind-to
  kAuto,                       // shares of the node, as its cores and workers ask for
  kNone,
  kHwthread,
  kCore,
  kL3Cache,
  kNuma,
  kPackage,
};
enum class MapBy : uint8_t {  // --map-by: what the workers of a node are dealt out over
  kAuto,                      // in order, and near the GPUs where each worker has one
  kCore,
  kL3Cache,
  kNuma,
  kPackage,
  kGpu,
};
enum class MemoryBinding : uint8_t { kNone, kLocal, kBind, kInterleave };  // --membind
enum class GpuMode : uint8_t {                                             // --gpu-mode
  kAll,
  kOne,
  kUuid,
  kOneIfEnough,  // nobody has asked for it: kOne where there are enough, else kAll
};

struct CpuBinding {
  BindTo bind_to = BindTo::kAuto;
  MapBy map_by = MapBy::kAuto;
  uint32_t workers_per_object = 0;  // --map-by ppr:N:...; 0 = as they come
  uint32_t cores_per_worker = 0;    // --pe; 0 = as bind_to says
  bool overload = false;            // two workers may get the same core
  std::string cpu_list;             // only these CPUs of each node: "0-3,8"; "" = all
  MemoryBinding memory = MemoryBinding::kNone;
  std::string memory_nodes;  // of kBind, kInterleave: "0,2-3"; "" = those of a worker's CPUs
  GpuMode gpu_mode = GpuMode::kAll;
  uint32_t gpus_per_worker = 0;  // 0 = one, where gpu_mode is not kAll
  bool report = false;           // --report-bindings

  bool operator==(const CpuBinding&) const = default;
};

}  // namespace muster
