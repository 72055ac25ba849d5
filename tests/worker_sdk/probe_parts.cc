#include "tests/worker_sdk/probe_parts.h"

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <random>
#include <vector>

namespace {

constexpr muster::DType kType = muster::DType::kInt32;
using Numbers = std::vector<int32_t>;
using Counts = std::vector<int64_t>;

int Say(const muster::Status& status) {
  std::printf("%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

// `count` numbers that tell from whom they are, and for whom.
Numbers From(int rank, int to, int64_t count) {
  Numbers out(static_cast<size_t>(count));
  std::iota(out.begin(), out.end(), rank * 1000003 + to * 7919);
  return out;
}
void Append(Numbers& out, const Numbers& more) { out.insert(out.end(), more.begin(), more.end()); }
int64_t SumOf(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

// One of each: what comes, and what has to.
struct Expected {
  Numbers in;
  Numbers out;
  Numbers want;
};

class Round {
 public:
  Round(muster::Communicator& comm, std::minstd_rand& random)
      : comm_(comm), rank_(comm.rank()), root_(static_cast<int>(random()) % comm.size()) {
    for (int i = 0; i < comm.size(); ++i) {
      counts_.push_back(AnyCount(random));
    }
    for (int from = 0; from < comm.size(); ++from) {
      for (int to = 0; to < comm.size(); ++to) {
        const int64_t count = AnyCount(random);
        if (from == rank_) {
          sends_.push_back(count);
        }
        if (to == rank_) {
          receives_.push_back(count);
        }
      }
    }
    const int64_t own = counts_[static_cast<size_t>(rank_)];
    Numbers all;
    int64_t begin = 0;
    for (int i = 0; i < comm.size(); ++i) {
      Append(all, From(i, 0, counts_[static_cast<size_t>(i)]));
      begin += i < rank_ ? counts_[static_cast<size_t>(i)] : 0;
      Append(pairs_.in, From(rank_, i, sends_[static_cast<size_t>(i)]));
      Append(pairs_.want, From(i, rank_, receives_[static_cast<size_t>(i)]));
    }
    const Numbers mine = From(rank_, 0, own);
    gathered_ = {mine, {}, all};
    at_root_ = {mine, {}, rank_ == root_ ? all : Numbers()};
    scattered_ = {rank_ == root_ ? all : Numbers(), {}, mine};
    reduced_.in = Numbers(static_cast<size_t>(SumOf(counts_)));
    std::iota(reduced_.in.begin(), reduced_.in.end(), rank_);
    for (int64_t i = begin; i < begin + own; ++i) {
      reduced_.want.push_back(comm.size() * static_cast<int32_t>(i) +
                              comm.size() * (comm.size() - 1) / 2);
    }
  }

  muster::Status Blocking() {
    Clear();
    muster::Status status =
        comm_.AllGatherV(gathered_.in.data(), gathered_.out.data(), counts_.data(), kType);
    if (status.ok()) {
      status = comm_.GatherV(at_root_.in.data(), at_root_.out.data(), counts_.data(), kType, root_);
    }
    if (status.ok()) {
      status =
          comm_.ScatterV(scattered_.in.data(), scattered_.out.data(), counts_.data(), kType, root_);
    }
    if (status.ok()) {
      status = comm_.ReduceScatterV(reduced_.in.data(), reduced_.out.data(), counts_.data(), kType,
                                    muster::ReduceOp::kSum);
    }
    if (status.ok()) {
      status = comm_.AllToAllV(pairs_.in.data(), sends_.data(), pairs_.out.data(), receives_.data(),
                               kType);
    }
    return status;
  }
  muster::Status Started() {
    Clear();
    Counts counts = counts_;  // gone before they end
    std::vector<muster::Work> works;
    works.push_back(
        comm_.AllGatherVAsync(gathered_.in.data(), gathered_.out.data(), counts.data(), kType));
    works.push_back(
        comm_.GatherVAsync(at_root_.in.data(), at_root_.out.data(), counts.data(), kType, root_));
    works.push_back(comm_.ScatterVAsync(scattered_.in.data(), scattered_.out.data(), counts.data(),
                                        kType, root_));
    works.push_back(comm_.ReduceScatterVAsync(reduced_.in.data(), reduced_.out.data(),
                                              counts.data(), kType, muster::ReduceOp::kSum));
    counts.assign(counts.size(), -1);
    works.push_back(comm_.AllToAllVAsync(pairs_.in.data(), sends_.data(), pairs_.out.data(),
                                         receives_.data(), kType));
    for (muster::Work& work : works) {
      if (muster::Status status = work.Wait(); !status.ok()) {
        return status;
      }
    }
    return {};
  }
  bool IsRight() const {
    for (const Expected* one : {&gathered_, &at_root_, &scattered_, &reduced_, &pairs_}) {
      if (one->out != one->want) {
        return false;
      }
    }
    return true;
  }

 private:
  static int64_t AnyCount(std::minstd_rand& random) {
    const int64_t most[] = {1, 10, 3000, 50000};
    return static_cast<int64_t>(random()) % most[random() % 4];
  }
  void Clear() {
    for (Expected* one : {&gathered_, &at_root_, &scattered_, &reduced_, &pairs_}) {
      one->out.assign(one->want.size(), -1);
    }
  }

  muster::Communicator& comm_;
  const int rank_;
  const int root_;
  Counts counts_;
  Counts sends_;
  Counts receives_;
  Expected gathered_;
  Expected at_root_;
  Expected scattered_;
  Expected reduced_;
  Expected pairs_;
};

}  // namespace

int UseParts(muster::Communicator& comm) {
  std::minstd_rand random(5);  // the same on every rank
  for (int i = 0; i < 10; ++i) {
    Round round(comm, random);
    for (const bool started : {false, true}) {
      if (const muster::Status status = started ? round.Started() : round.Blocking();
          !status.ok()) {
        return Say(status);
      }
      if (!round.IsRight()) {
        std::printf("wrong in round %d\n", i);
        return 1;
      }
    }
  }
  std::printf("rank %d of %d: parts are right\n", comm.rank(), comm.size());
  return 0;
}

int DisagreeOnParts(muster::Communicator& comm) {
  signal(SIGTERM, SIG_IGN);
  Counts counts(static_cast<size_t>(comm.size()), 4);
  if (comm.rank() == 1) {
    counts[0] = 3;
    counts[1] = 5;  // the same in all
  }
  const Numbers in(5);
  Numbers out(4 * counts.size());
  return Say(comm.AllGatherV(in.data(), out.data(), counts.data(), kType));
}

int ExpectMore(muster::Communicator& comm) {
  signal(SIGTERM, SIG_IGN);
  const Counts sends(static_cast<size_t>(comm.size()), 4);
  Counts receives = sends;
  receives[0] += comm.rank() == 1 ? 1 : 0;
  const Numbers in(4 * sends.size());
  Numbers out(in.size() + 1);
  return Say(comm.AllToAllV(in.data(), sends.data(), out.data(), receives.data(), kType));
}
