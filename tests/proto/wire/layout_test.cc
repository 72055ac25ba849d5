// The layout of a round in an Assignment: back as it was sent, or refused.
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "gtest/gtest.h"
#include "proto/wire/convert.h"

namespace muster {
namespace {

using Layout = std::vector<std::pair<uint32_t, uint32_t>>;

// Node 0 of three, with 2, 2 and 4 workers.
absl::StatusOr<MasterMessage> Sent(const Layout& layout) {
  Directive directive;
  directive.node = {1};
  directive.incarnation = {1};
  directive.wanted = Wanted::kRun;
  directive.round = {1, 1};
  Assignment& a = directive.assignment;
  a.round = {1, 1};
  a.nodes = 3;
  a.workers = 2;
  a.world_size = 8;
  a.master_addr = "10.0.0.1";
  a.layout = layout;
  return FromWire(ToWire(MasterMessage(directive)));
}

TEST(LayoutOnTheWireTest, ComesBackAsItWasSent) {
  for (const Layout& layout : {Layout{{2, 2}, {4, 1}}, Layout{{2, 1}, {2, 1}, {4, 1}}}) {
    const absl::StatusOr<MasterMessage> got = Sent(layout);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(std::get<Directive>(*got).assignment.layout, layout);
  }
}

TEST(LayoutOnTheWireTest, OneOfAnotherRoundIsRefused) {
  for (const Layout& layout :
       {Layout{}, Layout{{2, 4}}, Layout{{2, 3}}, Layout{{4, 2}}, Layout{{2, 2}, {4, 1}, {1, 0}},
        Layout{{0, 1}, {4, 2}}, Layout{{8, 1}}}) {
    EXPECT_EQ(Sent(layout).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace muster
