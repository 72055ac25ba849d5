#include "launcher/job_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "launcher/job_file_writer.h"
#include "launcher/join_line.h"
#include "launcher/options.h"
#include "launcher/resolve.h"
#include "tests/launcher/described.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Args = std::vector<std::string>;

std::string Error(absl::string_view text) {
  const auto file = ParseJobFile(text, "job.yaml");
  EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(file.status().message());
}

absl::StatusOr<ParsedCommand> Parse(const std::string& text, Args args = {},
                                    const Environment& environment = {}) {
  args.insert(args.begin(), {"--config", "job.yaml"});
  return ParseCommandLine(args, environment, [&](const std::string& path) {
    EXPECT_EQ(path, "job.yaml");
    return absl::StatusOr<std::string>(text);
  });
}

JobSpec Ok(const std::string& text, const Args& args = {}, const Environment& environment = {}) {
  auto command = Parse(text, args, environment);
  EXPECT_TRUE(command.ok()) << text << command.status();
  return command.ok() ? std::move(command->spec) : JobSpec();
}

// J3, for one command line.
void ExpectReadAsWritten(const Args& args, const Environment& environment = {}) {
  const auto typed = ParseCommandLine(args, environment);
  ASSERT_TRUE(typed.ok()) << typed.status();
  const auto text = WriteJobFile(typed->spec);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(Described(Ok(*text, {}, environment)), Described(typed->spec)) << *text;
}

TEST(JobFile, SaysWhatACommandLineSays) {
  const JobSpec spec =
      Ok("nnodes: 2:4\n"
         "nproc_per_node: auto\n"
         "hosts: [a:4, 'b', \"[::1]:2\"]\n"
         "module: true\n"
         "quiet: false\n"
         "env: {LR: 0.1, HOME: , 'WITH SPACE': \" x=y \", EMPTY: ''}\n"
         "ssh-args: [-p, two words]\n"
         "max-restarts: 3\n"
         "command: [train, --lr, 0.1, '', \"a b\"]\n",
         {}, {{"HOME", "/h"}});
  EXPECT_EQ(spec.nodes_min, 2u);
  EXPECT_EQ(spec.plan.workers_wanted, WorkersWanted::kAuto);
  EXPECT_THAT(spec.hosts_texts, ElementsAre("a:4", "b", "[::1]:2"));
  EXPECT_TRUE(spec.module);
  EXPECT_FALSE(spec.Has(OptionId::kQuiet));
  EXPECT_THAT(spec.plan.env_set, ElementsAre("LR=0.1", "HOME=/h", "WITH SPACE= x=y ", "EMPTY="));
  EXPECT_THAT(spec.ssh, ElementsAre("ssh", "-p", "two words"));
  EXPECT_EQ(spec.program, "train");
  EXPECT_THAT(spec.plan.argv,
              ElementsAre("python3", "-u", "-m", "train", "--lr", "0.1", "", "a b"));
  EXPECT_THAT(spec.notes, IsEmpty());
}

TEST(JobFile, ACommandAsATextIsSplitAndNothingElse) {
  EXPECT_THAT(Ok("command: prog $HOME '*' \"a b\" ; x > y\n").plan.argv,
              ElementsAre("prog", "$HOME", "*", "a b", ";", "x", ">", "y"));
  EXPECT_THAT(Ok("command: ./prog\n").plan.argv, ElementsAre("./prog"));
}

TEST(JobFile, HostsAndArgumentsOfSshMayBeTexts) {
  const JobSpec spec = Ok("hosts: a:4,b\nssh-args: -p '2 2'\ncommand: p\n");
  EXPECT_THAT(spec.hosts_texts, ElementsAre("a:4,b"));
  EXPECT_THAT(spec.ssh, ElementsAre("ssh", "-p", "2 2"));
}

