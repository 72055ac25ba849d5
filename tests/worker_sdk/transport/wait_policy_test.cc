#include "worker_sdk/transport/wait_policy.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/proto/base/tcp_pair.h"

namespace muster {
namespace {

using std::chrono::microseconds;

TEST(WaitPolicy, SpinsOnlyWhereEachRankHasACore) {
  EXPECT_GT(WaitPolicyFor(2, 2).spins, 0U);
  EXPECT_EQ(WaitPolicyFor(3, 2).spins, 0U);
}

TEST(WaitPolicy, AShortWaitIsNotLongAndALongOneIs) {
  for (const WaitPolicy& policy : {WaitPolicyFor(1, 1), WaitPolicyFor(2, 1)}) {
    EXPECT_FALSE(policy.IsLong(microseconds(19)));
    EXPECT_TRUE(policy.IsLong(microseconds(200)));
  }
}

TEST(WaitPolicy, OnACrowdedMachineAWaitIsLongEarlyUnlessTheCrowdIsOurs) {
  const auto cores = static_cast<uint32_t>(sysconf(_SC_NPROCESSORS_ONLN));
  std::atomic<bool> done = false;
  std::vector<std::thread> crowd(static_cast<size_t>(2 * sysconf(_SC_NPROCESSORS_ONLN) + 1));
  for (std::thread& one : crowd) {
    one = std::thread([&] {
      while (!done) {
      }
    });
  }
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  bool early = false;
  bool at_once = false;
  while (!(early && at_once) && std::chrono::steady_clock::now() < limit) {
    early |= WaitPolicyFor(1, cores).IsLong(microseconds(20));
    at_once |= WaitPolicyFor(1, cores).IsLong(microseconds(0), OurCore::kMaybe);
  }
  EXPECT_TRUE(early);
  EXPECT_TRUE(at_once);
  EXPECT_FALSE(WaitPolicyFor(1, cores).IsLong(microseconds(19)));
  // With a part of the machine only, the number says nothing of ours.
  EXPECT_FALSE(WaitPolicyFor(1, cores - 1).IsLong(microseconds(199), OurCore::kMaybe));
  EXPECT_FALSE(WaitPolicyFor(cores + 1, cores).IsLong(microseconds(199), OurCore::kMaybe));
  done = true;
  for (std::thread& one : crowd) {
    one.join();
  }
}

TEST(WaitPolicy, WhatStandsBehindUsIsLetForwardSoonUnlessYieldsServeIt) {
  const auto cores = static_cast<uint32_t>(sysconf(_SC_NPROCESSORS_ONLN));
  const WaitPolicy of_a_part = WaitPolicyFor(0, cores - 1);  // which asks for no crowd
  EXPECT_FALSE(of_a_part.IsLong(microseconds(19), OurCore::kShared));
  EXPECT_TRUE(of_a_part.IsLong(microseconds(20), OurCore::kShared));
  EXPECT_FALSE(of_a_part.IsLong(microseconds(199), OurCore::kOwn));
  EXPECT_FALSE(WaitPolicyFor(cores + 1, cores).IsLong(microseconds(199), OurCore::kShared));
}

struct Affinity {  // of this thread, which has it again at the end
  cpu_set_t cores;
  Affinity() { sched_getaffinity(0, sizeof(cores), &cores); }
  ~Affinity() { sched_setaffinity(0, sizeof(cores), &cores); }
};

bool KernelTellsHowItCame(int fd, int core) {
  int came_on = -1;
  socklen_t size = sizeof(came_on);
  unsigned adapter = 0;
  socklen_t adapter_size = sizeof(adapter);
  return getsockopt(fd, SOL_SOCKET, SO_INCOMING_CPU, &came_on, &size) == 0 && came_on == core &&
         getsockopt(fd, SOL_SOCKET, SO_INCOMING_NAPI_ID, &adapter, &adapter_size) == 0;
}

// What goes to this machine itself is taken in on its sender's core.
TEST(WaitPolicy, SeesThatASenderOfThisMachineIsOnOurCore) {
  const auto [ours, theirs] = TcpPair();
  const Affinity before;
  const auto pin = [](int core) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  };
  for (int sender = 0, other = -1; sender < CPU_SETSIZE; ++sender) {
    if (!CPU_ISSET(sender, &before.cores)) {
      continue;
    }
    pin(sender);
    char byte = 'x';
    ASSERT_EQ(send(theirs.get(), &byte, 1, 0), 1);
    ASSERT_EQ(recv(ours.get(), &byte, 1, 0), 1);
    const bool tells = KernelTellsHowItCame(ours.get(), sender);
    EXPECT_EQ(CoreSharedWith(ours.get()) == OurCore::kShared, tells);
    if (other >= 0) {
      pin(other);
      EXPECT_EQ(CoreSharedWith(ours.get()), OurCore::kOwn);
    }
    other = sender;
  }
  EXPECT_EQ(CoreSharedWith(-1), OurCore::kOwn);
}

TEST(WaitPolicy, ReadsTheNumberOfRunningThreads) {
  EXPECT_FALSE(IsCrowded("0.20 9.18 9.12 2/80 11206\n", 2));
  EXPECT_TRUE(IsCrowded("0.20 0.18 0.12 3/80 11206\n", 2));
  EXPECT_TRUE(IsCrowded("21/80", 16));
  EXPECT_FALSE(IsCrowded("20/80", 16));
  for (const char* nonsense :
       {"", " ", "/", "x/80", "0.2 0.1 0.1 /80", "99999999999999999999/80"}) {
    EXPECT_FALSE(IsCrowded(nonsense, 0)) << nonsense;
  }
}

}  // namespace
}  // namespace muster
