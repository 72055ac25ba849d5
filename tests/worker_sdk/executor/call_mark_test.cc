#include "worker_sdk/executor/call_mark.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace muster {
namespace {

using testing::MatchesRegex;

Call WithParts(OpKind kind, const std::vector<uint64_t>& parts, uint32_t root = 0) {
  Call call{kind, DType::kFloat32, ReduceOp::kSum, root, 7};
  call.parts = parts.data();
  return call;
}

TEST(CallMarkTest, CallsAsPeopleReadThem) {
  const auto text = [](const Call& call) { return Describe(MarkOf(call, 5), 5); };
  EXPECT_EQ(text({OpKind::kBarrier}), "barrier");
  EXPECT_EQ(text({OpKind::kSplit, DType::kInt64, ReduceOp::kSum, 0, 2}), "split");
  EXPECT_EQ(text({OpKind::kAllGather, DType::kInt8, ReduceOp::kSum, 0, 7}), "all_gather(7 x int8)");
  EXPECT_EQ(text({OpKind::kReduce, DType::kFloat32, ReduceOp::kAvg, 3, 7, Wire::kBFloat16}),
            "reduce(7 x float32, avg, root 3, wire bf16)");
  const std::vector<uint64_t> parts = {1, 2, 0, 7, 0};
  EXPECT_THAT(text(WithParts(OpKind::kAllGatherV, parts)),
              MatchesRegex("all_gather_v\\(10 x float32 in parts [0-9a-f]{1,8}\\)"));
  EXPECT_THAT(text(WithParts(OpKind::kReduceScatterV, parts)),
              MatchesRegex("reduce_scatter_v\\(10 x float32 in parts [0-9a-f]{1,8}, sum\\)"));
  EXPECT_THAT(text(WithParts(OpKind::kGatherV, parts, 4)),
              MatchesRegex("gather_v\\(10 x float32 in parts [0-9a-f]{1,8}, root 4\\)"));
  EXPECT_EQ(Describe(MarkOfRows(DType::kFloat32), 5), "all_to_all_v(float32)");
  const std::vector<uint64_t> pairs(25, 1);
  EXPECT_EQ(text(WithParts(OpKind::kAllToAllV, pairs)), "all_to_all_v(float32)");
}

TEST(CallMarkTest, NumbersOfAnotherLibrary) {
  EXPECT_EQ(Describe({200, 0, 0, 0, 9, 4}, 5), "?(4 x int8)");
  EXPECT_EQ(Describe({static_cast<uint8_t>(OpKind::kScatterV), 77, 0, 0, 9, 4}, 5), "scatter_v");
}

// Every number that a rank could see otherwise, and their order.
TEST(CallMarkTest, OtherPartsAreAnotherCall) {
  for (const OpKind kind : {OpKind::kAllGatherV, OpKind::kGatherV, OpKind::kScatterV,
                            OpKind::kReduceScatterV, OpKind::kAllToAllV}) {
    const uint32_t world = kind == OpKind::kAllToAllV ? 2 : 4;
    const std::vector<uint64_t> parts = {1, 2, 3, uint64_t{1} << 40};
    const CallMark mark = MarkOf(WithParts(kind, parts), world);
    EXPECT_EQ(MarkOf(WithParts(kind, {parts}), world), mark);
    EXPECT_EQ(mark.count, 6 + (uint64_t{1} << 40));
    for (const std::vector<uint64_t>& other :
         std::vector<std::vector<uint64_t>>{{2, 1, 3, uint64_t{1} << 40},
                                            {1, 2, uint64_t{1} << 40, 3},
                                            {0, 3, 3, uint64_t{1} << 40},
                                            {1, 2, 2, (uint64_t{1} << 40) + 1}}) {
      EXPECT_NE(MarkOf(WithParts(kind, other), world), mark);
    }
  }
}

TEST(CallMarkTest, RootAndPartsShareANumber) {
  for (const uint32_t world : {1u, 2u, 3u, 256u, 257u}) {
    const std::vector<uint64_t> parts(world, 5);
    std::string before;
    for (uint32_t root = 0; root < world; ++root) {
      const CallMark mark = MarkOf(WithParts(OpKind::kScatterV, parts, root), world);
      const std::string text = Describe(mark, world);
      const std::string end = ", root " + std::to_string(root) + ")";
      ASSERT_EQ(text.substr(text.size() - end.size()), end);
      const std::string begin = text.substr(0, text.size() - end.size());
      ASSERT_TRUE(root == 0 || begin == before) << "the same parts: " << text;
      before = begin;
    }
  }
}

TEST(CallMarkTest, ElementsOfACall) {
  const std::vector<uint64_t> parts = {1, 2, 0, 7};
  EXPECT_EQ(CountOfAll({OpKind::kAllGather, DType::kInt8, ReduceOp::kSum, 0, 7}, 4), 28u);
  EXPECT_EQ(CountOf({OpKind::kAllGather, DType::kInt8, ReduceOp::kSum, 0, 7}, 3, 4), 7u);
  EXPECT_EQ(CountOfAll(WithParts(OpKind::kAllGatherV, parts), 4), 10u);
  EXPECT_EQ(CountOf(WithParts(OpKind::kAllGatherV, parts), 1, 4), 2u);
  EXPECT_EQ(CountOf(WithParts(OpKind::kAllToAllV, parts), 1, 2), 7u) << "all that it sends";
}

}  // namespace
}  // namespace muster
