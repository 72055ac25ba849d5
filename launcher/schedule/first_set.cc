#include "launcher/schedule/first_set.h"

#include "absl/strings/str_split.h"

namespace muster {

const std::map<std::string, std::string>::value_type* FirstSet(
    const std::map<std::string, std::string>& environment, absl::string_view names) {
  for (const absl::string_view name : absl::StrSplit(names, ' ', absl::SkipEmpty())) {
    const auto it = environment.find(std::string(name));
    if (it != environment.end() && !it->second.empty()) {
      return &*it;
    }
  }
  return nullptr;
}

}  // namespace muster
