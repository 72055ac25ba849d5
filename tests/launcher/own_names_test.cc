#include "launcher/own_names.h"

#include <gtest/gtest.h>

#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "tests/launcher/spec_of.h"

namespace muster {
namespace {

TEST(OwnNames, ValuesThatNoWorkerWillSeeAreNotes) {
  const auto notes = [](absl::string_view line, const Environment& environment = {}) {
    return absl::StrJoin(SpecOf(line, "", environment).notes, "; ");
  };
  EXPECT_EQ(notes("-x RANK=7 -x MASTER_PORT -x OMP_NUM_THREADS=2 -x TORCHELASTIC_MINE=1 -n 2 p",
                  {{"MASTER_PORT", "1"}}),
            "-x RANK has no effect: launch gives each worker one of its own; "
            "-x MASTER_PORT has no effect: launch gives each worker one of its own");
  EXPECT_EQ(notes("-x SLURM_PROCID=9 -n 2 p"), "");
  EXPECT_EQ(notes("--dialect slurm -x SLURM_PROCID=9 -n 2 p"),
            "-x SLURM_PROCID has no effect: launch gives each worker one of its own");
  EXPECT_EQ(notes("-x RAN* -n 2 p", {{"RANK", "1"}}), "");
}

}  // namespace
}  // namespace muster
