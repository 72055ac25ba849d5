#include "launcher/known_masters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Print(char c) { return absl::StrCat("SHA256:", std::string(43, c)); }
std::string Line(const std::string& endpoint, char c) {
  return absl::StrCat(endpoint, " ", Print(c), "\n");
}

TEST(Fingerprint, IsOneOrNot) {
  EXPECT_TRUE(IsFingerprint("SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU"));
  for (const char* bad :
       {"", "SHA256:", "SHA256:abc", "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU",
        "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
        "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSu U"}) {
    EXPECT_FALSE(IsFingerprint(bad)) << bad;
  }
}

TEST(KnownMasters, LinesBlanksAndNotes) {
  const std::string text = absl::StrCat("# ours\n", Line("a:29400", 'A'), "\n   \n\t[::1]:1 \t ",
                                        Print('B'), " \r\n  # b:1 nothing\nc:2 ", Print('C'));
  const auto known = ParseKnownMasters(text);
  ASSERT_TRUE(known.ok()) << known.status();
  EXPECT_EQ(*known, (KnownMasters{{"a:29400", {Print('A'), 2}},
                                  {"[::1]:1", {Print('B'), 5}},
                                  {"c:2", {Print('C'), 7}}}));
  EXPECT_TRUE(ParseKnownMasters("")->empty());
  EXPECT_TRUE(ParseKnownMasters("\n\n")->empty());
}

TEST(KnownMasters, K2ALineThatIsNoneIsNamed) {
  const std::string good = Line("a:1", 'A');
  const std::pair<std::string, const char*> cases[] = {
      {good + "b:1\n", "line 2: want 'HOST:PORT SHA256:...', got 'b:1'"},
      {good + "b:1 SHA256:short\n", "line 2: want"},
      {good + "b " + Print('B') + "\n", "line 2: want"},
      {good + Print('B') + " b:1\n", "line 2: want"},
      {good + "b:1 " + Print('B') + " more\n", "line 2: want"},
      {std::string("\0\x01\xff", 3), "line 1: want 'HOST:PORT SHA256:...', got '\\x00\\x01\\xff'"},
      {std::string(5000, 'x'), "line 1: want"},
      {good + "\n" + Line("a:1", 'B'), "line 3: a:1 is in line 1, too"},
      {good + good, "line 2: a:1 is in line 1, too"}};
  for (const auto& [text, why] : cases) {
    const absl::Status status = ParseKnownMasters(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(why), HasSubstr("remove")));
    EXPECT_LT(status.message().size(), 300u);
    EXPECT_EQ(JudgeMaster(text, "z:1", Print('Z')).status(), status);
  }
}

TEST(KnownMasters, WhoIsMetForTheFirstTimeIsAdded) {
  const auto first = JudgeMaster("", "a:1", Print('A'));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->kind, MasterJudgement::kFirstTime);
  EXPECT_EQ(first->text, Line("a:1", 'A'));
  // K1, also where the last line has no end.
  const auto second = JudgeMaster("# note\na:1 " + Print('A'), "b:1", Print('B'));
  EXPECT_EQ(second->text, "# note\n" + Line("a:1", 'A') + Line("b:1", 'B'));
  EXPECT_EQ(JudgeMaster(second->text, "a:2", Print('A'))->kind, MasterJudgement::kFirstTime);
}

TEST(KnownMasters, WhoIsKnownIsTheSameOrAnother) {
  const std::string text = Line("a:1", 'A') + Line("b:1", 'B');
  const auto same = JudgeMaster(text, "b:1", Print('B'));
  EXPECT_EQ(same->kind, MasterJudgement::kKnown);
  EXPECT_EQ(same->text, "");
  const auto other = JudgeMaster(text, "b:1", Print('A'));
  EXPECT_EQ(other->kind, MasterJudgement::kChanged);
  EXPECT_EQ(other->before, (KnownMaster{Print('B'), 2}));
  EXPECT_EQ(other->text, "");  // K1
  EXPECT_EQ(ChangedMasterWords("/h/known_masters", "b:1", Print('A'), other->before),
            absl::StrCat("the daemon at b:1 has the fingerprint ", Print('A'),
                         ", but /h/known_masters line 2 remembers ", Print('B'),
                         ": somebody else may answer there, so nothing is said to it. Ask who runs "
                         "the daemon: if it has a new key, remove that line"));
  EXPECT_THAT(ChangedMasterWords("/h/known_masters", "b:1", Print('A'), {Print('B'), 0}),
              AllOf(HasSubstr("this launch has first met it with " + Print('B')),
                    HasSubstr("remove its line from known_masters")));
}

TEST(KnownMasters, AFullFileIsSaidToBe) {
  std::string text;
  for (size_t i = 0; i + 1 < kKnownMastersMax; ++i) {
    text += Line(absl::StrCat("host", i, ":1"), 'A');
  }
  const auto last = JudgeMaster(text, "a:1", Print('A'));
  ASSERT_TRUE(last.ok()) << last.status();
  const auto full = JudgeMaster(last->text, "b:1", Print('B'));
  EXPECT_EQ(full.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.status().message()),
              AllOf(HasSubstr("1024 of at most 1024 masters"), HasSubstr("remove lines")));
  EXPECT_EQ(JudgeMaster(last->text, "a:1", Print('A'))->kind, MasterJudgement::kKnown);
  const std::string notes = "#" + std::string(kKnownMastersBytesMax - 10, 'x') + "\n";
  EXPECT_EQ(JudgeMaster(notes, "b:1", Print('B')).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace muster
