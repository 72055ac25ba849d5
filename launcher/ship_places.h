// Where what --ship names lies in the folder in which the workers run. Pure.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "launcher/job_spec.h"

namespace muster {

// As it is typed, below the folder; what is not below this directory ("/x/a", "../a") by its last
// name alone. "" = the folder itself (".").
std::string ShipPlace(absl::string_view typed);

// Words of the commands that name something shipped by a path that holds only here name it by its
// place. An error where launch does not start the nodes itself: then it can ship nothing.
absl::Status SettleShip(JobSpec& spec);

}  // namespace muster
