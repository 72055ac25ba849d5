#include "launcher/sweep/rate_pattern.h"

#include <regex.h>

#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace muster {
namespace {

absl::Status Wrong(const std::string& text, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("--rate-regex: want an extended regular expression whose first group is a rate, "
                   "as in '([0-9.]+) it/s', got '",
                   text, "' (", why, ")"));
}

}  // namespace

struct RatePattern::Compiled {
  explicit Compiled(const std::string& text) : error(regcomp(&regex, text.c_str(), REG_EXTENDED)) {}
  ~Compiled() {
    if (error == 0) {
      regfree(&regex);
    }
  }
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;

  regex_t regex{};
  const int error;
};

RatePattern::RatePattern(std::shared_ptr<const Compiled> compiled)
    : compiled_(std::move(compiled)) {}

absl::StatusOr<RatePattern> RatePattern::Compile(const std::string& text) {
  auto compiled = std::make_shared<const Compiled>(text);
  if (compiled->error != 0) {
    char why[256] = {};
    regerror(compiled->error, &compiled->regex, why, sizeof(why));
    return Wrong(text, why);
  }
  if (compiled->regex.re_nsub == 0) {
    return Wrong(text, "it has no group");
  }
  return RatePattern(std::move(compiled));
}

std::optional<double> RatePattern::In(const std::string& line) const {
  regmatch_t found[2] = {};
  if (regexec(&compiled_->regex, line.c_str(), 2, found, 0) != 0 || found[1].rm_so < 0) {
    return std::nullopt;
  }
  const absl::string_view group = absl::string_view(line).substr(
      static_cast<size_t>(found[1].rm_so), static_cast<size_t>(found[1].rm_eo - found[1].rm_so));
  double rate = 0;
  if (!absl::SimpleAtod(group, &rate) || !std::isfinite(rate) || rate <= 0) {
    return std::nullopt;
  }
  return rate;
}

std::optional<double> RateOf(const std::vector<double>& rates) {
  if (rates.empty()) {
    return std::nullopt;
  }
  const auto later = rates.begin() + static_cast<ptrdiff_t>(rates.size() / 2);
  return std::accumulate(later, rates.end(), 0.0) / static_cast<double>(rates.end() - later);
}

}  // namespace muster
