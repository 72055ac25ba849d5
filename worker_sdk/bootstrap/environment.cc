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
constexpr char kEnvCheck[] = "MUSTER_CHECK";
constexpr char kEnvDirect[] = "MUSTER_DIRECT";

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

// `out`: whether it is `second`; unset or empty is `first`.
Status ReadChoice(const Get& get, const char* name, const std::string& first,
                  const std::string& second, bool& out) {
  const char* set = get(name);
  const std::string text = set == nullptr || *set == '\0' ? first : set;
  out = text == second;
  if (text == first || out) {
    return {};
  }
  return {StatusCode::kInvalidArgument,
          std::string(name) + ": want " + first + " or " + second + ", got '" + text + "'"};
}

Status ReadDirect(const Get& get, DirectReads& out) {
  const char* set = get(kEnvDirect);
  const std::string text = set == nullptr || *set == '\0' ? "auto" : set;
  if (text != "auto" && text != "on" && text != "off") {
    return {StatusCode::kInvalidArgument,
            std::string(kEnvDirect) + ": want auto, on or off, got '" + text + "'"};
  }
  out = text == "auto" ? DirectReads::kAuto : text == "on" ? DirectReads::kOn : DirectReads::kOff;
  return {};
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
  bool is_narrow = false;
  Status status = ReadChoice(get, kEnvWire, Name(Wire::kFull), Name(Wire::kBFloat16), is_narrow);
  out.wire = is_narrow ? Wire::kBFloat16 : Wire::kFull;
  if (status.ok()) {
    status = ReadChoice(get, kEnvCheck, "off", "crc", out.check);
  }
  if (status.ok()) {
    status = ReadDirect(get, out.direct);
  }
  if (!status.ok()) {
    return status;
  }
  if (get(kEnvRank) == nullptr) {
    out.notice = Notice(get);
    return out;
  }
  constexpr uint32_t kMax = UINT32_MAX;
  status = ReadNumber<uint32_t>(get, kEnvWorldSize, 1, kMax, out.size);
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
