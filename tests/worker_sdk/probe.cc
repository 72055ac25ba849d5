// A worker for tests/integration/sdk_test.py; `launch` starts it. What it does is its first word.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "muster/communicator.h"

namespace {

int Say(const muster::Status& status) {
  std::printf("%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

// Sums over all ranks, small and large.
int Sum(muster::Communicator& comm) {
  for (const size_t count : {size_t{1}, size_t{100}, size_t{1} << 20}) {
    std::vector<float> data(count, static_cast<float>(comm.rank() + 1));
    if (const muster::Status status = comm.AllReduce(data.data(), static_cast<int64_t>(count));
        !status.ok()) {
      return Say(status);
    }
    const float want = static_cast<float>(comm.size() * (comm.size() + 1)) / 2;
    for (const float value : data) {
      if (value != want) {
        std::printf("wrong: %f\n", static_cast<double>(value));
        return 1;
      }
    }
  }
  std::printf("rank %d of %d: sums are right\n", comm.rank(), comm.size());
  return 0;
}

// Calls for ever; `how` ends rank 1 on the way. The others say what they learn, and how soon.
int UntilDeath(muster::Communicator& comm, const std::string& how) {
  signal(SIGTERM, SIG_IGN);  // what the launcher does about the death is not the point
  std::vector<float> data(1 << 16, 1);
  for (int i = 0;; ++i) {
    if (comm.rank() == 1 && i == 50) {
      if (how == "exit") {
        _exit(0);
      }
      kill(getpid(), how == "stop" ? SIGSTOP : SIGKILL);
    }
    const auto begin = std::chrono::steady_clock::now();
    if (const muster::Status status = comm.AllReduce(data.data(), 1 << 16); !status.ok()) {
      const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
      std::printf("%.3f s: %s\n", waited.count(), status.ToString().c_str());
      return how == "stop" ? 1 : 0;  // 1: the launcher ends the rank that is frozen
    }
  }
}

int Disagree(muster::Communicator& comm) {
  signal(SIGTERM, SIG_IGN);
  std::vector<float> data(8);
  return Say(comm.AllReduce(data.data(), comm.rank() == 0 ? 8 : 7));
}

// Opens and closes communicators; all must meet each time.
int Again() {
  for (int i = 0; i < 5; ++i) {
    muster::StatusOr<muster::Communicator> comm = muster::Communicator::FromEnvironment();
    int64_t one = 1;
    if (!comm.ok() || !comm->AllReduce(&one, 1).ok() || one != comm->size()) {
      return Say(comm.status());
    }
  }
  std::printf("met again\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  const std::string what = argc > 1 ? argv[1] : "sum";
  if (what == "again") {
    return Again();
  }
  muster::StatusOr<muster::Communicator> comm = muster::Communicator::FromEnvironment();
  if (!comm.ok()) {
    return Say(comm.status());
  }
  if (what == "sum") {
    return Sum(*comm);
  }
  if (what == "disagree") {
    return Disagree(*comm);
  }
  return UntilDeath(*comm, what);
}
