// A worker for tests/integration/sdk_test.py; `launch` starts it. What it does is its first word.
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "muster/communicator.h"
#include "tests/worker_sdk/probe_groups.h"
#include "tests/worker_sdk/probe_parts.h"
#include "tests/worker_sdk/probe_throw.h"

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

// Sums that are started together, waited for in any order, among calls that block.
int Started(muster::Communicator& comm) {
  constexpr size_t kSums = 40;
  std::minstd_rand random(7);
  const float ranks = static_cast<float>(comm.size() * (comm.size() + 1)) / 2;
  for (int round = 0; round < 5; ++round) {
    std::vector<std::vector<float>> data;
    std::vector<muster::Work> works;
    for (size_t i = 0; i < kSums; ++i) {
      const size_t count = random() % 3 == 0 ? random() % 100000 : random() % 100;
      data.emplace_back(count, static_cast<float>(comm.rank() + 1) * static_cast<float>(i));
    }
    for (size_t i = 0; i < kSums; ++i) {
      works.push_back(comm.AllReduceAsync(data[i].data(), data[i].data(),
                                          static_cast<int64_t>(data[i].size()),
                                          muster::DType::kFloat32, muster::ReduceOp::kSum));
      if (i % 13 == 12) {
        if (const muster::Status status = comm.Barrier(); !status.ok() || !works[i].Test()) {
          return Say(status);
        }
      }
    }
    for (size_t i = kSums; i > 0; --i) {
      if (const muster::Status status = works[i - 1].Wait(); !status.ok()) {
        return Say(status);
      }
      for (const float value : data[i - 1]) {
        if (value != ranks * static_cast<float>(i - 1)) {
          std::printf("wrong: %f\n", static_cast<double>(value));
          return 1;
        }
      }
    }
  }
  std::printf("rank %d of %d: what was started is right\n", comm.rank(), comm.size());
  return 0;
}

// Everybody with everybody, small and large, while a reduction goes on and another one begins.
int Messages(muster::Communicator& comm) {
  constexpr muster::DType kType = muster::DType::kInt32;
  const int size = comm.size();
  for (const int64_t count : {1, 1000, 100000}) {
    std::vector<std::vector<int32_t>> out;
    std::vector<std::vector<int32_t>> in;
    std::vector<muster::Work> works;
    const auto elements = static_cast<size_t>(count);
    for (int rank = 0; rank < size; ++rank) {
      out.emplace_back(elements, comm.rank() * size + rank);
      in.emplace_back(elements);
    }
    std::vector<float> sum(100000, 1);
    muster::Work reduced = comm.AllReduceAsync(sum.data(), sum.data(), 100000,
                                               muster::DType::kFloat32, muster::ReduceOp::kSum);
    for (size_t i = 0; i < static_cast<size_t>(size); ++i) {
      const int rank = static_cast<int>(i);
      works.push_back(comm.SendAsync(out[i].data(), count, kType, rank, comm.rank()));
      works.push_back(comm.RecvAsync(in[i].data(), count, kType, rank, rank));
    }
    if (const muster::Status status = comm.Barrier(); !status.ok()) {  // what was started goes on
      return Say(status);
    }
    for (muster::Work& work : works) {
      if (const muster::Status status = work.Wait(); !status.ok()) {
        return Say(status);
      }
    }
    for (int rank = 0; rank < size; ++rank) {
      for (const int32_t value : in[static_cast<size_t>(rank)]) {
        if (value != rank * size + comm.rank()) {
          std::printf("wrong: %d from %d\n", value, rank);
          return 1;
        }
      }
    }
    if (!reduced.Wait().ok() || sum[99999] != static_cast<float>(size)) {
      return Say(reduced.Wait());
    }
  }
  std::printf("rank %d of %d: messages are right\n", comm.rank(), comm.size());
  return 0;
}

