#include "agent/probe/probe_lines.h"

#include <type_traits>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

using Json = nlohmann::ordered_json;

// Each type's fields once, for writing and for reading.
template <typename T, typename F>
void EachField(ProbeRequest*, T& v, F& f) {
  f("iface", v.iface);
  f("route_to", v.route_to);
  f("port_low", v.port_low);
  f("port_high", v.port_high);
  f("folder", v.folder);
  f("argv", v.argv);
  f("program_file", v.program_file);
}

template <typename T, typename F>
void EachField(ResolvedName*, T& v, F& f) {
  f("name", v.name);
  f("addresses", v.addresses);
  f("error", v.error);
  f("took_s", v.took_s);
}

template <typename T, typename F>
void EachField(DiskFacts*, T& v, F& f) {
  f("path", v.path);
  f("error", v.error);
  f("write_error", v.write_error);
  f("bytes_total", v.bytes_total);
  f("bytes_free", v.bytes_free);
}

template <typename T, typename F>
void EachField(GpuProcess*, T& v, F& f) {
  f("gpu", v.gpu);
  f("pid", v.pid);
  f("name", v.name);
  f("memory", v.memory);
}

template <typename T, typename F>
void EachField(ProbeFacts*, T& v, F& f) {
  f("rank", v.rank);
  f("world_size", v.world_size);
  f("build", v.build);
  f("hostname", v.hostname);
  f("user", v.user);
  f("address", v.address);
  f("interface", v.interface);
  f("address_why", v.address_why);
  f("address_error", v.address_error);
  f("addresses", v.addresses);
  f("port", v.port);
  f("port_error", v.port_error);
  f("own_name", v.own_name);
  f("somaxconn", v.somaxconn);
  f("ephemeral_low", v.ephemeral_low);
  f("ephemeral_high", v.ephemeral_high);
  f("proxies", v.proxies);
  f("no_proxy", v.no_proxy);
  f("nofile", v.nofile);
  f("nofile_hard", v.nofile_hard);
  f("nproc", v.nproc);
  f("memlock", v.memlock);
  f("memory_left", v.memory_left);
  f("processes_left", v.processes_left);
  f("shm", v.shm);
  f("tmp", v.tmp);
  f("folder", v.folder);
  f("cpus_mask", v.cpus_mask);
  f("cpus_here", v.cpus_here);
  f("cpus_allocated", v.cpus_allocated);
  f("cpu_quota", v.cpu_quota);
  f("rdma_devices", v.rdma_devices);
  f("gpus", v.gpus);
  f("gpu_driver", v.gpu_driver);
  f("gpu_error", v.gpu_error);
  f("gpu_processes", v.gpu_processes);
  f("python", v.python);
  f("python_version", v.python_version);
  f("python_error", v.python_error);
  f("torch_version", v.torch_version);
  f("torch_cuda", v.torch_cuda);
  f("program_path", v.program_path);
  f("program_error", v.program_error);
  f("program_bytes", v.program_bytes);
  f("program_hash", v.program_hash);
  f("sent_at", v.sent_at);
}

template <typename T, typename F>
void EachField(ProbePeer*, T& v, F& f) {
  f("rank", v.rank);
  f("name", v.name);
  f("address", v.address);
  f("port", v.port);
}

template <typename T, typename F>
void EachField(ProbePlan*, T& v, F& f) {
  f("word", v.word);
  f("nodes", v.nodes);
}

template <typename T, typename F>
void EachField(PairResult*, T& v, F& f) {
  f("to", v.to);
  f("failed", v.failed);
  f("error", v.error);
  f("source", v.source);
  f("round_trip_s", v.round_trip_s);
  f("bytes_per_s", v.bytes_per_s);
}

template <typename T, typename F>
void EachField(ProbeResults*, T& v, F& f) {
  f("rank", v.rank);
  f("received_at", v.received_at);
  f("sent_at", v.sent_at);
  f("pairs", v.pairs);
  f("names", v.names);
}

template <typename T>
Json ToJson(const T& value);

struct Writer {
  Json json = Json::object();

