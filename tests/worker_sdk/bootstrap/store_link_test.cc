#include "worker_sdk/bootstrap/store_link.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace muster {
namespace {

class MapStore : public Store {
 public:
  Status Set(const std::string& key, const std::string& value) override {
    values_[key] = value;
    return {};
  }
  StatusOr<std::string> Get(const std::string& key) override {
    const auto at = values_.find(key);
    return at == values_.end()
               ? StatusOr<std::string>(Status(StatusCode::kUnavailable, "no " + key))
               : at->second;
  }

 private:
  std::map<std::string, std::string> values_;
};

// What a process that has the memory of `link` mapped reads.
LineEnd EndOf(const Link& link, uint32_t rank) {
  const size_t bytes = link.geometry().SlotsAt();
  void* const mapped = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, link.arena().get(), 0);
  EXPECT_NE(mapped, MAP_FAILED);
  const auto* const line = reinterpret_cast<const ArenaLine*>(static_cast<const uint8_t*>(mapped) +
                                                              link.geometry().LinesAt() +
                                                              rank * ArenaGeometry::kLineBytes);
  const auto out = static_cast<LineEnd>(line->gone);
  munmap(mapped, bytes);
  return out;
}

bool AreOneFile(const UniqueFd& a, const UniqueFd& b) {
  struct stat first = {};
  struct stat second = {};
  return fstat(a.get(), &first) == 0 && fstat(b.get(), &second) == 0 &&
         first.st_ino == second.st_ino && first.st_dev == second.st_dev;
}

class StoreLinkTest : public testing::Test {
 protected:
  std::unique_ptr<Link> Open(uint32_t rank) {
    StatusOr<std::unique_ptr<Link>> out =
        StoreLink::Open(store_, roster_, GroupOf(roster_, rank).layout, rank, nullptr);
    EXPECT_TRUE(out.ok()) << out.status().message();
    return out.ok() ? *std::move(out) : nullptr;
  }
  // A rank that is this process as well.
  void Add(pid_t pid, uint64_t cpus) {
    RankCard card;
    card.pid = static_cast<uint32_t>(pid);
    card.cpus[0] = cpus;
    roster_.cards.push_back(card);
  }

  MapStore store_;
  Roster roster_ = {9, {}};
};

TEST_F(StoreLinkTest, AllHaveOneArenaAndItsNumbers) {
  Add(getpid(), 0b011);
  Add(getpid(), 0b110);
  const std::unique_ptr<Link> zero = Open(0);
  const std::unique_ptr<Link> one = Open(1);
  EXPECT_TRUE(AreOneFile(zero->arena(), one->arena()));
  EXPECT_EQ(one->geometry(), ArenaFor(2, 1, 2));
  EXPECT_EQ(one->cpus(), 3u) << "of both";
  EXPECT_EQ(one->number(), 9u);
}

TEST_F(StoreLinkTest, TheLowerRankMakesThePipe) {
  Add(getpid(), 1);
  Add(getpid(), 1);
  const std::unique_ptr<Link> zero = Open(0);
  const std::unique_ptr<Link> one = Open(1);
  ASSERT_TRUE(one->Seek(0, LinkChannel::kMessages).ok());
  EXPECT_FALSE(one->Take(0, LinkChannel::kMessages).has_value()) << "rank 0 has not asked yet";
  ASSERT_TRUE(zero->Seek(1, LinkChannel::kMessages).ok());
  std::optional<StatusOr<UniqueFd>> higher = one->Take(0, LinkChannel::kMessages);
  std::optional<StatusOr<UniqueFd>> lower = zero->Take(1, LinkChannel::kMessages);
  ASSERT_TRUE(lower.has_value() && lower->ok() && higher.has_value() && higher->ok());
  EXPECT_TRUE(AreOneFile(**lower, **higher));
}

// It can be opened as long as the lower rank is there, which may leave once it has sent something.
TEST_F(StoreLinkTest, TheLowerRankSendsNothingBeforeTheHigherHasThePipe) {
  Add(getpid(), 1);
  Add(getpid(), 1);
  std::unique_ptr<Link> zero = Open(0);
  std::unique_ptr<Link> one = Open(1);
  ASSERT_TRUE(zero->Seek(1, LinkChannel::kMessages).ok());
  EXPECT_FALSE(zero->Take(1, LinkChannel::kMessages).has_value());
  one.reset();
  const std::optional<StatusOr<UniqueFd>> never = zero->Take(1, LinkChannel::kMessages);
  ASSERT_TRUE(never.has_value());
  EXPECT_EQ(never->status().ToString(), "UNAVAILABLE: rank 1 has ended");
}