TEST(JobFile, CommandLineThenEnvironmentThenFile) {
  const JobSpec spec =
      Ok("max-restarts: 1\nrole: file\nwdir: /file\nenv: {A: f, B: f}\n"
         "hosts: [a, b]\nstandalone: true\ncommand: [file, x]\n",
         {"--max-restarts", "3", "-x", "B=typed", "--hosts", "c", "typed", "y"},
         {{"PET_MAX_RESTARTS", "2"}, {"PET_ROLE", "e"}, {"PET_STANDALONE", "0"}});
  EXPECT_EQ(spec.max_restarts, 3u);
  EXPECT_EQ(spec.plan.role, "e");
  EXPECT_EQ(spec.plan.wdir, "/file");
  EXPECT_FALSE(spec.plan.standalone);
  EXPECT_THAT(spec.plan.env_set, ElementsAre("A=f", "B=typed"));
  EXPECT_THAT(spec.hosts_texts, ElementsAre("c"));
  EXPECT_THAT(spec.plan.argv, ElementsAre("typed", "y"));
}

TEST(JobFile, WhatContradictsAStrongerSourceIsLeftOut) {
  const std::string file =
      "n: 8\nstandalone: true\nverbose: true\nmodule: true\ncommand: pkg.mod\n";
  const JobSpec spec = Ok(file, {"--nproc-per-node", "2", "--hosts", "a", "-q", "./prog"});
  EXPECT_THAT(spec.notes,
              ElementsAre("n: 8 (job.yaml line 1) is not used: --nproc-per-node was given",
                          "standalone: true (job.yaml line 2) is not used: --hosts was given",
                          "verbose: true (job.yaml line 3) is not used: -q was given",
                          "module: true (job.yaml line 4) is not used: it belongs to the file's "
                          "command, and the command line names another"));
  EXPECT_THAT(spec.plan.argv, ElementsAre("./prog"));
  EXPECT_THAT(Ok("module: true\n", {"pkg.mod"}).plan.argv,
              ElementsAre("python3", "-u", "-m", "pkg.mod"));
  EXPECT_TRUE(Ok(file).module);
}

TEST(JobFile, IsNamedWhereAValueCameFrom) {
  const JobSpec spec = Ok("nnodes: 2\n\nhosts:\n  - a\n  - b\nstandalone: true\ncommand: p\n");
  EXPECT_EQ(spec.Said(OptionId::kNnodes), "nnodes: 2 (job.yaml line 1)");
  EXPECT_EQ(spec.Said(OptionId::kHosts), "hosts: a,b (job.yaml line 4)");
  EXPECT_EQ(spec.Said(OptionId::kStandalone), "standalone: true (job.yaml line 6)");
  JobSpec resolved = spec;
  EXPECT_THAT(ResolveHosts(resolved, NoFile).message(),
              HasSubstr("standalone: true (job.yaml line 6) and hosts: a,b (job.yaml line 4) "
                        "contradict"));
}

TEST(JobFile, QuotesMayHoldQuotesAndCharactersOfManyBytes) {
  EXPECT_EQ(Ok("role: '\xc3\xa4 it''s'\nwdir: \"/\xc3\xa4\\\"\"\n", {"p"}).plan.wdir,
            "/\xc3\xa4\"");
  EXPECT_EQ(Ok("\xef\xbb\xbfrole: 'a'\nwdir: \"/b\"", {"p"}).plan.wdir, "/b");
}

TEST(JobFile, OneIsRead) {
  EXPECT_THAT(Parse("n: 2\n", {"--config", "other", "p"}).status().message(),
              HasSubstr("--config other: --config "));
}

TEST(JobFile, TheCommandLineMayBringTheCommand) {
  EXPECT_EQ(Ok("n: 2\n", {"p"}).program, "p");
  EXPECT_THAT(Parse("n: 2\n").status().message(),
              HasSubstr("or as 'command: [PROGRAM]' in job.yaml"));
  const auto missing = ParseCommandLine({"--config", "gone.yaml", "p"}, {}, [](const std::string&) {
    return absl::StatusOr<std::string>(absl::NotFoundError("No such file or directory"));
  });
  EXPECT_EQ(missing.status().message(), "--config gone.yaml: No such file or directory");
}

