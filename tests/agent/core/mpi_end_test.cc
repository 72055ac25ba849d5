#include "agent/core/mpi_end.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

using testing::HasSubstr;

WorkerExit ExitWith(ExitKind kind, int code) {
  WorkerExit exit;
  exit.kind = kind;
  exit.code = code;
  return exit;
}

TEST(TellOfMpi, AnAbortIsTheExitOfAWorkerThatWeEnded) {
  const MpiEnd abort = {.kind = MpiEnd::Kind::kAborted, .code = 7, .message = "no more"};
  WorkerExit killed = ExitWith(ExitKind::kSignaled, 9);
  TellOfMpi(abort, killed);
  EXPECT_EQ(killed.kind, ExitKind::kExited);
  EXPECT_EQ(killed.code, 7);
  EXPECT_EQ(killed.detail, "MPI_Abort(7): no more");
  WorkerExit exited = ExitWith(ExitKind::kExited, 3);
  TellOfMpi(abort, exited);
  EXPECT_EQ(exited.code, 3);
}

TEST(TellOfMpi, WhoWasRefusedHasFailed) {
  MpiEnd refused;
  refused.Init();
  EXPECT_TRUE(refused.Refuse("no second world"));
  EXPECT_FALSE(refused.Refuse("again"));
  EXPECT_FALSE(refused.Abort(7, "behind it"));
  refused.Finalize();
  for (auto [kind, code, want] :
       {std::tuple(ExitKind::kExited, 0, 1), std::tuple(ExitKind::kSignaled, 9, 1),
        std::tuple(ExitKind::kExited, 3, 3)}) {
    WorkerExit exit = ExitWith(kind, code);
    TellOfMpi(refused, exit);
    EXPECT_EQ(exit.kind, ExitKind::kExited);
    EXPECT_EQ(exit.code, want);
    EXPECT_EQ(exit.detail, "no second world");
  }
}

TEST(TellOfMpi, WhoWritesIntoTheVoidIsASecondProgram) {
  MpiEnd finalized;
  finalized.Init();
  finalized.Finalize();
  for (auto [kind, code] :
       {std::pair(ExitKind::kExited, 141), std::pair(ExitKind::kSignaled, 13)}) {
    WorkerExit exit = ExitWith(kind, code);
    TellOfMpi(finalized, exit);
    EXPECT_EQ(exit.code, code);
    EXPECT_THAT(exit.detail, HasSubstr("a second MPI_Init in one worker"));
  }
  WorkerExit other = ExitWith(ExitKind::kExited, 13);
  TellOfMpi(finalized, other);
  EXPECT_EQ(other.detail, "");
}

// Open MPI's gets as far as its server, and no further.
TEST(TellOfMpi, WhoEndsInASecondInitIsASecondProgram) {
  MpiEnd second;
  second.Init();
  second.Finalize();
  second.Init();
  for (const int code : {0, 1, 7}) {
    WorkerExit exit = ExitWith(ExitKind::kExited, code);
    TellOfMpi(second, exit);
    EXPECT_EQ(exit.code, std::max(1, code));
    EXPECT_THAT(exit.detail, HasSubstr("a second MPI_Init in one worker"));
  }
  WorkerExit stopped = ExitWith(ExitKind::kSignaled, 15);
  TellOfMpi(second, stopped);
  EXPECT_EQ(stopped.detail, "");
  second.Finalize();
  WorkerExit well = ExitWith(ExitKind::kExited, 0);
  TellOfMpi(second, well);
  EXPECT_TRUE(well.Ok());
}

TEST(TellOfMpi, OfAnAbortsCodeAStatusHasEightBits) {
  for (const auto& [code, status] : {std::pair(256, 1), std::pair(259, 3), std::pair(-1, 255)}) {
    WorkerExit killed = ExitWith(ExitKind::kSignaled, 9);
    TellOfMpi({.kind = MpiEnd::Kind::kAborted, .code = code, .message = ""}, killed);
    EXPECT_EQ(killed.code, status);
    EXPECT_EQ(killed.detail, absl::StrCat("MPI_Abort(", code, ")"));
  }
}

// Nobody who aborts has succeeded, also where the number is 0, or 0 in the eight bits of a status.
TEST(TellOfMpi, AnAbortWithNothingIsAFailure) {
  for (const ExitKind kind : {ExitKind::kSignaled, ExitKind::kExited}) {
    WorkerExit exit = ExitWith(kind, kind == ExitKind::kSignaled ? 9 : 0);
    TellOfMpi({.kind = MpiEnd::Kind::kAborted, .code = 0, .message = ""}, exit);
    EXPECT_EQ(exit.kind, ExitKind::kExited);
    EXPECT_EQ(exit.code, 1);
    EXPECT_EQ(exit.detail, "MPI_Abort(0)");
  }
}

TEST(TellOfMpi, WhoLeavesItsMpiWithoutAWordHasFailed) {
  WorkerExit silent = ExitWith(ExitKind::kExited, 0);
  TellOfMpi({.kind = MpiEnd::Kind::kInside, .code = 0, .message = ""}, silent);
  EXPECT_EQ(silent.code, 1);
  EXPECT_THAT(silent.detail, HasSubstr("without MPI_Finalize"));
  for (const MpiEnd::Kind kind : {MpiEnd::Kind::kFinalized, MpiEnd::Kind::kNoMpi}) {
    WorkerExit good = ExitWith(ExitKind::kExited, 0);
    TellOfMpi({.kind = kind, .code = 0, .message = ""}, good);
    EXPECT_TRUE(good.Ok());
  }
}

TEST(MissingInMpiTest, CountsBoth) {
  EXPECT_THAT(MissingInMpi(1, 2),
              HasSubstr("1 worker of this node ended without MPI_Init, and 2 others wait"));
  EXPECT_THAT(MissingInMpi(2, 1),
              HasSubstr("2 workers of this node ended without MPI_Init, and 1 other waits"));
}

}  // namespace
}  // namespace muster
