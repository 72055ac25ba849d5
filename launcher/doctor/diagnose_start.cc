// Which nodes came; and why others did not, by how they were to be started and what was said.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
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

std::string StartAdvice(const ExaminedNode& node) {
  for (const Cause& cause : kCauses) {
    if (absl::StrContains(node.start.words, cause.said)) {
      return cause.advice(node);
    }
  }
  if (node.start.succeeded) {
    return absl::StrCat("mend on ", node.name, " what it says; with -v the command says more");
  }
  const std::string see = absl::StrCat("see that `", node.start.by_hand, "` works");
  switch (node.start.means) {
    case StartMeans::kChild:
      return absl::StrCat(see, " here, then type the command again with -v");
    case StartMeans::kSsh:
      return absl::StrCat(see, " from here without a password");
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
                node.start.words.empty() ? "launch could start no probe there, or it ended at once"
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
