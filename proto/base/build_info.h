// Which build this is; two builds that must speak with each other compare it.
#pragma once

#include "absl/strings/string_view.h"

namespace muster {

absl::string_view Version();    // "0.1.0"
absl::string_view BuildName();  // "0.1.0-3f2a9c0d1e5b"
// Whether muster-pmix, which serves PMIx to Open MPI, was built: where libpmix was found.
bool BuiltWithPmix();

}  // namespace muster