  template <typename T>
  void operator()(const char* name, const T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string> ||
                  std::is_same_v<T, std::vector<std::string>>) {
      json[name] = value;
    } else {
      json[name] = ToJson(value);
    }
  }
  template <typename T>
  void operator()(const char* name, const std::vector<T>& values) {
    Json list = Json::array();
    for (const T& value : values) {
      list.push_back(ToJson(value));
    }
    json[name] = std::move(list);
  }
  void operator()(const char* name, const std::vector<std::string>& values) { json[name] = values; }
};

template <typename T>
Json ToJson(const T& value) {
  Writer writer;
  EachField(static_cast<T*>(nullptr), value, writer);
  return std::move(writer.json);
}

// Reads what is there; the first field that is missing or of another type is kept in `wrong`.
class Reader {
 public:
  Reader(const Json& json, std::string& wrong) : json_(json), wrong_(wrong) {}

  template <typename T>
  void operator()(const char* name, T& value) {
    if (const Json* field = Find(name); field != nullptr && !Read(*field, value)) {
      Wrong(name);
    }
  }

 private:
  template <typename T>
  bool Read(const Json& json, T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
      return json.is_string() && (value = json.get<std::string>(), true);
    } else if constexpr (std::is_floating_point_v<T>) {
      return json.is_number() && (value = json.get<T>(), true);
    } else if constexpr (std::is_arithmetic_v<T>) {
      return json.is_number_unsigned() &&
             json.get<uint64_t>() <= uint64_t{std::numeric_limits<T>::max()} &&
             (value = json.get<T>(), true);
    } else {
      Reader reader(json, wrong_);
      EachField(static_cast<T*>(nullptr), value, reader);
      return json.is_object();
    }
  }
  template <typename T>
  bool Read(const Json& json, std::vector<T>& values) {
    if (!json.is_array()) {
      return false;
    }
    for (const Json& one : json) {
      if (!Read(one, values.emplace_back())) {
        return false;
      }
    }
    return true;
  }

  const Json* Find(const char* name) {
    const auto it = json_.find(name);
    if (it == json_.end()) {
      Wrong(name);
      return nullptr;
    }
    return &*it;
  }
  void Wrong(const char* name) { wrong_ = wrong_.empty() ? name : wrong_; }

  const Json& json_;
  std::string& wrong_;
};

template <typename T>
absl::StatusOr<T> Parse(absl::string_view line, absl::string_view what) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  std::string wrong;
  T out;
  if (json.is_object()) {
    Reader reader(json, wrong);
    EachField(static_cast<T*>(nullptr), out, reader);
  }
  if (!json.is_object() || !wrong.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": ", wrong.empty() ? "not a JSON object" : "wrong field ", wrong));
  }
  return out;
}

// Bytes that are not UTF-8 become U+FFFD.
std::string Line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::vector<uint32_t> PeersToTry(uint32_t rank, uint32_t nodes) {
  std::vector<uint32_t> out;
  const bool all = nodes <= kProbeAllPairsMax;
  for (uint32_t step = 1; step < nodes; step = all ? step + 1 : step * 2) {
    out.push_back((rank + step) % nodes);
  }
  return out;
}

std::string ToLine(const ProbeRequest& request) { return Line(ToJson(request)); }
std::string ToLine(const ProbeFacts& facts) { return Line(ToJson(facts)); }
std::string ToLine(const ProbePlan& plan) { return Line(ToJson(plan)); }
std::string ToLine(const ProbeResults& results) { return Line(ToJson(results)); }

absl::StatusOr<ProbeRequest> ParseProbeRequest(absl::string_view line) {
  return Parse<ProbeRequest>(line, "the probe's request");
}
absl::StatusOr<ProbeFacts> ParseProbeFacts(absl::string_view line) {
  return Parse<ProbeFacts>(line, "a probe's facts");
}
absl::StatusOr<ProbePlan> ParseProbePlan(absl::string_view line) {
  return Parse<ProbePlan>(line, "the probe's plan");
}
absl::StatusOr<ProbeResults> ParseProbeResults(absl::string_view line) {
  return Parse<ProbeResults>(line, "a probe's results");
}

}  // namespace muster
