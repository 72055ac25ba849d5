#include "launcher/schedule/said_by.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

struct Case {
  const char* who;
  const char* line;
  const char* want;
};

TEST(SaidByTest, TheNameIsThereOnce) {
  constexpr Case kCases[] = {
      {"node0", "muster: node0: one CPU", "node0: one CPU"},
      {"node0.lab.example", "muster: node0: one CPU", "node0.lab.example: one CPU"},
      {"node0", "muster: node1: one CPU", "node0: node1: one CPU"},
      {"node0", "muster: one CPU", "node0: one CPU"},
      {"srun", "muster: node1: one CPU", "srun: node1: one CPU"},
      {"node0", "node0: command not found", "node0: node0: command not found"},
      {"node0", "muster: node0", "node0"},
      {"node0", "", "node0: "}};
  for (const Case& c : kCases) {
    EXPECT_EQ(SaidBy(c.who, c.line), c.want) << c.line;
  }
}

}  // namespace
}  // namespace muster
