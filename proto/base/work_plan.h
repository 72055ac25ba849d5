// What the user asked to run, as every agent of the job gets it. Values only; bytes are kept as
// they are (environments and arguments may hold newlines and bytes that are not UTF-8).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/base/cpu_binding.h"
#include "proto/base/port_range.h"

namespace muster {

enum class WorkersWanted : uint8_t {  // --nproc-per-node
  kNumber,
  kAuto,
  kCpu,
  kGpu,
  kObjects,  // as many as --map-by ppr:N:OBJECT has places for
};
enum class StoreMode : uint8_t { kAuto, kAgent, kWorker };    // --store
enum class MpiMode : uint8_t { kAuto, kPmi1, kPmix, kNone };  // --mpi
enum class StdinMode : uint8_t { kNone, kRank, kAll };        // --stdin
enum class OverflowMode : uint8_t { kBlock, kDrop };          // --output-overflow
enum class OnFailure : uint8_t { kStop, kContinue };          // --on-failure
enum class RestartMode : uint8_t { kAll, kOne, kNever };      // --restart
enum class LogLayout : uint8_t { kMuster, kTorchrun };        // --log-layout

// torchrun's Std: bit 1 = stdout, bit 2 = stderr.
struct StreamSelect {
  uint8_t all = 0;                            // for every local rank
  std::map<uint32_t, uint8_t> by_local_rank;  // overrides; with overrides the rest is 0
  uint8_t Of(uint32_t local_rank) const {
    const auto it = by_local_rank.find(local_rank);
    return it != by_local_rank.end() ? it->second : by_local_rank.empty() ? all : 0;
  }
  bool Any() const { return all != 0 || !by_local_rank.empty(); }
};

struct OutputOptions {
  bool prefix = true;  // resolved: world > 1 unless --no-prefix / --log-prefix
  std::string prefix_template =
      "[{rank}@{host}] ";  // {rank} {local_rank} {host} {node_rank} {stream} {role} {time}
  bool timestamps = false;
  std::string log_dir;  // "" = none
  LogLayout log_layout = LogLayout::kMuster;
  std::string out_file;    // path with {rank} ...: stdout goes there only; "" = as the rest says
  std::string err_file;    // likewise stderr
  StreamSelect redirects;  // to files only
  StreamSelect tee;        // to files and here
  // Lines that hold one of these go also to a file of the node in log_dir; empty = no such file.
  std::vector<std::string> out_filters;
  std::vector<std::string> err_filters;
  std::vector<uint32_t> show;        // global ranks shown; empty = all
  std::vector<uint32_t> show_local;  // local ranks shown on each node; empty = all
  bool partial_out = false;          // of stdout, lines that are still growing are wanted too
  bool partial_err = false;
  uint64_t spool_bytes_max = 0;
  OverflowMode overflow = OverflowMode::kBlock;
};

// --wrap: these ranks are started by `argv`, with the program's words behind it.
struct Wrap {
  std::vector<uint32_t> ranks;
  std::vector<std::string> argv;  // may hold {rank}, {local_rank}, {node_rank} and {host}
};

// One of several programs of a job, behind the first one: everything that may differ from that.
struct FurtherProgram {
  uint32_t rank_first = 0;  // it runs from this rank up to the next one's
  std::vector<std::string> argv;
  std::string wdir;                  // "" = the agent's own
  std::vector<std::string> env_set;  // in place of the plan's
};

// --propagate: a soft limit of the launcher that is each worker's too.
struct WorkerLimit {
  std::string name;   // "core", "nofile": as `ulimit` and srun call it
  uint64_t soft = 0;  // UINT64_MAX = unlimited
};

// --pty: this rank has a terminal, as large as the user's.
struct Terminal {
  uint32_t rank = 0;
  uint16_t rows = 0;
  uint16_t columns = 0;
  std::string term;  // TERM of the user's
};

struct WorkPlan {
  std::string job_id;                   // TORCHELASTIC_RUN_ID
  std::vector<std::string> argv;        // argv[0] is searched in the worker's PATH
  std::vector<Wrap> wraps;              // the first one outermost
  bool fill = false;                    // --fill: argv behind its first may hold {rank} and so on
  bool fill_torchrun = false;           // --fill-torchrun: likewise ${local_rank}
  std::string prologue;                 // lines for /bin/sh, run by each worker first; "" = none
  std::string wdir;                     // "" = the agent's own
  std::vector<FurtherProgram> further;  // by rank_first; empty = one program for all ranks
  std::vector<std::string>
      env_base;  // "K=V" sent along by the launcher under the agent's own environment
  std::vector<std::string> env_set;  // "K=V" the user named (-x, --env): wins over everything
  std::vector<std::string> env_unset;
  bool env_none = false;  // --env-none: of what is inherited only what a login needs
  WorkersWanted workers_wanted = WorkersWanted::kNumber;
  uint32_t workers = 1;  // kNumber
  std::string role = "default";
  bool virtual_local_rank = false;  // each worker sees one GPU, and itself as local rank 0
  StoreMode store = StoreMode::kAuto;
  bool store_from_any = false;     // whoever can connect may use the agent's store
  bool no_new_privileges = false;  // of workers: set-user-ID programs gain them nothing
  MpiMode mpi = MpiMode::kAuto;
  std::vector<std::string> dialects;  // of DialectWords(), but "torch", which is always there
  std::string iface;                  // NAME or CIDR, "" = by the route
  StdinMode stdin_mode = StdinMode::kRank;
  uint32_t stdin_rank = 0;
  OutputOptions output;
  std::vector<WorkerLimit> limits;
  std::optional<Terminal> pty;
  CpuBinding binding;
  PortRange ports;          // of those that a node chooses itself
  bool tell_pids = false;   // beats say the pids of the workers: for parallel debuggers
  bool hold = false;        // each worker stands still before its first instruction until a SIGCONT
  bool standalone = false;  // all nodes are this machine
  std::string slurm_nodelist;        // the job's nodes of Slurm's, where launch took them; else ""
  bool slurm_cpus_per_task = false;  // launch has SLURM_CPUS_PER_TASK: -c was asked for
  absl::Duration grace;              // --grace
  // Of SIGUSR1 and SIGUSR2: what stops the job, as SIGTERM does. launch acts; workers are told.
  std::vector<int32_t> stop_signals;
};

}  // namespace muster