// All ranks send more to each other than anybody keeps, and receive it in the opposite order.
int MessagesBackwards(muster::Communicator& comm) {
  constexpr muster::DType kType = muster::DType::kInt32;
  constexpr int kMessages = 3000;
  constexpr int64_t kCount = 4000;
  std::vector<std::vector<int32_t>> out;
  std::vector<muster::Work> works;
  for (int i = 0; i < kMessages; ++i) {
    out.emplace_back(kCount, comm.rank() * kMessages + i);
    for (int rank = 0; rank < comm.size(); ++rank) {
      works.push_back(comm.SendAsync(out.back().data(), kCount, kType, rank, i));
    }
  }
  std::vector<int32_t> in(kCount);
  for (int i = kMessages - 1; i >= 0; --i) {
    for (int rank = comm.size() - 1; rank >= 0; --rank) {
      const muster::Status status = comm.Recv(in.data(), kCount, kType, rank, i);
      if (!status.ok() || in.front() != rank * kMessages + i || in.back() != in.front()) {
        std::printf("wrong: %d from %d\n", in.front(), rank);
        return Say(status);
      }
    }
  }
  for (muster::Work& work : works) {
    if (const muster::Status status = work.Wait(); !status.ok()) {
      return Say(status);
    }
  }
  std::printf("rank %d of %d: messages are right\n", comm.rank(), comm.size());
  return 0;
}

// What was sent in one communicator leaves while the sender waits in another one.
int MessageThenGroup(muster::Communicator& comm) {
  muster::StatusOr<std::optional<muster::Communicator>> group = comm.Split(0);
  if (!group.ok()) {
    return Say(group.status());
  }
  int32_t value = comm.rank();
  muster::Status status;
  for (int rank = 1; status.ok() && comm.rank() == 0 && rank < comm.size(); ++rank) {
    status = comm.Send(&value, 1, muster::DType::kInt32, rank);
  }
  if (comm.rank() != 0) {
    status = comm.Recv(&value, 1, muster::DType::kInt32, 0);
  }
  if (status.ok()) {
    status = (*group)->Barrier();
  }
  return Say(status);
}

// A child by fork() is told that it is no rank, and ends; its parent's communicator goes on.
int Fork(std::optional<muster::Communicator> comm) {
  const int32_t sent = 5;
  int32_t got = 0;
  muster::Work parents = comm->RecvAsync(&got, 1, muster::DType::kInt32, comm->rank());
  if (muster::Work(comm->BarrierAsync()).Wait().ok() && fork() == 0) {
    int32_t value = 1;
    int refused = 0;
    for (const muster::Status& status :
         {comm->AllReduce(&value, 1), comm->Send(&value, 1, muster::DType::kInt32, 0),
          muster::Work(comm->BarrierAsync()).Wait(), comm->Split(0).status(),
          comm->Reform().status(), comm->Commit(1), parents.Wait()}) {
      refused += status.code() == muster::StatusCode::kFailedPrecondition ? 1 : 0;
    }
    comm.reset();
    _exit(parents.Test() ? 7 - refused : 8);
  }
  int how = 0;
  if (wait(&how) < 0 || how != 0) {
    std::printf("the child ended with %d\n", how);
    return 1;
  }
  if (!comm->Send(&sent, 1, muster::DType::kInt32, comm->rank()).ok() || !parents.Wait().ok() ||
      got != sent) {
    std::printf("the message came to somebody else\n");
    return 1;
  }
  return Sum(*comm);
}

// Rank 1 dies once rank 0 has heard of it; rank 0 waits for more, the others for rank 0.
int MessageUntilDeath(muster::Communicator& comm) {
  signal(SIGTERM, SIG_IGN);
  std::vector<float> data(100000);
  constexpr muster::DType kType = muster::DType::kFloat32;
  if (comm.rank() == 1) {
    muster::Status status = comm.Send(data.data(), 1, kType, 0);
    if (status.ok()) {
      status = comm.Recv(data.data(), 1, kType, 0);
    }
    if (!status.ok()) {
      return Say(status);
    }
    kill(getpid(), SIGKILL);
  }
  muster::Status status = comm.Recv(data.data(), 1, kType, comm.rank() == 0 ? 1 : 0);
  if (comm.rank() == 0) {
    status = status.ok() ? comm.Send(data.data(), 1, kType, 1) : status;
    const muster::Status late = comm.Recv(data.data(), 100000, kType, 1);
    std::printf("%s, then %s\n", status.ToString().c_str(), late.ToString().c_str());
    for (int rank = 2; rank < comm.size(); ++rank) {
      status = comm.Send(data.data(), 1, kType, rank);
    }
  }
  return status.ok() ? 0 : Say(status);
}

