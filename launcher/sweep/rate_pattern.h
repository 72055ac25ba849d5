// Rates in the output of a program: --rate-regex. Pure.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace muster {

class RatePattern {
 public:
  // An extended regular expression with a group. InvalidArgument: it is none.
  static absl::StatusOr<RatePattern> Compile(const std::string& text);

  // The number that the first group holds; nullopt where the line does not match, or that is no
  // number, or none above 0.
  std::optional<double> In(const std::string& line) const;

 private:
  struct Compiled;
  explicit RatePattern(std::shared_ptr<const Compiled> compiled);

  // Of this pattern and its copies, which only read it.
  std::shared_ptr<const Compiled> compiled_;
};

// The mean of the later half: a program is slow at its beginning. nullopt: there is none.
std::optional<double> RateOf(const std::vector<double>& rates);

}  // namespace muster
