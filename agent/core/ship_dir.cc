#include "agent/core/ship_dir.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace muster {
namespace {

std::string Below(const std::string& folder, const std::string& wdir) {
  return wdir.empty()                  ? folder
         : absl::StartsWith(wdir, "/") ? wdir
                                       : absl::StrCat(folder, "/", wdir);
}

}  // namespace

void RunInShipDir(const std::string& folder, WorkPlan& plan) {
  const std::string variable = absl::StrCat("MUSTER_SHIP_DIR=", folder);
  plan.wdir = Below(folder, plan.wdir);
  plan.env_set.push_back(variable);
  for (FurtherProgram& program : plan.further) {
    program.wdir = Below(folder, program.wdir);
    program.env_set.push_back(variable);
  }
}

}  // namespace muster
