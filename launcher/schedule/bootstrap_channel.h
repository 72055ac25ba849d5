// The starter's side of a new agent's channel: skips what a login shell prints, sends the program
// where the node has none, or says who has it, hands over the bootstrap. Then the channel belongs
// to gRPC. Loop thread only.
#pragma once

#include <uv.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/base/unique_fd.h"
#include "proto/wire/bootstrap.h"
#include "proto/wire/uv_handles.h"

namespace muster {

// What may come before the agent's line; more is not a login shell's greeting.
inline constexpr size_t kBannerBytesMax = 256u << 10;
inline constexpr size_t kBannerTailBytes = 2048;  // kept for the failure's sentence

// The agent's program, read when the first node wants it.
class AgentProgram {
 public:
  explicit AgentProgram(std::string path) : path_(std::move(path)) {}
  const std::string& path() const { return path_; }
  // Valid as long as this object.
  absl::StatusOr<absl::string_view> Bytes();
  // Their SHA-256 in hex digits, as sha256sum prints it.
  absl::StatusOr<std::string> Digest();

 private:
  const std::string path_;
  std::string bytes_;
  std::string digest_;
};

class BootstrapChannel {
 public:
  struct Callbacks {
    std::function<void(UniqueFd socket)> on_ready;
    // `closed`: the far side ended it, so that its process ends too; else we will not have it.
    std::function<void(std::string why, bool closed)> on_failed;
    // Some of the program was taken. It keeps the channel, and may be none.
    std::function<void()> on_progress = {};
    // The node, a machine like this one, wants the program: Send or Refer is awaited, at any time.
    // `fetches`: Refer will do. Comes again after Refer, if it was in vain. None = nothing is sent.
    std::function<void(bool fetches)> on_wanted = {};
    // Where the program was wanted, before on_ready: who else may get it from there now. For a
    // frame with a program_token, and no other.
    std::function<void(std::optional<ProgramGiverAddress>)> on_gives = {};
  };
  // `frame` = BootstrapFrame's. on_ready or on_failed, once, from the loop; they and on_wanted may
  // destroy the channel.
  BootstrapChannel(uv_loop_t* loop, UniqueFd socket, std::string frame, Callbacks callbacks);

  // These two after on_wanted. `program` outlives the channel.
  void Send(absl::string_view program);
  void Refer(size_t bytes, const std::string& digest, const std::string& token,
             const ProgramGiverAddress& from);

  // The end of what came before an agent's line, "" if nothing did.
  const std::string& banner() const { return banner_; }
  // Of the agent's program: what the node has not taken yet.
  size_t unsent() const { return sends_ == Sends::kSent && !agent_is_there_ ? body_.size() : 0; }

 private:
  void Wait();
  void OnEvents(int events);
  void Read();
  void Write();
  // Whether to read on.
  bool OnLine(const std::string& line);
  bool OnWanted(absl::string_view machine);
  void OnGives();
  void Ready();
  void Fail(const std::string& why, bool closed = false);

  UniqueFd socket_;
  const std::string frame_;
  const Callbacks callbacks_;
  std::unique_ptr<UvPoll> poll_;
  size_t received_ = 0;
  std::string line_;
  std::string banner_;
  std::string head_;        // being sent, before body_
  absl::string_view body_;  // frame_ or the program's bytes
  enum class Sends { kNothing, kAsked, kReferred, kSent };
  Sends sends_ = Sends::kNothing;  // of the program
  bool fetches_ = false;           // as it asked
  bool agent_is_there_ = false;    // the frame is being sent; but for OnGives, nothing more is read
};

}  // namespace muster