TEST_F(StoreLinkTest, WhoClosesSaysSo) {
  Add(getpid(), 1);
  Add(getpid(), 1);
  std::unique_ptr<Link> zero = Open(0);
  const std::unique_ptr<Link> one = Open(1);
  one->Watch();
  EXPECT_EQ(EndOf(*one, 0), LineEnd::kNone);
  zero.reset();
  EXPECT_EQ(EndOf(*one, 0), LineEnd::kClosed);
}

TEST_F(StoreLinkTest, WhoDiesIsSeen) {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  Add(getpid(), 1);
  Add(child, 1);
  const std::unique_ptr<Link> link = Open(0);
  ASSERT_TRUE(link->Seek(1, LinkChannel::kMessages).ok());
  link->Watch();
  EXPECT_EQ(EndOf(*link, 1), LineEnd::kNone);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  link->Watch();
  EXPECT_EQ(EndOf(*link, 1), LineEnd::kDied);
}

// Ranks 0 and 2 here, 1 and 3 there; each host has memory of its own, with places of its own.
TEST_F(StoreLinkTest, EachHostHasItsMemoryAndConnectionsAreBetweenThem) {
  std::vector<std::unique_ptr<RankDoor>> doors;
  for (uint32_t rank = 0; rank < 4; ++rank) {
    Add(getpid(), uint64_t{1} << rank);
    RankCard& card = roster_.cards.back();
    card.host[0] = static_cast<char>('a' + rank % 2);
    doors.push_back(*RankDoor::Open());
    doors.back()->Describe({"127.0.0.1"}, card);
  }
  std::vector<std::unique_ptr<Link>> links;
  for (uint32_t rank = 0; rank < 4; ++rank) {
    StatusOr<std::unique_ptr<Link>> link = StoreLink::Open(
        store_, roster_, GroupOf(roster_, rank).layout, rank, std::move(doors[rank]));
    ASSERT_TRUE(link.ok()) << link.status().message();
    links.push_back(*std::move(link));
  }
  EXPECT_TRUE(AreOneFile(links[0]->arena(), links[2]->arena()));
  EXPECT_TRUE(AreOneFile(links[1]->arena(), links[3]->arena()));
  EXPECT_FALSE(AreOneFile(links[0]->arena(), links[1]->arena()));
  EXPECT_EQ(links[3]->geometry(), ArenaFor(2, 2, 4));
  EXPECT_EQ(links[3]->cpus(), 2u);

  const auto connect = [&](uint32_t rank, uint32_t other, UniqueFd& out) {
    return links[rank]->Connect(
        {other},
        [&](uint32_t who, StatusOr<UniqueFd> answer) {
          EXPECT_EQ(who, other);
          Status status = answer.status();
          out = answer.ok() ? *std::move(answer) : UniqueFd();
          return status;
        },
        [](uint32_t) { return Status(); });
  };
  UniqueFd ends[2];
  std::thread lower([&] { EXPECT_TRUE(connect(2, 3, ends[0]).ok()); });
  EXPECT_TRUE(connect(3, 2, ends[1]).ok());
  lower.join();
  ASSERT_EQ(write(ends[0].get(), "x", 1), 1);
  char byte = 0;
  pollfd one = {ends[1].get(), POLLIN, 0};
  ASSERT_EQ(poll(&one, 1, 10'000), 1);
  EXPECT_EQ(read(ends[1].get(), &byte, 1), 1);
  EXPECT_EQ(byte, 'x');

  // Who leaves says so to his host, by his place.
  links[2].reset();
  EXPECT_EQ(EndOf(*links[0], 1), LineEnd::kClosed);
  EXPECT_EQ(EndOf(*links[1], 1), LineEnd::kNone);
}

TEST_F(StoreLinkTest, MemoryThatCannotBeOpenedIsNamed) {
  Add(getpid(), 1);
  Add(getpid(), 1);
  ASSERT_TRUE(store_.Set("muster/memory/0", std::string(8, '\xff')).ok());
  StatusOr<std::unique_ptr<Link>> got =
      StoreLink::Open(store_, roster_, GroupOf(roster_, 1).layout, 1, nullptr);
  EXPECT_EQ(got.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(got.status().message().find("memory of a rank on this host"), std::string::npos);
}

}  // namespace
}  // namespace muster
