// What an agent and its helper muster-pmix tell each other, on a socket between the two. Both are
// of one build, so integers are in host order and there is no version; yet nothing that comes is
// trusted. Pure.
//
// A message is its length (u32, of what follows), its kind (u32, its place in PmixMessage) and its
// fields; a text has its length in front, a list its count.
//
// Invariants (cited by tests):
//  M1 what was encoded is decoded, however the bytes are cut;
//  M2 any other bytes are refused with the reason, and take memory in proportion to themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "agent/core/pmix_world.h"
#include "proto/base/ids.h"
#include "proto/base/limits.h"

namespace muster {

// agent -> helper
struct PmixServe {
  PmixWorld world;
  bool operator==(const PmixServe&) const = default;
};  // first, once; answered by PmixReady or PmixFailed
struct PmixFenced {
  bool ok = false;
  std::string bytes;  // of all nodes, in their order
  bool operator==(const PmixFenced&) const = default;
};  // answers PmixFence
struct PmixFound {
  uint32_t rank = 0;
  bool ok = false;
  std::string bytes;
  bool operator==(const PmixFound&) const = default;
};  // answers PmixWant
struct PmixShow {
  LocalRank client;
  bool operator==(const PmixShow&) const = default;
};  // answered by PmixShown, once the client has put something

// helper -> agent
struct PmixReady {
  std::vector<std::vector<std::string>> variables;  // by local rank: "NAME=VALUE"
  bool operator==(const PmixReady&) const = default;
};
struct PmixFailed {
  std::string why;
  bool operator==(const PmixFailed&) const = default;
};
struct PmixInit {
  LocalRank client;
  bool operator==(const PmixInit&) const = default;
};
struct PmixFinalized {
  LocalRank client;
  bool operator==(const PmixFinalized&) const = default;
};
struct PmixAborted {
  LocalRank client;
  int32_t code = 0;
  std::string message;
  bool operator==(const PmixAborted&) const = default;
};
struct PmixFence {
  std::string bytes;
  bool operator==(const PmixFence&) const = default;
};  // all clients of this node are in it
struct PmixNotServed {
  std::string what;
  bool operator==(const PmixNotServed&) const = default;
};  // a client has been refused it

struct PmixWant {
  uint32_t rank = 0;
  bool operator==(const PmixWant&) const = default;
};  // what this rank of another node has put
struct PmixShown {
  LocalRank client;
  bool ok = false;
  std::string bytes;
  bool operator==(const PmixShown&) const = default;
};

using PmixMessage =
    std::variant<PmixServe, PmixFenced, PmixReady, PmixFailed, PmixInit, PmixFinalized, PmixAborted,
                 PmixFence, PmixNotServed, PmixFound, PmixShow, PmixWant, PmixShown>;

// Of a message, without its length. The largest is a fence's; a world of 2^20 ranks takes 8 MiB.
inline constexpr size_t kPmixMessageBytesMax = kFenceBytesMax + 64;

// ResourceExhausted: it is longer than kPmixMessageBytesMax.
absl::StatusOr<std::string> EncodePmix(const PmixMessage& message);

class PmixReader {
 public:
  void Put(absl::string_view bytes) { bytes_.append(bytes.data(), bytes.size()); }
  // The next message, nullopt: not all of it is here. InvalidArgument: it is none, and nothing that
  // follows can be read.
  absl::StatusOr<std::optional<PmixMessage>> Next();

 private:
  std::string bytes_;  // less than one message and what was put last
};

}  // namespace muster
