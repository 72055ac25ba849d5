#include "launcher/jobs/job_id.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace muster {
namespace {

constexpr absl::string_view kPrefix = "job-";
constexpr size_t kDigits = 8;

}  // namespace

std::string MakeJobId() {
  uint32_t random = 0;
  if (getrandom(&random, sizeof(random), 0) != sizeof(random)) {
    random = static_cast<uint32_t>(getpid());
  }
  return absl::StrFormat("%s%0*x", kPrefix, static_cast<int>(kDigits), random);
}

bool IsJobId(absl::string_view word) {
  return absl::ConsumePrefix(&word, kPrefix) && word.size() == kDigits &&
         std::all_of(word.begin(), word.end(), [](char c) {
           return absl::ascii_isxdigit(static_cast<unsigned char>(c)) &&
                  !absl::ascii_isupper(static_cast<unsigned char>(c));
         });
}

}  // namespace muster
