#include "launcher/tail_hint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(TailHintTest, WhatLaunchKnowsARemedyFor) {
  EXPECT_THAT(TailHint("usage: t.py [-h] --local_rank LOCAL_RANK\n"
                       "t.py: error: the following arguments are required: --local_rank\n"),
              HasSubstr("--local_rank={local_rank}"));
  EXPECT_THAT(TailHint("t.py: error: the following arguments are required: --local-rank"),
              HasSubstr("--local-rank={local_rank}"));
  EXPECT_THAT(TailHint("ModuleNotFoundError: No module named 'torch'\n"),
              HasSubstr("PYTHON_EXEC="));
  EXPECT_THAT(TailHint("RuntimeError: The server socket has failed to bind to [::]:29500 (errno: "
                       "98 - Address already in use)."),
              HasSubstr("MASTER_PORT"));
  EXPECT_THAT(TailHint("[cli_1]: Unable to write to PMI_fd\n"), HasSubstr("close_fds=False"));
  EXPECT_THAT(TailHint("[vm:31] OPAL ERROR: Unreachable in file ext3x_client.c at line 112\n"),
              HasSubstr("--mpi pmix"));
  EXPECT_THAT(TailHint("OSError: [Errno 98] Address already in use"), HasSubstr("MASTER_PORT"));
}

TEST(TailHintTest, PythonIsToldWhereOurPackageIs) {
  constexpr char kSaid[] = "ModuleNotFoundError: No module named 'muster'\n";
  EXPECT_THAT(TailHint(kSaid, "/opt/m/lib/python3/dist-packages"),
              HasSubstr("PYTHONPATH=/opt/m/lib/python3/dist-packages launch"));
  for (const char* const dir : {"", "/usr/lib/python3/dist-packages"}) {
    EXPECT_THAT(TailHint(kSaid, dir),
                AllOf(HasSubstr("pip install"), Not(HasSubstr("PYTHONPATH"))));
  }
  EXPECT_THAT(TailHint("ModuleNotFoundError: No module named 'muster.torch'\n", "/m"),
              HasSubstr("PYTHONPATH=/m"));
}

TEST(TailHintTest, OthersAreLeftAlone) {
  EXPECT_EQ(TailHint(""), "");
  EXPECT_EQ(TailHint("t.py: error: the following arguments are required: --data"), "");
  EXPECT_EQ(TailHint("ValueError: boom"), "");
}

}  // namespace
}  // namespace muster
