#include "proto/base/port_range.h"

#include <sys/random.h>

#include "absl/strings/str_cat.h"

namespace muster {

std::string PortRange::Text() const { return absl::StrCat(low, "-", high); }

std::vector<uint16_t> PortsToTry(PortRange range, uint64_t random) {
  const uint32_t count = uint32_t{range.high} - range.low + 1;
  std::vector<uint16_t> out;
  out.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    out.push_back(static_cast<uint16_t>(range.low + (random % count + i) % count));
  }
  return out;
}

std::vector<uint16_t> PortsToTry(PortRange range) {
  uint64_t random = 0;
  (void)getrandom(&random, sizeof(random), GRND_NONBLOCK);  // without it: from the first one on
  return PortsToTry(range, random);
}

absl::Status NoPortLeft(PortRange range) {
  return absl::ResourceExhaustedError(
      absl::StrCat("--port-range ", range.Text(), ": every port of it is in use on this machine; ",
                   "each node of a job takes one, and the one that serves another: give a wider ",
                   "range, or end what uses it (ss -tlnp)"));
}

}  // namespace muster
