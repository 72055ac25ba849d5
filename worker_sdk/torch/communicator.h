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

}  // namespace muster_torch
