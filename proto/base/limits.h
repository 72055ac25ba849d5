// The bounds that parts share: name, unit, reason. "wire" = both sides must agree on it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace muster {

// Protocol between agent and master, and of frames and files; a difference is refused by name of
// both builds. wire
inline constexpr uint32_t kProtocolVersion = 1;

// --- sizes of a job ---
inline constexpr uint32_t kNodesMax = 16384;  // a daemon's memory: at most 110 kB an agent
// Two pipes each must fit the descriptor limit.
inline constexpr uint32_t kWorkersPerNodeMax = 4096;
inline constexpr uint32_t kCpusMax = 65536;  // a list that names more is not one of CPUs
inline constexpr uint32_t kGpusPerNodeMax = 256;
inline constexpr uint32_t kWorldSizeMax = 1u << 20;
// One variable, of at most 128 KiB, says the addresses of all (TF_CONFIG), be they IPv6 ones.
inline constexpr uint32_t kWorkerPortsMax = 2048;
inline constexpr uint32_t kRestartsMax = 1000000;

inline constexpr size_t kGroupsOpenMax =
    4096;  // of a node's workers, at once; a descriptor and a mapping each
inline constexpr size_t kGroupsClosedMax = 65536;  // of a round that a node remembers

inline constexpr size_t kNodeAddressesMax = 16;  // that a node names; it has one per interface

inline constexpr uint32_t kProgramsMax = 1024;  // of a job; each has words and an environment

// --- liveness ---
inline constexpr absl::Duration kBeatInterval = absl::Seconds(1);
inline constexpr absl::Duration kLease =
    absl::Seconds(5);  // agent: from the send time of its last answered beat
// The same where the master has a journal: the time that it has to come back.
inline constexpr absl::Duration kLeaseWithJournal = absl::Seconds(30);
inline constexpr absl::Duration kLeaseSlack =
    absl::Seconds(2);  // master: lease + this from receipt
inline constexpr absl::Duration kReconnectWindow =
    absl::Milliseconds(250);  // closed connection -> lost

// --- nodes that come and go ---
// A round runs at least this long before it is stopped for a newcomer: programs take seconds to
// load, and a node that comes and goes must not keep the others from working.
inline constexpr absl::Duration kGrowthEvery = absl::Seconds(10);
// A lost agent is started again: tries, and the first wait, which grows eightfold, with jitter.
inline constexpr uint32_t kStartsAgainMax = 3;
inline constexpr absl::Duration kStartAgainAfter = absl::Milliseconds(100);
inline constexpr int kStartAgainGrowth = 8;
inline constexpr absl::Duration kStartAgainAtMost = absl::Seconds(20);
// Of an agent that has lived this long earlier tries do not count.
inline constexpr absl::Duration kStartsForgotten = absl::Minutes(1);

// --- time-outs a user can change ---
inline constexpr absl::Duration kJoinTimeout = absl::Seconds(600);
inline constexpr absl::Duration kLastCall = absl::Seconds(30);
inline constexpr absl::Duration kGrace = absl::Seconds(30);  // stop of a job: TERM to KILL
// The same of a round that is restarted: what saves its work needs as long there.
inline constexpr absl::Duration kRestartGrace = kGrace;
// Nobody hears of what workers write then.
inline constexpr absl::Duration kMasterLostGrace = absl::Seconds(5);
// Workers that wait for a debugger, until launch has heard that all have been started: then they go
// on.
inline constexpr absl::Duration kHeldMax = absl::Minutes(5);
// All workers neither run nor write for so long, and the user is told; then after twice that ...
inline constexpr absl::Duration kTellIdle = absl::Minutes(5);
inline constexpr absl::Duration kSshConnectTimeout = absl::Seconds(15);

// --- output ---
inline constexpr size_t kLineBytesMax = 1u << 20;  // a longer line is split and marked
inline constexpr size_t kOutputMemoryMax = 64u
                                           << 20;  // per node; beyond it output goes to the spool
inline constexpr uint64_t kOutputSpoolMax = 1u << 30;  // default of --output-spool
inline constexpr size_t kOutputSpoolBatch =
    4u << 20;  // in one write or read of the spool; larger ones gain nothing and wait for longer
inline constexpr absl::Duration kPartialLineDelay = absl::Milliseconds(200);  // to a terminal only
inline constexpr size_t kOutputSoftBytes =
    4u << 20;  // waiting: readers pause, at most kOutputPause each time
inline constexpr absl::Duration kOutputPause = absl::Milliseconds(50);
inline constexpr size_t kLogFileBytesMax =
    16u << 20;  // waiting for one slow log file; then its worker waits
inline constexpr size_t kLineFiltersMax = 64;  // of --duplicate-stdout-filters; each costs a search
inline constexpr size_t kDiskWorksMax =
    size_t{4} *
    kWorkersPerNodeMax;  // outstanding at a disk that hangs: the log files of two rounds
inline constexpr size_t kStdinWindow = 1u << 20;  // of stdin under way to a node
inline constexpr size_t kStderrTailBytes = 8192;  // per worker, for the report
inline constexpr size_t kStderrTailLines = 20;
inline constexpr size_t kErrorFileBytesMax = 4u << 20;  // TORCHELASTIC_ERROR_FILE, with its stacks
// File systems round their times down, by a tick of the kernel.
inline constexpr absl::Duration kFileTimeGrain = absl::Milliseconds(20);
inline constexpr size_t kErrorMessageBytesMax = 64u << 10;  // what is kept of it

// --- messages between agent and master ---
inline constexpr size_t kMessageBytesMax =
    4u << 20;  // gRPC's own default; an environment of 2 MiB fits
inline constexpr size_t kExitsPerBeatMax =
    64;  // keeps a beat small; the rest follows in the next one
inline constexpr size_t kProgramFilesMax = 64;  // of a job's programs, that a Join tells of
inline constexpr size_t kWaitPlacesMax = 8;     // of a node's workers that do nothing
inline constexpr size_t kNoticesMax = 8;        // lines that a Directive brings a user
inline constexpr size_t kExitBytesPerBeatMax = kMessageBytesMax / 2;  // of their texts

inline constexpr size_t kPeersPerBeatMax =
    64;  // nodes sought, workers awaited; a ring and a tree need few, more come one beat later

inline constexpr size_t kHeardSignalsMax = 8;  // kinds that an agent tells of; it minds three

// --- files that launch ships to the nodes ---
inline constexpr uint64_t kShipBytesMax =
    uint64_t{16}
    << 30;  // programs and their small data; more belongs on a file system of the nodes
inline constexpr uint32_t kShipEntriesMax = 200000;  // a Python environment has some 30,000
inline constexpr size_t kShipDigestBytes = 32;       // SHA-256; wire

// --- programs that link an MPI (PMIx, PMI-1) ---
// What the ranks of a round tell each other in one barrier; a business card has a few hundred
// bytes.
inline constexpr size_t kFenceBytesMax = 64u << 20;

// --- torch store ---
inline constexpr size_t kStoreKeyBytesMax = 8u << 10;
inline constexpr size_t kStoreValueBytesMax = 8u << 20;
inline constexpr size_t kStoreKeysPerRequestMax = 131072;
inline constexpr size_t kStoreKeysMax = 1u << 20;
inline constexpr size_t kStoreBytesMax = 1u << 30;
inline constexpr size_t kStoreClientsMax = 65536;

}  // namespace muster
