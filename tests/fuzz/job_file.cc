// The job file of --config: any text is read or refused, and what is read is written and read again
// as the same (J3).
#include "launcher/job_file.h"

#include "launcher/job_file_writer.h"
#include "launcher/options.h"
#include "proto/base/check.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/launcher/described.h"

namespace muster::fuzz {
namespace {

absl::StatusOr<ParsedCommand> Parse(const std::string& text) {
  return ParseCommandLine({"--config", "job.yaml"}, {},
                          [&](const std::string&) { return absl::StatusOr<std::string>(text); });
}

}  // namespace

std::vector<std::string> Seeds() {
  return {"nnodes: 2\nhosts: [a:4, 'b']\nenv: {A: 1, B: }\ncommand: [p, \"x\\n\", 'y']\n",
          "# c\n---\nnproc_per_node: auto\nssh-args:\n  - -p\n  - \"2 2\"\ncommand: >-\n  a\n"
          "  b\n...\n",
          "wdir: &x |+\n  a\n\n  b\nrole: *x\n? timeout\n: 1:30\nmodule: true\ncommand: a 'b c'\n",
          "verbose: true\nquiet: false\nmax-restarts: 3\nwrap: ['0:gdb', '1-3:perf record']\n"
          "prologue: |\n  module load x\n  y\ncommand: p\n",
          "hosts: [a, b]\nnodes:\n  a: {env: {A: 1}, wdir: /x, iface: eth0}\n"
          "  1: {nproc-per-node: 2, prologue: y}\ncommand: p\n",
          "nodes: {a: {hosts: b}}\ncommand: p\n",
          "nodes: [a]\n",
          "nodes: {a: {wdir: /}, a: {}}\n",
          "program: p\n",
          "nnodes: true\ncommand: p\n",
          "hosts: []\ncommand: p\n",
          "command: {a: b}\n",
          "plan: true\n",
          "nnodes: 2\nnnodes: 3\n",
          "!!str a: b\n",
          "- a\n",
          "a: 1\n---\nb: 2\n",
          "log-dir: x\nredirects: '0:1,1:3'\ntee: 3\nexclude: [a]\nnp: 3\n",
          "env: [A]\ncommand: p\n",
          "command: []x\n",
          "env: {A: [1]}\ncommand: p\n",
          "on-exit:\n- {code: [3, 64-66], do: stop}\n- {do: replace-node, signal: BUS}\n"
          "- {oom: true, do: restart}\n- node-lost:restart-free\ncommand: p\n",
          "on-exit: [{cod: 3, do: stop}]\ncommand: p\n",
          "on-exit: [{code: 3, oom: true, do: stop}]\ncommand: p\n",
          "on-exit: [{oom: false, do: stop}]\ncommand: p\n",
          "on-exit: [{code: {a: 1}, do: stop}]\ncommand: p\n",
          "on-exit: [{code: []}]\ncommand: p\n"};
}

void Run(absl::string_view bytes) {
  const auto command = Parse(std::string(bytes));
  if (!command.ok()) {
    CHECK(absl::IsInvalidArgument(command.status()) && !command.status().message().empty());
    return;
  }
  const auto written = WriteJobFile(command->spec);
  CHECK(written.ok());
  const auto again = Parse(*written);
  CHECK(again.ok() && Described(again->spec) == Described(command->spec));
}

}  // namespace muster::fuzz
