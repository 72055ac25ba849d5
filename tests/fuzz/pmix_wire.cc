// Messages between an agent and its PMIx server, in pieces, and what the agent makes of them.
#include "agent/core/pmix_wire.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/core/pmix_node.h"
#include "proto/base/check.h"
#include "tests/fuzz/fuzz_target.h"

namespace muster::fuzz {
namespace {

PmixWorld World() {
  return {.name = "w",
          .folder = "/f",
          .node = 0,
          .hosts = {"a", "b"},
          .ranks = {{1, 2}, {0}},
          .apps = {0, 0, 1}};
}

std::string Encoded(const PmixMessage& message) {
  const absl::StatusOr<std::string> bytes = EncodePmix(message);
  CHECK(bytes.ok());
  return *bytes;
}

}  // namespace

std::vector<std::string> Seeds() {
  const PmixReady ready = {{{"A=1"}, {}}};
  return {Encoded(PmixServe{World()}),
          Encoded(PmixFailed{"no"}),
          absl::StrCat(Encoded(ready), Encoded(PmixInit{{1}}), Encoded(PmixFence{"cards"}),
                       Encoded(PmixFinalized{{1}})),
          absl::StrCat(Encoded(ready), Encoded(PmixAborted{{0}, 3, "why"}),
                       Encoded(PmixNotServed{"spawn"})),
          absl::StrCat(Encoded(ready), Encoded(PmixWant{0}), Encoded(PmixWant{0}),
                       Encoded(PmixShown{{1}, true, "card"}), Encoded(PmixShown{{1}, true, ""})),
          absl::StrCat(Encoded(PmixFound{2, true, "card"}), Encoded(PmixShow{{1}})),
          Encoded(PmixFenced{true, "all"})};
}

void Run(absl::string_view bytes) {
  PmixReader reader;
  PmixNode node(World());
  size_t begun = 0;
  while (true) {
    absl::StatusOr<std::optional<PmixMessage>> next = reader.Next();
    if (!next.ok()) {
      return;
    }
    if (!next->has_value()) {
      if (bytes.empty()) {
        return;
      }
      reader.Put(bytes.substr(0, 5));
      bytes.remove_prefix(std::min<size_t>(5, bytes.size()));
      continue;
    }
    const PmixMessage message = **std::move(next);
    PmixReader again;  // what was read is what is written
    again.Put(Encoded(message));
    const absl::StatusOr<std::optional<PmixMessage>> same = again.Next();
    CHECK(same.ok() && same->has_value() && **same == message);
    for (const PmixEffect& effect : node.Take(message)) {
      begun += std::holds_alternative<PmixStart>(effect) ? 1 : 0;
      begun += std::holds_alternative<PmixNoStart>(effect) ? 1 : 0;
      if (const auto* kill = std::get_if<PmixKill>(&effect)) {
        CHECK(kill->worker.value < 2);
      }
      if (std::holds_alternative<PmixEnter>(effect)) {
        node.Fenced(std::string("all"));
      }
      if (const auto* seek = std::get_if<PmixSeek>(&effect)) {
        CHECK(seek->node == 1 && seek->rank == 0);
        node.Found(0, std::string("card"));
      }
      if (std::holds_alternative<PmixStart>(effect)) {
        node.Show(2);
      }
      if (const auto* tell = std::get_if<PmixTell>(&effect)) {
        CHECK(tell->rank == 2);
      }
    }
    CHECK(begun <= 1);  // N1
  }
}

}  // namespace muster::fuzz
