// Everything a user asked of `launch`, as one value, and where each part of it came from. Values
// only.
//
// Life: ParseCommandLine (options.h) fills it from arguments and environment; ResolveHosts
// (resolve.h) reads host files and fixes nodes and workers. After that `way`, `nodes`, `nodes_min`,
// `nodes_max` and `plan` are final, but for what only the nodes know: CPUs for "auto", a job id
// where none was given, the prefix (on when the world has > 1 worker).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "launcher/schedule/allocation.h"
#include "launcher/schedule/given_hosts.h"
#include "launcher/schedule/hostfile.h"
#include "launcher/schedule/pbs_job.h"
#include "launcher/schedule/pod.h"
#include "launcher/schedule/slurm_job.h"
#include "proto/base/limits.h"
#include "proto/base/restart_rules.h"
#include "proto/base/work_plan.h"

namespace muster {

// One for each row of the option table.
enum class OptionId : uint8_t {
  // how many, and where
  kNnodes,
  kSpares,
  kNprocPerNode,
  kTotal,
  kPpn,
  kHosts,
  kHostfile,
  kOversubscribe,
  kExclude,
  kRankfile,
  kMapBy,
  kRankBy,
  kNoOversubscribe,
  // where on its node each worker runs
  kBindTo,
  kCoresPerWorker,
  kCpuList,
  kMemoryBinding,
  kGpusPerWorker,
  kGpuMode,
  kNumaBinding,
  kReportBindings,
  kAdvise,
  // how nodes find each other
  kStandalone,
  kRdzvEndpoint,
  kRdzvBackend,
  kRdzvId,
  kRdzvConf,
  kNodeRank,
  kMasterAddr,
  kMasterPort,
  kLocalAddr,
  kServe,
  kJournal,
  kIface,
  kPortRange,
  kNoPreflight,
  // the program and its surroundings
  kModule,
  kNoPython,
  kRunPath,
  kConfig,
  kDetach,
  kName,
  kJobLog,
  kSetEnv,
  kSetEnvPair,
  kEnvList,
  kEnvAll,
  kEnvNone,
  kWrap,
  kPrologue,
  kPropagate,
  kPty,
  kGdb,
  kProctable,
  kWdir,
  kShip,
  kConfigLines,
  kStdin,
  kVirtualLocalRank,
  kRole,
  kDialect,
  kFill,
  kFillTorchrun,
  kStore,
  kStoreFrom,
  kNoNewPrivs,
  kMpi,
  // when something ends
  kMaxRestarts,
  kRestart,
  kRestartWindow,
  kRestartsPerRank,
  kRestartsPerNode,
  kRestartWait,
  kRestartWaitMax,
  kBadNodeAfter,
  kBadNodeFor,
  kOnExit,
  kOnFailure,
  kContinuous,
  kMonitorInterval,
  kStartMethod,
  kEventLogHandler,
  kSignalsToHandle,
  kAllowRunAsRoot,
  kStopGrace,
  kRestartStopGrace,
  kTellOfIdle,
  kTimeout,
  kReportState,
  kReport,
  kLeaseTime,
  // output
  kLogPrefix,
  kLabel,
  kNoPrefix,
  kTimestamps,
  kShow,
  kShowLocal,
  kLogDir,
  kLogLayout,
  kOutputFilename,
  kOutFile,
  kErrFile,
  kRedirects,
  kTee,
  kDuplicateStdoutFilters,
  kDuplicateStderrFilters,
  kLogsSpecs,
  kOutputSpool,
  kOutputOverflow,
  kQuiet,
  kVerbose,
  // look first
  kPlan,
  kExplainEnv,
  kJson,
  kYaml,
  // starting agents, secrets
  kSsh,
  kSshArgs,
  kSecretFile,
  kRdzvFingerprint,
  kInsecure,
  // of other launchers, without effect here
  kMpiSetting,
  kHwthreadCpus,
  kDisplay,
  kDisplayFlag,
  kLauncher,
  kNoLauncher,
  kNoLauncherFlag,
  kExitCodes,
  kHelp,
  kHelpAll,
  kVersion,
};

// How an option's value came to be; an option that is not in JobSpec::given has its default.
struct Given {
  bool by_environment = false;
  std::string name;   // as the user spelled it: "-ppn", "--nproc_per_node", "PET_NNODES", "nnodes"
  std::string value;  // "" for a flag
  std::string place;  // in a job file: "job.yaml line 3"; "" = not from one
};

// The four situations in which a job starts.
enum class StartWay : uint8_t {
  kLocal,       // one node: this machine, everything embedded
  kStandalone,  // several nodes, all on this machine
  kHosts,       // launch has the nodes and starts an agent on each
  kTyped,       // the same command is typed on every node, with an endpoint
  kServe,  // several nodes wanted, neither hosts nor endpoint: serve, and print the line for the
           // others
};

struct NodeOverride;

// --journal in a job that Slurm may start again.
struct KeptLife {
  std::string file;
  std::vector<std::string> hosts;    // by the places that their ranks follow
  std::vector<std::string> history;  // of the lives before
};

inline constexpr uint16_t kRendezvousPort = 29400;  // torchrun's default for c10d

struct RendezvousSpec {
  std::string host;   // of --rdzv-endpoint, or --master-addr in the static form; "" = none
  uint16_t port = 0;  // 0 = any
  std::vector<std::string> others;  // HOST:PORT, further ones of --rdzv-endpoint: of daemons that
                                    // share a store; no node serves then
  std::string fingerprint;          // --rdzv-fingerprint, of those daemons; "" = as first met
  std::string file;                 // path of --rdzv-endpoint file:///path; then host is ""
  bool is_static =
      false;       // torchrun's static form: rendezvous and store share master_addr:master_port
  std::string id;  // "" = launch makes one
  std::map<std::string, std::string> conf;     // --rdzv-conf, as given
  absl::Duration join_timeout = kJoinTimeout;  // conf join_timeout, else timeout
  absl::Duration last_call = kLastCall;        // conf last_call_timeout
  std::optional<bool> is_host;                 // conf is_host; --serve sets JobSpec::serve
  std::string step;  // "Slurm job 17, step 0", whose tasks are the nodes and share a screen; or ""
};

struct JobSpec {
  // --- what runs ---
  WorkPlan plan;        // job_id "" = to be made; workers: of this machine's node; env_set from -x
  std::string program;  // as typed, for people
  std::vector<std::string> arguments;  // the program's own, as typed
  bool module = false;
  bool no_python = false;
  bool run_path = false;
  std::string config_file;                 // --config; what it says has gone into the other fields
  std::map<OptionId, std::string> undone;  // flags, with the word of the command line
  // The programs behind the first one (`./a : -n 3 ./b`): each a job of which nothing was said but
  // what is a program's own (MaySayProgram of programs.h).
  std::vector<JobSpec> further;
  bool env_all = false;                     // -genvall
  std::vector<std::string> forward_to_all;  // of `forward`: what holds for those, too (-genv)

