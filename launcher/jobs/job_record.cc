#include "launcher/jobs/job_record.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "launcher/jobs/job_id.h"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

constexpr absl::string_view kFormat = "muster-job-1";
constexpr absl::string_view kStates[] = {"starting", "running", "ended", "lost"};
constexpr int64_t kSecondsMax = int64_t{1} << 40;  // so that no arithmetic on times overflows

// Reads fields that may be missing or of any type; the first that is wrong is kept as the error.
class Reader {
 public:
  explicit Reader(const nlohmann::json& json) : json_(json) {}

  std::string Text(const char* field) {
    const auto it = json_.find(field);
    if (it == json_.end() || !it->is_string()) {
      return Wrong(field, "a text"), "";
    }
    return it->get<std::string>();
  }
  std::vector<std::string> Texts(const char* field) {
    std::vector<std::string> out;
    const auto it = json_.find(field);
    if (it == json_.end() || !it->is_array()) {
      return Wrong(field, "a list of texts"), out;
    }
    for (const nlohmann::json& item : *it) {
      if (!item.is_string()) {
        return Wrong(field, "a list of texts"), out;
      }
      out.push_back(item.get<std::string>());
    }
    return out;
  }
  int64_t Number(const char* field, int64_t low, int64_t high) {
    const auto it = json_.find(field);
    const bool fits = it != json_.end() && it->is_number_integer() &&
                      (!it->is_number_unsigned() ||
                       it->get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()});
    if (!fits || it->get<int64_t>() < low || it->get<int64_t>() > high) {
      return Wrong(field, absl::StrCat("a number from ", low, " to ", high)), low;
    }
    return it->get<int64_t>();
  }
  double Seconds(const char* field) {
    const auto it = json_.find(field);
    if (it == json_.end() || !it->is_number() || !(it->get<double>() >= 0) ||
        it->get<double>() > static_cast<double>(kSecondsMax)) {
      return Wrong(field, "seconds"), 0;
    }
    return it->get<double>();
  }
  bool Has(const char* field) const {
    const auto it = json_.find(field);
    return it != json_.end() && !it->is_null();
  }
  void Wrong(const char* field, absl::string_view want) {
    if (status_.ok()) {
      status_ = absl::InvalidArgumentError(absl::StrCat("'", field, "': want ", want));
    }
  }
  const absl::Status& status() const { return status_; }

 private:
  const nlohmann::json& json_;
  absl::Status status_;
};

double Unix(absl::Time time) { return absl::ToDoubleSeconds(time - absl::UnixEpoch()); }
absl::Time FromUnix(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

}  // namespace

absl::string_view JobStateName(JobState state) { return kStates[static_cast<size_t>(state)]; }

std::vector<bool> JobsToForget(const std::vector<JobRecord>& records, absl::Time now) {
  std::vector<size_t> ended;
  for (size_t i = 0; i < records.size(); ++i) {
    if (!records[i].live()) {
      ended.push_back(i);
    }
  }
  const auto since = [&](size_t i) { return records[i].ended_at.value_or(now); };
  std::stable_sort(ended.begin(), ended.end(),
                   [&](size_t a, size_t b) { return since(a) < since(b); });
  std::vector<bool> out(records.size());
  for (size_t i = 0; i < ended.size(); ++i) {
    out[ended[i]] = now - since(ended[i]) > kEndedJobsKept || ended.size() - i > kEndedJobsMax;
  }
  return out;
}

bool StartIsOverdue(absl::string_view name, absl::Time changed_at, absl::Time now) {
  return IsJobId(name) && now - changed_at > kStartAwaited;
}

std::vector<std::string> CutCommand(std::vector<std::string> words) {
  size_t left = kCommandBytesMax;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i].size() >= left) {  // a blank is behind each
      words[i].resize(left);
      words[i] += "...";
      words.resize(i + 1);
      break;
    }
    left -= words[i].size() + 1;
  }
  return words;
}

std::string RecordJson(const JobRecord& record) {
  const bool ended = record.state == JobState::kEnded || record.exit_code != 0;
  nlohmann::ordered_json out = {
      {"format", kFormat},
      {"id", record.id},
      {"name", record.name},
      {"state", JobStateName(record.state)},
      {"exit_code", ended ? nlohmann::ordered_json(record.exit_code) : nlohmann::ordered_json()},
      {"host", record.host},
      {"command", record.command},
      {"hosts", record.hosts},
      {"folder", record.folder},
      {"world_size", record.world_size},
      {"nodes", record.nodes},
      {"started_at", Unix(record.started_at)},
      {"ended_at", nullptr},
      {"grace_s", absl::ToDoubleSeconds(record.grace)},
      {"within", record.within},
      {"pid", record.keeper.pid},
      {"pid_start", record.keeper.start},
      {"boot", record.keeper.boot},
      {"pid_namespace", record.keeper.pid_namespace},
  };
  if (record.ended_at.has_value()) {
    out["ended_at"] = Unix(*record.ended_at);
  }
  // Words of a command line need not be UTF-8.
  return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

absl::StatusOr<JobRecord> ParseRecord(absl::string_view json) {
  const nlohmann::json parsed =
      nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false, /*ignore_comments=*/false);
  if (!parsed.is_object()) {
    return absl::InvalidArgumentError("not a JSON object");
  }
  Reader reader(parsed);
  if (reader.Text("format") != kFormat) {
    return absl::InvalidArgumentError(absl::StrCat("'format': want ", kFormat));
  }
  JobRecord out;
  out.id = reader.Text("id");
  out.name = reader.Text("name");
  const std::string state = reader.Text("state");
  bool known = false;
  for (const JobState one :
       {JobState::kStarting, JobState::kRunning, JobState::kEnded, JobState::kLost}) {
    if (state == JobStateName(one)) {
      out.state = one;
      known = true;
    }
  }
  if (!known) {
    reader.Wrong("state", "starting, running, ended or lost");
  }
  if (reader.Has("exit_code")) {
    out.exit_code = static_cast<int32_t>(reader.Number("exit_code", 0, 255));
  }
  out.host = reader.Text("host");
  out.command = reader.Texts("command");
  out.hosts = reader.Texts("hosts");
  out.folder = reader.Text("folder");
  constexpr int64_t kAny = std::numeric_limits<uint32_t>::max();
  out.world_size = static_cast<uint32_t>(reader.Number("world_size", 0, kAny));
  out.nodes = static_cast<uint32_t>(reader.Number("nodes", 0, kAny));
  out.started_at = FromUnix(reader.Seconds("started_at"));
  if (reader.Has("ended_at")) {
    out.ended_at = FromUnix(reader.Seconds("ended_at"));
  }
  out.grace = absl::Seconds(reader.Seconds("grace_s"));
  out.within = reader.Has("within") ? reader.Text("within") : "";  // of an older launch
  out.keeper.pid =
      static_cast<int32_t>(reader.Number("pid", 1, std::numeric_limits<int32_t>::max()));
  out.keeper.start =
      static_cast<uint64_t>(reader.Number("pid_start", 0, std::numeric_limits<int64_t>::max()));
  out.keeper.boot = reader.Text("boot");
  out.keeper.pid_namespace = reader.Text("pid_namespace");
  RETURN_IF_ERROR(reader.status());
  return out;
}

}  // namespace muster
