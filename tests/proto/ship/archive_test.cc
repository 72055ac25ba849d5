#include "proto/ship/archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "proto/base/rng.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

ShipRead From(const std::string& bytes, size_t& at) {
  return [&bytes, &at](char* data, size_t size) {
    if (bytes.size() - at < size) {
      return absl::DataLossError("it ends");
    }
    std::memcpy(data, bytes.data() + at, size);
    at += size;
    return absl::OkStatus();
  };
}

absl::StatusOr<ShipEntry> ReadBack(const std::string& bytes) {
  size_t at = 0;
  absl::StatusOr<ShipEntry> entry = ReadShipHead(From(bytes, at));
  EXPECT_TRUE(!entry.ok() || at == bytes.size());
  return entry;
}

TEST(ShipArchive, A1WhatIsWrittenIsReadBack) {
  const ShipEntry entries[] = {
      {ShipKind::kFile, "train.py", 0644, 1'700'000'000'123'456'789, 17, ""},
      {ShipKind::kFile, "a/b c/\xff\n", 0777, -5, uint64_t{1} << 40, ""},
      {ShipKind::kFolder, "a", 0755, 0, 0, ""},
      {ShipKind::kLink, "a/link", 0, 0, 0, "../train.py"},
      {}};
  for (const ShipEntry& entry : entries) {
    const absl::StatusOr<ShipEntry> got = ReadBack(ShipHead(entry));
    ASSERT_TRUE(got.ok()) << entry.path << ": " << got.status();
    EXPECT_EQ(*got, entry);
  }
}

TEST(ShipArchive, A1NothingElseIsAccepted) {
  const ShipEntry good = {ShipKind::kFile, "x", 0644, 0, 3, ""};
  const auto with = [&good](auto change) {
    ShipEntry entry = good;
    change(entry);
    return ReadBack(ShipHead(entry)).status().code();
  };
  const auto invalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(with([](ShipEntry& e) { e.kind = ShipKind{0}; }), invalid);
  EXPECT_EQ(with([](ShipEntry& e) { e.kind = ShipKind{5}; }), invalid);
  EXPECT_EQ(with([](ShipEntry& e) { e.mode = 04755; }), invalid);
  EXPECT_EQ(with([](ShipEntry& e) { e.kind = ShipKind::kFolder; }), invalid);  // with a size
  EXPECT_EQ(with([](ShipEntry& e) { e.target = "y"; }), invalid);
  EXPECT_EQ(with([](ShipEntry& e) { e.kind = ShipKind::kEnd; }), invalid);
  EXPECT_EQ(with([](ShipEntry& e) { e.path = std::string(kShipPathBytesMax + 1, 'x'); }), invalid);
  std::string bytes = ShipHead(good);
  bytes[0] = 'X';
  EXPECT_THAT(std::string(ReadBack(bytes).status().message()), HasSubstr("does not begin"));
  EXPECT_TRUE(absl::IsDataLoss(ReadBack(ShipHead(good).substr(0, 20)).status()));
}

// Damaged heads are refused or stay within bounds; none is read beyond its end.
TEST(ShipArchive, A1RandomDamage) {
  SplitMix64 random(7);
  const std::string whole = ShipHead({ShipKind::kLink, "a/b", 0, 0, 0, "c"});
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = whole;
    bytes[random.Next() % bytes.size()] = static_cast<char>(random.Next());
    size_t at = 0;
    const absl::StatusOr<ShipEntry> entry = ReadShipHead(From(bytes, at));
    if (entry.ok()) {
      EXPECT_TRUE(entry->kind == ShipKind::kEnd || IsShipPath(entry->path));
      EXPECT_TRUE(entry->target.empty() || LinkStaysInside(entry->path, entry->target));
    }
  }
}

TEST(ShipArchive, A2Paths) {
  for (const char* path : {"a", "a/b", "..a", "a..", "a b", ".hidden"}) {
    EXPECT_TRUE(IsShipPath(path)) << path;
  }
  for (const char* path :
       {"", "/", "/a", "a/", "a//b", "..", "../a", "a/../b", ".", "./a", "a/."}) {
    EXPECT_FALSE(IsShipPath(path)) << path;
    EXPECT_FALSE(ReadBack(ShipHead({ShipKind::kFile, path, 0, 0, 0, ""})).ok()) << path;
  }
  EXPECT_FALSE(IsShipPath(absl::string_view("a\0b", 3)));
}

TEST(ShipArchive, A2Links) {
  struct Case {
    const char* path;
    const char* target;
    bool stays;
  };
  for (const Case& c : std::initializer_list<Case>{{"l", "a", true},
                                                   {"l", "a/../b", true},
                                                   {"l", "..", false},
                                                   {"l", "../a", false},
                                                   {"l", "a/../../b", false},
                                                   {"l", "/etc/passwd", false},
                                                   {"l", "", false},
                                                   {"a/l", "..", true},
                                                   {"a/l", "../b", true},
                                                   {"a/l", "../../b", false},
                                                   {"a/b/l", "../../c", true},
                                                   {"a/b/l", "./../../c//d", true},
                                                   {"a/b/l", "../../../c", false}}) {
    EXPECT_EQ(LinkStaysInside(c.path, c.target), c.stays) << c.path << " -> " << c.target;
    EXPECT_EQ(ReadBack(ShipHead({ShipKind::kLink, c.path, 0, 0, 0, c.target})).ok(), c.stays);
  }
}

}  // namespace
}  // namespace muster
