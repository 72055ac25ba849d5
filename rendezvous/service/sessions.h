// What the master keeps of each open stream. Values of the loop thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "proto/base/fence.h"
#include "proto/base/messages.h"
#include "proto/base/modex.h"
#include "proto/base/output_chunk.h"
#include "proto/wire/job_terms.h"
#include "proto/wire/secret.h"
#include "rendezvous/service/grpc_edge.h"
#include "rendezvous/service/known_user.h"

namespace muster {

// How long a stream may be open without having proved anything.
inline constexpr absl::Duration kHelloTime = absl::Seconds(10);

// The control stream of an agent.
struct AttendSession {
  uint64_t id = 0;
  std::unique_ptr<AttendCall> call;
  EdgePeer peer;
  Handshake handshake;
  bool proved = false;
  KnownUser user;     // that has proved it
  std::string job;    // the key of its job
  bool gone = false;  // its end was handled; only kDone is awaited
  JobTerms terms;
  std::optional<NodeId> node;  // as which it was admitted
  Incarnation incarnation;
  // Not yet sent (M3), in this order.
  std::optional<v1::Welcome> welcome;
  std::optional<MasterMessage> reply;
  std::optional<Directive> directive;
  std::deque<FencePiece> fences;  // one for each that the agent has sent, kFencesKept unasked
  ModexQueue modexes;
};

// Of one chunk given to a consumer. Shared by the loop that gave it and the consumer's `taken`,
// whichever ends last.
struct TakenState {
  bool taken = false;
  bool inside = true;  // on_chunk has not returned yet
};

// Its output stream.
struct StreamSession {
  uint64_t id = 0;
  std::unique_ptr<StreamCall> call;
  std::string job;  // its key; "" = not proved yet
  NodeId node;
  Incarnation incarnation;
  bool gone = false;
  bool half_closed = false;        // the agent has sent all it had
  bool with_consumer = false;      // one chunk is with on_chunk
  std::deque<OutputChunk> chunks;  // of the last frame
  size_t stdin_room = 0;
};

}  // namespace muster