  std::vector<std::string> ship;  // --ship, one for each time it was given
  uint64_t ship_bytes = 0;        // of those files; known once they have been looked at
  size_t ship_entries = 0;        // likewise: files and folders

  // --- nodes and workers ---
  StartWay way = StartWay::kLocal;
  uint32_t nodes_min = 1;
  uint32_t nodes_max = 1;                 // nodes beyond are spares
  std::optional<uint32_t> spares;         // --spares
  std::optional<uint32_t> total;          // -n; once resolved, of all programs together
  std::optional<uint32_t> per_node;       // -ppn
  std::vector<std::string> hosts_texts;   // --hosts, one for each time it was given
  std::vector<std::string> hostfiles;     // --hostfile, likewise
  std::string rankfile;                   // --rankfile
  std::optional<GivenHosts> given_hosts;  // a scheduler's, where nothing else says where to run
  std::optional<PodPlace> pod;            // of an Indexed Job of Kubernetes, where it says the same
  bool in_pod = false;                    // of Kubernetes, of whatever kind
  std::optional<SlurmJob> slurm;          // that we are in, wherever the workers run
  std::optional<PbsJob> pbs;              // likewise
  std::vector<HostEntry> hosts;           // in order of the list, before --nnodes cuts it
  std::vector<NodeWorkers> nodes;         // kLocal, kStandalone, kHosts: all of them; else empty
  bool oversubscribe = false;
  RankOrder rank_order = RankOrder::kFill;
  std::vector<std::string> exclude_texts;  // --exclude, one for each time it was given
  // What is different on single nodes, in the order of the job file.
  std::vector<NodeOverride> node_overrides;

