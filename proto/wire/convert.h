// Between the values of proto/base and the messages of muster.proto; convert*.cc are
// the only files that know both. Pure.
//
// Nothing from the wire is believed: FromWire checks every enumeration, count, size and range and
// answers InvalidArgument with the field's name. What ToWire makes of a value within the limits,
// FromWire accepts, and gives back equal. ToWire cuts texts for people to their bound, so that no
// long message can break a connection.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/base/messages.h"
#include "proto/base/output_chunk.h"
#include "proto/base/work_plan.h"
#include "proto/wire/bootstrap.h"
#include "proto/wire/job_terms.h"
#include "proto/wire/muster.pb.h"

namespace muster {

// Bounds of single fields; kMessageBytesMax bounds the whole.
inline constexpr size_t kNameBytesMax = 1024;         // host, key, address, interface, job id
inline constexpr size_t kJoinKeyBytesMax = 1008;      // of an agent: the master may put "#N" behind
inline constexpr size_t kTextBytesMax = 64u << 10;    // reasons, notes, headlines, error texts
inline constexpr size_t kOptionsMax = 256;            // must_agree
inline constexpr size_t kDoubtsMax = 16;              // of an agent about its node: checks
inline constexpr size_t kPlanStringsMax = 1u << 17;   // arguments or environment entries
inline constexpr size_t kLimitsMax = 64;              // the kernel has 16
inline constexpr size_t kStopSignalsMax = 64;         // as many as there are signals
inline constexpr size_t kSignalOrdersMax = 1u << 12;  // of one round, not yet done
inline constexpr size_t kChunkBytesMax = 2u << 20;    // a line of kLineBytesMax with its prefix

// Join, Beat, Leave; FromWire refuses a Hello (the handshake's owner takes that before).
v1::AgentFrame ToWire(const AgentMessage& message);
absl::StatusOr<AgentMessage> FromWire(const v1::AgentFrame& frame);

// Admitted, Refused, Directive; FromWire refuses the frames of the handshake.
v1::MasterFrame ToWire(const MasterMessage& message);
absl::StatusOr<MasterMessage> FromWire(const v1::MasterFrame& frame);

v1::JobTerms ToWire(const JobTerms& terms);
absl::StatusOr<JobTerms> FromWire(const v1::JobTerms& wire);

v1::OutputChunk ToWire(OutputChunk&& chunk);
absl::StatusOr<OutputChunk> FromWire(v1::OutputChunk&& wire);

v1::Join ToWire(const Join& join);
absl::StatusOr<Join> FromWire(const v1::Join& wire);

v1::Bootstrap ToWire(const AgentBootstrap& bootstrap);
absl::StatusOr<AgentBootstrap> FromWire(const v1::Bootstrap& wire);

}  // namespace muster
