// Variables of an environment that have several names. Pure; thread-safe.
#pragma once

#include <map>
#include <string>

#include "absl/strings/string_view.h"

namespace muster {

// Of the variables `names`, separated by blanks, the first that is there and not empty; nullptr =
// none of them. Lives as long as the environment.
const std::map<std::string, std::string>::value_type* FirstSet(
    const std::map<std::string, std::string>& environment, absl::string_view names);

}  // namespace muster
