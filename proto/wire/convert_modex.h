// Between ModexNote and its message; as convert.h says.
#pragma once

#include "absl/status/statusor.h"
#include "proto/base/modex.h"
#include "proto/wire/muster.pb.h"

namespace muster {

void SetModex(const ModexNote& note, v1::Modex* wire);
absl::StatusOr<ModexNote> ModexOf(const v1::Modex& wire);

}  // namespace muster
