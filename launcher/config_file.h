// The one door to yaml-cpp, whose exceptions end here: YAML text in, values with their places out.
// Text and values only; thread-safe.
//
// Invariants:
//  Y1 nothing is merged, followed or dropped: keys that are there twice come twice; an alias, a tag
//     and a second document are errors, with line and column;
//  Y2 time and memory are in proportion to the text, whatever is in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

struct YamlPlace {  // from 0, as yaml-cpp counts
  int line = 0;
  int column = 0;
};

struct YamlValue {
  enum class Kind : uint8_t { kNothing, kText, kList, kMap };
  Kind kind = Kind::kNothing;
  std::string text;
  bool plain = false;  // without quotes
  YamlPlace place;
  std::vector<YamlValue> items;  // of a map: key, value, key, value
};

// "a list", for messages.
absl::string_view KindName(const YamlValue& value);
// "job.yaml:3:5".
std::string At(absl::string_view name, YamlPlace place);

// `name` is the file's, for messages. InvalidArgument: not YAML, or Y1. A text that says nothing is
// a value of kind kNothing.
absl::StatusOr<YamlValue> ReadYaml(absl::string_view text, const std::string& name);

// How many bytes of `text`, from its beginning, are text that YAML can hold: UTF-8, no control
// characters but tabs and line ends.
size_t YamlTextBytes(absl::string_view text);

}  // namespace muster
