#include "launcher/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "proto/base/build_info.h"
#include "proto/base/limit_names.h"
#include "proto/base/limits.h"
#include "tests/launcher/spec_of.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
TEST(OptionTable, KeepsTheOrderOfIdsAndNoNameTwice) {
  std::set<std::string> names;
  std::set<std::string> variables;
  size_t place = 0;
  for (const OptionRow& row : OptionTable()) {
    EXPECT_EQ(static_cast<size_t>(row.id), place++) << row.names;
    for (absl::string_view name : absl::StrSplit(row.names, ' ')) {
      EXPECT_TRUE(names.insert(std::string(name)).second) << name;
      EXPECT_EQ(name[0], '-');
      EXPECT_FALSE(absl::StrContains(name, '_')) << name << ": could never be typed";
    }
    for (absl::string_view name : absl::StrSplit(row.environment, ' ', absl::SkipEmpty())) {
      EXPECT_TRUE(variables.insert(std::string(name)).second) << name;
    }
    EXPECT_EQ(row.kind == ArgumentKind::kNone, row.value_name[0] == '\0') << row.names;
  }
  EXPECT_EQ(place, static_cast<size_t>(OptionId::kVersion) + 1);
}

TEST(Environment, TheFirstVariableThatIsSetCounts) {
  EXPECT_EQ(Ok({"p"}, {{"MPICH_PORT_RANGE", "20000:20100"}}).plan.ports.Text(), "20000-20100");
  const Environment all = {{"MPIEXEC_PORT_RANGE", ""},
                           {"MPIR_CVAR_CH3_PORT_RANGE", "30000:30100"},
                           {"MPICH_PORT_RANGE", "x"}};
  const JobSpec spec = Ok({"p"}, all);
  EXPECT_EQ(spec.plan.ports.low, 30000);
  EXPECT_EQ(spec.Said(OptionId::kPortRange), "MPIR_CVAR_CH3_PORT_RANGE=30000:30100 (environment)");
  EXPECT_EQ(Ok({"--port-range", "40000-40001", "p"}, all).plan.ports.low, 40000);
  EXPECT_THAT(Error({"p"}, {{"MPICH_PORT_RANGE", "x"}}), HasSubstr("MPICH_PORT_RANGE: want LOW"));
}

// Every option of torchrun that a script may carry, in both spellings, with its PET_ variable.
TEST(CommandLine, TakesTorchrunsOptions) {
  struct Row {
    const char* name;
    const char* value;  // "" for a flag
    OptionId id;
  };
  const Row rows[] = {{"nnodes", "2", OptionId::kNnodes},
                      {"nproc-per-node", "3", OptionId::kNprocPerNode},
                      {"rdzv-backend", "c10d", OptionId::kRdzvBackend},
                      {"rdzv-endpoint", "a:2000", OptionId::kRdzvEndpoint},
                      {"rdzv-id", "j", OptionId::kRdzvId},
                      {"rdzv-conf", "join_timeout=5", OptionId::kRdzvConf},
                      {"standalone", "", OptionId::kStandalone},
                      {"max-restarts", "3", OptionId::kMaxRestarts},
                      {"monitor-interval", "0.1", OptionId::kMonitorInterval},
                      {"role", "r", OptionId::kRole},
                      {"module", "", OptionId::kModule},
                      {"no-python", "", OptionId::kNoPython},
                      {"run-path", "", OptionId::kRunPath},
                      {"log-dir", "d", OptionId::kLogDir},
                      {"redirects", "3", OptionId::kRedirects},
                      {"tee", "0:3", OptionId::kTee},
                      {"node-rank", "1", OptionId::kNodeRank},
                      {"master-addr", "a", OptionId::kMasterAddr},
                      {"master-port", "2000", OptionId::kMasterPort},
                      {"local-addr", "a", OptionId::kLocalAddr},
                      {"start-method", "spawn", OptionId::kStartMethod},
                      {"event-log-handler", "null", OptionId::kEventLogHandler},
                      {"signals-to-handle", "SIGTERM,SIGINT", OptionId::kSignalsToHandle},
                      {"virtual-local-rank", "", OptionId::kVirtualLocalRank},
                      {"numa-binding", "node", OptionId::kNumaBinding},
                      {"local-ranks-filter", "0,2", OptionId::kShowLocal},
                      {"duplicate-stdout-filters", "loss", OptionId::kDuplicateStdoutFilters},
                      {"duplicate-stderr-filters", "loss", OptionId::kDuplicateStderrFilters},
                      {"logs-specs", "default", OptionId::kLogsSpecs},
                      {"shutdown-timeout", "7", OptionId::kStopGrace}};
  for (const Row& row : rows) {
    std::string under = row.name;
    std::replace(under.begin(), under.end(), '-', '_');
    const bool flag = row.value[0] == '\0';
    for (const std::string& name : {absl::StrCat("--", row.name), absl::StrCat("--", under)}) {
      const JobSpec apart = Ok(flag ? Args{name, "prog"} : Args{name, row.value, "prog"});
      EXPECT_EQ(apart.given.at(row.id).name, name);
      EXPECT_EQ(apart.given.at(row.id).value, row.value);
      EXPECT_EQ(apart.program, "prog");
      if (!flag) {
        EXPECT_TRUE(Ok({absl::StrCat(name, "=", row.value), "prog"}).Has(row.id)) << name;
      }
    }
    const std::string variable = absl::StrCat("PET_", absl::AsciiStrToUpper(under));
    const JobSpec from_environment = Ok({"prog"}, {{variable, flag ? "1" : row.value}});
    ASSERT_TRUE(from_environment.Has(row.id)) << variable;
    EXPECT_TRUE(from_environment.given.at(row.id).by_environment);
  }
}

