#include "launcher/option_setters.h"

#include <algorithm>
#include <csignal>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "agent/core/dialects.h"
#include "launcher/exit_rules.h"
#include "launcher/mpi_options.h"
#include "launcher/option_values.h"
#include "launcher/schedule/hostlist.h"
#include "proto/base/limit_names.h"
#include "proto/base/limits.h"
#include "proto/base/passed_signals.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"
#include "proto/wire/job_terms.h"

namespace muster {

absl::Status SetNnodes(const OptionValue& v, JobSpec& s) {
  const std::pair<absl::string_view, absl::string_view> pair =
      absl::StrSplit(v.text, absl::MaxSplits(':', 1));
  const bool elastic = absl::StrContains(v.text, ':');
  if (!absl::SimpleAtoi(pair.first, &s.nodes_min) ||
      !absl::SimpleAtoi(elastic ? pair.second : pair.first, &s.nodes_max) || s.nodes_min < 1 ||
      s.nodes_max < s.nodes_min || s.nodes_max > kNodesMax) {
    return WantError(v, absl::StrCat("N or MIN:MAX with 1 <= MIN <= MAX <= ", kNodesMax));
  }
  return absl::OkStatus();
}

absl::Status SetSpares(const OptionValue& v, JobSpec& s) {
  ASSIGN_OR_RETURN(s.spares, ParseNumber(v, 0, kNodesMax));
  return absl::OkStatus();
}

absl::Status SetNprocPerNode(const OptionValue& v, JobSpec& s) {
  const std::string word = absl::AsciiStrToLower(v.text);
  s.plan.workers_wanted = word == "auto"  ? WorkersWanted::kAuto
                          : word == "cpu" ? WorkersWanted::kCpu
                          : word == "gpu" ? WorkersWanted::kGpu
                                          : WorkersWanted::kNumber;
  if (s.plan.workers_wanted != WorkersWanted::kNumber) {
    return absl::OkStatus();
  }
  if (word == "xpu") {
    return WantError(v, "the number of workers: XPUs are not counted here");
  }
  if (!absl::SimpleAtoi(v.text, &s.plan.workers) || s.plan.workers < 1 ||
      s.plan.workers > kWorkersPerNodeMax) {
    return WantError(v, absl::StrCat("1..", kWorkersPerNodeMax, ", auto, cpu or gpu"));
  }
  return absl::OkStatus();
}

absl::Status SetRdzvEndpoint(const OptionValue& v, JobSpec& s) {
  ASSIGN_OR_RETURN(std::vector<Endpoint> endpoints, ParseEndpoints(v, kRendezvousPort));
  s.rendezvous.host = std::move(endpoints.front().host);
  s.rendezvous.port = endpoints.front().port;
  s.rendezvous.file = std::move(endpoints.front().file);
  s.rendezvous.others.clear();
  for (size_t i = 1; i < endpoints.size(); ++i) {
    s.rendezvous.others.push_back(HostPort(endpoints[i].host, endpoints[i].port));
  }
  return absl::OkStatus();
}

absl::Status CheckRdzvBackend(const OptionValue& v, JobSpec&) {
  if (absl::StartsWith(v.text, "etcd")) {
    return absl::InvalidArgumentError(
        absl::StrCat(v.name, ": no etcd is needed or spoken to: leave ", v.name, " ", v.text,
                     " out, and let --rdzv-endpoint name one of the nodes"));
  }
  if (v.text != "c10d" && v.text != "static") {
    return WantError(v, "c10d or static (both are served by the same rendezvous)");
  }
  return absl::OkStatus();
}

absl::Status SetRdzvConf(const OptionValue& v, JobSpec& s) {
  ASSIGN_OR_RETURN(s.rendezvous.conf, ParsePairs(v));
  std::optional<absl::Duration> join;
  for (const auto& [key, text] : s.rendezvous.conf) {
    const std::string name = absl::StrCat(v.name, " ", key);
    if (key == "is_host") {
      ASSIGN_OR_RETURN(s.rendezvous.is_host, ParseBool({name, text}));
    } else if (key == "join_timeout" ||
               (key == "timeout" && !join)) {  // "join_timeout" sorts before "timeout"
      ASSIGN_OR_RETURN(join, ParseTime({name, text}));
    } else if (key == "last_call_timeout") {
      ASSIGN_OR_RETURN(s.rendezvous.last_call, ParseTime({name, text}));
    }
  }
  s.rendezvous.join_timeout = join.value_or(kJoinTimeout);
  if (s.rendezvous.join_timeout <= absl::ZeroDuration()) {
    return WantError(v, "a join_timeout above 0");
  }
  return absl::OkStatus();
}

absl::Status SetNodeRank(const OptionValue& v, JobSpec& s) {
  ASSIGN_OR_RETURN(s.node_rank, ParseNumber(v, 0, kNodesMax - 1));
  return absl::OkStatus();
}

absl::Status SetMasterAddr(const OptionValue& v, JobSpec& s) {
  if (absl::StrContains(v.text, ':') && !absl::StartsWith(v.text, "[") &&
      std::count(v.text.begin(), v.text.end(), ':') == 1) {
    return WantError(v, "a host name or address; the port goes to --master-port");
  }
  ASSIGN_OR_RETURN(Endpoint endpoint, ParseEndpoint(v, 0));
  if (endpoint.host.empty() || endpoint.port != 0) {
    return WantError(v, "a host name or address; the port goes to --master-port");
  }
  s.master_addr = std::move(endpoint.host);
  return absl::OkStatus();
}

absl::Status SetMasterPort(const OptionValue& v, JobSpec& s) {
  ASSIGN_OR_RETURN(s.master_port, ParsePort(v));
  return absl::OkStatus();
}

absl::Status SetPortRange(const OptionValue& v, JobSpec& s) {
  ASSIGN_OR_RETURN(s.plan.ports, ParsePortRange(v));
  return absl::OkStatus();
}

absl::Status SetLocalAddr(const OptionValue& v, JobSpec& s) {
  ASSIGN_OR_RETURN(Endpoint endpoint, ParseEndpoint(v, 0));
  if (endpoint.host.empty() || endpoint.port != 0) {
    return WantError(v, "an address of this node");
  }
  s.local_addr = std::move(endpoint.host);
  return absl::OkStatus();
}

absl::Status SetIface(const OptionValue& v, JobSpec& s) {
  constexpr size_t kInterfaceNameMax = 15;  // IFNAMSIZ - 1
  constexpr absl::string_view kWant = "an interface name (eth0) or a network (10.0.0.0/16)";
  const size_t slash = v.text.find('/');
  const absl::string_view name = v.text.substr(0, slash);
  if (!CheckHostName(name).ok()) {
    return WantError(v, kWant);
  }
  uint32_t bits = 0;
  if (slash == absl::string_view::npos
          ? name.size() > kInterfaceNameMax
          : !absl::SimpleAtoi(v.text.substr(slash + 1), &bits) || bits > 128) {
    return WantError(v, kWant);
  }
  s.plan.iface = std::string(v.text);
  return absl::OkStatus();
}

absl::Status SetGrace(const OptionValue& v, JobSpec& s) {
  ASSIGN_OR_RETURN(s.plan.grace, ParseTime(v));
  // torchrun's name of it means restarts, too.
  const bool both = absl::StrContains(absl::AsciiStrToLower(v.name), "shutdown");
  if (both && !s.Has(OptionId::kRestartStopGrace)) {
    s.restart_grace = s.plan.grace;
  }
  return absl::OkStatus();
}

absl::Status SetLease(const OptionValue& v, JobSpec& s) {
  ASSIGN_OR_RETURN(s.lease, ParseTime(v));
  return *s.lease >= kLeaseMin && *s.lease <= kLeaseMax ? absl::OkStatus()
                                                        : WantError(v, "a time from 1 s to 1 h");
}

absl::Status SetJobName(const OptionValue& v, JobSpec& s) {
  constexpr size_t kCharsMax = 64;  // it is a column of a table, and a word to type
  const bool plain =
      !v.text.empty() && v.text.size() <= kCharsMax && v.text[0] != '-' &&
      std::all_of(v.text.begin(), v.text.end(), [](char c) {
        return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("._-", c);
      });
  if (!plain) {
    return WantError(
        v, absl::StrCat("1 to ", kCharsMax, " letters, digits, '.', '_' or '-', no '-' in front"));
  }
  s.job_name = std::string(v.text);
  return absl::OkStatus();
}

absl::Status SetJobLog(const OptionValue& v, JobSpec& s) {
  constexpr uint64_t kLeast = 64u << 10;  // room for a report with its stack traces
  ASSIGN_OR_RETURN(s.job_log_bytes_max, ParseSize(v));
  return s.job_log_bytes_max < kLeast ? WantError(v, "64K or more (default 64M)")
                                      : absl::OkStatus();
}

absl::Status SetMaxRestarts(const OptionValue& v, JobSpec& s) {
  ASSIGN_OR_RETURN(s.max_restarts, ParseNumber(v, 0, kRestartsMax));
  return absl::OkStatus();
}

absl::Status SetRestart(const OptionValue& v, JobSpec& s) {
  ASSIGN_OR_RETURN(const size_t word, ParseWord(v, {"all", "one", "never"}));
  s.restart = static_cast<RestartMode>(word);
  return absl::OkStatus();
}

absl::Status AddExitRule(const OptionValue& v, JobSpec& s) {
  ASSIGN_OR_RETURN(ExitRule rule, ParseExitRule(v));
  if (s.restart_rules.on_exit.size() == kExitRulesMax) {
    return WantError(v, absl::StrCat("at most ", kExitRulesMax, " rules"));
  }
  s.restart_rules.on_exit.push_back(std::move(rule));
  return absl::OkStatus();
}

absl::Status SetOnFailure(const OptionValue& v, JobSpec& s) {
  ASSIGN_OR_RETURN(const size_t word, ParseWord(v, {"stop", "continue"}));
  s.on_failure = word == 0 ? OnFailure::kStop : OnFailure::kContinue;
  return absl::OkStatus();
}

absl::Status SetContinuous(const OptionValue& v, JobSpec& s) {
  if (!s.Has(OptionId::kOnFailure)) {
    s.on_failure = v.undone ? OnFailure::kStop : OnFailure::kContinue;
  }
  return absl::OkStatus();
}

absl::Status SetSignalsToHandle(const OptionValue& v, JobSpec& s) {
  s.plan.stop_signals.clear();
  for (const absl::string_view name : absl::StrSplit(v.text, ',')) {
    const int signo = SignalNumber(name);
    if (AlwaysStops(signo)) {
      continue;
    }
    if (signo != SIGUSR1 && signo != SIGUSR2) {
      return WantError({v.name, name},
                       "a list of SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2");
    }
    std::vector<int32_t>& more = s.plan.stop_signals;
    if (std::find(more.begin(), more.end(), signo) == more.end()) {
      more.push_back(signo);
    }
  }
  return absl::OkStatus();
}

absl::Status SetTotal(const OptionValue& v, JobSpec& s) {
  ASSIGN_OR_RETURN(s.total, ParseNumber(v, 1, kWorldSizeMax));
  return absl::OkStatus();
}

absl::Status SetPerNode(const OptionValue& v, JobSpec& s) {
  ASSIGN_OR_RETURN(s.per_node, ParseNumber(v, 1, kWorkersPerNodeMax));
  return absl::OkStatus();
}

namespace {

absl::Status AddHostList(const OptionValue& v, std::vector<std::string>& texts) {
  if (auto hosts = ParseHostList(v.text); !hosts.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(v.name, ": ", hosts.status().message()));
  }
  texts.emplace_back(v.text);
  return absl::OkStatus();
}

}  // namespace

