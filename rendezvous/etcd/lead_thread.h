// A Leadership on a thread of its own, its events on a loop.
//
// Thread rule: everything and every callback on the thread of the loop given.
#pragma once

#include <uv.h>

#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "proto/base/mailbox.h"
#include "proto/wire/uv_handles.h"
#include "rendezvous/etcd/leadership.h"

namespace muster {

class LeadThread {
 public:
  LeadThread(uv_loop_t* loop, const EtcdPlace& place, std::string self, uint32_t epoch_min,
             LeadershipEvents events);
  ~LeadThread();  // gives the lead back, if it has it; waits for etcd, but not for long
  LeadThread(const LeadThread&) = delete;
  LeadThread& operator=(const LeadThread&) = delete;

  bool Leads() const { return leadership_.Leads(); }

 private:
  LeadershipEvents Posted(LeadershipEvents events);

  UvAsync wake_;
  Mailbox<std::function<void()>> mailbox_;
  Leadership leadership_;
  std::thread thread_;
};

}  // namespace muster
