#include "proto/tls/tls_door.h"

#include <utility>

#include "proto/base/limits.h"

namespace muster {
namespace {

constexpr size_t kCallersMax = 2 * size_t{kNodesMax};  // all nodes of a job come at once

}  // namespace

TlsDoor::TlsDoor(uv_loop_t* loop, const TlsIdentity& identity, bool hear,
                 std::function<void(Caller&&)> handler, size_t unproved_max)
    : hear_(hear),
      handler_(std::move(handler)),
      wake_(loop,
            [this] {
              for (Caller& caller : mailbox_.TakeAll()) {
                handler_(std::move(caller));
              }
            }),
      mailbox_(kCallersMax, [this] { wake_.Send(); }),
      thread_(&identity, unproved_max) {
  wake_.Unref();
}

void TlsDoor::Take(UniqueFd socket, const std::string& peer, absl::Duration within) {
  thread_.Accept(std::move(socket), peer, hear_, within,
                 [this, peer](absl::StatusOr<TlsThread::Arrival> arrival) {
                   // Where there is no room its inner socket is closed, and so it ends.
                   (void)mailbox_.Post({peer, std::move(arrival)});
                 });
}

}  // namespace muster
