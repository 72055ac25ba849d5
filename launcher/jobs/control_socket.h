// The socket `control` of a job's folder: its keeper listens there, `attach` and `stop` connect.
// Packets are those of keeper_link.h. Any thread; never blocks.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "proto/base/unique_fd.h"

namespace muster {

inline constexpr char kControlSocket[] = "control";

// FailedPrecondition: says which socket.
absl::StatusOr<UniqueFd> ListenAtControl(const std::string& folder, int backlog);
// Unavailable, with the system's reason alone.
absl::StatusOr<UniqueFd> ConnectToControl(const std::string& folder);

}  // namespace muster
