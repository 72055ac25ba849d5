#include "launcher/job_spec.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "launcher/options.h"

namespace muster {

std::string JobSpec::Said(OptionId id) const {
  const auto it = given.find(id);
  if (it == given.end()) {
    return std::string(OptionName(id));
  }
  constexpr size_t kShown = 80;  // of a long host list
  Given g = it->second;
  if (g.value.size() > kShown) {
    g.value = g.value.substr(0, kShown) + "...";
  }
  if (g.by_environment) {
    return absl::StrCat(g.name, "=", g.value, " (environment)");
  }
  if (!g.place.empty()) {
    return absl::StrCat(g.name, ": ", g.value, " (", g.place, ")");
  }
  return g.value.empty() ? g.name : absl::StrCat(g.name, " ", g.value);
}

std::vector<std::string> ProgramArgv(const JobSpec& spec, absl::string_view python) {
  std::vector<std::string> argv;
  const bool script = absl::EndsWith(spec.program, ".py") || spec.run_path;
  if (spec.module || (script && !spec.no_python)) {
    argv = {std::string(python),
            "-u"};  // unbuffered: prints appear when they happen, also before a crash
    if (spec.module) {
      argv.push_back("-m");
    }
  }
  argv.push_back(spec.program);
  argv.insert(argv.end(), spec.arguments.begin(), spec.arguments.end());
  return argv;
}

absl::string_view OnFailureName(OnFailure on_failure) {
  return on_failure == OnFailure::kStop ? "stop" : "continue";
}

absl::string_view RestartModeName(RestartMode restart) {
  switch (restart) {
    case RestartMode::kAll:
      return "all";
    case RestartMode::kOne:
      return "one";
    case RestartMode::kNever:
      return "never";
  }
  return "?";
}

absl::string_view StartWayName(StartWay way) {
  switch (way) {
    case StartWay::kLocal:
      return "local";
    case StartWay::kStandalone:
      return "standalone";
    case StartWay::kHosts:
      return "hosts";
    case StartWay::kTyped:
      return "typed";
    case StartWay::kServe:
      return "serve";
  }
  return "?";
}

std::vector<std::string> ValuesOf(const JobSpec& spec, OptionId id) {
  switch (id) {
    case OptionId::kSetEnv:
      return spec.forward;
    case OptionId::kHosts:
      return spec.hosts_texts;
    case OptionId::kHostfile:
      return spec.hostfiles;
    case OptionId::kExclude:
      return spec.exclude_texts;
    case OptionId::kShip:
      return spec.ship;
    case OptionId::kWrap:
      return spec.wrap_texts;
    case OptionId::kOnExit: {
      std::vector<std::string> rules;
      for (const ExitRule& rule : spec.restart_rules.on_exit) {
        rules.push_back(ExitRuleText(rule));
      }
      return rules;
    }
    case OptionId::kPrologue:
      return {spec.plan.prologue};  // lines, however many times
    default:
      return {spec.given.at(id).value};
  }
}

}  // namespace muster
