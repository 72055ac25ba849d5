// A communicator of libmuster's, by its C ABI: the extension is bound to none of C++.
#pragma once

#include <chrono>
#include <memory>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "muster/muster.h"

namespace muster_torch {

// Throws, with libmuster's sentence, unless `code` is MUSTER_OK. On the thread that made the call.
void Check(int code);
// Whether Check() has seen a peer lost since this was asked last, by any group of this process.
bool TakeLost();

class Communicator {
 public:
  // Of the processes that share `store`. Each wait for another one there, the meeting behind it,
  // and every later call may take `timeout`; zero: as long as the store allows, and no limit.
  Communicator(c10d::Store& store, int rank, int size, std::chrono::milliseconds timeout);
  ~Communicator() { muster_free(get()); }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  muster_comm* get() const { return comm_; }

 private:
  muster_comm* comm_ = nullptr;
};

// Owned by the group, and by its calls that have not ended: the last of them closes it.
using CommunicatorPtr = std::shared_ptr<Communicator>;

// The interpreter begins to end: it destroys the groups that are left before anybody knows whether
// an exception or sys.exit() ends the process.
void BeginToEnd();
// Of a group that is being destroyed. Once the interpreter ends, `comm` goes with the process: as
// that of a rank that has failed, unless the exit status is 0. `held` is never given back then:
// memory that messages are still sent from.
void EndInTime(CommunicatorPtr comm, std::shared_ptr<void> held);

}  // namespace muster_torch
