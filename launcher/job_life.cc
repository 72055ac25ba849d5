#include "launcher/job_life.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "launcher/schedule/hostlist.h"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

constexpr char kFormat[] = "muster-life-1";
constexpr size_t kHistoryMax = 16;  // lines, of the lives before, in a report on one page

absl::StatusOr<std::vector<std::string>> Texts(const nlohmann::json& json, const char* name) {
  const auto list = json.find(name);
  const auto is_text = [](const nlohmann::json& item) { return item.is_string(); };
  if (list == json.end() || !list->is_array() ||
      !std::all_of(list->begin(), list->end(), is_text)) {
    return absl::InvalidArgumentError(absl::StrCat("want a list of texts as '", name, "'"));
  }
  return list->get<std::vector<std::string>>();
}

}  // namespace

std::string LifeText(const JobLife& life) {
  const nlohmann::ordered_json json = {
      {"format", kFormat}, {"round", life.round}, {"hosts", life.hosts}, {"history", life.history}};
  return json.dump(1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace) + "\n";
}

absl::StatusOr<JobLife> ParseLifeText(absl::string_view text) {
  const nlohmann::json json = nlohmann::json::parse(text.begin(), text.end(), nullptr,
                                                    /*allow_exceptions=*/false);
  if (!json.is_object() || json.value("format", nlohmann::json()) != kFormat ||
      !json.value("round", nlohmann::json()).is_string()) {
    return absl::InvalidArgumentError(absl::StrCat("want JSON of format ", kFormat));
  }
  JobLife out;
  out.round = json["round"];
  ASSIGN_OR_RETURN(out.hosts, Texts(json, "hosts"));
  ASSIGN_OR_RETURN(out.history, Texts(json, "history"));
  return out;
}

std::vector<std::string> KeepPlaces(std::vector<std::string> hosts,
                                    const std::vector<std::string>& before) {
  std::vector<std::string> out(hosts.size());
  for (size_t place = 0; place < std::min(before.size(), out.size()); ++place) {
    const auto host = std::find(hosts.begin(), hosts.end(), before[place]);
    if (host != hosts.end()) {
      out[place] = *host;
      hosts.erase(host);
    }
  }
  auto next = hosts.begin();
  for (std::string& place : out) {
    if (place.empty()) {
      place = *next++;
    }
  }
  return out;
}

std::vector<std::string> HistoryAfter(JobLife life, uint32_t restarts) {
  std::vector<std::string> out = std::move(life.history);
  out.push_back(absl::StrCat("round ", life.round, " on ", CompressHostList(life.hosts),
                             ": Slurm has started the job again (SLURM_RESTART_COUNT=", restarts,
                             ")"));
  if (out.size() > kHistoryMax) {
    out.erase(out.begin(), out.end() - kHistoryMax);
  }
  return out;
}

}  // namespace muster
