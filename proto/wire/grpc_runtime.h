// Any thread.
#pragma once

namespace muster {

// Sets gRPC up, once a process, and keeps it up: when its last object goes, its shutdown holds a
// lock for up to 10 s while sockets of a peer are still being closed, and the next use would wait
// for that.
void KeepGrpcRunning();

}  // namespace muster
