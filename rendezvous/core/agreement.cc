#include "rendezvous/core/agreement.h"

#include <algorithm>

namespace muster {
namespace {

const std::string* Find(const AgreedOptions& list, const std::string& name) {
  const auto found =
      std::find_if(list.begin(), list.end(), [&](const auto& one) { return one.first == name; });
  return found == list.end() ? nullptr : &found->second;
}

}  // namespace

std::optional<OptionDifference> FirstDifference(const AgreedOptions& one,
                                                const AgreedOptions& other) {
  for (const auto& [option, value] : one) {
    const std::string* theirs = Find(other, option);
    if (theirs == nullptr || *theirs != value) {
      return OptionDifference{option, &value, theirs};
    }
  }
  for (const auto& [option, value] : other) {
    if (Find(one, option) == nullptr) {
      return OptionDifference{option, nullptr, &value};
    }
  }
  return std::nullopt;
}

}  // namespace muster
