#include "agent/io/shepherd_protocol.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "proto/base/unique_fd.h"

namespace muster {
namespace {

TEST(ShepherdProtocol, FramesComeWholeAndInOrder) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  UniqueFd a(ends[0]);
  UniqueFd b(ends[1]);
  EXPECT_TRUE(absl::IsUnavailable(ReceiveFrame(b.get()).status()));
  uint32_t sent = 0;
  for (;; ++sent) {
    ShepherdFrame frame;
    frame.type = sent;
    frame.index = -static_cast<int32_t>(sent);
    frame.value = INT64_MIN + sent;
    frame.extra = UINT64_MAX - sent;
    frame.alone = sent % 2;
    frame.times = {sent, INT64_MAX - sent, -int64_t{sent}};
    frame.payload = std::string(sent * 7 % 5000, static_cast<char>(sent));
    const absl::Status status = SendFrame(a.get(), frame);
    if (!status.ok()) {
      EXPECT_TRUE(absl::IsUnavailable(status));  // full
      break;
    }
  }
  EXPECT_GT(sent, 20u);
  for (uint32_t i = 0; i < sent; ++i) {
    const absl::StatusOr<ShepherdFrame> frame = ReceiveFrame(b.get());
    ASSERT_TRUE(frame.ok());
    EXPECT_EQ(frame->type, i);
    EXPECT_EQ(frame->index, -static_cast<int32_t>(i));
    EXPECT_EQ(frame->value, INT64_MIN + i);
    EXPECT_EQ(frame->extra, UINT64_MAX - i);
    EXPECT_EQ(frame->alone, i % 2);
    EXPECT_EQ(frame->times.cpu, i);
    EXPECT_EQ(frame->times.ran, INT64_MAX - i);
    EXPECT_EQ(frame->times.waited, -int64_t{i});
    EXPECT_EQ(frame->payload, std::string(i * 7 % 5000, static_cast<char>(i)));
  }
  a.Reset();
  EXPECT_TRUE(absl::IsOutOfRange(ReceiveFrame(b.get()).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(SendFrame(b.get(), ShepherdFrame())));
}

TEST(ShepherdProtocol, StringsWithAnythingButNul) {
  const std::vector<std::string> strings = {"", "a\nb", "\xff\xfe", "", "x=y"};
  std::string packed = PackStrings(strings);
  const std::vector<char*> pointers = UnpackStrings(packed);
  EXPECT_EQ(std::vector<std::string>(pointers.begin(), pointers.end()), strings);
  std::string none;
  EXPECT_TRUE(UnpackStrings(none).empty());
}

std::vector<std::string> Texts(const std::vector<char*>& pointers) {
  return {pointers.begin(), pointers.end()};
}

TEST(ShepherdProtocol, ProgramsAsTheyWerePacked) {
  std::string packed =
      PackStrings({"/wdir", "2", "/bin/a", "/usr/bin/a", "3", "a", "", "b c", "X=1", "Y="});
  const UnpackedPrograms programs = UnpackPrograms(packed);
  EXPECT_STREQ(programs.wdir, "/wdir");
  EXPECT_EQ(Texts(programs.candidates), (std::vector<std::string>{"/bin/a", "/usr/bin/a"}));
  EXPECT_EQ(Texts(programs.argv), (std::vector<std::string>{"a", "", "b c"}));
  EXPECT_EQ(Texts(programs.environment), (std::vector<std::string>{"X=1", "Y="}));
}

TEST(ShepherdProtocol, ProgramsThatAreCutOffAreNotReadBeyond) {
  for (const std::vector<std::string>& strings : std::vector<std::vector<std::string>>{
           {}, {"/"}, {"/", "x"}, {"/", "-1", "a"}, {"/", "9", "a"}, {"/", "1", "a", "99", "b"}}) {
    std::string packed = PackStrings(strings);
    const UnpackedPrograms programs = UnpackPrograms(packed);
    EXPECT_LE(programs.candidates.size() + programs.argv.size() + programs.environment.size(),
              strings.size());
  }
}

}  // namespace
}  // namespace muster