  // --- how nodes find each other ---
  RendezvousSpec rendezvous;
  bool serve = false;
  std::string journal;           // --journal; "" = the job ends with the launch that serves it
  std::optional<KeptLife> life;  // the same under Slurm; `journal` is "" then
  std::optional<uint32_t> node_rank;
  std::string master_addr;              // "" = of node rank 0, found out
  std::optional<uint16_t> master_port;  // 0 or none = reserved by us
  std::string local_addr;               // address other nodes shall use for this one

  bool no_preflight = false;

  // --- when something ends ---
  uint32_t max_restarts = 0;
  RestartMode restart = RestartMode::kAll;
  RestartRules restart_rules;
  OnFailure on_failure = OnFailure::kStop;
  absl::Duration restart_grace = kRestartGrace;
  absl::Duration timeout = absl::InfiniteDuration();
  absl::Duration tell_idle = kTellIdle;  // infinite = never
  std::optional<absl::Duration> lease;   // --lease; none = the master's own
  std::string report_file;               // "" = none
  bool report_state = false;
  bool advise = false;

  // --- output (the rest is in plan.output) ---
  std::optional<bool>
      prefix;  // --no-prefix, --log-prefix; none = on when the world has more than one worker
  bool quiet = false;
  bool verbose = false;

  // --- detached (launcher/jobs) ---
  bool detach = false;
  std::string job_name;                             // --name
  uint64_t job_log_bytes_max = uint64_t{64} << 20;  // --job-log
  int keeper_fd = -1;      // in the detached launcher: packets to and from its keeper
  std::string job_folder;  // likewise: where report.json goes

  // --- look first ---
  bool plan_only = false;
  bool json = false;
  bool yaml = false;
  std::optional<uint32_t> explain_env;  // rank

  // --- starting agents ---
  std::vector<std::string> ssh = {"ssh"};  // --ssh program, then --ssh-args words
  std::string secret_file;                 // "" = made, or ~/.config/muster/secret
  bool insecure = false;

  std::vector<std::string> command_line;  // the words behind "launch", for one elsewhere
  std::string launch_path =
      "launch";  // as typed, made absolute where it has a slash: for lines to copy
  std::vector<std::string> propagate;   // names of limits (limit_names.h); read where it runs
  std::string proctable_file;           // --proctable; "" = none
  std::vector<std::string> debugger;    // --gdb: its words; the rank is that of plan.pty
  std::vector<std::string> wrap_texts;  // --wrap as given, one for each of plan.wraps
  std::vector<std::string> forward;     // -x as given; resolved into plan.env_set
  std::map<OptionId, Given> given;
  std::vector<std::string> mpi_settings;  // keys of --mca and its kin, for one note
  std::vector<std::string> notes;         // to be said once, in order

  bool Has(OptionId id) const { return given.count(id) != 0; }
  // "--nnodes 2", "-ppn 4", "PET_NNODES=2 (environment)", "nnodes: 2 (job.yaml line 3)",
  // "--standalone"; the option's first name when not given.
  std::string Said(OptionId id) const;
};

// What a job file says about one node alone (node_overrides.h).
struct NodeOverride {
  std::string node;   // a host as the list has it, or its place in that: "0"
  std::string place;  // "job.yaml:7:3"
  JobSpec says;       // only what a node may say
};

// The values of an option that was given, in order: one for each time where they add up, else the
// last one ("" for a flag).
std::vector<std::string> ValuesOf(const JobSpec& spec, OptionId id);

// PYTHON -u in front of a script or module, as torchrun does it; a program that is no Python file
// stays as it is. `python` is $PYTHON_EXEC or python3.
std::vector<std::string> ProgramArgv(const JobSpec& spec, absl::string_view python);

absl::string_view StartWayName(StartWay way);
// As they are typed.
absl::string_view OnFailureName(OnFailure on_failure);
absl::string_view RestartModeName(RestartMode restart);

}  // namespace muster