absl::Status AddHosts(const OptionValue& v, JobSpec& s) {
  GoRoundAgain(v, s);
  return AddHostList(v, s.hosts_texts);
}

absl::Status AddExclude(const OptionValue& v, JobSpec& s) {
  return AddHostList(v, s.exclude_texts);
}

absl::Status AddShip(const OptionValue& v, JobSpec& s) {
  if (v.text.empty()) {
    return WantError(v, "a file or a folder");
  }
  s.ship.emplace_back(v.text);
  return absl::OkStatus();
}

absl::Status AddHostfile(const OptionValue& v, JobSpec& s) {
  GoRoundAgain(v, s);
  s.hostfiles.emplace_back(v.text);
  return absl::OkStatus();
}

absl::Status AddForward(const OptionValue& v, JobSpec& s) {
  const absl::string_view name = v.text.substr(0, v.text.find('='));
  const bool wild = absl::EndsWith(name, "*") && name.size() == v.text.size();
  const absl::string_view plain = wild ? name.substr(0, name.size() - 1) : name;
  if (plain.empty() || absl::StrContains(plain, '*')) {
    return WantError(v, "NAME=VALUE, NAME (its present value) or PREFIX*");
  }
  s.forward.emplace_back(v.text);
  return absl::OkStatus();
}

