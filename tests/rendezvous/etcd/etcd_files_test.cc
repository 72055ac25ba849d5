#include "rendezvous/etcd/etcd_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/base/rng.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

using Keys = std::map<std::string, std::string>;  // what an etcd holds
using Files = std::map<uint64_t, std::string>;    // the same, as a folder would
using What = JournalTask::What;

JournalTask Task(What what, uint64_t file, const std::string& bytes = "") {
  return {what, file, bytes, absl::OkStatus()};
}

// S2, and what the change makes of `keys`.
void Apply(const EtcdChange& change, Keys& keys) {
  EXPECT_LE(change.puts.size() + change.deleted_prefixes.size(), kEtcdChangeKeysMax);
  size_t bytes = 0;
  std::set<std::string> named;
  for (const std::string& prefix : change.deleted_prefixes) {
    std::erase_if(keys, [&](const auto& one) { return absl::StartsWith(one.first, prefix); });
  }
  for (const EtcdChange::Put& put : change.puts) {
    bytes += put.value.size();
    EXPECT_TRUE(named.insert(put.key).second) << put.key;
    for (const std::string& prefix : change.deleted_prefixes) {
      EXPECT_FALSE(absl::StartsWith(put.key, prefix)) << put.key;
    }
    keys[put.key] = put.value;
  }
  EXPECT_LE(bytes, kEtcdChangeBytesMax);
}

// What the next master finds.
EtcdFiles::Listing Listed(const Keys& keys) {
  EtcdFiles next("/m/");
  std::vector<EtcdEntry> entries;
  for (const auto& [key, value] : keys) {
    entries.push_back({key, value, 1});
  }
  const absl::StatusOr<EtcdFiles::Listing> listing = next.Take(entries);
  EXPECT_TRUE(listing.ok()) << listing.status();
  return *listing;
}

Files Found(const Keys& keys) {
  Files files;
  for (const StoredFile& file : Listed(keys).files) {
    files[file.file] = file.bytes;
  }
  return files;
}

TEST(EtcdFiles, AFileIsWhatWasWrittenLastAndAppended) {
  EtcdFiles files("/m/");
  Keys keys;
  const auto plan = files.PlanFor({Task(What::kReplace, 1, "old"), Task(What::kAppend, 1, "er"),
                                   Task(What::kReplace, 2, "two"), Task(What::kReplace, 1, "new"),
                                   Task(What::kAppend, 1, "er"), Task(What::kAppend, 2, "!")});
  EXPECT_THAT(plan.ends, ElementsAre(0, 0, 0, 1, 1, 1));
  for (const EtcdChange& change : plan.changes) {
    Apply(change, keys);
  }
  EXPECT_EQ(Found(keys), (Files{{1, "newer"}, {2, "two!"}}));
  EXPECT_THAT(Listed(keys).garbage, IsEmpty());
  for (const EtcdChange& change : files.PlanFor({Task(What::kRemove, 1)}).changes) {
    Apply(change, keys);
  }
  EXPECT_EQ(Found(keys), (Files{{2, "two!"}}));
}

// S1
TEST(EtcdFiles, OneOfSeveralChangesIsNeverHalfThere) {
  EtcdFiles files("/m/");
  Keys keys;
  Apply(files.PlanFor({Task(What::kReplace, 1, "old")}).changes.front(), keys);
  const std::string large(3 * kEtcdChangeBytesMax + 1, 'x');
  const auto plan = files.PlanFor({Task(What::kReplace, 1, large)});
  ASSERT_THAT(plan.changes, SizeIs(4));
  for (const EtcdChange& change : plan.changes) {
    EXPECT_EQ(Found(keys), (Files{{1, "old"}}));
    Apply(change, keys);
  }
  EXPECT_EQ(Found(keys), (Files{{1, large}}));
}

TEST(EtcdFiles, WhatWasLeftOfAnUnfinishedOneIsGarbage) {
  EtcdFiles files("/m/");
  Keys keys;
  Apply(files.PlanFor({Task(What::kReplace, 1, "old")}).changes.front(), keys);
  const std::string large(kEtcdChangeBytesMax + 1, 'x');
  for (const uint64_t file : {uint64_t{1}, uint64_t{2}}) {
    Apply(files.PlanFor({Task(What::kReplace, file, large)}).changes.front(), keys);
  }
  for (const EtcdChange& change : Listed(keys).garbage) {
    Apply(change, keys);
  }
  EXPECT_EQ(Found(keys), (Files{{1, "old"}}));
  EXPECT_THAT(keys, SizeIs(2));
}

TEST(EtcdFiles, AStrangeKeyIsNamed) {
  for (const char* key : {"/m/jobs/1/head", "/m/jobs/0000000000000001/tail", "/m/jobs/",
                          "/m/jobs/0000000000000001/0000000000000001/x"}) {
    EtcdFiles files("/m/");
    const auto taken = files.Take({{key, "0000000000000001", 1}});
    EXPECT_TRUE(absl::IsDataLoss(taken.status())) << key;
    EXPECT_THAT(std::string(taken.status().message()), HasSubstr(key));
  }
}

// The same as a folder would hold, after any batches, also where masters follow each other.
TEST(EtcdFiles, AgreeWithAFolder) {
  SplitMix64 random(7);
  for (int round = 0; round < 50; ++round) {
    auto files = std::make_unique<EtcdFiles>("/m/");
    Keys keys;
    Files folder;
    for (int batch = 0; batch < 6; ++batch) {
      std::vector<JournalTask> tasks;
      for (uint64_t left = random.Below(150); left > 0; --left) {
        const uint64_t file = 1 + random.Below(5);
        const uint64_t large = random.Below(60) == 0 ? kEtcdChangeBytesMax / 3 : 0;
        const std::string bytes(1 + large + random.Below(9), static_cast<char>('a' + left % 26));
        const uint64_t what = random.Below(10);
        if (what == 0) {
          folder.erase(file);
          tasks.push_back(Task(What::kRemove, file));
        } else if (what < 3 || folder.count(file) == 0) {
          folder[file] = bytes;
          tasks.push_back(Task(What::kReplace, file, bytes));
        } else {
          folder[file] += bytes;
          tasks.push_back(Task(What::kAppend, file, bytes));
        }
      }
      for (const EtcdChange& change : files->PlanFor(tasks).changes) {
        Apply(change, keys);
      }
      ASSERT_EQ(Found(keys), folder) << round;
      ASSERT_THAT(Listed(keys).garbage, IsEmpty()) << round;
      if (random.Below(3) == 0) {
        files = std::make_unique<EtcdFiles>("/m/");
        std::vector<EtcdEntry> entries;
        for (const auto& [key, value] : keys) {
          entries.push_back({key, value, 1});
        }
        ASSERT_TRUE(files->Take(entries).ok());
      }
    }
  }
}

}  // namespace
}  // namespace muster
