// Any thread.
#pragma once

#include <grpc/impl/codegen/grpc_types.h>
#include <grpcpp/impl/codegen/status_code_enum.h>

#include <array>
#include <utility>

namespace muster {

// Channel arguments of both sides. A window that stands from the beginning takes the place of
// gRPC's estimate of one, whose pings and updates around each beat are several times its size.
inline constexpr std::array<std::pair<const char*, int>, 3> kTransportArguments = {
    {{GRPC_ARG_HTTP2_BDP_PROBE, 0},
     {GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 4 << 20},
     {GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 4 << 20}}};

// How a master ends the Attend of a node that it cannot take in yet. The text says why, for a
// person to read; the node asks again by itself.
inline constexpr grpc::StatusCode kAskAgain = grpc::StatusCode::FAILED_PRECONDITION;

// Sets gRPC up, once a process, and keeps it up: when its last object goes, its shutdown holds a
// lock for up to 10 s while sockets of a peer are still being closed, and the next use would wait
// for that.
void KeepGrpcRunning();

// Blocks for 3 ms and more, asleep, where the kernel does not tell the rate of the CPU's clock
// (many virtual machines); at once the next time. The first of gRPC's threads that has to wait for
// a lock of Abseil's does it otherwise, while it keeps the others from that lock.
void MeasureClock();

}  // namespace muster