// Accepted for the sake of commands from elsewhere; the user hears that, and why, in one line.
TEST(CommandLine, WhatHasNoEffectIsSaid) {
  EXPECT_THAT(
      Ok({"--start_method", "fork", "p"}).notes,
      ElementsAre("--start_method has no effect: workers are always programs of their own"));
  EXPECT_THAT(Ok({"p"}, {{"PET_LOGS_SPECS", "default"}}).notes,
              ElementsAre("PET_LOGS_SPECS has no effect: --log-dir, --redirects and --tee say what "
                          "is kept"));
  EXPECT_THAT(Ok({"p"}).notes, ElementsAre());
  for (const OptionRow& row : OptionTable()) {
    if (row.set == nullptr) {
      const JobSpec spec = row.kind == ArgumentKind::kNone
                               ? Ok({std::string(OptionName(row.id)), "p"})
                               : Ok({std::string(OptionName(row.id)), "x", "p"});
      EXPECT_THAT(spec.notes, ElementsAre(HasSubstr(row.help))) << row.names;
    }
  }
}

TEST(CommandLine, WhoIsStartedAgain) {
  EXPECT_EQ(Ok({"p"}).restart, RestartMode::kAll);
  EXPECT_EQ(Ok({"--restart", "one", "p"}).restart, RestartMode::kOne);
  EXPECT_EQ(Ok({"--restart=never", "p"}).restart, RestartMode::kNever);
  EXPECT_THAT(Error({"--restart", "some", "p"}),
              HasSubstr("--restart: want all, one, never, got 'some'"));
}

TEST(CommandLine, TheLease) {
  EXPECT_EQ(Ok({"p"}).lease, std::nullopt);
  EXPECT_EQ(Ok({"--lease", "1", "p"}).lease, absl::Seconds(1));
  EXPECT_EQ(Ok({"--lease=1h", "p"}).lease, absl::Hours(1));
  for (const char* bad : {"0", "999ms", "3601"}) {
    EXPECT_THAT(Error({"--lease", bad, "p"}), HasSubstr(absl::StrCat("got '", bad, "'")));
    EXPECT_THAT(Error({"--lease", bad, "p"}), HasSubstr("--lease: want a time from 1 s to 1 h"));
  }
}