absl::Status AddWrap(const OptionValue& v, JobSpec& s) {
  const size_t colon = v.text.find(':');
  if (colon == absl::string_view::npos) {
    return WantError(v, "RANKS:CMD, as in 0:valgrind or '1-3:perf record -o perf.{rank}'");
  }
  Wrap wrap;
  ASSIGN_OR_RETURN(wrap.ranks, ParseRanks({v.name, v.text.substr(0, colon)}));
  ASSIGN_OR_RETURN(wrap.argv, ParseWords({v.name, v.text.substr(colon + 1)}));
  if (wrap.argv.empty()) {
    return WantError(v, "a command behind the ranks, as in 0:valgrind");
  }
  s.plan.wraps.push_back(std::move(wrap));
  s.wrap_texts.emplace_back(v.text);
  return absl::OkStatus();
}

absl::Status AddPrologue(const OptionValue& v, JobSpec& s) {
  if (v.text.empty()) {
    return WantError(v, "lines of sh");
  }
  absl::StrAppend(&s.plan.prologue, s.plan.prologue.empty() ? "" : "\n", v.text);
  return absl::OkStatus();
}

absl::Status SetPropagate(const OptionValue& v, JobSpec& s) {
  const std::string text = absl::AsciiStrToLower(v.text);
  std::vector<std::string> known;
  for (const LimitName& limit : kLimitNames) {
    known.emplace_back(limit.name);
  }
  s.propagate.clear();
  if (text == "all") {
    s.propagate = known;
  } else if (text != "none") {
    for (const absl::string_view word : absl::StrSplit(text, ',')) {
      if (std::find(known.begin(), known.end(), word) == known.end()) {
        return WantError({v.name, word},
                         absl::StrCat("all, none, or a list of ", absl::StrJoin(known, ", ")));
      }
      if (std::find(s.propagate.begin(), s.propagate.end(), word) == s.propagate.end()) {
        s.propagate.emplace_back(word);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status SetPty(const OptionValue& v, JobSpec& s) {
  uint32_t rank = 0;
  if (!absl::SimpleAtoi(v.text, &rank) || rank >= kWorldSizeMax) {
    return WantError(v, "one rank: there is one terminal");
  }
  s.plan.pty = Terminal{rank, 0, 0, ""};
  s.plan.stdin_mode = StdinMode::kRank;
  s.plan.stdin_rank = rank;
  return absl::OkStatus();
}

absl::Status SetGdb(const OptionValue& v, JobSpec& s) {
  RETURN_IF_ERROR(SetPty(v, s));
  s.debugger = {"gdb", "--args"};
  return absl::OkStatus();
}

absl::Status NameDebugger(const Environment& environment, JobSpec& s) {
  constexpr char kVariable[] = "MUSTER_DEBUGGER";
  const auto named = environment.find(kVariable);
  if (s.debugger.empty() || named == environment.end() || named->second.empty()) {
    return absl::OkStatus();
  }
  const OptionValue value = {kVariable, named->second};
  ASSIGN_OR_RETURN(s.debugger, ParseWords(value));
  return s.debugger.empty() ? WantError(value, "a command, as in 'lldb --'") : absl::OkStatus();
}

absl::Status SetStdin(const OptionValue& v, JobSpec& s) {
  if (v.text == "none" || v.text == "all") {
    s.plan.stdin_mode = v.text == "all" ? StdinMode::kAll : StdinMode::kNone;
    return absl::OkStatus();
  }
  s.plan.stdin_mode = StdinMode::kRank;
  if (!absl::SimpleAtoi(v.text, &s.plan.stdin_rank) || s.plan.stdin_rank >= kWorldSizeMax) {
    return WantError(v, "a rank, none or all");
  }
  return absl::OkStatus();
}

absl::Status SetStore(const OptionValue& v, JobSpec& s) {
  ASSIGN_OR_RETURN(const size_t word, ParseWord(v, {"auto", "agent", "worker"}));
  s.plan.store = word == 0 ? StoreMode::kAuto : word == 1 ? StoreMode::kAgent : StoreMode::kWorker;
  return absl::OkStatus();
}

absl::Status SetStoreFrom(const OptionValue& v, JobSpec& s) {
  ASSIGN_OR_RETURN(const size_t word, ParseWord(v, {"nodes", "any"}));
  s.plan.store_from_any = word == 1;
  return absl::OkStatus();
}

absl::Status SetDialect(const OptionValue& v, JobSpec& s) {
  const std::vector<absl::string_view> known = DialectWords();
  s.plan.dialects.clear();
  for (absl::string_view word : absl::StrSplit(v.text, ',')) {
    if (std::find(known.begin(), known.end(), word) == known.end()) {
      return WantError({v.name, word}, absl::StrCat("a list of ", absl::StrJoin(known, ", ")));
    }
    if (word != "torch") {  // always there
      s.plan.dialects.emplace_back(word);
    }
  }
  return absl::OkStatus();
}

absl::Status SetLogPrefix(const OptionValue& v, JobSpec& s) {
  static constexpr absl::string_view kNames[] = {"rank",   "local_rank", "host", "node_rank",
                                                 "stream", "role",       "time"};
  // torchrun's own template has ${rank} and ${role_name}, with or without braces.
  const std::string text = absl::StrReplaceAll(v.text, {{"${", "{"},
                                                        {"role_name", "role"},
                                                        {"$rank", "{rank}"},
                                                        {"$local_rank", "{local_rank}"},
                                                        {"$role_name", "{role}"}});
  for (size_t at = text.find('{'); at != std::string::npos; at = text.find('{', at + 1)) {
    const size_t end = text.find('}', at);
    const absl::string_view name =
        end == std::string::npos ? "" : absl::string_view(text).substr(at + 1, end - at - 1);
    if (std::find(std::begin(kNames), std::end(kNames), name) == std::end(kNames)) {
      return WantError(v, absl::StrCat("a template with {", absl::StrJoin(kNames, "}, {"), "}"));
    }
  }
  s.plan.output.prefix_template = text;
  s.prefix = true;
  return absl::OkStatus();
}

absl::Status SetLabel(const OptionValue& v, JobSpec& s) {
  if (!v.undone) {
    s.prefix = true;
  } else if (!s.Has(OptionId::kLogPrefix) && !s.Has(OptionId::kNoPrefix)) {
    s.prefix.reset();
  }
  return absl::OkStatus();
}

absl::Status SetNoPrefix(const OptionValue&, JobSpec& s) {
  s.prefix = false;
  return absl::OkStatus();
}

absl::Status SetLogLayout(const OptionValue& v, JobSpec& s) {
  ASSIGN_OR_RETURN(const size_t word, ParseWord(v, {"muster", "torchrun"}));
  s.plan.output.log_layout = word == 0 ? LogLayout::kMuster : LogLayout::kTorchrun;
  return absl::OkStatus();
}

absl::Status SetOutputOverflow(const OptionValue& v, JobSpec& s) {
  ASSIGN_OR_RETURN(const size_t word, ParseWord(v, {"block", "drop"}));
  s.plan.output.overflow = word == 0 ? OverflowMode::kBlock : OverflowMode::kDrop;
  return absl::OkStatus();
}

absl::Status SetExplainEnv(const OptionValue& v, JobSpec& s) {
  s.explain_env = 0;
  if (!v.text.empty()) {
    ASSIGN_OR_RETURN(s.explain_env, ParseNumber(v, 0, kWorldSizeMax - 1));
  }
  return absl::OkStatus();
}

absl::Status SetSsh(const OptionValue& v, JobSpec& s) {
  ASSIGN_OR_RETURN(std::vector<std::string> words, ParseWords(v));
  if (words.empty()) {
    return WantError(v, "a program, with options if need be");
  }
  // --ssh-args may have come before: they stay behind the program.
  words.insert(words.end(), s.ssh.begin() + 1, s.ssh.end());
  s.ssh = std::move(words);
  return absl::OkStatus();
}

absl::Status AddSshArgs(const OptionValue& v, JobSpec& s) {
  ASSIGN_OR_RETURN(const std::vector<std::string> words, ParseWords(v));
  s.ssh.insert(s.ssh.end(), words.begin(), words.end());
  return absl::OkStatus();
}

}  // namespace muster