TEST(JobFile, RulesOfOnExitAreMapsOrTexts) {
  const JobSpec spec =
      Ok("on-exit:\n"
         "- {code: [3, 64-66], do: stop}\n"
         "- {do: replace-node, signal: BUS}\n"
         "- {oom: true, do: restart}\n"
         "- node-lost:restart-free\n",
         {"p"});
  EXPECT_EQ(spec.restart_rules.on_exit,
            (std::vector<ExitRule>{{ExitMatch::kCode, {3, 64, 65, 66}, ExitAction::kStop},
                                   {ExitMatch::kSignal, {SIGBUS}, ExitAction::kReplaceNode},
                                   {ExitMatch::kOom, {}, ExitAction::kRestart},
                                   {ExitMatch::kNodeLost, {}, ExitAction::kRestartFree}}));
  ExpectReadAsWritten({"--on-exit", "code=3,64-66:stop", "--on-exit", "signal=7,SEGV:restart",
                       "--on-exit", "oom:stop", "p"});
}

struct Bad {
  const char* text;
  const char* says;
};
class BadJobFile : public testing::TestWithParam<Bad> {};

TEST_P(BadJobFile, IsToldByLineAndColumn) {
  const auto command = Parse(GetParam().text, {"p"});
  EXPECT_EQ(command.status().code(), absl::StatusCode::kInvalidArgument) << GetParam().text;
  EXPECT_EQ(std::string(command.status().message()).substr(0, std::strlen(GetParam().says)),
            GetParam().says)
      << GetParam().text;
}

