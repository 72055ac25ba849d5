#include "launcher/contradictions.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "absl/strings/str_cat.h"
#include "launcher/placement.h"

namespace muster {
namespace {

// Pairs that never make sense together.
struct Pair {
  OptionId a, b;
  absl::string_view why;
};
constexpr absl::string_view kStartsItself =
    "launch starts the nodes of a host list itself; keep one of the two";
constexpr absl::string_view kOneMachine =
    "a standalone job is on this machine; keep one of the two";
constexpr absl::string_view kPlacesAll =
    "the file says where every rank runs, and so how many each host has";
constexpr absl::string_view kSaysFiles =
    "it says where all output goes (:nocopy behind the folder: only there); keep one of the two";
constexpr Pair kPairs[] = {
    {OptionId::kRankfile, OptionId::kNprocPerNode, kPlacesAll},
    {OptionId::kRankfile, OptionId::kPpn, kPlacesAll},
    {OptionId::kRankfile, OptionId::kNnodes, kPlacesAll},
    {OptionId::kRankfile, OptionId::kStandalone, kOneMachine},
    {OptionId::kRankfile, OptionId::kSpares, kPlacesAll},
    {OptionId::kTotal, OptionId::kSpares,
     "a spare may take the place of any node, so each runs as many workers: say --nproc-per-node"},
    {OptionId::kRankfile, OptionId::kRdzvEndpoint, kStartsItself},
    {OptionId::kRankfile, OptionId::kNodeRank, kStartsItself},
    {OptionId::kRankfile, OptionId::kServe, kStartsItself},
    {OptionId::kStandalone, OptionId::kHosts, kOneMachine},
    {OptionId::kStandalone, OptionId::kHostfile, kOneMachine},
    {OptionId::kStandalone, OptionId::kServe, kOneMachine},
    {OptionId::kHosts, OptionId::kHostfile, "keep one of the two host lists"},
    {OptionId::kHosts, OptionId::kRdzvEndpoint, kStartsItself},
    {OptionId::kHosts, OptionId::kNodeRank, kStartsItself},
    {OptionId::kHosts, OptionId::kServe, kStartsItself},
    {OptionId::kHostfile, OptionId::kRdzvEndpoint, kStartsItself},
    {OptionId::kHostfile, OptionId::kNodeRank, kStartsItself},
    {OptionId::kHostfile, OptionId::kServe, kStartsItself},
    {OptionId::kModule, OptionId::kNoPython, "a module needs Python"},
    {OptionId::kModule, OptionId::kRunPath, "the program is a module or a file"},
    {OptionId::kRunPath, OptionId::kNoPython, "a script needs Python"},
    {OptionId::kLogPrefix, OptionId::kNoPrefix, "keep one of the two"},
    {OptionId::kLabel, OptionId::kNoPrefix, "keep one of the two"},
    {OptionId::kOutputFilename, OptionId::kLogDir, kSaysFiles},
    {OptionId::kOutputFilename, OptionId::kLogLayout, kSaysFiles},
    {OptionId::kOutputFilename, OptionId::kOutFile, kSaysFiles},
    {OptionId::kOutputFilename, OptionId::kErrFile, kSaysFiles},
    {OptionId::kOutputFilename, OptionId::kRedirects, kSaysFiles},
    {OptionId::kOutputFilename, OptionId::kTee, kSaysFiles},
    {OptionId::kQuiet, OptionId::kVerbose, "keep one of the two"},
    {OptionId::kOnFailure, OptionId::kContinuous, "keep one of the two"},
    {OptionId::kPty, OptionId::kGdb, "there is one terminal; keep one of the two"},
    {OptionId::kJournal, OptionId::kStandalone,
     "with --standalone all nodes end with the launch; drop one of the two"},
    {OptionId::kJournal, OptionId::kDetach,
     "a launch that can be typed again stays where it was typed (nohup, systemd)"},
    {OptionId::kPty, OptionId::kDetach,
     "a detached job has no terminal; launch attach shows its output"},
    {OptionId::kGdb, OptionId::kDetach,
     "a detached job has no terminal; --proctable lets a debugger attach to its workers"},
    {OptionId::kPty, OptionId::kStdin, "the rank with the terminal reads what is typed"},
    {OptionId::kGdb, OptionId::kStdin, "the rank with the terminal reads what is typed"},
    {OptionId::kPlan, OptionId::kExplainEnv, "ask one question at a time"},
    {OptionId::kJson, OptionId::kYaml, "keep one of the two"},
    {OptionId::kInsecure, OptionId::kSecretFile,
     "a secret is of no use where no proof is asked for"},
    {OptionId::kInsecure, OptionId::kRdzvFingerprint, "without a secret nobody shows a key"},
};

}  // namespace

absl::Status CheckPairs(const JobSpec& spec) {
  for (const Pair& pair : kPairs) {
    if (spec.Has(pair.a) && spec.Has(pair.b)) {
      return Contradiction(spec, pair.a, pair.b, pair.why);
    }
  }
  if (spec.json && !spec.plan_only && !spec.explain_env) {
    return absl::InvalidArgumentError(
        "--json: belongs to --plan or --explain-env; the report of a job is --report FILE");
  }
  if (spec.yaml && !spec.plan_only) {
    return absl::InvalidArgumentError(
        "--yaml: belongs to --plan; a job file is given with --config");
  }
  return absl::OkStatus();
}

bool Contradict(OptionId a, OptionId b) {
  return std::any_of(std::begin(kPairs), std::end(kPairs), [&](const Pair& pair) {
    return (pair.a == a && pair.b == b) || (pair.a == b && pair.b == a);
  });
}

std::vector<OptionId> Displacing(OptionId id) {
  switch (id) {
    case OptionId::kNprocPerNode:
      return {OptionId::kTotal, OptionId::kPpn, OptionId::kRankfile};
    case OptionId::kTotal:
    case OptionId::kPpn:
      return {OptionId::kNprocPerNode};
    case OptionId::kNnodes:
      return {OptionId::kHosts, OptionId::kHostfile, OptionId::kRankfile};
    case OptionId::kRdzvEndpoint:
    case OptionId::kRdzvBackend:
    case OptionId::kNodeRank:
    case OptionId::kMasterAddr:
    case OptionId::kMasterPort:
      return {OptionId::kHosts, OptionId::kHostfile, OptionId::kRankfile, OptionId::kStandalone};
    case OptionId::kRdzvFingerprint:
      return {OptionId::kInsecure};
    case OptionId::kStandalone:
      return {OptionId::kHosts,        OptionId::kHostfile,   OptionId::kRankfile,
              OptionId::kRdzvEndpoint, OptionId::kMasterAddr, OptionId::kServe};
    case OptionId::kLogDir:
    case OptionId::kRedirects:
    case OptionId::kTee:
      return {OptionId::kOutputFilename};
    case OptionId::kModule:
    case OptionId::kRunPath:
      return {OptionId::kNoPython};
    case OptionId::kNoPython:
      return {OptionId::kModule, OptionId::kRunPath};
    case OptionId::kLogPrefix:
      return {OptionId::kNoPrefix};
    default:
      return {};
  }
}

}  // namespace muster