TEST(CommandLine, WhatRestartsMayCost) {
  EXPECT_EQ(Ok({"p"}).restart_rules, RestartRules());
  const RestartRules rules =
      Ok({"--restart-window", "10m", "--restarts-per-rank", "2", "--restarts-per-node=0",
          "--restart-wait", "500ms", "--restart-wait-max", "1m", "--bad-node-after", "5",
          "--bad-node-for", "1h", "--on-exit", "code=75:restart-free", "p"})
          .restart_rules;
  EXPECT_EQ(rules.window, absl::Minutes(10));
  EXPECT_EQ(rules.of_rank, 2u);
  EXPECT_EQ(rules.of_node, 0u);
  EXPECT_EQ(rules.wait_first, absl::Milliseconds(500));
  EXPECT_EQ(rules.wait_max, absl::Minutes(1));
  EXPECT_EQ(rules.bad_node_after, 5u);
  EXPECT_EQ(rules.bad_node_for, absl::Hours(1));
  EXPECT_EQ(rules.on_exit,
            (std::vector<ExitRule>{{ExitMatch::kCode, {75}, ExitAction::kRestartFree}}));
  const std::pair<const char*, const char*> bad[] = {
      {"75:stop",
       "--on-exit: want code=..., signal=..., oom or node-lost in front of the colon, "
       "got '75:stop'"},
      {"oom", "--on-exit: want MATCH:ACTION, as in code=75:restart-free, "},
      {"code=256:stop", "--on-exit: want exit codes of 1..255, as in code=3,64-78"},
      {"code=:stop", "--on-exit: want exit codes of 1..255"},
      {"signal=NONE:stop", "--on-exit: want names of signals, as in signal=SIGBUS,SIGSEGV"},
      {"oom:ignore", "--on-exit: want stop, restart, restart-free or replace-node behind the "}};
  for (const auto& [text, says] : bad) {
    EXPECT_THAT(Error({"--on-exit", text, "p"}), HasSubstr(says));
  }
  Args many;
  for (size_t i = 0; i <= kExitRulesMax; ++i) {
    many.insert(many.end(), {"--on-exit", "oom:stop"});
  }
  many.emplace_back("p");
  EXPECT_THAT(Error(many), HasSubstr("--on-exit: want at most 64 rules"));
}

TEST(CommandLine, OthersGoOnAfterAFailureWhereTheUserSaysSo) {
  EXPECT_EQ(Ok({"p"}).on_failure, OnFailure::kStop);
  EXPECT_EQ(Ok({"--on-failure", "continue", "p"}).on_failure, OnFailure::kContinue);
  EXPECT_EQ(Ok({"--on_failure=stop", "p"}).on_failure, OnFailure::kStop);
  for (const char* name :
       {"--continuous", "--enable-recovery", "-disable-auto-cleanup", "--no-kill"}) {
    EXPECT_EQ(Ok({name, "p"}).on_failure, OnFailure::kContinue) << name;
  }
  EXPECT_THAT(Error({"--on-failure", "ignore", "p"}),
              HasSubstr("--on-failure: want stop, continue, got 'ignore'"));
}

TEST(CommandLine, UserSignalsStopTheJobWhereTheUserSaysSo) {
  EXPECT_THAT(Ok({"p"}).plan.stop_signals, IsEmpty());
  EXPECT_THAT(Ok({"--signals-to-handle", "SIGTERM,SIGUSR2", "p"}).plan.stop_signals,
              ElementsAre(SIGUSR2));
  EXPECT_THAT(Ok({"--signals-to-handle", "USR2,SIGUSR1,SIGUSR2", "p"}).plan.stop_signals,
              ElementsAre(SIGUSR2, SIGUSR1));
  EXPECT_THAT(Ok({"p"}, {{"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGUSR1"}}).plan.stop_signals,
              ElementsAre(SIGUSR1));
  EXPECT_THAT(Error({"--signals-to-handle", "SIGTERM,SIGKILL", "p"}),
              HasSubstr("--signals-to-handle: want a list of SIGTERM, SIGINT, SIGHUP, SIGQUIT, "
                        "SIGUSR1, SIGUSR2, got 'SIGKILL'"));
}