INSTANTIATE_TEST_SUITE_P(
    JobFiles, BadJobFile,
    testing::Values(
        Bad{"a: 1\n",
            "job.yaml:1:1: unknown key 'a'; a key is an option without its dashes (launch "
            "--help-all has them)"},
        Bad{"hosts:\n\t- a\n",
            "job.yaml:2:2: not YAML: illegal block entry; this line is indented with a tab: YAML "
            "wants spaces"},
        Bad{"\n\n  nnode: 2\n", "job.yaml:3:3: unknown key 'nnode'; did you mean nnodes?"},
        Bad{"nodes: 2\n", "job.yaml:1:8: nodes: want a map of hosts, as in "},
        Bad{"nodes: {a: 1}\n", "job.yaml:1:12: nodes: a: want a map, as in "},
        Bad{"nodes: {a: {wdir: /}, a: {}}\n", "job.yaml:1:23: 'a' is here twice"},
        Bad{"nodes: {a: {wdir: /,\n wdir: /}}\n", "job.yaml:2:2: 'wdir' is here twice"},
        Bad{"nodes: {a: {hosts: b}}\n", "job.yaml:1:13: 'hosts' holds for all nodes; a single"},
        Bad{"nodes: {a: {command: b}}\n", "job.yaml:1:13: 'command' holds for all nodes"},
        Bad{"nodes: {a: {wdi: b}}\n", "job.yaml:1:13: unknown key 'wdi'; did you mean wdir?"},
        Bad{"nodes:\n  a:\n    nproc-per-node: x\n",
            "job.yaml:3:21: nproc-per-node: want 1..4096, auto, cpu or gpu, got 'x'"},
        Bad{"programs: [{np: 1, command: p, nodes: {}}]\n",
            "job.yaml:1:32: 'nodes' holds for the whole job: it stands beside programs"},
        Bad{"on-exit: [{cod: 3, do: stop}]\n",
            "job.yaml:1:12: on-exit: unknown key 'cod', want code, signal, oom or node-lost, and "
            "do"},
        Bad{"on-exit: [{code: 3, oom: true, do: stop}]\n",
            "job.yaml:1:21: on-exit: want one of code, signal, oom or node-lost, and do in a rule"},
        Bad{"on-exit:\n- {code: 3}\n", "job.yaml:2:3: on-exit: want code, signal, oom or "},
        Bad{"on-exit: [{oom: false, do: stop}]\n",
            "job.yaml:1:17: on-exit: oom: want true (without quotes), got false"},
        Bad{"on-exit: [{code: {a: 1}, do: stop}]\n",
            "job.yaml:1:19: on-exit: code: want a text, or a list of texts, got 'a'"},
        Bad{"on-exit: [{code: [], do: stop}]\n",
            "job.yaml:1:18: on-exit: code: want a text, or a list of texts, got an empty list"},
        Bad{"on-exit:\n- {code: 0, do: stop}\n",
            "job.yaml:2:3: on-exit: want exit codes of 1..255, as in code=3,64-78, got "
            "'code=0:stop'"},
        Bad{"on-exit: oom:ignore\n",
            "job.yaml:1:10: on-exit: want stop, restart, restart-free or replace-node behind the "
            "colon, got 'oom:ignore'"},
        Bad{"comand: p\n",
            "job.yaml:1:1: unknown key 'comand'; the program and its arguments are "},
        Bad{"<<: {nnodes: 2}\n", "job.yaml:1:1: unknown key '<<'"},
        Bad{"help: true\n",
            "job.yaml:1:1: 'help' is for the command line only: it says what to do"},
        Bad{"config: x\n", "job.yaml:1:1: 'config' is for the command line only"},
        Bad{"dry_run: true\n", "job.yaml:1:1: 'dry_run' is for the command line only"},
        Bad{"nnodes: 2\nnnodes: 2\n", "job.yaml:2:1: 'nnodes' is here twice: line 1 has 'nnodes'"},
        Bad{"np: 2\nntasks: 2\n", "job.yaml:2:1: 'ntasks' is here twice: line 1 has 'np'"},
        Bad{"command: a\ncommand: b\n", "job.yaml:2:1: 'command' is here twice"},
        Bad{"env: {A: 1,\n A: 2}\n", "job.yaml:2:2: 'A' is here twice: line 1 has 'A'"},
        Bad{"nnodes: [2]\n", "job.yaml:1:9: nnodes: want N|MIN:MAX, got a list"},
        Bad{"nnodes: {a: 2}\n", "job.yaml:1:9: nnodes: want N|MIN:MAX, got a map"},
        Bad{"nnodes:\nn: 2\n", "job.yaml:1:1: nnodes: want N|MIN:MAX, got nothing"},
        Bad{"wdir: true\n", "job.yaml:1:7: wdir: want DIR, got true (quote it if it is a text)"},
        Bad{"nnodes: x\n", "job.yaml:1:9: nnodes: want N or MIN:MAX with 1 <= MIN"},
        Bad{"hosts: a,,b\n", "job.yaml:1:8: hosts: an item of 'a,,b' is empty"},
        Bad{"hosts:\n  - a\n  - [b]\n", "job.yaml:3:5: hosts: want a list of texts, got a list"},
        Bad{"hosts: []\n", "job.yaml:1:8: hosts: want LIST, or a list, got an empty list"},
        Bad{"hosts: {a: 4}\n", "job.yaml:1:8: hosts: want LIST, or a list, got a map"},
        Bad{"module: 1\n", "job.yaml:1:9: module: want true or false (without quotes), got '1'"},
        Bad{"module: 'true'\n", "job.yaml:1:9: module: want true or false (without quotes)"},
        Bad{"module:\n", "job.yaml:1:1: module: want true or false (without quotes), got nothing"},
        Bad{"env: [A]\n", "job.yaml:1:6: env: want a map of NAME: value, got a list"},
        Bad{"env: {A=: 1}\n", "job.yaml:1:7: env: want the name of a variable, got 'A='"},
        Bad{"env: {A: [1]}\n", "job.yaml:1:10: env: A: want a text, or nothing, got a list"},
        Bad{"env: {A*: 1}\n", "job.yaml:1:11: env: want NAME=VALUE, NAME"},
        Bad{"command: [echo, null]\n",
            "job.yaml:1:17: command: want a list of words, or one text, got nothing (null and ~ "
            "are "
            "texts in quotes only)"},
        Bad{"command: []\n", "job.yaml:1:10: command: want a program, got nothing"},
        Bad{"command: ['']\n", "job.yaml:1:10: command: want a program, got nothing"},
        Bad{"command: [a, [b]]\n", "job.yaml:1:14: command: want a list of words, or one text"},
        Bad{"command: a 'b\n", "job.yaml:1:10: command: want every quote closed"},
        Bad{"[a]: 1\n", "job.yaml:1:1: want the name of an option, got a list"},
        Bad{"- a\n", "job.yaml:1:1: want keys with values, as in 'nnodes: 2', got a list"},
        Bad{"prog\n", "job.yaml:1:1: want keys with values, as in 'nnodes: 2', got a text"},
        Bad{"# nothing\n", "job.yaml:1:1: want keys with values, as in 'nnodes: 2', got nothing"},
        Bad{"", "job.yaml:1:1: want keys with values, as in 'nnodes: 2', got nothing"},
        Bad{"n: 1\nwdir: \"/a\\\"\nrole: b\n",
            "job.yaml:2:7: the quote \" that begins here is not closed"},
        Bad{"wdir: 'it''s\n", "job.yaml:1:7: the quote ' that begins here is not closed"},
        Bad{"nnodes: [2\n", "job.yaml:2:1: not YAML: "},
        Bad{"nnodes: 2\n  n: 1\n", "job.yaml:2:4: not YAML: "}, Bad{"\tnnodes: 2\n", "job.yaml:1:"},
        Bad{"n: 1\n---\nn: 1\n", "job.yaml:2:1: a second document begins here"},
        Bad{",\n", "job.yaml:1:1: not YAML: no value begins like this"},
        Bad{"n: 1\n]\n", "job.yaml:2:1: "}, Bad{"wdir: |\n  x\n%TAG\nrole: x\n", "job.yaml:3:"},
        Bad{"wdir: &a x\nrole: *a\n", "job.yaml:2:7: aliases (*name) are not followed"},
        Bad{"wdir: !!str x\n", "job.yaml:1:7: tags (!name) are not used here"},
        Bad{"wdir: \"a\\0b\"\n", "job.yaml:1:7: a NUL character"},
        Bad{"n: 1\nwdir: \x04\n", "job.yaml:2:7: byte 0x04 is not UTF-8 text"},
        Bad{"wdir: \xff\n", "job.yaml:1:7: byte 0xff is not UTF-8 text"},
        Bad{"wdir: \xc0\x80\n", "job.yaml:1:7: byte 0xc0"},
        Bad{"wdir: \xed\xa0\x80\n", "job.yaml:1:7: byte 0xed"},
        Bad{"wdir: \xf4\x90\x80\x80\n", "job.yaml:1:7: byte 0xf4"},
        Bad{"\xff\xfen\n", "job.yaml:1:1: byte 0xff"}));

