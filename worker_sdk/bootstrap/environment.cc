#include "worker_sdk/bootstrap/environment.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string>

#include "proto/base/env_names.h"
#include "proto/base/worker_link.h"

namespace muster {
namespace {

constexpr char kEnvTimeout[] = "MUSTER_TIMEOUT";
constexpr char kEnvWire[] = "MUSTER_WIRE";

using Get = std::function<const char*(const char*)>;

template <typename T>
Status ReadNumber(const Get& get, const char* name, T min, T max, T& out) {
  const char* text = get(name);
  if (text == nullptr) {
    return {StatusCode::kInvalidArgument,
            std::string(name) + " is not set, but " + kEnvRank + " is"};
  }
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, out);
  if (error != std::errc() || stop != end || out < min || out > max) {
    return {StatusCode::kInvalidArgument, std::string(name) + ": want " + std::to_string(min) +
                                              ".." + std::to_string(max) + ", got '" + text + "'"};
  }
  return {};
}

// Unset or empty: as `out` is.
Status ReadWire(const Get& get, Wire& out) {
  const char* text = get(kEnvWire);
  if (text == nullptr || *text == '\0') {
    return {};
  }
  for (int i = 0; i < kWires; ++i) {
    if (std::strcmp(text, Name(static_cast<Wire>(i))) == 0) {
      out = static_cast<Wire>(i);
      return {};
    }
  }
  return {StatusCode::kInvalidArgument,
          std::string(kEnvWire) + ": want full or bf16, got '" + text + "'"};
}

// A world that another launcher promised, and that we do not serve.
std::string Notice(const Get& get) {
  for (const char* name : {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"}) {
    const char* text = get(name);
    const long size = text == nullptr ? 0 : std::strtol(text, nullptr, 10);
    if (size > 1) {
      return std::string("muster: ") + name + " is " + text +
             ", but this process was not started by launch: it is alone in its world. Start it "
             "with "
             "`launch --nproc-per-node " +
             text + " PROGRAM`.";
    }
  }
  return "";
}

}  // namespace

StatusOr<WorkerIdentity> ReadIdentity(const Get& get) {
  WorkerIdentity out;
  if (const char* text = get(kEnvTimeout); text != nullptr && *text != '\0') {
    char* end = nullptr;
    out.timeout_s = std::strtod(text, &end);
    if (*end != '\0' || !(out.timeout_s >= 0 && out.timeout_s <= 1e9)) {
      return Status(
          StatusCode::kInvalidArgument,
          std::string(kEnvTimeout) + ": want seconds, 0 (no limit)..1e9, got '" + text + "'");
    }
  }
  if (Status status = ReadWire(get, out.wire); !status.ok()) {
    return status;
  }
  if (get(kEnvRank) == nullptr) {
    out.notice = Notice(get);
    return out;
  }
  constexpr uint32_t kMax = UINT32_MAX;
  Status status = ReadNumber<uint32_t>(get, kEnvWorldSize, 1, kMax, out.size);
  const auto read = [&](const char* name, uint32_t min, uint32_t max, uint32_t& value) {
    if (status.ok()) {
      status = ReadNumber<uint32_t>(get, name, min, max, value);
    }
  };
  read(kEnvRank, 0, out.size - 1, out.rank);
  read(kEnvLocalSize, 1, std::min(out.size, kLocalSizeMax), out.local_size);
  read(kEnvLocalRank, 0, out.local_size - 1, out.local_rank);
  read(kEnvNodes, 1, out.size, out.nodes);
  read(kEnvNodeRank, 0, out.nodes - 1, out.node_rank);
  if (status.ok()) {
    status = ReadNumber<uint64_t>(get, kEnvRound, 0, UINT64_MAX, out.round);
  }
  if (status.ok()) {
    status = ReadNumber<int>(get, kEnvAgentFd, 0, 1 << 20, out.agent_fd);
  }
  if (!status.ok()) {
    return status;
  }
  out.launched = true;
  return out;
}

}  // namespace muster
