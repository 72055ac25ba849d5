#include "tests/worker_sdk/probe_groups.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

namespace {

constexpr int kColumns = 3;

[[noreturn]] void Fail(const std::string& why) {
  std::printf("wrong: %s\n", why.c_str());
  std::exit(1);
}

void Expect(bool good, const std::string& what) {
  if (!good) {
    Fail(what);
  }
}

muster::Communicator Group(muster::Communicator& of, int64_t color, int64_t key) {
  muster::StatusOr<std::optional<muster::Communicator>> group = of.Split(color, key);
  if (!group.ok() || !group->has_value()) {
    Fail(group.status().ToString());
  }
  return *std::move(*group);
}

// That the group has these ranks of the job, in this order, by what its calls compute.
void Check(muster::Communicator& group, int me, const std::vector<int64_t>& members) {
  Expect(group.size() == static_cast<int>(members.size()), "size");
  Expect(members.at(static_cast<size_t>(group.rank())) == me, "rank");
  Expect(group.local_rank() < group.local_size() && group.node_rank() < group.nodes(), "places");
  std::vector<int64_t> all(members.size());
  const int64_t mine = me;
  Expect(group.AllGather(&mine, all.data(), 1).ok() && all == members, "all_gather");
  int64_t local = 1;
  Expect(group.AllReduce(&local, 1).ok() && local == group.size(), "all_reduce of one");
  for (const size_t count : {size_t{3}, size_t{1} << 18}) {
    std::vector<float> data(count, static_cast<float>(me));
    float want = 0;
    for (const int64_t member : members) {
      want += static_cast<float>(member);
    }
    const muster::Status status = group.AllReduce(data.data(), static_cast<int64_t>(count));
    Expect(status.ok(), status.ToString());
    Expect(data == std::vector<float>(count, want), "all_reduce");
  }
  int64_t last = me;
  Expect(group.Broadcast(&last, 1, group.size() - 1).ok() && last == members.back(), "broadcast");
}

// Ranks from `first` on, `step` apart, up to `size`.
std::vector<int64_t> Every(int step, int first, int size) {
  std::vector<int64_t> out;
  for (int rank = first; rank < size; rank += step) {
    out.push_back(rank);
  }
  return out;
}

}  // namespace

int UseGroups(std::optional<muster::Communicator> all) {
  const int me = all->rank();
  const int size = all->size();
  const int first = me / kColumns * kColumns;  // of our row
  const std::vector<int64_t> in_row = Every(1, first, std::min(first + kColumns, size));
  const std::vector<int64_t> in_column = Every(kColumns, me % kColumns, size);
  muster::Communicator row = Group(*all, me / kColumns, 0);
  muster::Communicator column = Group(*all, me % kColumns, me);
  muster::Communicator backwards = Group(*all, 0, -me);
  std::vector<int64_t> reversed = Every(1, 0, size);
  reversed = {reversed.rbegin(), reversed.rend()};
  // Only even ranks get one.
  muster::StatusOr<std::optional<muster::Communicator>> even = all->Split(me % 2 == 0 ? 5 : -1);
  Expect(even.ok() && even->has_value() == (me % 2 == 0), "a group only of the even ranks");
  // One row after the other begins with the other one of its two groups.
  for (int i = 0; i < 20; ++i) {
    if (me / kColumns % 2 == i % 2) {
      Check(row, me, in_row);
      Check(column, me, in_column);
    } else {
      Check(column, me, in_column);
      Check(row, me, in_row);
    }
  }
  all.reset();
  if (even->has_value()) {
    Check(**even, me, Every(2, 0, size));
  }
  Check(backwards, me, reversed);
  muster::Communicator half = Group(backwards, me % 2, me);
  Check(half, me, Every(2, me % 2, size));
  muster::Communicator one = Group(half, me, 0);
  Check(one, me, {me});
  std::printf("rank %d of %d: groups are right\n", me, size);
  return 0;
}

int DieInAGroup(muster::Communicator& all, const std::string& how) {
  signal(SIGTERM, SIG_IGN);  // what the launcher does about the death is not the point
  muster::Communicator group = Group(all, all.rank() % 2, 0);
  std::vector<float> data(1 << 16, 1);
  const auto call = [&] { return group.AllReduce(data.data(), 1 << 16); };
  for (int i = 0; i < 50; ++i) {
    Expect(call().ok(), "all_reduce");
  }
  if (all.rank() == 1) {
    if (how == "group-exit") {
      _exit(0);
    }
    kill(getpid(), how == "group-stop" ? SIGSTOP : SIGKILL);
  }
  if (all.rank() % 2 == 1) {
    std::printf("%s\n", call().ToString().c_str());
    (void)all.Barrier();                 // so that nobody blames us for having left
    return how == "group-stop" ? 1 : 0;  // 1: the launcher ends the rank that is frozen
  }
  // Of a frozen rank nothing tells them, and an end of theirs would wake it.
  const muster::Status news = how == "group-stop" ? muster::Status() : all.Barrier();
  for (int i = 0; i < 50; ++i) {
    const muster::Status status = call();
    Expect(status.ok(), status.ToString());
  }
  std::printf("goes on after %s\n", news.ToString().c_str());
  return 0;
}

int FailToEnter(muster::Communicator& all) {
  const char* const door = std::getenv("MUSTER_AGENT_FD");
  if (all.rank() == 1 && door != nullptr) {
    close(std::atoi(door));
  }
  std::printf("%s\n", all.Split(0).status().ToString().c_str());
  int64_t one = 1;
  Expect(all.AllReduce(&one, 1).ok() && one == all.size(), "all_reduce");
  std::printf("goes on\n");
  return 0;
}