// A key says no more than its option's row: each of them is read, by all its long names.
TEST(JobFile, EveryOptionHasAKeyButForWordsOfOtherLaunchers) {
  std::vector<std::string> without;
  for (const OptionRow& row : OptionTable()) {
    if (JobFileKey(row.id).empty()) {
      without.emplace_back(OptionName(row.id));
      EXPECT_FALSE(MayBeInJobFile(row.id)) << row.names;
    } else {
      EXPECT_EQ(FindOption(absl::StrCat("--", JobFileKey(row.id))), &row);
    }
  }
  EXPECT_THAT(without, ElementsAre("-genv", "-genvlist", "-genvall", "-launcher", "-enable-x",
                                   "-print-all-exitcodes"));
}

// A value that the option takes, "" for a flag; nullopt: none of those that are tried.
std::optional<std::string> GoodValue(const OptionRow& row) {
  if (row.kind == ArgumentKind::kNone) {
    return "";
  }
  for (const char* text :
       {"2",        "a",        "a:2000",
        "k=v",      "auto",     "c10d",
        "none",     "slurm",    "agent",
        "drop",     "continue", "0:1",
        "0,2-3",    "slot",     "never",
        "oom:stop", "f.%r",     "-p '2 2'",
        "1G",       "8000",     "20000-20100",
        "torchrun", "SIGTERM",  "uuid",
        "node",     "any",      "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU"}) {
    if (ParseCommandLine({std::string(OptionName(row.id)), text, "p"}, {}).ok()) {
      return text;
    }
  }
  return std::nullopt;
}

