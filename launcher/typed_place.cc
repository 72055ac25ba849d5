#include "launcher/typed_place.h"

#include <cstddef>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "agent/io/node_facts.h"
#include "proto/ship/sha256.h"

namespace muster {
namespace {

constexpr absl::Duration kPlaceFreeWithin = absl::Seconds(2);
constexpr size_t kDigestBytesUsed = 16;  // no two by chance

// By which an agent of this place and job is known on its machine.
std::string HoldName(const JobSpec& spec) {
  Sha256 digest;
  for (const std::string& part : {spec.plan.job_id, spec.rendezvous.host, spec.rendezvous.file,
                                  absl::StrCat(spec.rendezvous.port), PlaceKey(spec, Hostname())}) {
    digest.Add(absl::StrCat(part.size(), ":", part));
  }
  const std::string name = digest.Digest();
  return absl::StrCat("typed/", absl::BytesToHexString(name.substr(0, kDigestBytesUsed)));
}

}  // namespace

std::string PlaceKey(const JobSpec& spec, const std::string& hostname) {
  return spec.node_rank.has_value() ? absl::StrCat("rank/", *spec.node_rank)
                                    : absl::StrCat("host/", hostname);
}

absl::StatusOr<NodeHold> TakePlace(const JobSpec& spec) {
  return TakeNodeHold(HoldName(spec),
                      spec.node_rank.has_value() ? kPlaceFreeWithin : absl::ZeroDuration());
}

}  // namespace muster
