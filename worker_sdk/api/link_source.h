// Connections for messages, from the agent, and what it is told of failures.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>

#include "muster/status.h"
#include "proto/base/unique_fd.h"
#include "worker_sdk/algorithm/layout.h"
#include "worker_sdk/api/meeting.h"
#include "worker_sdk/bootstrap/link.h"
#include "worker_sdk/transport/messages.h"

namespace muster {

class LinkSource : public MessageSource {
 public:
  LinkSource(const Link* link, const Layout& layout, uint32_t mine)
      : link_(link), layout_(layout), mine_(mine) {}
  Status Seek(uint32_t rank) override {
    return link_->Seek(layout_.InJob(rank), LinkChannel::kMessages);
  }
  std::optional<StatusOr<UniqueFd>> Take(uint32_t rank) override {
    std::optional<StatusOr<UniqueFd>> out =
        link_->Take(layout_.InJob(rank), LinkChannel::kMessages);
    if (out.has_value() && !out->ok()) {
      return StatusOr<UniqueFd>(AboutPeer(out->status(), rank));
    }
    return out;
  }
  // Once: what fails later may fail because of that. Of a rank that others have told us of, too.
  void Blame(uint32_t rank) override {
    if (link_ != nullptr && rank < layout_.world() && rank != mine_ && !blamed_.exchange(true)) {
      link_->Blame(layout_.InJob(rank));
    }
  }

  // The rank itself has failed, and of no other one's fault that it knows of: it is about to end.
  void TellFailing() {
    if (link_ != nullptr && !blamed_.exchange(true)) {
      link_->Blame(layout_.InJob(mine_));
    }
  }

 private:
  const Link* const
      link_;  // the communicator's; a world of one sends to itself only, and needs none
  const Layout& layout_;
  const uint32_t mine_;
  std::atomic<bool> blamed_ = false;
};

}  // namespace muster
