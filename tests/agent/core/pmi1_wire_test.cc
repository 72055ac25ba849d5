#include "agent/core/pmi1_wire.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

TEST(Pmi1WireTest, ReadsALineInWords) {
  const auto line = ParsePmi1("cmd=put kvsname=k key=a  value=x=y# flag");
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->command, "put");
  EXPECT_THAT(line->fields, ElementsAre(Pair("kvsname", "k"), Pair("key", "a"),
                                        Pair("value", "x=y#"), Pair("flag", "")));
  EXPECT_EQ(*line->Find("key"), "a");
  EXPECT_EQ(line->Find("keys"), nullptr);
}

TEST(Pmi1WireTest, AnEscapedSpaceEndsNoWordAndStaysAsItCame) {
  const auto line = ParsePmi1(R"(cmd=put key=a\ b value=c\\ d=e\)");
  ASSERT_TRUE(line.ok());
  EXPECT_THAT(line->fields,
              ElementsAre(Pair("key", R"(a\ b)"), Pair("value", R"(c\\)"), Pair("d", R"(e\)")));
}

TEST(Pmi1WireTest, RefusesWhatIsNoCommand) {
  for (const std::string& line :
       {std::string(), std::string("  "), std::string("put key=a"), std::string("cmd="),
        std::string("cmd=a\0b", 7), std::string("key=a cmd=put")}) {
    EXPECT_FALSE(ParsePmi1(line).ok()) << line;
  }
  EXPECT_TRUE(ParsePmi1(absl::StrCat("cmd=", std::string(kPmi1LineMax - 4, 'a'))).ok());
  EXPECT_THAT(std::string(ParsePmi1(std::string(kPmi1LineMax + 1, 'a')).status().message()),
              HasSubstr("a line of 4097 bytes; the limit is 4096"));
}

TEST(Pmi1WireTest, EscapesTextsAndReadsThemBack) {
  for (const std::string& text :
       std::vector<std::string>{"", "plain", "two words", "a\\b", "line\nline", " \\ \n\\n"}) {
    const std::string escaped = EscapePmi1(text);
    EXPECT_EQ(UnescapePmi1(escaped), text);
    const auto line = ParsePmi1(absl::StrCat("cmd=abort message=", escaped, " exitcode=3"));
    ASSERT_TRUE(line.ok()) << escaped;
    EXPECT_EQ(UnescapePmi1(*line->Find("message")), text);
    EXPECT_EQ(*line->Find("exitcode"), "3");
  }
}

}  // namespace
}  // namespace muster
