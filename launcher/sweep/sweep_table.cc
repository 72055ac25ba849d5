#include "launcher/sweep/sweep_table.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/base/text.h"

namespace muster {
namespace {

// How runs are compared: one measure for all of them.
enum class Measure : uint8_t { kNone, kRate, kSteps, kTime };

// More is better.
std::optional<double> Score(const SweepResult& result, Measure measure) {
  switch (measure) {
    case Measure::kRate:
      return result.rate;
    case Measure::kSteps:
      return result.steps;
    case Measure::kTime:
      return result.took.has_value()
                 ? std::optional(1 / std::max(absl::ToDoubleSeconds(*result.took), 1e-9))
                 : std::nullopt;
    case Measure::kNone:
      break;
  }
  return std::nullopt;
}

// The first one that at least one run has; those that have it not are not compared.
Measure MeasureOf(const std::vector<SweepResult>& results) {
  for (const Measure measure : {Measure::kRate, Measure::kSteps, Measure::kTime}) {
    if (std::any_of(results.begin(), results.end(), [&](const SweepResult& one) {
          return one.failed.empty() && Score(one, measure).has_value();
        })) {
      return measure;
    }
  }
  return Measure::kNone;
}

std::string Heading(Measure measure) {
  return measure == Measure::kRate ? "rate" : measure == Measure::kTime ? "time" : "steps/s";
}

std::string Shown(const SweepResult& result, Measure measure) {
  if (!Score(result, measure).has_value()) {
    return "-";
  }
  return measure == Measure::kTime ? ShortDuration(*result.took)
                                   : absl::StrFormat("%.4g", *Score(result, measure));
}

// Those that can be compared, the best first.
std::vector<const SweepResult*> Ranked(const std::vector<SweepResult>& results, Measure measure) {
  std::vector<const SweepResult*> out;
  for (const SweepResult& result : results) {
    if (result.failed.empty() && Score(result, measure).has_value()) {
      out.push_back(&result);
    }
  }
  std::stable_sort(out.begin(), out.end(), [&](const SweepResult* a, const SweepResult* b) {
    return *Score(*a, measure) > *Score(*b, measure);
  });
  return out;
}

double MoreInPercent(const SweepResult& best, const SweepResult& other, Measure measure) {
  return 100 * (*Score(best, measure) / *Score(other, measure) - 1);
}

std::string Compared(const SweepResult& best, const SweepResult& other, Measure measure) {
  const double more = MoreInPercent(best, other, measure);
  return more < 0.5 ? absl::StrCat("as fast as ", other.run.said)
                    : absl::StrFormat("%.0f %% faster than %s", more, other.run.said);
}

std::string BestLine(const std::vector<SweepResult>& results, Measure measure) {
  const std::vector<const SweepResult*> ranked = Ranked(results, measure);
  if (std::none_of(results.begin(), results.end(),
                   [](const SweepResult& one) { return one.failed.empty(); })) {
    return "nothing to compare: no run has gone well\n";
  }
  if (ranked.empty()) {
    return "nothing to compare: the program has counted no steps (comm.commit(step)), has no rate "
           "in its output that --rate-regex REGEX finds, and did not end within --sweep-seconds\n";
  }
  std::string out = absl::StrCat("best: ", ranked.front()->run.said);
  if (ranked.size() > 1) {
    absl::StrAppend(&out, ", ", Compared(*ranked[0], *ranked[1], measure));
  }
  if (ranked.size() > 2) {
    absl::StrAppend(&out, ", ", Compared(*ranked[0], *ranked.back(), measure));
  }
  return absl::StrCat(out, "\n");
}

std::string Waited(const SweepResult& result) {
  return result.waited.has_value() ? absl::StrFormat("%.0f %%", 100 * *result.waited) : "-";
}

}  // namespace

bool TakeReport(const std::string& report, SweepResult& out) {
  const nlohmann::json json = nlohmann::json::parse(report, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("uses") || !json["uses"].is_array()) {
    return false;
  }
  for (const nlohmann::json& use : json["uses"]) {
    if (!use.is_object()) {
      return false;
    }
    const double ran = use.value("ran_s", 0.0);
    const double share = use.value("waited_share", 0.0);
    if (ran > 0) {
      out.waited = std::max(out.waited.value_or(0), share);
    }
    if (use.contains("steps_per_s")) {
      out.steps = std::max(out.steps.value_or(0), use.value("steps_per_s", 0.0));
    }
  }
  return true;
}

std::string SweepTable(const std::vector<SweepResult>& results) {
  const Measure measure = MeasureOf(results);
  std::string out =
      absl::StrFormat("%8s  %-12s  %10s  %12s\n", "workers", "bind-to", Heading(measure), "waited");
  for (const SweepResult& result : results) {
    const SweepRun& run = result.run;
    absl::StrAppend(&out,
                    absl::StrFormat("%8s  %-12s  %10s  %12s", run.count.empty() ? "-" : run.count,
                                    run.bind_to.empty() ? "-" : run.bind_to, Shown(result, measure),
                                    Waited(result)),
                    result.failed.empty() ? "" : absl::StrCat("  ", result.failed), "\n");
  }
  return absl::StrCat(out, BestLine(results, measure));
}

std::string SweepJson(const std::vector<SweepResult>& results) {
  const Measure measure = MeasureOf(results);
  nlohmann::ordered_json runs = nlohmann::ordered_json::array();
  for (const SweepResult& result : results) {
    nlohmann::ordered_json one = {{"options", result.run.said},
                                  {"workers", result.run.count},
                                  {"bind_to", result.run.bind_to},
                                  {"failed", result.failed}};
    const auto add = [&](const char* name, const std::optional<double>& value) {
      if (value.has_value()) {
        one[name] = *value;
      }
    };
    add("rate", result.rate);
    add("steps_per_s", result.steps);
    add("took_s", result.took.has_value() ? std::optional(absl::ToDoubleSeconds(*result.took))
                                          : std::nullopt);
    add("waited_share", result.waited);
    runs.push_back(std::move(one));
  }
  nlohmann::ordered_json out = {{"format", "muster-sweep-1"},
                                {"measure", measure == Measure::kNone ? "none" : Heading(measure)},
                                {"runs", std::move(runs)}};
  const std::vector<const SweepResult*> ranked = Ranked(results, measure);
  if (!ranked.empty()) {
    out["best"] = ranked.front()->run.said;
  }
  if (ranked.size() > 1) {
    out["faster_than_next_percent"] = MoreInPercent(*ranked[0], *ranked[1], measure);
  }
  return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

bool HasBest(const std::vector<SweepResult>& results) {
  return !Ranked(results, MeasureOf(results)).empty();
}

}  // namespace muster
