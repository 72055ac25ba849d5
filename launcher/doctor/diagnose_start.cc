// Which nodes came; and why others did not, by how they were to be started and what was said.
#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "launcher/doctor/checks.h"
#include "proto/base/text.h"

namespace muster {
namespace {

constexpr absl::string_view kLetConnect =
    " connect to this machine: --iface chooses the network, --port-range the ports that a firewall "
    "must let pass";

std::string InstallAdvice(const ExaminedNode& node) {
  return absl::StrCat("install the same build of muster on ", node.name,
                      ", at the same path as here",
                      node.start.means == StartMeans::kStep
                          ? absl::StrCat("; `", node.start.by_hand, "` tells which is there")
                          : "");
}

std::string ConnectAdvice(const ExaminedNode& node) {
  return absl::StrCat("let ", node.name, kLetConnect);
}

std::string InterfaceAdvice(const ExaminedNode&) {
  return "give an interface that all nodes have, or the network between them: --iface NAME or "
         "--iface CIDR (`ip -brief address` on each lists them)";
}

std::string QuietShellAdvice(const ExaminedNode& node) {
  return absl::StrCat("`", node.start.by_hand, "` must print nothing: see the start-up files of ",
                      "the shell on ", node.name);
}

std::string FolderAdvice(const ExaminedNode& node) {
  return absl::StrCat("on ", node.name, " set TMPDIR to a folder with room that is not mounted ",
                      "noexec, or install muster there, at the same path as here");
}

std::string PrologueAdvice(const ExaminedNode& node) {
  return absl::StrCat("mend what --prologue does on ", node.name, ", or leave it out");
}

// What follows is for ssh's own words.

std::string DaemonAdvice(const ExaminedNode& node) {
  return absl::StrCat("start sshd on ", node.name, ", or name the port that it listens at ",
                      "(ssh://HOST:PORT, or `Port` in ~/.ssh/config); then see that `",
                      node.start.by_hand, "` works");
}

std::string NameAdvice(const ExaminedNode& node) {
  return absl::StrCat("correct the name ", node.name,
                      ", or say what it stands for: in /etc/hosts, or as `HostName` in "
                      "~/.ssh/config");
}

std::string KeyAdvice(const ExaminedNode& node) {
  return absl::StrCat("`", node.start.by_hand, "` must work without asking for anything: ",
                      "ssh-copy-id lets your key in, ssh-add loads one with a passphrase");
}

std::string HostKeyAdvice(const ExaminedNode& node) {
  return absl::StrCat("type `", node.start.by_hand, "` and answer once; where the machine was ",
                      "installed anew, `ssh-keygen -R ", node.name, "` forgets its old key first");
}

std::string ReachAdvice(const ExaminedNode& node) {
  return absl::StrCat("see that ", node.name, " is switched on, and that no firewall is before ",
                      "its ssh port; then that `", node.start.by_hand, "` works");
}

// By what the words contain; the first that fits.
struct Cause {
  absl::string_view said;
  std::string (*advice)(const ExaminedNode& node);
};

constexpr Cause kCauses[] = {
    {"no call within", ConnectAdvice},
    {"--iface", InterfaceAdvice},
    {"the agent there is muster", InstallAdvice},
    {"install muster there", InstallAdvice},
    {"it cannot be sent", InstallAdvice},
    {"could not run the agent", InstallAdvice},
    {"a start-up file of the shell", QuietShellAdvice},
    {"set TMPDIR", FolderAdvice},
    {"--prologue", PrologueAdvice},
};

constexpr Cause kSshCauses[] = {
    {"Connection refused", DaemonAdvice},
    {"Could not resolve hostname", NameAdvice},
    {"Permission denied", KeyAdvice},
    {"Host key verification failed", HostKeyAdvice},
    {"HOST IDENTIFICATION HAS CHANGED", HostKeyAdvice},
    {"timed out", ReachAdvice},
    {"No route to host", ReachAdvice},
};

// Null where nothing fits.
const Cause* FindCause(absl::Span<const Cause> causes, const std::string& words) {
  const auto fits = [&](const Cause& cause) { return absl::StrContains(words, cause.said); };
  const auto found = std::find_if(causes.begin(), causes.end(), fits);
  return found == causes.end() ? nullptr : &*found;
}

std::string StartAdvice(const ExaminedNode& node) {
  if (const Cause* cause = FindCause(kCauses, node.start.words); cause != nullptr) {
    return cause->advice(node);
  }
  if (node.start.succeeded) {
    return absl::StrCat("mend on ", node.name, " what it says; with -v the command says more");
  }
  const std::string see = absl::StrCat("see that `", node.start.by_hand, "` works");
  switch (node.start.means) {
    case StartMeans::kChild:
      return absl::StrCat(see, " here, then type the command again with -v");
    case StartMeans::kSsh: {
      const Cause* cause = FindCause(kSshCauses, node.start.words);
      return cause != nullptr ? cause->advice(node)
                              : absl::StrCat(see, " from here without a password");
    }
    case StartMeans::kStep:
      break;
  }
  return absl::StrCat(see, " in this job; if it does, let ", node.name, kLetConnect);
}

}  // namespace

void CheckStart(const Examination& examined, Rows& rows) {
  CheckRows check("start", rows);
  std::string build;
  for (const ExaminedNode& node : examined.nodes) {
    if (!node.facts.has_value()) {
      check.Bad(node.name,
                node.start.words.empty()
                    ? "nothing was heard of its probe: it could not start, or its "
                      "login still waits"
                    : node.start.words,
                StartAdvice(node));
    } else if (!node.results.has_value()) {
      check.Bad(node.name, "its probe started, and never told what it found of the others",
                "type the command again with -v; if it stays so, look at the node's load and "
                "memory");
    } else {
      build = node.facts->build;
    }
  }
  check.ElseWell(absl::StrCat(Plural(examined.nodes.size(), "node answers", "nodes answer"),
                              ", build ", build));
}

}  // namespace muster