// Sums whose bits all ranks compare: those of rank 0 against everybody's own. How far they are off
// is said: 2^-8 of it would be what bfloat16 may be.
int Bits(muster::Communicator& comm) {
  constexpr size_t kCount = 300001;
  std::vector<float> data(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    data[i] =
        1.0F +
        static_cast<float>((i * 7919 + static_cast<size_t>(comm.rank()) * 104729) % 4096) / 4096;
  }
  double off = 0;
  std::vector<double> exact(data.begin(), data.end());
  muster::Status status = comm.AllReduce(exact.data(), kCount);
  if (status.ok()) {
    status = comm.AllReduce(data.data(), kCount);
  }
  std::vector<float> first = data;
  if (status.ok()) {
    status = comm.Broadcast(first.data(), kCount);
  }
  if (!status.ok()) {
    return Say(status);
  }
  for (size_t i = 0; i < kCount; ++i) {
    off = std::max(off, std::abs(static_cast<double>(data[i]) - exact[i]) / exact[i]);
  }
  const bool same = std::equal(first.begin(), first.end(), data.begin(), [](float a, float b) {
    return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
  });
  std::printf("rank %d: %s bits, off by %.6f\n", comm.rank(), same ? "equal" : "other", off);
  return same ? 0 : 1;
}

double Now() {
  const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
  return now.count();
}

// Calls for ever; `how` ends rank 1 on the way, unless the test does. The others say what they
// learn, and how soon.
int UntilDeath(muster::Communicator& comm, const std::string& how) {
  signal(SIGTERM, SIG_IGN);  // what the launcher does about the death is not the point
  std::vector<float> data(1 << 16, 1);
  for (int i = 0;; ++i) {
    if (how == "until" && i == 1) {
      std::printf("%d has begun\n", comm.rank());
    }
    if (comm.rank() == 1 && i == 50 && how != "until") {
      if (how == "exit") {
        _exit(0);
      }
      kill(getpid(), how == "stop" ? SIGSTOP : SIGKILL);
    }
    const double begin = Now();
    if (const muster::Status status = comm.AllReduce(data.data(), 1 << 16); !status.ok()) {
      std::printf("%.3f s: %s\n", Now() - begin, status.ToString().c_str());
      return how == "stop" ? 1 : 0;  // 1: the launcher ends the rank that is frozen
    }
  }
}

int Disagree(muster::Communicator& comm) {
  signal(SIGTERM, SIG_IGN);
  std::vector<float> data(8);
  return Say(comm.AllReduce(data.data(), comm.rank() == 0 ? 8 : 7));
}

int DisagreeOnRoot(muster::Communicator& comm) {
  signal(SIGTERM, SIG_IGN);
  std::vector<float> in(8);
  std::vector<float> out(8);
  return Say(comm.Reduce(in.data(), out.data(), 8, muster::DType::kFloat32, muster::ReduceOp::kSum,
                         comm.rank()));
}

// The next of a series of calls that is the same on all ranks. Every one ends on every rank only
// when all have come to it, or to one soon after.
muster::Status Any(muster::Communicator& comm, std::minstd_rand& random, std::vector<float>& in,
                   std::vector<float>& out) {
  const auto count = static_cast<int64_t>(random() % 3 == 0 ? random() % 60000 : random() % 40);
  const int root = static_cast<int>(random() % static_cast<unsigned>(comm.size()));
  constexpr muster::DType kType = muster::DType::kFloat32;
  constexpr muster::ReduceOp kSum = muster::ReduceOp::kSum;
  std::vector<int64_t> counts(static_cast<size_t>(comm.size()));
  for (size_t i = 0; i < counts.size(); ++i) {
    counts[i] = (i + static_cast<size_t>(root)) % 2 == 0 ? count : 0;
  }
  switch (random() % 11) {
    case 0:
      return comm.Barrier();
    case 1:
      return comm.AllGather(in.data(), out.data(), count, kType);
    case 2:
      return comm.Broadcast(in.data(), count, kType, root);
    case 3:
      return comm.Reduce(in.data(), out.data(), count, kType, kSum, root);
    case 4:
      return comm.AllToAll(in.data(), out.data(), count, kType);
    case 5:
      return comm.ReduceScatter(in.data(), out.data(), count, kType, kSum);
    case 6:
      return comm.Scatter(in.data(), out.data(), count, kType, root);
    case 7:
      return comm.AllGatherV(in.data(), out.data(), counts.data(), kType);
    case 8:
      return comm.ReduceScatterV(in.data(), out.data(), counts.data(), kType, kSum);
    case 9:
      counts.assign(counts.size(), count);
      return comm.AllToAllV(in.data(), counts.data(), out.data(), counts.data(), kType);
    default:
      return comm.AllReduce(in.data(), out.data(), count, kType, kSum);
  }
}

