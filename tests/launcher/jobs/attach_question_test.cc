#include "launcher/jobs/attach_question.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(AttachQuestion, Answers) {
  for (const char* line : {"\n", "", " \r\n"}) {
    EXPECT_EQ(ParseAttachAnswer(line), AttachAnswer::kGoOn);
  }
  for (const char* line : {"d\n", "D\n", " detach \n", "d"}) {
    EXPECT_EQ(ParseAttachAnswer(line), AttachAnswer::kDetach);
  }
  for (const char* line : {"s\n", "Stop\n"}) {
    EXPECT_EQ(ParseAttachAnswer(line), AttachAnswer::kStop);
  }
  for (const char* line : {"x\n", "ds\n", "yes\n"}) {
    EXPECT_EQ(ParseAttachAnswer(line), std::nullopt);
  }
}

TEST(AttachQuestion, SaysWhatStopMeansTheSecondTime) {
  EXPECT_EQ(AttachQuestion("job-1", false),
            "\n[d]etach (job-1 goes on), [s]top the job, Enter: go on: ");
  EXPECT_EQ(AttachQuestion("job-1", true),
            "\n[d]etach (job-1 goes on ending), [s]top it at once, Enter: go on: ");
}

}  // namespace
}  // namespace muster
