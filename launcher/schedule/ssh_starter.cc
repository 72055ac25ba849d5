#include "launcher/schedule/ssh_starter.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "launcher/schedule/hostlist.h"
#include "launcher/schedule/process_starter.h"
#include "proto/base/build_info.h"
#include "proto/base/clock.h"
#include "proto/base/text.h"

namespace muster {
namespace {

// Run by the node's /bin/sh where the agent is missing, or by the agent there when it is of another
// build: asks for the program. The answer is a line: its length, and then it comes on stdin; or
// its length, a token, address and port of an agent that gives it to who says that token, and its
// SHA-256 (agent/io/program_giver.h). If that fails it asks again. One line, and neither quote nor
// exclamation mark in it, because the login shell that reads it may be a csh. The folder is tried
// first, for it may be mounted without the right to execute.
constexpr char kPushScript[] =
    "umask 077; trap : PIPE; t=; f=\" fetches\"; "
    "for w in bash timeout sha256sum; do command -v $w >/dev/null || f=; done; "
    "for d in \"${TMPDIR:-/tmp}\" /var/tmp /dev/shm \"$HOME\"; do "
    "t=$(mktemp -d \"$d/muster-XXXXXXXX\" 2>/dev/null) || continue; "
    "printf \"#\\041/bin/sh\\n\" >\"$t/x\" && chmod 700 \"$t/x\" && \"$t/x\" 2>/dev/null "
    "&& rm \"$t/x\" && break; rm -rf \"$t\"; t=; done; "
    "if [ -z \"$t\" ]; then echo no folder here takes a program: set TMPDIR >&2; exit 1; fi; "
    "a=$t/muster-agent; b=\"env BASH_ENV= bash --norc -c\"; "
    "while printf \"\\nmuster-agent-wanted %s\\n\" \"$(uname -m)$f\" && read -r n k h p s; do "
    "if [ -z \"$h\" ]; then head -c \"$n\" >\"$a\" || break; else "
    "timeout 5 $b \": <>/dev/tcp/$h/$p\" </dev/null 2>/dev/null && "
    "k=$k timeout 45 $b \"exec 3<>/dev/tcp/$h/$p; echo \\$k >&3; head -c $n <&3\" </dev/null "
    ">\"$a\"; "
    "[ \"$(sha256sum 2>/dev/null <\"$a\")\" = \"$s  -\" ] || continue; fi; "
    "chmod 700 \"$a\" || break; export MUSTER_AGENT_TEMP=\"$t\"; "
    "\"$a\" --build >/dev/null && exec \"$a\" --stdio; break; done; "
    "rm -rf \"$t\"; exit 1";

}  // namespace

std::string SshTarget(const HostEntry& host) {
  const std::string user = host.user.empty() ? "" : absl::StrCat(host.user, "@");
  if (host.port == 0) {
    return absl::StrCat(user, host.name);
  }
  return absl::StrCat("ssh://", user,
                      IsIpv6(host.name) ? absl::StrCat("[", host.name, "]") : host.name, ":",
                      host.port);
}

std::string SshByHand(const std::vector<std::string>& ssh, const std::string& target) {
  std::string out;
  for (const std::string& word : ssh) {
    absl::StrAppend(&out, ShellQuote(word), " ");
  }
  return absl::StrCat(out, ShellQuote(target), " true");
}

std::vector<std::string> SshCommand(const SshOptions& options, const std::string& host) {
  std::vector<std::string> command = options.ssh;
  const std::string agent = ShellQuote(options.agent_path);
  for (const std::string& one :
       {std::string("-T"), std::string("-x"), std::string("-o"), std::string("BatchMode=yes"),
        std::string("-o"),
        absl::StrCat("ConnectTimeout=", absl::ToInt64Seconds(options.connect_timeout)), host,
        // The login shell becomes the agent: each program more costs a start over ssh 1 to 2 ms.
        absl::StrCat("test -x ", agent, " && exec ", agent, " --stdio ", ShellQuote(BuildName()),
                     " '", kPushScript, "'; exec /bin/sh -c '", kPushScript, "'")}) {
    command.push_back(one);
  }
  return command;
}

std::unique_ptr<Starter> MakeSshStarter(uv_loop_t* loop, SshOptions options) {
  ProcessStarterOptions process;
  process.program = options.ssh.at(0);
  process.agent_path = options.agent_path;
  process.may_push = true;
  process.ends_group = true;
  process.hastens = true;
  process.answer_timeout = options.answer_timeout;
  process.retries = options.retries;
  // Thousands of launches at one time of day must not come back together.
  process.seed = static_cast<uint64_t>(absl::ToUnixNanos(BootNow()));
  process.next_step = [ssh = options.ssh](const StartTarget& target) {
    return absl::StrCat("does `", SshByHand(ssh, target.host), "` work?");
  };
  process.command = [options = std::move(options)](const StartTarget& target) {
    return SshCommand(options, target.host);
  };
  return std::make_unique<ProcessStarter>(loop, std::move(process));
}

}  // namespace muster
