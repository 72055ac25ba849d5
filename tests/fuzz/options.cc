// The command line, one word a line of the input, with a host file and a job file to read.
#include "launcher/options.h"

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "launcher/resolve.h"
#include "launcher/torchrun_words.h"
#include "proto/base/check.h"
#include "tests/fuzz/fuzz_target.h"

namespace muster::fuzz {
namespace {

Environment Given() {
  return {{"A", "a"},           {"PET_MAX_RESTARTS", "1"}, {"PET_NPROC_PER_NODE", "2"},
          {"PET_ROLE", "role"}, {"PET_STANDALONE", "0"},   {"PYTHON_EXEC", "python3"}};
}

absl::StatusOr<std::string> AFile(const std::string& path) {
  return path == "job.yaml" ? "nnodes: 2\nenv: {A: b}\ncommand: [p, q]\n" : "a slots=2\nb\n";
}

}  // namespace

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds = {
      "--nnodes 2:4 --nproc-per-node=16 --rdzv-endpoint node0:29400 -- p --x",
      "-n 4 -ppn 2 -hosts a,b -x A=1 -x B -genv C 2 -wdir /tmp p q",
      "-np4 -H a:2,b:2 --map-by slot:pe=2 --bind-to core --mca btl tcp --oversubscribe p",
      "--map-by ppr:2:node:oversubscribe -H a,b --rank-by slot -genvlist A,B p",
      "--hostfile h --exclude b --ssh ssh --ssh-args '-p 2' -q p.py",
      "--config job.yaml --max-restarts=3 -v --env B=c",
      "--standalone --nnodes 2 --nproc_per_node auto --log-dir l --redirects 3 --tee 0:1,1:2 p",
      "--show 0,2-3 --local-ranks-filter 0 --timestamps --log-prefix [{rank}@{host}] --grace 5 p",
      "--timeout 1:30 --restart-grace 1m --stdin 0 --local-addr 10.0.0.1 --iface 10.0.0.0/8 p",
      "--wrap 0:gdb --prologue x --stdin all --store agent --dialect slurm -m pkg.mod",
      "--rdzv-endpoint file:///shared/job --rdzv-conf join_timeout=5,last_call_timeout=1 p",
      "--master-addr a --master-port 29500 --node-rank 1 --nnodes 2 p",
      "--rdzv-endpoint [::1]:29400 --rdzv-id x --rdzv-backend c10d --run-path p",
      "-outfile-pattern o.%r.%h.%p -errfile-pattern e -label --env-none -iface eth0 p",
      "--output-spool 1G --output-overflow drop --report r --insecure --no-prefix p",
      "--signals-to-handle SIGTERM,SIGUSR1 --log-dir l --log-layout torchrun p",
      "--duplicate-stdout-filters loss,acc --duplicate-stderr-filters , p",
      "--output-filename d:nocopy,nojobid --on-failure continue p", "--output-filename :x p",
      "--signals-to-handle SIGKILL p", "--nproc-per-node xpu p", "--log-layout x p",
      "--plan --yaml p", "--explain-env=1 --json p", "--help", "--help-all", "--version",
      // What is wrong, in one way each.
      "--nnode 2 p", "--nnodes 3:2 p", "--nnodes=", "--quiet=1 p", "-n -x p", "ps",
      "--nproc-per-node 0 p", "--grace 1y p", "--timeout 1:2:3:4:5 p", "--grace 99999999h p",
      "--rdzv-conf timeout=0,is_host=2 p", "--rdzv-conf join_timeout p", "--rdzv-endpoint file:x p",
      "--rdzv-endpoint a:99999 p", "--master-port 80 p", "--master-addr a:1 p", "--dialect smoke p",
      "--log-prefix {x} p", "--output-spool 5x p", "--tee 4:5 p", "--show 5-3 p",
      "--stdin 99999999 p", "--iface a/b/c p", "--wrap gdb p", "--wrap 0: p", "--ssh-args 'a p",
      "--map-by node p", "-genvlist A=1 p", "--no-python -m p", "-outfile-pattern %x p",
      "--standalone --hosts a p", "--nproc-per-node gpu --max-restarts x p",
      "--rdzv-backend etcd p", "-launcher slurm p", "-genv A", "-qv p", "p : -n 2 q",
      // Several programs, places of ranks, limits, jobs that go on.
      "-n 1 -genv A 1 p x : -n 2 -x B=2 -x C -wdir d -env D 4 q : -n 1 -m mod",
      "-n 1 -H a p : -n 1 -H b -envlist A,B q", "-configfile h", "--rankfile h -n 2 p",
      "--propagate all p", "--propagate none p", "--propagate core,nofile=10,stack=unlimited p",
      "--propagate x=y p", "--detach --name work --job-log 1M p", "--name a/b p", "--job-log 1 p",
      "--port-range 20000-20100 --proctable t p", "--port-range 0:0 p", "--port-range 80-90 p",
      "--port-range x p", "--pty 1 -n 2 p", "--gdb 0 p", "--pty x p", "--pty 0 --detach p",
      "-x =1 p", "-x A= p", "-genv A p", "--wdir d -hosts a,,b p", "-n 2 p : q",
      "-n 1 p :", "--explain-env=x p", "--ssh '' p", "--label p", "--output-overflow lose p",
      "--store disk p", "--local-addr x p", "--node-rank -1 p", "--nnodes 2 --total 3 p",
      "--node-rank 9999999 p", "--nproc=4 --nnod 2 --node_rank 1 -t3 --log_dir l t : x",
      "--rdzv_b c10d --node_rank 0 --rdzv_e a:2000 --nnodes 2 --run_path --no_python t"};
  for (std::string& seed : seeds) {
    seed = absl::StrReplaceAll(seed, {{" ", "\n"}});
  }
  return seeds;
}

namespace {

void Parse(const std::vector<std::string>& words) {
  auto command = ParseCommandLine(words, Given(), AFile);
  if (!command.ok()) {
    CHECK(absl::IsInvalidArgument(command.status()) && !command.status().message().empty());
  } else if (command->action == CommandAction::kRun) {
    const absl::Status resolved = ResolveHosts(command->spec, AFile);
    CHECK(resolved.ok() || absl::IsInvalidArgument(resolved));
  }
}

}  // namespace

void Run(absl::string_view bytes) {
  const std::vector<std::string> words = absl::StrSplit(bytes, '\n');
  Parse(words);
  const absl::StatusOr<TorchrunWords> told = FromTorchrun(words, Given());
  CHECK(told.ok() || absl::IsInvalidArgument(told.status()));
  if (told.ok()) {
    Parse(told->words);
  }
}

}  // namespace muster::fuzz
