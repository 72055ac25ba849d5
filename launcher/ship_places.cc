#include "launcher/ship_places.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "agent/core/script_text.h"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

// Without "." and doubled slashes, and without a slash at its end.
std::string Normal(absl::string_view path) {
  const std::string normal = std::filesystem::path(std::string(path)).lexically_normal().string();
  return normal.size() > 1 ? std::string(absl::StripSuffix(normal, "/")) : normal;
}

bool HoldsOnlyHere(absl::string_view normal) {
  return absl::StartsWith(normal, "/") || normal == ".." || absl::StartsWith(normal, "../");
}

void NameByPlace(const std::vector<std::string>& shipped, std::vector<std::string>& words) {
  for (std::string& word : words) {
    if (!HoldsOnlyHere(word)) {
      continue;
    }
    const std::string path = Normal(word);
    for (const std::string& typed : shipped) {
      absl::string_view below = path;
      if (HoldsOnlyHere(Normal(typed)) && absl::ConsumePrefix(&below, Normal(typed)) &&
          (below.empty() || below[0] == '/')) {
        word = absl::StrCat(ShipPlace(typed), below);
        break;
      }
    }
  }
}

// The workers run in a new folder: what is named by a path below it has to be shipped.
absl::Status CheckComes(const JobSpec& spec, const std::string& wdir,
                        const std::vector<std::string>& argv) {
  if (argv.empty() || absl::StartsWith(wdir, "/")) {
    return absl::OkStatus();
  }
  const std::string script = IsPythonName(argv[0]) ? ParsePythonCommand(argv).script : "";
  const bool is_script = !script.empty();
  const std::string program = is_script ? script : argv[0];
  const std::string normal = Normal(program);
  if (HoldsOnlyHere(normal) || (!is_script && !absl::StrContains(program, '/'))) {
    return absl::OkStatus();
  }
  const bool comes = std::any_of(spec.ship.begin(), spec.ship.end(), [&](const std::string& typed) {
    const std::string place = ShipPlace(typed);
    return place.empty() || normal == place || absl::StartsWith(normal, place + "/");
  });
  return comes ? absl::OkStatus()
               : absl::InvalidArgumentError(absl::StrCat(
                     spec.Said(OptionId::kShip), ": ", program,
                     " is not among what is shipped, and the workers run in a folder that has ",
                     "nothing else: add --ship ", program, ", or name it by its whole path"));
}

}  // namespace

std::string ShipPlace(absl::string_view typed) {
  const std::string normal = Normal(typed);
  if (normal == ".") {
    return "";
  }
  return HoldsOnlyHere(normal) ? std::filesystem::path(normal).filename().string() : normal;
}

absl::Status SettleShip(JobSpec& spec) {
  if (spec.ship.empty()) {
    return absl::OkStatus();
  }
  if (spec.way == StartWay::kTyped || spec.way == StartWay::kServe) {
    return absl::InvalidArgumentError(absl::StrCat(
        spec.Said(OptionId::kShip),
        ": launch ships files to nodes that it starts itself (--hosts, ",
        "--hostfile, --standalone, a Slurm job); where the command is typed on every node, they ",
        "have to be there"));
  }
  for (const std::string& typed : spec.ship) {
    const std::string place = ShipPlace(typed);
    if (place == ".." || place == "/") {
      return absl::InvalidArgumentError(absl::StrCat(
          "--ship ", typed, ": want a file, or a folder that has a name, as in --ship proj"));
    }
  }
  // One machine is a job of one standalone node: its workers, too, run in a folder of the job.
  if (spec.way == StartWay::kLocal) {
    spec.way = StartWay::kStandalone;
  }
  NameByPlace(spec.ship, spec.plan.argv);
  RETURN_IF_ERROR(CheckComes(spec, spec.plan.wdir, spec.plan.argv));
  for (FurtherProgram& program : spec.plan.further) {
    NameByPlace(spec.ship, program.argv);
    RETURN_IF_ERROR(CheckComes(spec, program.wdir, program.argv));
  }
  return absl::OkStatus();
}

}  // namespace muster
