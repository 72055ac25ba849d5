// Whether MASTER_ADDR:MASTER_PORT can be reached from here, asked a moment after a round has begun:
// what meets there would wait for minutes, without a word, behind a firewall between the nodes.
// Loop thread only. (A TcpConnector resolves names on libuv's threads, for which a node's limits
// may leave no room.)
#pragma once

#include <uv.h>

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "proto/base/messages.h"
#include "proto/base/unique_fd.h"
#include "proto/wire/uv_handles.h"

namespace muster {

class MasterProbe {
 public:
  struct Times {
    absl::Duration first = absl::Seconds(1);  // short jobs are over by then
    absl::Duration answer = absl::Seconds(3);
    absl::Duration again = absl::Seconds(2);  // the other end may just be ending
  };
  // `hostname`: of this node, in the warning.
  MasterProbe(uv_loop_t* loop, std::string hostname, Times times);
  MasterProbe(uv_loop_t* loop, std::string hostname)
      : MasterProbe(loop, std::move(hostname), Times()) {}

  // Asks where the round has another machine that the address is of. `listens`: an agent does so
  // there; else it may be a worker that does not yet. Warns once, when two tries have failed.
  void BeginRound(const Assignment& assignment, bool listens);
  void EndRound();

 private:
  void Ask();
  void Answered(int error);

  uv_loop_t* const loop_;
  const std::string hostname_;
  const Times times_;
  std::string host_;
  uint16_t port_ = 0;
  bool listens_ = false;
  bool failed_ = false;  // once
  UniqueFd socket_;
  std::unique_ptr<UvPoll> poll_;
  UvTimer timer_;  // until the next try, or the end of this one
};

}  // namespace muster
