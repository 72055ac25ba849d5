// The agent's two ways out: to the master (control) and to the person (output). Loop thread only;
// every callback comes on the loop thread. Implementations: in process (launcher/local_master),
// gRPC (agent/io/master_client).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "proto/base/fence.h"
#include "proto/base/messages.h"
#include "proto/base/modex.h"
#include "proto/base/output_chunk.h"

namespace muster {

// Control. Never blocks; what cannot be sent while the link is down is dropped (messages are
// levels, not edges).
class MasterLink {
 public:
  struct Callbacks {
    std::function<void()> on_up;
    // The link retries by itself, with jitter, until Stop. `told`: the master says why it cannot
    // take this node in yet.
    std::function<void(std::string why, bool told)> on_down;
    std::function<void(const MasterMessage&)> on_message;
    std::function<void(FencePiece)> on_fence;  // of the round, or an earlier one
    std::function<void(ModexNote)> on_modex;   // the same
    // Optional: a try to connect failed (before on_up, or between on_down and the next on_up).
    std::function<void(std::string why)> on_try_failed;
  };
  virtual ~MasterLink() = default;
  virtual void Start(Callbacks callbacks) = 0;
  virtual void Send(AgentMessage message) = 0;
  // For the node that was admitted last. None is lost while the link is up.
  virtual void SendFence(FencePiece piece) = 0;
  // The same, but some may be lost.
  virtual void SendModex(ModexNote note) = 0;
  // Sends what is queued, then closes; `done` always comes, within a second.
  virtual void Stop(std::function<void()> done) = 0;
  // The link cannot come back after on_down: it was one connected descriptor (an ssh channel).
  virtual bool IsFinal() const { return false; }
};

// Output and stdin; a channel of its own, so that no flood delays a beat.
class OutputLink {
 public:
  struct Callbacks {
    std::function<void()> on_writable;                          // Send may be tried again
    std::function<void(std::string bytes, bool eof)> on_stdin;  // for the worker(s) that get stdin
    std::function<void(std::string why)> on_closed;             // nobody reads any more
    std::function<void(uint16_t rows, uint16_t columns)> on_window;  // of the user's terminal
  };
  virtual ~OutputLink() = default;
  virtual void Start(Callbacks callbacks) = 0;
  // False: not taken now; on_writable follows.
  [[nodiscard]] virtual bool Send(OutputChunk& chunk) = 0;
  // Some of what the workers wrote will be nowhere, for this reason: the job has not gone well.
  // Heard before Finish's `done`, if anybody is there; where it is said again the first is kept.
  virtual void Lost(const std::string& why) = 0;
  // The worker took `bytes` of stdin: more may come. At most kStdinWindow bytes are under way.
  virtual void StdinTaken(size_t bytes) = 0;
  // All chunks sent so far have been shown when `done` comes, or nobody reads them any more. Lasts
  // as long as the reader takes.
  virtual void Finish(std::function<void()> done) = 0;
};

}  // namespace muster