// O5, for a file, the environment and what was typed before.
TEST(JobFile, EveryFlagIsUndoneOnTheCommandLine) {
  const std::string file = "nnodes: 1\n";
  const std::string plain = Described(Ok(file, {"p"}));
  for (const OptionRow& row : OptionTable()) {
    if (row.kind != ArgumentKind::kNone || !MayBeInJobFile(row.id)) {
      EXPECT_EQ(UndoName(row.id), "") << row.names;
      continue;
    }
    const std::string flag = absl::StrCat("--", JobFileKey(row.id));
    const std::string says = absl::StrCat(file, JobFileKey(row.id), ": true\n");
    const std::string undo = UndoName(row.id);
    EXPECT_TRUE(Ok(says, {"p"}).Has(row.id)) << row.names;
    const JobSpec spec = Ok(says, {undo, "p"});
    EXPECT_FALSE(spec.Has(row.id)) << undo;
    if (row.id == OptionId::kNoPrefix) {
      EXPECT_EQ(spec.prefix, true);
      continue;
    }
    EXPECT_EQ(FindUndone(undo), &row);
    EXPECT_EQ(Described(spec), plain) << undo;
    EXPECT_THAT(spec.notes, IsEmpty()) << undo;
    EXPECT_EQ(Described(Ok(file, {flag, undo, "p"})), plain) << undo;
    EXPECT_TRUE(Ok(says, {undo, flag, "p"}).Has(row.id)) << undo;
    for (const absl::string_view variable :
         absl::StrSplit(row.environment, ' ', absl::SkipEmpty())) {
      EXPECT_EQ(Described(Ok(file, {undo, "p"}, {{std::string(variable), "1"}})), plain) << undo;
    }
  }
}

TEST(JobFile, WhatUndoesAFlagIsAFlagItself) {
  EXPECT_EQ(UndoName(OptionId::kNoPython), "--python");
  EXPECT_EQ(UndoName(OptionId::kNoPrefix), "--label");
  EXPECT_FALSE(Ok("oversubscribe: true\n", {"--no_oversubscribe", "p"}).oversubscribe);
  EXPECT_EQ(FindUndone("--kill"), nullptr);  // of --no-kill, another word for --continuous
  const auto says = [](const Args& args) {
    return std::string(Parse("programs: [{np: 1, command: p}]\n", args).status().message());
  };
  EXPECT_THAT(says({"--no-verbose=1", "p"}), HasSubstr("--no-verbose: takes no value, got '1'"));
  EXPECT_THAT(says({"--no-nnodes", "p"}), HasSubstr("unknown option '--no-nnodes'"));
  EXPECT_THAT(says({"--wdir", "--no-verbose", "p"}), HasSubstr("got the option '--no-verbose'"));
  EXPECT_THAT(says({"--no-module"}), HasSubstr("--no-module: each of the programs of job.yaml"));
}

TEST(JobFile, J3EveryOptionIsReadAsItWasWritten) {
  Args all;
  for (const OptionRow& row : OptionTable()) {
    if (!MayBeInJobFile(row.id)) {
      continue;
    }
    const std::optional<std::string> value = GoodValue(row);
    ASSERT_TRUE(value.has_value()) << row.names << ": add a value to GoodValue";
    Args one = {std::string(OptionName(row.id))};
    if (!value->empty()) {
      one.push_back(*value);
    }
    all.insert(all.end(), one.begin(), one.end());
    one.insert(one.end(), {"prog", "-x", "", "a b"});
    ExpectReadAsWritten(one);
    EXPECT_TRUE(ParseCommandLine(one, {})->spec.Has(row.id)) << row.names;
    for (const absl::string_view variable :
         absl::StrSplit(row.environment, ' ', absl::SkipEmpty())) {
      ExpectReadAsWritten({"prog"}, {{std::string(variable), value->empty() ? "1" : *value}});
    }
  }
  all.emplace_back("prog");
  ExpectReadAsWritten(all);
}

