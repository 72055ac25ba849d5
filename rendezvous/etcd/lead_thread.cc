#include "rendezvous/etcd/lead_thread.h"

#include <memory>
#include <utility>

#include "proto/base/check.h"

namespace muster {
namespace {

// It tells of what it waits for at most once a second, and a loop is not busy for as long.
constexpr size_t kEventsMax = 1024;

}  // namespace

LeadThread::LeadThread(uv_loop_t* loop, const EtcdPlace& place, std::string self,
                       uint32_t epoch_min, LeadershipEvents events)
    : wake_(loop,
            [this] {
              for (const std::function<void()>& event : mailbox_.TakeAll()) {
                event();
              }
            }),
      mailbox_(kEventsMax, [this] { wake_.Send(); }),
      leadership_(place, std::move(self), epoch_min, Posted(std::move(events))),
      thread_([this] { leadership_.Run(); }) {
  wake_.Unref();
}

LeadThread::~LeadThread() {
  leadership_.Stop();
  thread_.join();
}

LeadershipEvents LeadThread::Posted(LeadershipEvents events) {
  // Shared by the functions below, all of which are leadership_'s.
  const auto to = std::make_shared<const LeadershipEvents>(std::move(events));
  return {[this, to](const LeadRight& right) {
            CHECK(mailbox_.Post([to, right] { to->on_led(right); }));
          },
          [this, to] { CHECK(mailbox_.Post([to] { to->on_lost(); })); },
          [this, to](const std::string& who) {
            CHECK(mailbox_.Post([to, who] { to->on_waiting(who); }));
          },
          [this, to](const std::string& what) {
            CHECK(mailbox_.Post([to, what] { to->on_few_named(what); }));
          }};
}

}  // namespace muster
