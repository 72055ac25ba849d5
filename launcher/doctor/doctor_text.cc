#include "launcher/doctor/doctor_text.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "proto/base/text.h"

namespace muster {
namespace {

constexpr size_t kPlacesNamedMax = 4;

struct TableLine {
  DoctorRow row;
  std::vector<std::string> places;
  std::vector<std::string> fixes;  // that differ: they may name the place
};

std::vector<TableLine> Merge(const std::vector<DoctorRow>& rows) {
  std::vector<TableLine> out;
  for (const DoctorRow& row : rows) {
    auto same = std::find_if(out.begin(), out.end(), [&](const TableLine& line) {
      return line.row.check == row.check && line.row.health == row.health &&
             line.row.seen == row.seen;
    });
    if (same == out.end()) {
      same = out.insert(out.end(), {row, {}, {}});
    }
    same->places.push_back(row.where);
    if (!row.fix.empty() &&
        std::find(same->fixes.begin(), same->fixes.end(), row.fix) == same->fixes.end()) {
      same->fixes.push_back(row.fix);
    }
  }
  return out;
}

std::string Places(const std::vector<std::string>& places) {
  if (places.size() <= kPlacesNamedMax) {
    return absl::StrJoin(places, ", ");
  }
  const std::vector<std::string> named(places.begin(), places.begin() + kPlacesNamedMax);
  return absl::StrCat(absl::StrJoin(named, ", "), " and ", places.size() - kPlacesNamedMax,
                      " more");
}

size_t Count(const std::vector<DoctorRow>& rows, Health health) {
  return static_cast<size_t>(std::count_if(
      rows.begin(), rows.end(), [&](const DoctorRow& row) { return row.health == health; }));
}

}  // namespace

std::string DoctorTable(const std::vector<DoctorRow>& rows, bool colour) {
  constexpr absl::string_view kColours[] = {"\x1b[32m", "\x1b[33m", "\x1b[31m"};
  std::string out;
  for (const TableLine& line : Merge(rows)) {
    const DoctorRow& row = line.row;
    const std::string places = Places(line.places);
    absl::StrAppend(&out, colour ? kColours[static_cast<size_t>(row.health)] : "",
                    absl::StrFormat("%-4s", row.health == Health::kBad
                                                ? absl::AsciiStrToUpper(HealthName(row.health))
                                                : std::string(HealthName(row.health))),
                    colour ? "\x1b[0m" : "", absl::StrFormat("  %-13s  ", row.check), places,
                    places.empty() ? "" : ": ", row.seen, "\n");
    for (size_t i = 0; i < std::min(line.fixes.size(), kPlacesNamedMax); ++i) {
      absl::StrAppend(&out, std::string(21, ' '), "fix: ", line.fixes[i], "\n");
    }
    if (line.fixes.size() > kPlacesNamedMax) {
      absl::StrAppend(&out, std::string(21, ' '), "and ", line.fixes.size() - kPlacesNamedMax,
                      " more like these; --json has them all\n");
    }
  }
  const size_t bad = Count(rows, Health::kBad);
  const size_t suspect = Count(rows, Health::kSuspect);
  absl::StrAppend(&out, bad + suspect == 0
                            ? "all is well\n"
                            : absl::StrCat(Plural(bad, "fault", "faults"), ", ",
                                           Plural(suspect, "warning", "warnings"), "\n"));
  return out;
}

std::string DoctorJson(const std::vector<DoctorRow>& rows, const Examination& examined) {
  nlohmann::ordered_json checks = nlohmann::ordered_json::array();
  for (const DoctorRow& row : rows) {
    checks.push_back({{"check", row.check},
                      {"health", HealthName(row.health)},
                      {"where", row.where},
                      {"seen", row.seen},
                      {"fix", row.fix}});
  }
  nlohmann::ordered_json nodes = nlohmann::ordered_json::array();
  for (const ExaminedNode& node : examined.nodes) {
    nlohmann::ordered_json one = {{"name", node.name}, {"facts", nullptr}, {"results", nullptr}};
    if (node.facts.has_value()) {
      one["facts"] = nlohmann::ordered_json::parse(ToLine(*node.facts));
    }
    if (node.results.has_value()) {
      one["results"] = nlohmann::ordered_json::parse(ToLine(*node.results));
    }
    nodes.push_back(std::move(one));
  }
  const nlohmann::ordered_json out = {{"format", "muster-doctor-1"},
                                      {"ok", AllWell(rows)},
                                      {"checks", std::move(checks)},
                                      {"nodes", std::move(nodes)}};
  return absl::StrCat(out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace), "\n");
}

bool AllWell(const std::vector<DoctorRow>& rows) { return Count(rows, Health::kBad) == 0; }

}  // namespace muster
