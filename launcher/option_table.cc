// The options themselves: names, what they take, where they are shown, what they do. With OptionId
// and, for a new kind of value, option_setters.cc, the only place to touch for a new option. What
// two options say together is checked in contradictions.cc and resolve.cc.
#include "absl/strings/str_cat.h"
#include "launcher/binding_options.h"
#include "launcher/mpi_options.h"
#include "launcher/option_fields.h"
#include "launcher/option_setters.h"
#include "launcher/option_values.h"
#include "launcher/options.h"
#include "proto/base/check.h"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

constexpr ArgumentKind kNone = ArgumentKind::kNone;
constexpr ArgumentKind kRequired = ArgumentKind::kRequired;
constexpr ArgumentKind kTwoWords = ArgumentKind::kTwoWords;
constexpr ArgumentKind kOptional = ArgumentKind::kOptional;

absl::Status SetConfig(const OptionValue& v, JobSpec& s) {
  if (!s.config_file.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(v.name, " ", v.text, ": ", v.name, " ", s.config_file,
                     " is given, too, and one file is read: what is typed wins over it"));
  }
  return NotEmpty(v, s.config_file);
}

absl::Status SetTimestamps(const OptionValue& v, JobSpec& s) {
  s.plan.output.timestamps = !v.undone;
  return absl::OkStatus();
}

// For options that are accepted, so that a command from elsewhere works, and do nothing here.
constexpr auto kNoEffect = nullptr;
// What is shown instead of running is the parser's to see.
absl::Status Shows(const OptionValue&, JobSpec&) { return absl::OkStatus(); }

constexpr char kCount[] = "How many workers, and where";
constexpr char kPlaces[] = "Where on its node each worker runs";
constexpr char kMeet[] = "How the nodes find each other";
constexpr char kProgram[] = "The program and its surroundings";
constexpr char kEnd[] = "When something ends";
constexpr char kOutput[] = "Output";
constexpr char kLook[] = "Look first";
constexpr char kSecurity[] = "Starting agents, secrets";
constexpr char kElsewhere[] = "Of mpirun and mpiexec";
constexpr char kHelp[] = "Help";

// Why options of other launchers have no effect.
constexpr char kSeePlan[] = "--plan shows nodes and ranks, and starts nothing";
constexpr char kOwnAgents[] = "it concerns how mpirun or mpiexec itself works";

