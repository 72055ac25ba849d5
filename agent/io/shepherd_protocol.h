// Frames between the I/O process and its shepherd: one SOCK_SEQPACKET message each, never split,
// never merged. Both ends are the same program, so integers are in host order and there is no
// version.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent/io/spawn.h"
#include "proto/base/unique_fd.h"

namespace muster {

// I/O process -> shepherd
enum class ShepherdOrder : uint32_t {
  kPrograms,     // payload none; fd = memfd with a PackedStrings: wdir, count of argv, argv...,
                 // environment...; value = sum of the bits below
  kSpawn,        // index; payload = PackedStrings: where it runs (PackBinding), the worker's own
                 // environment; fds = stdin (absent: /dev/null), out, err; value = 1: stdin is a
                 // terminal, and its controlling one; extra = sum of the bits of
                 // kSpawnWithPmi
  kSignal,       // value = signal, to every process group below the workers (signal_groups.h);
                 // extra = kSignalStops: it is to end them
  kKill,         // index: SIGKILL to that worker alone
  kClearWorker,  // index, of a worker that has ended: SIGKILL what it left behind
  kAwaitGroups,  // after a kSignal that stops, when all workers have ended: answered by
                 // kGroupsEnded, unless a kClear comes first
  kClear,     // SIGKILL everything below the shepherd until nothing is left; answered by kCleared
  kSetLease,  // value = CLOCK_BOOTTIME nanoseconds at which everything is killed; 0 = no lease. One
              // that ended while the shepherd stood still: everything stands still until a later
              // one is set, or so long has passed again (core/lease_watch.h)
  kRunDir,    // payload = folder that the shepherd removes (with all that is in it) when it ends
  kHelper,    // payload = PackStrings: count of argv, argv, environment; fd = its kWorkerPmiFd. It
              // is no worker: no signal reaches it, and its end is no news; kClear ends it
  kPing,      // answered by kAlive, once all orders before it are done
};

// shepherd -> I/O process
enum class ShepherdNews : uint32_t {
  kSpawned,      // index, value = pid
  kSpawnFailed,  // index, value = errno; payload = what failed
  kEnded,  // index, value = wait status; extra = peak memory in bytes; alone = nothing else is left
           // below; times
  kGroupsEnded,   // no group of the workers' session that got a kSignal has a living member
  kCleared,       // value = number of processes that could not be ended; payload says which
  kLeaseEnded,    // everything was killed because the lease ran out
  kHelperFailed,  // payload: why it does not run
  kAlive,
  kLeaseSeen,  // value = kSetLease's: that lease is over: kLeaseEnded follows, or everything stands
               // still (kSetLease)
};

// reaper -> I/O process, on a socket of its own, and always of this one kind: a shepherd is there,
// and of the one before nothing is left. value = its pid, or -errno; fd = the I/O process's end of
// its socket, but of the first one.
// I/O process -> reaper, there: kRunDir, for the reaper does what a killed shepherd would have
// done.

inline constexpr uint64_t kSignalStops = 1;

// Bits of kPrograms' value: its workers are held at their exec, until a kSignal other than SIGSTOP,
// and than SIGUSR1 and SIGUSR2 that stop nothing; they gain no privileges
// (SpawnRequest::no_new_privileges).
inline constexpr int64_t kProgramsHeld = 1;
inline constexpr int64_t kProgramsNoNewPrivileges = 2;

// Of a worker that has ended, in nanoseconds.
struct EndTimes {
  int64_t cpu = 0;     // on a CPU, with its ended threads and the children that it waited for
  int64_t ran = 0;     // on a CPU: its first thread alone
  int64_t waited = 0;  // for one: likewise
};

struct ShepherdFrame {
  uint32_t type = 0;
  int32_t index = -1;
  int64_t value = 0;
  uint64_t extra = 0;
  uint32_t alone = 0;
  uint32_t fd_count = 0;  // that travel with the frame
  EndTimes times;         // kEnded
  std::string payload;
  std::vector<UniqueFd> fds;
};

inline constexpr size_t kShepherdFrameBytesMax = 128u << 10;  // below the default socket buffer
inline constexpr size_t kShepherdFdsMax = 4;
// Bits of kSpawn's extra: the last of its fds is for PMI; it starts without that, too.
inline constexpr uint64_t kSpawnWithPmi = 1;
inline constexpr uint64_t kSpawnPmiOffered = 2;

// Neither waits. Sends one frame. Unavailable when the socket is full (try again when writable), or
// the other side is gone (FailedPrecondition). The descriptors stay the caller's.
absl::Status SendFrame(int socket, const ShepherdFrame& frame);
// One frame. Unavailable: none now; OutOfRange: the other side is gone.
absl::StatusOr<ShepherdFrame> ReceiveFrame(int socket);

// Strings one after the other, each ended by a NUL (arguments and environment entries cannot hold
// one).
std::string PackStrings(const std::vector<std::string>& strings);
// The first words of a kSpawn, always so many.
inline constexpr size_t kBindingWords = 4;
std::vector<std::string> PackBinding(const SpawnBinding& binding);
SpawnBinding UnpackBinding(const std::vector<char*>& strings);
// Pointers into `packed`, which must outlive them.
std::vector<char*> UnpackStrings(std::string& packed);
// What a kPrograms brings: wdir, number of candidates, candidates..., number of arguments,
// arguments..., environment... Likewise; what is not there is empty.
struct UnpackedPrograms {
  char* wdir = nullptr;
  std::vector<char*> candidates;
  std::vector<char*> argv;
  std::vector<char*> environment;
};
UnpackedPrograms UnpackPrograms(std::string& packed);

}  // namespace muster
