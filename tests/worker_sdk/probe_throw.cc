#include "tests/worker_sdk/probe_throw.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <stdexcept>
#include <string>

#include "muster/communicator.h"

int Throw() {
  signal(SIGTERM, SIG_IGN);  // the first to hear of rank 1 ends, and the launcher stops the rest
  try {
    muster::StatusOr<muster::Communicator> comm = muster::Communicator::FromEnvironment();
    if (comm.ok() && comm->rank() == 1) {
      signal(SIGTERM, SIG_DFL);
      throw std::runtime_error("rank 1");
    }
    const muster::Status status = comm.ok() ? comm->Barrier() : comm.status();
    std::printf("%s\n", status.ToString().c_str());
    return status.ok() ? 0 : 1;
  } catch (const std::runtime_error&) {
    return pause();
  }
}