TEST(JobFile, J3WhatAddsUpAndWhatNeedsQuotes) {
  ExpectReadAsWritten({"--hosts", "a:4", "-H", "[::1]:2,node[01-02]", "--hostfile", "f 1", "-f",
                       "#2", "--ssh", "my 'long name'", "--ssh-args=-p 1", "--ssh-args", "''",
                       "p"});
  ExpectReadAsWritten({"--hosts",    "a,b,c",  "--exclude",   "a",      "--exclude",
                       "b",          "--wrap", "0:nice -n 1", "--wrap", "1-2:x '{rank} y'",
                       "--prologue", "a; b",   "--prologue",  "c\n#d",  "-genv",
                       "A",          "b c",    "-genvlist",   "B",      "p"},
                      {{"B", "1"}});
  ExpectReadAsWritten({"--ship", "train.py", "--ship", "my data/", "p"});
  ExpectReadAsWritten({"-x", "A", "-x", "B=", "-x", "C=1=2", "-x", "D_*", "-x", "E=null", "p"},
                      {{"A", "1"}, {"D_1", "d"}});
  for (const char* word :
       {"true", "No",     "~",    "null", "1.0", "007", "1:30", "- a",      "a: b",
        "a #b", "*a",     "&a",   "!a",   "%a",  "@a",  "`a",   "|",        ">",
        "{a",   "a\nb\n", "\r\n", "\t",   " a ", "\"",  "\\",   "\x01\x7f", "\u00e9\u2028\ufeff",
        "a:",   ""}) {
    ExpectReadAsWritten({"--role", absl::StrCat("r", word), "-x", absl::StrCat("V=", word), "p",
                         word, absl::StrCat(word, "z")});
  }
}

// The values of all three sources are in it, each once.
TEST(JobFile, J3AFileThatWasReadIsWrittenAgain) {
  const JobSpec spec = Ok("role: file\nenv: {A: f, B: f}\ncommand: [p, -1]\n",
                          {"-x", "B=t", "-x", "B=u", "-n", "2"}, {{"PET_NNODES", "2"}});
  EXPECT_EQ(WriteJobFile(spec).value(),
            "# launch --config FILE\n"
            "nnodes: 2\n"
            "np: 2\n"
            "env:\n"
            "  A: f\n"
            "  B: u\n"
            "role: file\n"
            "command:\n"
            "  - p\n"
            "  - \"-1\"\n");
}

TEST(JobFile, BytesThatYamlCannotHoldAreRefused) {
  const auto spec = ParseCommandLine({"-x", "A=\xff", "p"}, {});
  EXPECT_THAT(std::string(WriteJobFile(spec->spec).status().message()),
              HasSubstr("--yaml: the value of A has bytes that are not UTF-8"));
}

TEST(JobFile, DepthAndListsAreBounded) {
  std::string hosts = "hosts: [";
  for (int i = 0; i < 20000; ++i) {
    absl::StrAppend(&hosts, "a,");
  }
  EXPECT_EQ(Error(hosts + "]\n"), "job.yaml:1:8: hosts: want at most 16384 in a list, got 20000");
  EXPECT_THAT(Error(absl::StrCat("n: ", std::string(20, '['), std::string(20, ']'), "\n")),
              HasSubstr("at most 8 deep"));
  EXPECT_THAT(Error(std::string(100000, '[')), HasSubstr("at most 8 deep"));
  EXPECT_THAT(Error(absl::StrCat(std::string(100000, 'k'), ": 1\n")), HasSubstr("not YAML"));
  EXPECT_EQ(Error(absl::StrCat(std::string(1000, 'k'), ": 1\n")),
            absl::StrCat("job.yaml:1:1: unknown key '", std::string(80, 'k'), "...'"));
}

TEST(JobFile, TheLineForAnotherNodeUndoesWhatItsFileSays) {
  const std::string text = "nnodes: 2\nmodule: true\nserve: true\nnodes: {b: {wdir: /}}\n";
  JobSpec spec = Ok(text, {"--no-module", "--no-serve", "p"});
  ASSERT_TRUE(ResolveHosts(spec, NoFile).ok());
  EXPECT_EQ(JoinLine(spec, "a:2000"),
            "launch --nnodes 2 --config job.yaml --no-module --rdzv-endpoint a:2000 p");
}

TEST(JobFile, TheLineForAnotherNodeHasItsOptions) {
  JobSpec spec = Ok("nnodes: 2\nquiet: true\nreport: r.json\nenv: {A: 1}\ncommand: [p, x]\n");
  ASSERT_TRUE(ResolveHosts(spec, NoFile).ok());
  EXPECT_EQ(JoinLine(spec, "a:2000"), "launch --nnodes 2 -x A=1 -q --rdzv-endpoint a:2000 p x");
}

}  // namespace
}  // namespace muster
