#include "agent/core/group_hello.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace muster {
namespace {

const ArenaGeometry round_has = ArenaFor(3, 4, 10);

// Ranks 4 and 7 of a node that also runs rank 5, and two ranks of two other nodes.
LinkHello Good() {
  LinkHello hello;
  hello.rank = 4;
  hello.place = 1;
  hello.group = kGroupMin;
  hello.local_size = 2;
  hello.nodes = 3;
  hello.world_size = 4;
  return hello;
}

struct Case {
  std::function<void(LinkHello& hello, std::vector<uint32_t>& members)> change;
  std::string want;  // "": it is fine
};

TEST(GroupHelloTest, WhatMakesNoSenseIsNamed) {
  const std::vector<Case> cases = {
      {[](auto&, auto&) {}, ""},
      {[](auto& h, auto&) { h.group = UINT64_MAX; }, ""},
      {[](auto& h, auto&) { h.group = kGroupMin - 1; },
       "a group has number 4294967295: want 4294967296 or more"},
      {[](auto& h, auto&) { h.local_size = 0; }, "a group has 0 ranks on this node: want 1..3"},
      {[](auto& h, auto&) { h.local_size = 4; }, "a group has 4 ranks on this node: want 1..3"},
      {[](auto& h, auto&) { h.local_size = UINT32_MAX; },
       "a group has 4294967295 ranks on this node: want 1..3"},
      {[](auto& h, auto&) { h.nodes = 0; }, "a group has 0 nodes: want 1..4"},
      {[](auto& h, auto&) { h.nodes = 5; }, "a group has 5 nodes: want 1..4"},
      {[](auto& h, auto&) { h.world_size = 1; }, "a group has 1 ranks: want 2..10"},
      {[](auto& h, auto&) { h.world_size = 11; }, "a group has 11 ranks: want 2..10"},
      {[](auto& h, auto&) { h.world_size = 3; },
       "a group has 3 ranks, 2 of them on this node, and 3 nodes: that does not fit"},
      {[](auto& h, auto&) { h.nodes = 1; },
       "a group has 4 ranks, 2 of them on this node, and 1 nodes: that does not fit"},
      {[](auto& h, auto&) { h.nodes = 1, h.world_size = 2; }, ""},
      {[](auto& h, auto&) { h.world_size = 10; }, ""},
      {[](auto& h, auto& m) {
         m = {7, 4, 5}, h.local_size = 3, h.world_size = 5;
       },
       ""},
      {[](auto&, auto& m) { m = {7}; },
       "a group of 2 ranks on this node names 1, or one that is no worker here, or one twice"},
      {[](auto&, auto& m) {
         m = {4, 4};
       },
       "a group of 2 ranks on this node names 2, or one that is no worker here, or one twice"},
      {[](auto&, auto& m) {
         m = {6, 4};
       },
       "a group of 2 ranks on this node names 2, or one that is no worker here, or one twice"},
      {[](auto& h, auto&) { h.place = 2; },
       "a group has another rank than 4 at place 2: do all of them name the same ranks "
       "(new_group)?"},
      {[](auto& h, auto&) { h.place = 0; },
       "a group has another rank than 4 at place 0: do all of them name the same ranks "
       "(new_group)?"},
  };
  for (const Case& one : cases) {
    LinkHello hello = Good();
    std::vector<uint32_t> members = {7, 4};
    one.change(hello, members);
    const absl::Status status = CheckGroup(hello, members, {4, 5, 7}, round_has);
    EXPECT_EQ(status.message(), one.want);
    EXPECT_EQ(status.ok(), one.want.empty());
    EXPECT_LT(status.message().size(), sizeof(LinkWelcome::why));
  }
}

}  // namespace
}  // namespace muster