constexpr OptionRow kTable[] = {
    {OptionId::kNnodes, kRequired, true, "--nnodes", "N|MIN:MAX", "PET_NNODES", kCount,
     "nodes of the job; with MIN:MAX they may come and go", SetNnodes},
    {OptionId::kSpares, kRequired, false, "--spares", "K", "", kCount,
     "K nodes more that wait ready, and take the place of one that is lost", SetSpares},
    {OptionId::kNprocPerNode, kRequired, true, "--nproc-per-node", "N", "PET_NPROC_PER_NODE",
     kCount, "workers on each node: a number, auto, cpu or gpu (default 1)", SetNprocPerNode},
    {OptionId::kTotal, kRequired, true, "-n -np --np --n --ntasks", "N", "", kCount,
     "workers in all: hosts are filled in order by their slots", SetTotal},
    {OptionId::kPpn, kRequired, true, "-ppn --ppn -perhost --npernode -npernode --ntasks-per-node",
     "N", "", kCount, "workers on each node; with -n the last node gets the rest", SetPerNode},
    {OptionId::kHosts, kRequired, true,
     "--hosts -H --host -hosts -host -hostlist --hostlist -machine -machines", "LIST", "", kCount,
     "start there over ssh: a:4,user@b,ssh://c:2222,node[01-16]:8 (:N slots)", AddHosts},
    {OptionId::kHostfile, kRequired, true, "--hostfile -f -hostfile -machinefile --machinefile",
     "FILE", "", kCount, "the same from a file: 'host', 'host slots=4', 'host:4', PBS, Slurm",
     AddHostfile},
    {OptionId::kOversubscribe, kNone, false, "--oversubscribe -oversubscribe", "", "", kCount,
     "allow more workers than slots: the rest is dealt out in turn",
     SetFlag<&JobSpec::oversubscribe>},
    {OptionId::kExclude, kRequired, false, "--exclude", "LIST", "", kCount,
     "hosts of --hosts or --hostfile that shall not be used", AddExclude},
    {OptionId::kRankfile, kRequired, false, "--rankfile -rankfile -rf", "FILE", "", kCount,
     "where each rank runs: a line 'rank 0=HOST slot=...' for each, +n0 = first host of the list",
     SetText<&JobSpec::rankfile>},
    {OptionId::kMapBy, kRequired, false, "--map-by -map-by", "HOW", "", kCount,
     "core, numa, l3cache, package, gpu; ppr:N:OBJECT: N on each; node: ranks to hosts in turn",
     SetMapBy},
    {OptionId::kRankBy, kRequired, false, "--rank-by -rank-by", "HOW", "", kCount,
     "slot, core, socket, numa ...: ranks fill the hosts in order", CheckRankBy},
    {OptionId::kNoOversubscribe, kNone, false, "--nooversubscribe -nooversubscribe", "", "", kCount,
     "slots are those of --hosts, a host file or a scheduler, and more workers are refused there "
     "unless --oversubscribe is given; on this machine alone any number runs",
     kNoEffect},

    {OptionId::kBindTo, kRequired, true, "--bind-to -bind-to -binding", "HOW", "", kPlaces,
     "auto (default: its share of the cores), none, core, numa, package ...", SetBindTo},
    {OptionId::kCoresPerWorker, kRequired, false, "--pe --cpus-per-rank --cpus-per-proc", "N", "",
     kPlaces, "so many cores for each worker, and no more", SetCoresPerWorker},
    {OptionId::kCpuList, kRequired, false, "--cpu-list --cpu-set", "LIST", "", kPlaces,
     "workers use these CPUs of each node only: 0-3,8", SetCpuList},
    {OptionId::kMemoryBinding, kRequired, false, "--membind -membind", "HOW", "", kPlaces,
     "none (default), local, bind, interleave: memory of its CPUs' NUMA nodes, or bind:0,1; 0,1",
     SetMemoryBinding},
    {OptionId::kGpusPerWorker, kRequired, false, "--gpus-per-proc -gpus-per-proc", "N", "", kPlaces,
     "so many GPUs are each worker's, and it runs near them (default 1, where there are enough)",
     SetGpusPerWorker},
    {OptionId::kGpuMode, kRequired, false, "--gpu-mode", "all|one|uuid", "", kPlaces,
     "GPUs that a worker sees: all (default), its own, or its own by UUID", SetGpuMode},
    {OptionId::kNumaBinding, kRequired, false, "--numa-binding", "HOW", "PET_NUMA_BINDING", kPlaces,
     "as torchrun has it: node, socket, exclusive or core-complex, near each worker's GPU",
     SetNumaBinding},
    {OptionId::kReportBindings, kNone, false, "--report-bindings -report-bindings", "", "", kPlaces,
     "show who runs where on each node, and what the kernel says of it", SetReportBindings},
    {OptionId::kAdvise, kNone, false, "--advise", "", "", kPlaces,
     "say at the end how long the workers waited for CPUs, and what may be better",
     SetFlag<&JobSpec::advise>},

    {OptionId::kStandalone, kNone, true, "--standalone", "", "PET_STANDALONE", kMeet,
     "all nodes are this machine: try --nnodes N without a cluster",
     SetPlanFlag<&WorkPlan::standalone>},
    {OptionId::kRdzvEndpoint, kRequired, true, "--rdzv-endpoint", "HOST:PORT", "PET_RDZV_ENDPOINT",
     kMeet, "nodes meet here (port 29400), at file:///PATH, or at a:1,b:2's leader",
     SetRdzvEndpoint},
    {OptionId::kRdzvBackend, kRequired, false, "--rdzv-backend", "NAME", "PET_RDZV_BACKEND", kMeet,
     "c10d (default), or static: then the endpoint's port is MASTER_PORT, too", CheckRdzvBackend},
    {OptionId::kRdzvId, kRequired, false, "--rdzv-id", "ID", "PET_RDZV_ID", kMeet,
     "name of the job (default: made up)",
     [](const OptionValue& v, JobSpec& s) { return NotEmpty(v, s.rendezvous.id); }},
    {OptionId::kRdzvConf, kRequired, false, "--rdzv-conf", "K=V,...", "PET_RDZV_CONF", kMeet,
     "join_timeout (600; 120 between the tasks of an srun), last_call_timeout (30), is_host (0|1); "
     "torchrun's other keys have no effect",
     SetRdzvConf},
    {OptionId::kNodeRank, kRequired, false, "--node-rank", "N", "PET_NODE_RANK", kMeet,
     "place of this node, 0 first (default: order of joining)", SetNodeRank},
    {OptionId::kMasterAddr, kRequired, false, "--master-addr", "HOST", "PET_MASTER_ADDR", kMeet,
     "torchrun's static form: where node rank 0 runs", SetMasterAddr},
    {OptionId::kMasterPort, kRequired, false, "--master-port", "PORT", "PET_MASTER_PORT", kMeet,
     "its port (default: 29500 there, else a free one is reserved)", SetMasterPort},
    {OptionId::kLocalAddr, kRequired, false, "--local-addr", "HOST", "PET_LOCAL_ADDR", kMeet,
     "address by which other nodes reach this one (default: by the kernel's route)", SetLocalAddr},
    {OptionId::kServe, kNone, false, "--serve", "", "", kMeet,
     "serve the rendezvous here (default: the node that the endpoint names)",
     SetFlag<&JobSpec::serve>},
    {OptionId::kJournal, kRequired, false, "--journal", "FOLDER", "", kMeet,
     "with --serve and --node-rank: if this launch is killed, type it again, and the job goes on; "
     "in a Slurm job: when Slurm starts it again, its nodes keep their ranks",
     SetText<&JobSpec::journal>},
    {OptionId::kIface, kRequired, false, "--iface -iface", "NAME|CIDR", "", kMeet,
     "network for the workers, translated for gloo, NCCL and UCX (default: by the route)",
     SetIface},
    {OptionId::kPortRange, kRequired, false, "--port-range", "LOW-HIGH",
     "MPIEXEC_PORT_RANGE MPIR_CVAR_CH3_PORT_RANGE MPICH_PORT_RANGE", kMeet,
     "every port that launch chooses itself, on every node, is one of these", SetPortRange},
    {OptionId::kNoPreflight, kNone, false, "--no-preflight", "", "", kMeet,
     "do not look at the nodes beside the start, nor in full (launch doctor) when it fails",
     SetFlag<&JobSpec::no_preflight>},

    {OptionId::kModule, kNone, true, "-m --module", "", "PET_MODULE", kProgram,
     "PROGRAM is a Python module, run with python3 -u -m", SetFlag<&JobSpec::module>},
    {OptionId::kNoPython, kNone, false, "--no-python", "", "PET_NO_PYTHON", kProgram,
     "run PROGRAM as it is, also when it ends in .py", SetFlag<&JobSpec::no_python>},
    {OptionId::kRunPath, kNone, false, "--run-path", "", "PET_RUN_PATH", kProgram,
     "PROGRAM is a Python script whatever its name", SetFlag<&JobSpec::run_path>},
    {OptionId::kConfig, kRequired, true, "--config", "FILE|-", "", kProgram,
     "options and command from YAML; what is typed wins, --no-FLAG too", SetConfig},
    {OptionId::kDetach, kNone, true, "--detach", "", "", kProgram,
     "go on without this terminal; then launch ps, attach, logs, stop", SetFlag<&JobSpec::detach>},
    {OptionId::kName, kRequired, false, "--name", "NAME", "", kProgram,
     "a name for the detached job, besides its id", SetJobName},
    {OptionId::kJobLog, kRequired, false, "--job-log", "SIZE", "", kProgram,
     "of a detached job's output keep this much, the newest (default 64M)", SetJobLog},
    {OptionId::kSetEnv, kRequired, true, "-x --env", "VAR[=V]", "", kProgram,
     "set VAR for every worker, or hand on its value here; or PREFIX*", AddForward},
    {OptionId::kSetEnvPair, kTwoWords, false, "-genv -env", "VAR V", "", kProgram,
     "as mpiexec has it: the same as -x VAR=V", AddForwardPair},
    {OptionId::kEnvList, kRequired, false, "-genvlist -envlist", "VAR,...", "", kProgram,
     "the same as -x VAR for each; nothing is taken away (see --env-none)", AddForwardList},
    {OptionId::kEnvAll, kNone, false, "-genvall -envall", "", "", kProgram,
     "workers on other machines have this whole environment, too, but for what belongs to this "
     "host or terminal; without it, over ssh: search paths, settings of libraries, and -x",
     SetFlag<&JobSpec::env_all>},
    {OptionId::kEnvNone, kNone, false, "--env-none -genvnone -envnone", "", "", kProgram,
     "workers inherit PATH, HOME and the like; the rest is what launch sets, and -x",
     SetPlanFlag<&WorkPlan::env_none>},
    {OptionId::kWrap, kRequired, false, "--wrap", "RANKS:CMD", "", kProgram,
     "these ranks run under CMD: '0:valgrind', '1-3:perf record -o perf.{rank}'", AddWrap},
    {OptionId::kPrologue, kRequired, false, "--prologue", "LINES", "", kProgram,
     "each worker runs these lines of sh first: 'module load cuda'", AddPrologue},
    {OptionId::kPropagate, kRequired, false, "--propagate", "all|none|LIMITS", "", kProgram,
     "soft limits of this shell for all workers: core,nofile,stack,memlock,as ... (none)",
     SetPropagate},
    {OptionId::kPty, kRequired, false, "--pty", "RANK", "", kProgram,
     "this rank has your terminal: keys, colours and its size, Ctrl-C as a key; others as ever",
     SetPty},
    {OptionId::kGdb, kRequired, false, "--gdb", "RANK", "", kProgram,
     "the same, and it runs under 'gdb --args', or under what $MUSTER_DEBUGGER says", SetGdb},
    {OptionId::kProctable, kRequired, false, "--proctable --output-proctable -output-proctable",
     "FILE", "", kProgram,
     "write rank, host, pid and program of each worker; parallel debuggers can attach (MPIR)",
     SetText<&JobSpec::proctable_file>},
    {OptionId::kWdir, kRequired, true, "--wdir -wdir --wd -wd --chdir", "DIR", "", kProgram,
     "working directory of the workers (default: this one)", SetPlanText<&WorkPlan::wdir>},
    {OptionId::kShip, kRequired, true, "--ship", "FILE|DIR", "", kProgram,
     "send it to each node, where the workers run in its folder", AddShip},
    {OptionId::kConfigLines, kRequired, false, "--configfile -configfile --app -app", "FILE", "",
     kProgram, "options and programs from the lines of a file, a program on each",
     [](const OptionValue&, JobSpec&) { return absl::OkStatus(); }},
    {OptionId::kStdin, kRequired, false, "--stdin -stdin", "RANK|none|all", "", kProgram,
     "who reads our standard input (default 0)", SetStdin},
    {OptionId::kVirtualLocalRank, kNone, false, "--virtual-local-rank", "",
     "PET_VIRTUAL_LOCAL_RANK", kProgram,
     "each worker sees its own GPU only, and LOCAL_RANK is 0 for all",
     SetPlanFlag<&WorkPlan::virtual_local_rank>},
    {OptionId::kRole, kRequired, false, "--role", "NAME", "PET_ROLE", kProgram,
     "ROLE_NAME of the workers (default 'default')", SetPlanText<&WorkPlan::role>},
    {OptionId::kDialect, kRequired, false, "--dialect", "LIST", "", kProgram,
     "rank variables besides torch's (torch: none): slurm (or -keep, -scrub), ompi, pmi, pmix, "
     "mpich, mvapich, "
     "horovod (and its store), tf (TF_CONFIG), jsm, flux, deepspeed, lightning",
     SetDialect},
    {OptionId::kFill, kNone, false, "--fill", "", "", kProgram,
     "in PROGRAM's words {rank}, {rank0}, {local_rank}, {node_rank}, {host} are the worker's",
     SetPlanFlag<&WorkPlan::fill>},
    {OptionId::kFillTorchrun, kNone, false, "--fill-torchrun", "", "", kProgram,
     "in PROGRAM's words ${local_rank} is the worker's, and $$ is $, as torchrun has it",
     SetPlanFlag<&WorkPlan::fill_torchrun>},
    {OptionId::kStore, kRequired, false, "--store", "MODE", "", kProgram,
     "torch's store: agent (we serve it), worker (rank 0 does), auto (default)", SetStore},
    {OptionId::kStoreFrom, kRequired, false, "--store-from", "nodes|any", "", kProgram,
     "who may use the agent's store: the job's nodes (default), or anybody", SetStoreFrom},
    {OptionId::kNoNewPrivs, kNone, false, "--no-new-privs", "", "", kProgram,
     "workers gain no privileges: sudo and other set-user-ID programs fail",
     SetPlanFlag<&WorkPlan::no_new_privileges>},
    {OptionId::kMpi, kRequired, false, "--mpi", "MODE", "", kProgram,
     "what is served to its MPI: pmi1 (MPICH), pmix (Open MPI), none, auto (default): what it "
     "links; pmi1 is offered where that does not show",
     SetMpi},

    {OptionId::kMaxRestarts, kRequired, true, "--max-restarts", "N", "PET_MAX_RESTARTS", kEnd,
     "times that workers are started again after a failure (0)", SetMaxRestarts},
    {OptionId::kRestart, kRequired, false, "--restart", "all|one|never", "", kEnd,
     "who starts again: all (default), nobody, or one: who failed (call Reform)", SetRestart},
    {OptionId::kRestartWindow, kRequired, false, "--restart-window", "TIME", "", kEnd,
     "after a round that lived this long all restarts are there again (default: never)",
     SetRestartTime<&RestartRules::window>},
    {OptionId::kRestartsPerRank, kRequired, false, "--restarts-per-rank", "N", "", kEnd,
     "of these restarts, how many one rank may cause (default: all)",
     SetRestartsOf<&RestartRules::of_rank>},
    {OptionId::kRestartsPerNode, kRequired, false, "--restarts-per-node", "N", "", kEnd,
     "... and one node (default: all)", SetRestartsOf<&RestartRules::of_node>},
    {OptionId::kRestartWait, kRequired, false, "--restart-wait", "TIME", "", kEnd,
     "before a restart after two short rounds in a row, then twice that ... (default 1 s)",
     SetRestartTime<&RestartRules::wait_first>},
    {OptionId::kRestartWaitMax, kRequired, false, "--restart-wait-max", "TIME", "", kEnd,
     "it waits no longer, and a round that lived that long is not short (default 30 s)",
     SetRestartTime<&RestartRules::wait_max>},
    {OptionId::kBadNodeAfter, kRequired, false, "--bad-node-after", "N", "", kEnd,
     "failures on a node after which others take its place (default 3; 0: never)",
     SetRestartsOf<&RestartRules::bad_node_after>},
    {OptionId::kBadNodeFor, kRequired, false, "--bad-node-for", "TIME", "", kEnd,
     "for how long (default 5 min)", SetRestartTime<&RestartRules::bad_node_for>},
    {OptionId::kOnExit, kRequired, false, "--on-exit", "MATCH:ACTION", "", kEnd,
     "code=N-N, signal=NAME, oom, node-lost: stop, restart, restart-free, replace-node",
     AddExitRule},
    {OptionId::kOnFailure, kRequired, false, "--on-failure", "stop|continue", "", kEnd,
     "when no restart is left: stop the others (default), or let them go on to their end",
     SetOnFailure},
    {OptionId::kContinuous, kNone, false,
     "--continuous --enable-recovery -disable-auto-cleanup --no-kill", "", "", kEnd,
     "as mpirun, mpiexec and srun have it: the same as --on-failure=continue", SetContinuous},
    {OptionId::kMonitorInterval, kRequired, false, "--monitor-interval", "S",
     "PET_MONITOR_INTERVAL", kEnd, "a death is noticed at once", kNoEffect},
    {OptionId::kStartMethod, kRequired, false, "--start-method", "NAME", "PET_START_METHOD", kEnd,
     "workers are always programs of their own", kNoEffect},
    {OptionId::kEventLogHandler, kRequired, false, "--event-log-handler", "NAME",
     "PET_EVENT_LOG_HANDLER", kEnd, "--report says how the job ended", kNoEffect},
    {OptionId::kSignalsToHandle, kRequired, false, "--signals-to-handle", "LIST",
     "PET_SIGNALS_TO_HANDLE TORCHELASTIC_SIGNALS_TO_HANDLE", kEnd,
     "SIGUSR1, SIGUSR2 in it stop the job, too; else they are passed on (TERM, INT, HUP, QUIT stop "
     "it anyway)",
     SetSignalsToHandle},
    {OptionId::kAllowRunAsRoot, kNone, false, "--allow-run-as-root", "", "", kEnd,
     "root may run jobs", kNoEffect},
    {OptionId::kStopGrace, kRequired, false, "--grace --shutdown-timeout", "TIME",
     "PET_SHUTDOWN_TIMEOUT TORCH_ELASTIC_SHUTDOWN_TIMEOUT", kEnd,
     "from the stop signal to SIGKILL when the job is stopped (default 30 s; in a Slurm job 25 s, "
     "or "
     "nearly until its end; in a PBS job 8 s)",
     SetGrace},
    {OptionId::kRestartStopGrace, kRequired, false, "--restart-grace", "TIME", "", kEnd,
     "the same before a restart (default 30 s)", SetTime<&JobSpec::restart_grace>},
    {OptionId::kTellOfIdle, kRequired, false, "--tell-idle", "TIME", "", kEnd,
     "say so when no worker has run or written a line for so long (default 5 min; 0: never)",
     SetLimit<&JobSpec::tell_idle>},
    {OptionId::kTimeout, kRequired, true, "--timeout -timeout", "TIME", "MPIEXEC_TIMEOUT", kEnd,
     "stop after this: seconds, 90m, 1h30m or d:h:m:s; exit status 124",
     SetLimit<&JobSpec::timeout>},
    {OptionId::kReportState, kNone, false, "--report-state-on-timeout", "", "", kEnd,
     "when --timeout is over, name each worker that was still running",
     SetFlag<&JobSpec::report_state>},
    {OptionId::kReport, kRequired, false, "--report", "FILE|-", "", kEnd,
     "write how the job ended as JSON", SetText<&JobSpec::report_file>},
    {OptionId::kLeaseTime, kRequired, false, "--lease", "TIME", "", kEnd,
     "a node that is silent for so long is lost, 2 s later (default 5 s; with a journal 30 s)",
     SetLease},

    {OptionId::kLogPrefix, kRequired, true, "--log-prefix", "TEMPLATE",
     "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", kOutput,
     "in front of each line (default '[{rank}@{host}] '); also {local_rank}, {node_rank}, {role}, "
     "{stream}, {time}",
     SetLogPrefix},
    {OptionId::kLabel, kNone, false, "-l --label -prepend-rank --tag-output", "", "", kOutput,
     "prefix lines also when there is one worker", SetLabel},
    {OptionId::kNoPrefix, kNone, true, "--no-prefix", "", "", kOutput,
     "lines as the workers write them", SetNoPrefix},
    {OptionId::kTimestamps, kNone, false, "--timestamps --timestamp-output", "", "", kOutput,
     "the time in front of each line", SetTimestamps},
    {OptionId::kShow, kRequired, true, "--show", "RANKS", "", kOutput,
     "show only these ranks: 0,3-5", SetOutput<&OutputOptions::show, ParseRanks>},
    {OptionId::kShowLocal, kRequired, false, "--local-ranks-filter", "RANKS",
     "PET_LOCAL_RANKS_FILTER", kOutput, "show only these local ranks of each node",
     SetOutput<&OutputOptions::show_local, ParseRanks>},
    {OptionId::kLogDir, kRequired, true, "--log-dir", "DIR", "PET_LOG_DIR", kOutput,
     "one file for each rank, stream and round",
     [](const OptionValue& v, JobSpec& s) { return NotEmpty(v, s.plan.output.log_dir); }},
    {OptionId::kLogLayout, kRequired, false, "--log-layout", "muster|torchrun", "", kOutput,
     "how its files lie: JOB/round-N/rank-R.out, or as torchrun's "
     "ID_xxx/attempt_N/LOCAL_RANK/stdout.log",
     SetLogLayout},
    {OptionId::kOutputFilename, kRequired, false, "--output-filename -output-filename",
     "DIR[:nocopy,nojobid]", "", kOutput,
     "as mpirun has it: DIR/1/rank.N/stdout and stderr, and here; nocopy: only there; no DIR/1",
     SetOutputFilename},
    {OptionId::kOutFile, kRequired, false, "--outfile-pattern -outfile-pattern -outfile", "PATTERN",
     "", kOutput,
     "stdout of each worker to a file on its node only: %r rank, %h host, %p node's number",
     SetFilePattern<&OutputOptions::out_file>},
    {OptionId::kErrFile, kRequired, false, "--errfile-pattern -errfile-pattern -errfile", "PATTERN",
     "", kOutput, "the same for stderr", SetFilePattern<&OutputOptions::err_file>},
    {OptionId::kRedirects, kRequired, false, "-r --redirects", "STD", "PET_REDIRECTS", kOutput,
     "to files only: 1 stdout, 2 stderr, 3 both, or 0:3,1:2 by local rank",
     SetOutput<&OutputOptions::redirects, ParseStreams>},
    {OptionId::kTee, kRequired, false, "-t --tee", "STD", "PET_TEE", kOutput,
     "to files and here; same values", SetOutput<&OutputOptions::tee, ParseStreams>},
    {OptionId::kDuplicateStdoutFilters, kRequired, false, "--duplicate-stdout-filters", "WORDS",
     "PET_DUPLICATE_STDOUT_FILTERS", kOutput,
     "lines of stdout with one of these words, of all workers of a node, to one file of --log-dir, "
     "too: loss,accuracy",
     SetOutput<&OutputOptions::out_filters, ParseFilters>},
    {OptionId::kDuplicateStderrFilters, kRequired, false, "--duplicate-stderr-filters", "WORDS",
     "PET_DUPLICATE_STDERR_FILTERS", kOutput, "the same for stderr",
     SetOutput<&OutputOptions::err_filters, ParseFilters>},
    {OptionId::kLogsSpecs, kRequired, false, "--logs-specs", "NAME", "PET_LOGS_SPECS", kOutput,
     "--log-dir, --redirects and --tee say what is kept", kNoEffect},
    {OptionId::kOutputSpool, kRequired, false, "--output-spool", "SIZE", "", kOutput,
     "disk for output that waits for a slow reader, on each node (default 1G)",
     SetOutput<&OutputOptions::spool_bytes_max, ParseSize>},
    {OptionId::kOutputOverflow, kRequired, false, "--output-overflow", "block|drop", "", kOutput,
     "when that is full: workers wait (default), or lines are dropped and counted",
     SetOutputOverflow},
    {OptionId::kQuiet, kNone, false, "-q --quiet", "", "", kOutput, "say nothing but errors",
     SetFlag<&JobSpec::quiet>},
    {OptionId::kVerbose, kNone, false, "-v --verbose -verbose", "", "", kOutput,
     "say also how nodes start and meet", SetFlag<&JobSpec::verbose>},

    {OptionId::kPlan, kNone, true, "--plan --dry-run", "", "", kLook,
     "show nodes, ranks and commands, start nothing", SetFlag<&JobSpec::plan_only>},
    {OptionId::kExplainEnv, kOptional, true, "--explain-env", "RANK", "", kLook,
     "show each variable of a worker (rank 0) and why; start nothing", SetExplainEnv},
    {OptionId::kJson, kNone, false, "--json", "", "", kLook,
     "with --plan or --explain-env: as JSON", SetFlag<&JobSpec::json>},
    {OptionId::kYaml, kNone, false, "--yaml", "", "", kLook,
     "with --plan: as the file for --config that does the same", SetFlag<&JobSpec::yaml>},

    {OptionId::kSsh, kRequired, false, "--ssh -launcher-exec -bootstrap-exec", "PROGRAM", "",
     kSecurity, "the ssh to use (default ssh)", SetSsh},
    {OptionId::kSshArgs, kRequired, false, "--ssh-args", "WORDS", "", kSecurity,
     "options for it, as in --ssh-args='-p 2222'", AddSshArgs},
    {OptionId::kSecretFile, kRequired, false, "--secret-file --token-file", "FILE", "", kSecurity,
     "the job's secret (default ~/.config/muster/secret)", SetText<&JobSpec::secret_file>},
    {OptionId::kRdzvFingerprint, kRequired, false, "--rdzv-fingerprint", "SHA256:...",
     "MUSTER_RDZV_FINGERPRINT", kSecurity,
     "a site's daemon at --rdzv-endpoint has to have it (default: the one it had the first time)",
     [](const OptionValue& v, JobSpec& s) {
       ASSIGN_OR_RETURN(s.rendezvous.fingerprint, ParseFingerprint(v));
       return absl::OkStatus();
     }},
    {OptionId::kInsecure, kNone, false, "--insecure", "", "", kSecurity,
     "ask for no proof of the secret: anybody who reaches the port may join",
     SetFlag<&JobSpec::insecure>},

    {OptionId::kMpiSetting, kTwoWords, false, "--mca -mca --gmca -gmca --omca --prtemca --pmixmca",
     "KEY V", "", kElsewhere, "settings of Open MPI itself: without effect, which one line says",
     IgnoreSetting},
    {OptionId::kHwthreadCpus, kNone, false, "--use-hwthread-cpus", "", "", kElsewhere,
     "--bind-to hwthread gives each worker a hardware thread", kNoEffect},
    {OptionId::kDisplay, kRequired, false, "--display", "WHAT", "", kElsewhere, kSeePlan,
     kNoEffect},
    {OptionId::kDisplayFlag, kNone, false,
     "--display-map -display-map --display-allocation -display-allocation", "", "", kElsewhere,
     kSeePlan, kNoEffect},
    {OptionId::kLauncher, kRequired, false, "-launcher -bootstrap", "NAME", "", kElsewhere,
     "ssh: hosts are reached over ssh, or what --ssh names", CheckLauncher},
    {OptionId::kNoLauncher, kRequired, false,
     "-rmk -topolib -demux -usize -nameserver -pmi-port --personality --prefix --launch-agent", "X",
     "", kElsewhere, kOwnAgents, kNoEffect},
    {OptionId::kNoLauncherFlag, kNone, false,
     "-enable-x -disable-x -disable-hostname-propagation -enable-auto-cleanup", "", "", kElsewhere,
     kOwnAgents, kNoEffect},
    {OptionId::kExitCodes, kNone, false, "-print-all-exitcodes", "", "", kElsewhere,
     "--report FILE has the exit code of each worker whose end was not 0", kNoEffect},

    {OptionId::kHelp, kNone, true, "-h --help -help", "", "", kHelp, "this text", Shows},
    {OptionId::kHelpAll, kNone, true, "--help-all", "", "", kHelp,
     "every option; launch doctor, sweep, ps, stop and others", Shows},
    {OptionId::kVersion, kNone, true, "-V --version -version", "", "", kHelp, "name of this build",
     Shows},
};

}  // namespace

absl::Span<const OptionRow> OptionTable() { return kTable; }

const OptionRow& OptionOf(OptionId id) {
  const OptionRow& row = kTable[static_cast<size_t>(id)];
  CHECK(row.id == id);  // the table keeps the order of OptionId; a test walks it
  return row;
}

absl::string_view OptionName(OptionId id) {
  const absl::string_view names = OptionOf(id).names;
  return names.substr(0, names.find(' '));
}

}  // namespace muster