TEST(CommandLine, TorchrunsTemplateOfPrefixes) {
  const Environment theirs = {
      {"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "[${role_name}${local_rank}]:"}};
  EXPECT_EQ(Ok({"p"}, theirs).plan.output.prefix_template, "[{role}{local_rank}]:");
  EXPECT_EQ(Ok({"--no-prefix", "p"}, theirs).prefix, false);
  EXPECT_EQ(Ok({"--log-prefix", "$role_name-$rank:", "p"}).plan.output.prefix_template,
            "{role}-{rank}:");
}

TEST(CommandLine, O1TheProgramTakesTheRest) {
  const JobSpec spec = Ok({"-n", "2", "prog", "--nnodes", "7", "-h", "--"});
  EXPECT_EQ(spec.program, "prog");
  EXPECT_THAT(spec.arguments, ElementsAre("--nnodes", "7", "-h", "--"));
  EXPECT_THAT(spec.plan.argv, ElementsAre("prog", "--nnodes", "7", "-h", "--"));
  EXPECT_EQ(Ok({"--", "-x"}).program, "-x");
  EXPECT_EQ(Ok({"--", "--", "a"}).program, "--");
  EXPECT_THAT(Error({}), HasSubstr("launch -n 4 ./prog"));
  EXPECT_THAT(Error({"-n", "2", "--"}), HasSubstr("no program"));
}

TEST(CommandLine, O2ValuesAttachedAndApart) {
  EXPECT_EQ(*Ok({"-n4", "p"}).total, 4u);
  EXPECT_EQ(*Ok({"-np", "4", "p"}).total, 4u);
  EXPECT_EQ(*Ok({"--np=4", "p"}).total, 4u);
  EXPECT_EQ(Ok({"-t3", "p"}).plan.output.tee.all, 3);
  EXPECT_EQ(*Ok({"-ppn", "4", "p"}).per_node, 4u);
  EXPECT_THAT(Error({"-n"}), HasSubstr("-n: want N after it, got nothing"));
  EXPECT_THAT(Error({"--hosts", "--nnodes", "2", "p"}),
              HasSubstr("--hosts: want LIST after it, got the option '--nnodes'"));
  EXPECT_THAT(Error({"--standalone=1", "p"}), HasSubstr("--standalone: takes no value, got '1'"));
  EXPECT_EQ(*Ok({"--explain-env", "p"}).explain_env, 0u);
  EXPECT_EQ(*Ok({"--explain-env=5", "p"}).explain_env, 5u);
}

TEST(CommandLine, O3CommandLineThenEnvironmentThenDefault) {
  EXPECT_EQ(Ok({"p"}).max_restarts, 0u);
  EXPECT_EQ(Ok({"p"}, {{"PET_MAX_RESTARTS", "2"}}).max_restarts, 2u);
  EXPECT_EQ(Ok({"--max-restarts", "3", "p"}, {{"PET_MAX_RESTARTS", "bad"}}).max_restarts, 3u);
  EXPECT_FALSE(Ok({"p"}, {{"PET_STANDALONE", "0"}}).Has(OptionId::kStandalone));
  EXPECT_FALSE(Ok({"p"}, {{"PET_NNODES", ""}}).Has(OptionId::kNnodes));
  EXPECT_THAT(Error({"p"}, {{"PET_NNODES", "x"}}), HasSubstr("PET_NNODES: want N or MIN:MAX"));
  EXPECT_EQ(Ok({"p"}, {{"MPIEXEC_TIMEOUT", "60"}}).timeout, absl::Minutes(1));
  EXPECT_EQ(Ok({"p"}, {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "9"}}).plan.grace, absl::Seconds(9));
  const JobSpec displaced = Ok({"-n", "2", "p"}, {{"PET_NPROC_PER_NODE", "7"}});
  EXPECT_FALSE(displaced.Has(OptionId::kNprocPerNode));
  EXPECT_THAT(displaced.notes,
              ElementsAre("PET_NPROC_PER_NODE=7 in the environment is not used: -n was given"));
  const JobSpec insecure = Ok({"--insecure", "p"}, {{"MUSTER_RDZV_FINGERPRINT", "SHA256:x"}});
  EXPECT_FALSE(insecure.Has(OptionId::kRdzvFingerprint));  // a site has it for all jobs
}

TEST(CommandLine, O4LastWinsOrAdds) {
  EXPECT_EQ(*Ok({"-n", "2", "-n", "3", "p"}).total, 3u);
  const JobSpec spec = Ok({"--host", "a", "-H", "b:2", "-x", "A=1", "-x", "B=2", "--ssh-args=-p 1",
                           "--ssh-args", "-v", "p"});
  EXPECT_THAT(spec.hosts_texts, ElementsAre("a", "b:2"));
  EXPECT_EQ(spec.Said(OptionId::kHosts), "-H a,b:2");
  EXPECT_THAT(spec.plan.env_set, ElementsAre("A=1", "B=2"));
  EXPECT_THAT(spec.ssh, ElementsAre("ssh", "-p", "1", "-v"));
  EXPECT_THAT(Ok({"--ssh-args=-4", "--ssh", "myssh -F 'my conf'", "p"}).ssh,
              ElementsAre("myssh", "-F", "my conf", "-4"));
}

TEST(CommandLine, SaysWhereAValueCameFrom) {
  const JobSpec spec = Ok({"--nproc_per_node=4", "--standalone", "p"}, {{"PET_NNODES", "2"}});
  EXPECT_EQ(spec.Said(OptionId::kNprocPerNode), "--nproc_per_node 4");
  EXPECT_EQ(spec.Said(OptionId::kStandalone), "--standalone");
  EXPECT_EQ(spec.Said(OptionId::kNnodes), "PET_NNODES=2 (environment)");
  EXPECT_EQ(spec.Said(OptionId::kTotal), "-n");
}

TEST(CommandLine, LimitsToPropagate) {
  EXPECT_THAT(Ok({"--propagate", "CORE,nofile,core", "p"}).propagate,
              ElementsAre("core", "nofile"));
  EXPECT_THAT(Ok({"--propagate=none", "p"}).propagate, IsEmpty());
  EXPECT_THAT(Ok({"p"}).propagate, IsEmpty());
  EXPECT_EQ(Ok({"--propagate", "all", "p"}).propagate.size(), std::size(kLimitNames));
  EXPECT_THAT(Error({"--propagate", "core,cores", "p"}),
              HasSubstr("--propagate: want all, none, or a list of as, core, cpu,"));
  EXPECT_THAT(Error({"--propagate", "core,cores", "p"}), HasSubstr("got 'cores'"));
}

TEST(CommandLine, UnknownOptionsGetAHint) {
  const std::pair<const char*, const char*> hints[] = {
      {"--nproc-per-nod", "did you mean --nproc-per-node?"},
      {"--nnode", "did you mean --nnodes?"},
      {"--nproc", "did you mean --nproc-per-node?"},
      {"--nporc", "did you mean --nproc-per-node?"},
      {"--max_restart", "did you mean --max-restarts?"},
      {"-nhosts", "did you mean --hosts?"},
      {"--hostsfile", "did you mean --hostfile?"},
      {"-N", "say --nproc-per-node or --nnodes"},
      {"-skip-launch-node", "with --exclude"},
      {"-rankmap", "say --rankfile FILE"},
      {"--include", "name the hosts"},
      {"-K", "a failure ends the job anyway"},
      {"--gpus-per-node", "give it to sbatch, salloc or qsub"},
      {"--rankfil", "did you mean --rankfile?"},
      {"--configfil", "did you mean --configfile?"}};
  for (const auto& [name, hint] : hints) {
    const std::string error = Error({name, "2", "p"});
    EXPECT_THAT(error, HasSubstr(absl::StrCat("unknown option '", name, "'; ")));
    EXPECT_THAT(error, HasSubstr(hint));
    EXPECT_THAT(error, HasSubstr("launch --help"));
  }
  EXPECT_THAT(Error({"--zebra", "p"}), HasSubstr("unknown option '--zebra' ('launch --help'"));
  EXPECT_THAT(Error({"-z", "p"}), HasSubstr("unknown option '-z' ("));
}

TEST(CommandLine, SubCommandsOnlyAsFirstWord) {
  EXPECT_THAT(Error({"top"}), HasSubstr("launch -- top"));
  EXPECT_THAT(Error({"trace", "--all"}), HasSubstr("launch -- trace"));
  EXPECT_EQ(Ok({"--", "ps"}).program, "ps");
  EXPECT_EQ(Ok({"./ps"}).program, "./ps");
  EXPECT_EQ(Ok({"-n", "2", "ps"}).program, "ps");
}

TEST(CommandLine, DetachedJobs) {
  const JobSpec spec = Ok({"--detach", "--name", "night-1.a", "--job-log=1M", "p"});
  EXPECT_TRUE(spec.detach);
  EXPECT_EQ(spec.job_name, "night-1.a");
  EXPECT_EQ(spec.job_log_bytes_max, 1u << 20);
  for (const char* name : {"", "a b", "-a", "a/b", "\xc3\xa4"}) {
    EXPECT_THAT(Error({absl::StrCat("--name=", name), "p"}), HasSubstr("--name: want 1 to 64"));
  }
  EXPECT_EQ(Error({"--job-log", "63K", "p"}),
            "--job-log: want 64K or more (default 64M), got '63K'");
}

TEST(CommandLine, HelpAndVersionWinOverWhatFollows) {
  EXPECT_EQ(ParseCommandLine({"--help", "--nonsense"}, {})->action, CommandAction::kHelp);
  EXPECT_EQ(ParseCommandLine({"-n", "2", "--help-all"}, {})->action, CommandAction::kHelpAll);
  EXPECT_EQ(ParseCommandLine({"--version"}, {{"PET_NNODES", "bad"}})->action,
            CommandAction::kVersion);
  EXPECT_EQ(ParseCommandLine({"p", "--help"}, {})->action, CommandAction::kRun);
}

TEST(Program, PythonFilesModulesAndOthers) {
  EXPECT_THAT(Ok({"train.py", "-x"}).plan.argv, ElementsAre("python3", "-u", "train.py", "-x"));
  EXPECT_THAT(Ok({"-m", "pkg.mod", "a"}).plan.argv,
              ElementsAre("python3", "-u", "-m", "pkg.mod", "a"));
  EXPECT_THAT(Ok({"--no-python", "train.py"}).plan.argv, ElementsAre("train.py"));
  EXPECT_THAT(Ok({"--run-path", "train"}).plan.argv, ElementsAre("python3", "-u", "train"));
  EXPECT_THAT(Ok({"python3", "train.py"}).plan.argv, ElementsAre("python3", "train.py"));
  EXPECT_THAT(Ok({"train.py"}, {{"PYTHON_EXEC", "/opt/py"}}).plan.argv,
              ElementsAre("/opt/py", "-u", "train.py"));
  EXPECT_THAT(Ok({"dir with space/a.py"}).plan.argv,
              ElementsAre("python3", "-u", "dir with space/a.py"));
}

TEST(ForwardedVariables, KeepEveryByte) {
  const Environment environment = {{"A", "1\n2\xff"}, {"PX_1", "x"}, {"PX_2", ""}, {"Q", "q"}};
  EXPECT_THAT(Ok({"-x", "A", "-x", "PX_*", "-x", "N=v=w", "p"}, environment).plan.env_set,
              ElementsAre("A=1\n2\xff", "PX_1=x", "PX_2=", "N=v=w"));
  const JobSpec missing = Ok({"-x", "NOPE", "p"}, environment);
  EXPECT_THAT(missing.plan.env_set, IsEmpty());
  EXPECT_THAT(missing.notes, ElementsAre(HasSubstr("-x NOPE: not set here")));
  EXPECT_THAT(Error({"-x", "=1", "p"}), HasSubstr("-x: want NAME=VALUE"));
  EXPECT_THAT(Error({"-x", "A*B", "p"}), HasSubstr("-x: want NAME=VALUE"));
}

TEST(Values, PmixIsServedWhereItWasBuilt) {
  if (BuiltWithPmix()) {
    EXPECT_EQ(Ok({"--mpi", "pmix", "p"}).plan.mpi, MpiMode::kPmix);
  } else {
    EXPECT_THAT(Error({"--mpi", "pmix", "p"}), HasSubstr("--mpi pmix: this launch was built"));
  }
}

TEST(Values, ReachTheirFields) {
  const JobSpec spec = Ok({"--nproc-per-node",
                           "auto",
                           "--rdzv-conf",
                           "join_timeout=7,last_call_timeout=1,is_host=0,timeout=9,x=y",
                           "--stdin",
                           "all",
                           "--store",
                           "worker",
                           "--mpi",
                           "pmi1",
                           "--dialect",
                           "torch,slurm,pmi,deepspeed",
                           "--output-spool",
                           "2G",
                           "--output-overflow=drop",
                           "--show",
                           "0,2-3",
                           "--timeout",
                           "1:00",
                           "--restart-grace",
                           "1",
                           "--log-prefix",
                           "[${role_name}${rank}]:",
                           "--iface",
                           "10.0.0.0/8",
                           "-q",
                           "p"});
  EXPECT_EQ(spec.plan.workers_wanted, WorkersWanted::kAuto);
  EXPECT_EQ(spec.rendezvous.join_timeout, absl::Seconds(7));
  EXPECT_EQ(spec.rendezvous.last_call, absl::Seconds(1));
  EXPECT_EQ(spec.rendezvous.is_host, false);
  EXPECT_EQ(spec.rendezvous.conf.at("x"), "y");
  EXPECT_EQ(spec.plan.stdin_mode, StdinMode::kAll);
  EXPECT_EQ(spec.plan.store, StoreMode::kWorker);
  EXPECT_EQ(spec.plan.mpi, MpiMode::kPmi1);
  EXPECT_THAT(spec.plan.dialects, ElementsAre("slurm", "pmi", "deepspeed"));
  EXPECT_EQ(spec.plan.output.spool_bytes_max, uint64_t{2} << 30);
  EXPECT_EQ(spec.plan.output.overflow, OverflowMode::kDrop);
  EXPECT_THAT(spec.plan.output.show, ElementsAre(0, 2, 3));
  EXPECT_EQ(spec.timeout, absl::Minutes(1));
  EXPECT_EQ(spec.restart_grace, absl::Seconds(1));
  EXPECT_EQ(spec.plan.output.prefix_template, "[{role}{rank}]:");
  EXPECT_EQ(spec.prefix, true);
  EXPECT_EQ(spec.plan.iface, "10.0.0.0/8");
  EXPECT_TRUE(spec.quiet);
}

TEST(Values, WrappersAndProloguesAdd) {
  const JobSpec spec = Ok({"--wrap", "1-3:perf record -o 'perf {rank}'", "--wrap=0,2:gdb:x",
                           "--prologue", "module load a", "--prologue", "ulimit -n 9", "p", "a"});
  ASSERT_EQ(spec.plan.wraps.size(), 2u);
  EXPECT_THAT(spec.plan.wraps[0].ranks, ElementsAre(1, 2, 3));
  EXPECT_THAT(spec.plan.wraps[0].argv, ElementsAre("perf", "record", "-o", "perf {rank}"));
  EXPECT_THAT(spec.plan.wraps[1].ranks, ElementsAre(0, 2));
  EXPECT_THAT(spec.plan.wraps[1].argv, ElementsAre("gdb:x"));
  EXPECT_EQ(spec.plan.prologue, "module load a\nulimit -n 9");
  EXPECT_THAT(spec.plan.argv, ElementsAre("p", "a"));  // what is looked at before the start
}

TEST(Values, HaveDefaults) {
  const JobSpec spec = Ok({"p"});
  EXPECT_EQ(spec.plan.workers, 1u);
  EXPECT_EQ(spec.plan.grace, kGrace);
  EXPECT_EQ(spec.plan.output.spool_bytes_max, kOutputSpoolMax);
  EXPECT_EQ(spec.timeout, absl::InfiniteDuration());
  EXPECT_EQ(Ok({"--timeout", "0", "p"}).timeout, absl::InfiniteDuration());
  EXPECT_EQ(spec.prefix, std::nullopt);
  EXPECT_EQ(Ok({"--no-prefix", "p"}).prefix, false);
  EXPECT_THAT(spec.given, IsEmpty());
}

struct Bad {
  const char* name;
  const char* value;
  const char* says;
};
class BadValue : public testing::TestWithParam<Bad> {};

TEST_P(BadValue, NamesFlagLimitAndValue) {
  const std::string error = Error({GetParam().name, GetParam().value, "p"});
  EXPECT_TRUE(absl::StartsWith(error, GetParam().name)) << error;
  EXPECT_THAT(error, HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    Options, BadValue,
    testing::Values(
        Bad{"--nproc-per-node", "0", "want 1..4096, auto, cpu or gpu, got '0'"},
        Bad{"--nproc-per-node", "xpu", "got 'xpu'"}, Bad{"--nnodes", "0", "got '0'"},
        Bad{"--nnodes", "4:2", "got '4:2'"}, Bad{"--nnodes", "1:", "got '1:'"},
        Bad{"--nnodes", "99999", "<= 16384"}, Bad{"-n", "0", "want 1..1048576"},
        Bad{"-ppn", "5000", "want 1..4096"}, Bad{"--hosts", "a,,b", "empty"},
        Bad{"--hosts", "a:x", "got 'x'"}, Bad{"--rdzv-endpoint", "a:b:c", "HOST:PORT"},
        Bad{"--rdzv-backend", "etcd-v2", "no etcd is needed"},
        Bad{"--rdzv-backend", "zeus", "want c10d or static"}, Bad{"--rdzv-conf", "a", "key=value"},
        Bad{"--rdzv-conf", "join_timeout=x", "got 'x'"},
        Bad{"--rdzv-conf", "join_timeout=0", "above 0"}, Bad{"--node-rank", "-1", "got '-1'"},
        Bad{"--master-addr", "a:2000", "--master-port"}, Bad{"--master-port", "22", "got '22'"},
        Bad{"--master-port", "70000", "got '70000'"}, Bad{"--max-restarts", "-1", "got '-1'"},
        Bad{"--stdin", "some", "a rank, none or all"}, Bad{"--store", "x", "auto, agent, worker"},
        Bad{"--mpi", "pmi2", "auto, pmi1, pmix, none"},
        Bad{"--log-layout", "x", "muster, torchrun"},
        Bad{"--dialect", "slurm,klingon", "got 'klingon'"}, Bad{"--log-prefix", "{who}", "{rank}"},
        Bad{"--log-prefix", "{rank", "{rank}"}, Bad{"--show", "x", "0,3-5"},
        Bad{"--wrap", "valgrind", "RANKS:CMD"}, Bad{"--wrap", "x:valgrind", "0,3-5"},
        Bad{"--wrap", "0: ", "a command behind the ranks"},
        Bad{"--wrap", "0:'x", "every quote closed"}, Bad{"--prologue", "", "lines of sh"},
        Bad{"--redirects", "4", "3 both"}, Bad{"--output-spool", "x", "bytes"},
        Bad{"--output-overflow", "x", "block, drop"}, Bad{"--timeout", "x", "d:h:m:s"},
        Bad{"--grace", "-1", "got '-1'"}, Bad{"--iface", "a b", "eth0"},
        Bad{"--iface", "10.0.0.0/999", "eth0"}, Bad{"--role", "", "not empty"},
        Bad{"--wdir", "", "not empty"}, Bad{"--ssh", " ", "a program"},
        Bad{"--ssh-args", "'x", "every quote closed"}));

// What it may have been meant to be is not looked for at length.
TEST(CommandLine, AWordOfAMillionBytesIsRefusedAtOnce) {
  EXPECT_THAT(Error({"--" + std::string(1 << 20, 'x'), "p"}), HasSubstr("unknown option"));
}

}  // namespace
}  // namespace muster
