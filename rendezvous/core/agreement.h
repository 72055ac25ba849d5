// Options that all nodes of a job must give alike (Join::must_agree). Pure; thread-safe.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace muster {

using AgreedOptions = std::vector<std::pair<std::string, std::string>>;  // name, value

struct OptionDifference {
  std::string option;
  const std::string* one = nullptr;  // null = not there; lives as long as the lists
  const std::string* other = nullptr;
};

// The first in which they differ, or that only one of them has.
std::optional<OptionDifference> FirstDifference(const AgreedOptions& one,
                                                const AgreedOptions& other);

}  // namespace muster
