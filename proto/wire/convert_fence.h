// Between FencePiece and its message; as convert.h says.
#pragma once

#include "absl/status/statusor.h"
#include "proto/base/fence.h"
#include "proto/wire/muster.pb.h"

namespace muster {

void SetFence(const FencePiece& piece, v1::Fence* wire);
absl::StatusOr<FencePiece> FenceOf(const v1::Fence& wire);

}  // namespace muster
