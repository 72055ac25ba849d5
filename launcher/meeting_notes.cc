#include "launcher/meeting_notes.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "launcher/option_values.h"
#include "proto/base/text.h"

namespace muster {
namespace {

constexpr absl::string_view kKnown[] = {"join_timeout", "timeout", "last_call_timeout", "is_host"};
// torchrun's own, of stores and heartbeats that are not there: read_timeout and on of its c10d
// back end, rank of its static one, the rest of etcd's.
constexpr absl::string_view kTorchruns[] = {"close_timeout",
                                            "heartbeat",
                                            "keep_alive_interval",
                                            "keep_alive_max_attempt",
                                            "read_timeout",
                                            "store_type",
                                            "use_libuv",
                                            "rank",
                                            "protocol",
                                            "cacert",
                                            "cert",
                                            "key",
                                            "etcd_prefix",
                                            "ssl_cert",
                                            "ssl_cert_key",
                                            "ca_cert"};

// What has no effect where there is one node, and why.
constexpr std::pair<OptionId, absl::string_view> kOfSeveral[] = {
    {OptionId::kLocalAddr, "no other node has to reach it"},
    {OptionId::kServe, "no other node can join it"},
    {OptionId::kIface, "its workers meet at 127.0.0.1"},
    {OptionId::kSsh, "nothing is started over ssh"},
    {OptionId::kSshArgs, "nothing is started over ssh"},
    {OptionId::kSecretFile, "no other node has to prove a secret"},
};

// Of these, what a meeting at a file:///PATH has said already (resolve.cc).
bool IsOfElection(OptionId id) { return id == OptionId::kServe || id == OptionId::kSecretFile; }

// Of proto/tls and agent/io/master_client.
constexpr absl::string_view kNotTls = "does not speak TLS";
constexpr absl::string_view kNotAMaster = "does not answer like a muster master";

template <size_t kSize>
bool IsOneOf(const absl::string_view (&words)[kSize], absl::string_view word) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

// Of kKnown; "" = none is near.
absl::string_view Nearest(absl::string_view key) {
  const size_t allowed = std::max<size_t>(1, key.size() / 3);
  absl::string_view nearest;
  size_t best = allowed + 1;
  for (const absl::string_view known : kKnown) {
    if (key.size() > known.size() + allowed) {
      continue;  // known before the work is done, which a long word makes long
    }
    if (const size_t distance = EditDistance(key, known); distance < best) {
      best = distance;
      nearest = known;
    }
  }
  return nearest;
}

}  // namespace

void NoteUnknownConf(JobSpec& spec) {
  for (const auto& [key, value] : spec.rendezvous.conf) {
    if (IsOneOf(kKnown, key) || IsOneOf(kTorchruns, key)) {
      continue;
    }
    const absl::string_view nearest = Nearest(key);
    spec.notes.push_back(absl::StrCat(
        "--rdzv-conf ", key, "=", value,
        " has no effect: known are join_timeout (or timeout), last_call_timeout and is_host",
        nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?")));
  }
}

void NoteUnusedEndpoint(JobSpec& spec,
                        const std::function<bool(const std::string& host)>& is_here) {
  const RendezvousSpec& meeting = spec.rendezvous;
  if (spec.way != StartWay::kLocal || !spec.Has(OptionId::kRdzvEndpoint) || meeting.host.empty() ||
      meeting.host == "0.0.0.0" || meeting.host == "::" || is_here(meeting.host)) {
    return;
  }
  spec.notes.push_back(absl::StrCat(
      spec.Said(OptionId::kRdzvEndpoint), " is not used: ",
      spec.Has(OptionId::kNnodes) ? spec.Said(OptionId::kNnodes) : "one node (no --nnodes)",
      " runs on this machine alone; for more nodes say --nnodes N on each of them"));
}

void NoteUnusedAlone(JobSpec& spec) {
  if (spec.way != StartWay::kLocal) {
    return;
  }
  const std::string alone = spec.Has(OptionId::kNnodes) ? spec.Said(OptionId::kNnodes)
                            : spec.Has(OptionId::kStandalone)
                                ? "--standalone without --nnodes"
                                : "one node (no --nnodes, no --hosts)";
  for (const auto& [id, why] : kOfSeveral) {
    const auto given = spec.given.find(id);
    if (given == spec.given.end() || given->second.by_environment) {
      continue;
    }
    const bool said = !spec.rendezvous.file.empty() && IsOfElection(id);
    if (!said) {
      spec.notes.push_back(absl::StrCat(spec.Said(id), " has no effect: ", alone,
                                        " runs on this machine alone, and ", why));
    }
  }
}

std::string ServesElsewhere(const JobSpec& spec, const std::string& hostname) {
  const OptionId place =
      spec.Has(OptionId::kRdzvEndpoint) ? OptionId::kRdzvEndpoint : OptionId::kMasterAddr;
  return absl::StrCat("node rank 0 serves the job here, and ", spec.Said(place),
                      " is no address of this machine (", hostname,
                      "): if the machine of that name has --node-rank 0, too, each waits for "
                      "itself; give this one --node-rank 1 (of ",
                      spec.nodes_max, ": 0..", spec.nodes_max - 1, ")");
}

std::string StrangerThere(const JobSpec& spec, const std::string& place, const std::string& tried) {
  const bool stranger = absl::StrContains(tried, kNotTls) || absl::StrContains(tried, kNotAMaster);
  if (!stranger || !spec.rendezvous.others.empty()) {
    return "";
  }
  return absl::StrCat("another program listens at ", place, " (", tried,
                      "): stop it there, or take another port on every node (",
                      spec.Has(OptionId::kRdzvEndpoint) ? "--rdzv-endpoint" : "--master-port",
                      "); until then it is asked again and again");
}

}  // namespace muster
