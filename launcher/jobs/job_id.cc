#include "launcher/jobs/job_id.h"

#include <sys/random.h>
#include <unistd.h>

#include <cstdint>

#include "absl/strings/str_format.h"

namespace muster {

std::string MakeJobId() {
  uint32_t random = 0;
  if (getrandom(&random, sizeof(random), 0) != sizeof(random)) {
    random = static_cast<uint32_t>(getpid());
  }
  return absl::StrFormat("job-%08x", random);
}

}  // namespace muster
