// ssh says little and waits for each answer, without TCP_NODELAY until the session stands: two of
// its messages are held back until what went before is acknowledged, and an acknowledgement waits
// 40 ms for something to go with (Nagle's algorithm and delayed acknowledgements, RFC 9293 3.7.4
// and 3.8.6.3). So the TCP connections of some of our children get TCP_NODELAY, and acknowledge at
// once what has come. Where the kernel does not let us near (no pidfd_getfd before Linux 5.6, a
// ptrace_scope of 2), and where a child has no connection of its own (a proxy command), nothing
// changes.
#pragma once

#include <sys/types.h>
#include <uv.h>

#include <map>

#include "absl/time/time.h"
#include "proto/base/unique_fd.h"
#include "proto/wire/uv_handles.h"

namespace muster {

class TcpHaste {
 public:
  explicit TcpHaste(uv_loop_t* loop) : timer_(loop, [this] { HastenAll(); }) {}

  // `child` is ours and not reaped yet; it is let alone after two seconds.
  void Add(pid_t child);
  // Before it is reaped. Until then its connection may be open here, too: it ends only with this.
  void Drop(pid_t child);
  bool idle() const { return children_.empty(); }

 private:
  struct Connection {
    absl::Time until;
    UniqueFd socket;                            // the child's, once it has one
    absl::Time look_at = absl::InfinitePast();  // for that
    absl::Duration look_after = absl::ZeroDuration();
  };

  void HastenAll();
  static void Hasten(pid_t child, Connection& connection, absl::Time now);

  std::map<pid_t, Connection> children_;
  UvTimer timer_;
};

}  // namespace muster