// Random calls until rank `seed` modulo the size is killed, at a random moment. The others say what
// they learn, and how long after the death.
int Chaos(muster::Communicator& comm, unsigned seed) {
  std::minstd_rand random(seed + 1);
  const auto size = static_cast<unsigned>(comm.size());
  std::vector<float> in(size_t{60000} * size, 1);
  std::vector<float> out(in.size());
  const auto microseconds = static_cast<long>(1000 + random() % 100000);
  const double begin = Now();
  if (static_cast<unsigned>(comm.rank()) == seed % size) {
    signal(SIGALRM, [](int) { kill(getpid(), SIGKILL); });
    const itimerval timer = {{0, 0}, {0, microseconds}};
    setitimer(ITIMER_REAL, &timer, nullptr);
  }
  for (;;) {
    if (const muster::Status status = Any(comm, random, in, out); !status.ok()) {
      std::printf("%.3f s: %s\n", Now() - begin - static_cast<double>(microseconds) / 1e6,
                  status.ToString().c_str());
      return 0;
    }
  }
}

// Rank 1 fails in the first round; the second one is whole.
int Restart(muster::Communicator& comm) {
  const int sum = Sum(comm);
  const char* const restarts = std::getenv("TORCHELASTIC_RESTART_COUNT");
  if (sum != 0 || restarts == nullptr || *restarts != '0') {
    return sum;
  }
  if (comm.rank() == 1) {
    return 3;
  }
  std::vector<float> data(1000);
  while (comm.AllReduce(data.data(), 1000).ok()) {
  }
  return 0;
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

// What begins without a communicator.
int (*WithoutOne(const std::string& what))() {
  return what == "again" ? Again : what == "throw" ? Throw : nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  const std::string what = argc > 1 ? argv[1] : "sum";
  if (int (*const alone)() = WithoutOne(what); alone != nullptr) {
    return alone();
  }
  if (what == "chaos") {
    signal(SIGTERM, SIG_IGN);  // one may die while another is still on its way to Chaos()
  }
  muster::StatusOr<muster::Communicator> comm = muster::Communicator::FromEnvironment();
  if (!comm.ok()) {
    return Say(comm.status());
  }
  if (what == "sum") {
    return Sum(*comm);
  }
  if (what == "messages") {
    return Messages(*comm);
  }
  if (what == "messages-backwards") {
    return MessagesBackwards(*comm);
  }
  if (what == "message-then-group") {
    return MessageThenGroup(*comm);
  }
  if (what == "fork") {
    return Fork(*std::move(comm));
  }
  if (what == "message-death") {
    return MessageUntilDeath(*comm);
  }
  if (what == "started") {
    return Started(*comm);
  }
  if (what == "bits") {
    return Bits(*comm);
  }
  if (what == "disagree") {
    return Disagree(*comm);
  }
  if (what == "roots") {
    return DisagreeOnRoot(*comm);
  }
  if (what == "parts") {
    return UseParts(*comm);
  }
  if (what == "parts-differ") {
    return DisagreeOnParts(*comm);
  }
  if (what == "expect-more") {
    return ExpectMore(*comm);
  }
  if (what == "chaos") {
    return Chaos(*comm, static_cast<unsigned>(std::atoi(argc > 2 ? argv[2] : "0")));
  }
  if (what == "restart") {
    return Restart(*comm);
  }
  if (what == "groups") {
    return UseGroups(*std::move(comm));
  }
  if (what == "group-closed") {
    return FailToEnter(*comm);
  }
  if (what.rfind("group-", 0) == 0) {
    return DieInAGroup(*comm, what);
  }
  return UntilDeath(*comm, what);
}
