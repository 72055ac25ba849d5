// What a job's program would find on this node: its file, Python, torch, GPUs. Runs python3 and
// nvidia-smi, each with a deadline.
#pragma once

#include <vector>

#include "absl/strings/string_view.h"
#include "agent/probe/probe_lines.h"

namespace muster {

void ReadProgramFacts(const ProbeRequest& request, ProbeFacts& facts);
// Nothing where there is no NVIDIA GPU, or where its tool was not found.
void ReadGpuFacts(ProbeFacts& facts);

// Of `nvidia-smi --query-compute-apps=gpu_name,pid,process_name,used_memory --format=csv,noheader`.
std::vector<GpuProcess> ParseGpuProcesses(absl::string_view text);

}  // namespace muster
