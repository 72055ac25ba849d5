#include "agent/probe/program_probe.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "agent/core/env_filter.h"
#include "agent/io/file_mark.h"
#include "agent/io/node_facts.h"
#include "agent/io/program_facts.h"
#include "agent/io/small_file.h"
#include "agent/probe/command_output.h"
#include "proto/base/clock.h"

namespace muster {
namespace {

constexpr absl::Duration kCommandWithin = absl::Seconds(5);
constexpr size_t kHashedBytesMax = 64u << 20;  // of a program's file

void ReadProgramFile(const std::string& path, ProbeFacts& facts) {
  facts.program_path = path;
  const UniqueFd fd = OpenRegular(path);
  if (!fd.valid()) {
    facts.program_error = errno == 0 ? "not a file" : std::strerror(errno);
    return;
  }
  struct stat st {};
  fstat(fd.get(), &st);
  facts.program_bytes = static_cast<uint64_t>(st.st_size);
  facts.program_hash = FileMark(fd.get(), kHashedBytesMax);
}

}  // namespace

void ReadProgramFacts(const ProbeRequest& request, ProbeFacts& facts) {
  const EnvBase env = FilterEnvironment(OwnEnvironment(), WorkPlan());
  const ProgramFacts program = LookAtProgram(request.argv, request.folder, env);
  facts.python = program.interpreter;
  facts.torch_version = program.torch_version;
  facts.torch_cuda = program.torch_cuda;
  if (!request.program_file.empty()) {
    const bool searched = !request.argv.empty() && request.argv[0] == request.program_file;
    std::string path = searched ? FindProgram(request.program_file, request.folder, env)
                       : absl::StartsWith(request.program_file, "/")
                           ? request.program_file
                           : absl::StrCat(request.folder, "/", request.program_file);
    if (path.empty()) {
      facts.program_path = request.program_file;
      facts.program_error = "not found in PATH";
    } else {
      ReadProgramFile(path, facts);
    }
  }
  if (facts.python.empty()) {
    return;
  }
  const absl::StatusOr<std::string> version =
      CommandOutput({facts.python, "-S", "-c", "import sys; print(sys.version.split()[0])"},
                    BootNow() + kCommandWithin);
  if (version.ok()) {
    facts.python_version = std::string(absl::StripAsciiWhitespace(*version));
  } else {
    facts.python_error = std::string(version.status().message());
  }
}

std::vector<GpuProcess> ParseGpuProcesses(absl::string_view text) {
  std::vector<GpuProcess> out;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    // A process may have commas in its name; the other fields have none.
    const std::vector<absl::string_view> words = absl::StrSplit(line, ", ");
    GpuProcess process;
    if (words.size() < 4 || !absl::SimpleAtoi(words[1], &process.pid)) {
      continue;
    }
    process.gpu = std::string(words[0]);
    process.name = std::string(words[2]);
    for (size_t i = 3; i + 1 < words.size(); ++i) {
      absl::StrAppend(&process.name, ", ", words[i]);
    }
    process.memory = std::string(words.back());
    out.push_back(std::move(process));
  }
  return out;
}

void ReadGpuFacts(ProbeFacts& facts) {
  const absl::Time deadline = BootNow() + kCommandWithin;
  const absl::StatusOr<std::string> driver = CommandOutput(
      {"nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"}, deadline);
  if (!driver.ok()) {
    if (facts.gpus > 0) {
      facts.gpu_error = std::string(driver.status().message());
    }
    return;
  }
  facts.gpu_driver = driver->substr(0, driver->find('\n'));
  const absl::StatusOr<std::string> processes =
      CommandOutput({"nvidia-smi", "--query-compute-apps=gpu_name,pid,process_name,used_memory",
                     "--format=csv,noheader"},
                    deadline);
  if (processes.ok()) {
    facts.gpu_processes = ParseGpuProcesses(*processes);
  } else {
    facts.gpu_error = std::string(processes.status().message());
  }
}

}  // namespace muster
