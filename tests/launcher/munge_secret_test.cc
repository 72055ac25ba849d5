// Without a munged: tests/integration/slurm_munge_test.py has real ones.
#include "launcher/munge_secret.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/io/torch_store_port.h"
#include "proto/base/await_fd.h"
#include "proto/base/clock.h"
#include "tests/proto/wire/test_loop.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

std::string AllOf(const UniqueFd& socket) {
  std::string all;
  char bytes[256];
  for (ssize_t n = 0; (n = recv(socket.get(), bytes, sizeof(bytes), 0)) > 0;) {
    all.append(bytes, static_cast<size_t>(n));
  }
  return all;
}

TEST(MungeSecretTest, APayloadHoldsForItsJobAlone) {
  const std::string payload = MungePayload("slurm 17.0", "abc");
  EXPECT_EQ(SecretOfPayload(payload, "slurm 17.0").value_or("none"), "abc");
  EXPECT_TRUE(absl::IsPermissionDenied(SecretOfPayload(payload, "slurm 17.1").status()));
  EXPECT_TRUE(absl::IsPermissionDenied(SecretOfPayload(payload, "").status()));
  for (const char* other : {"", "hello", "muster-secret ", "muster-secret  j", "muster-secret x"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(SecretOfPayload(other, "j").status())) << other;
  }
}

TEST(MungeSecretTest, OnlyTheQuestionIsAnswered) {
  for (const char* said :
       {"muster-munge\n", "muster-munge", "muster-munge\nx", "nuster-munge\n", "m"}) {
    auto [asked, asks] = SocketPair();
    ASSERT_GT(send(asks.get(), said, std::string(said).size(), 0), 0);
    AnswerAsked(asked, "MUNGE:xyz:");
    asked.Reset();
    const bool right = std::string(said) == "muster-munge\n";
    EXPECT_EQ(AllOf(asks), right ? "MUNGE:xyz:\n" : "") << said;
  }
}

class MungeQuestionTest : public testing::Test {
 protected:
  // What came of asking somebody who answers this; `answers`: he is there.
  absl::StatusOr<std::string> Ask(const std::string& answer, bool answers = true) {
    // One that is only reserved refuses whoever calls, and nobody else gets it.
    absl::StatusOr<BoundPort> bound =
        answers ? BindStorePort("127.0.0.1", 0) : ReservePort("127.0.0.1", 0);
    MungeQuestion question;
    question.host = "127.0.0.1";
    question.port = absl::StrCat(bound->port);
    question.deadline = BootNow() + (answers ? absl::Seconds(30) : absl::Milliseconds(300));
    // Where nobody answers, it ends between two tries.
    question.patience = absl::Milliseconds(answers ? 100 : 250);
    question.on_silence = [this] { ++silences_; };
    if (!answers) {
      return AskForCredential(question);
    }
    std::thread other([&] {
      EXPECT_TRUE(AwaitFd(bound->fd.get(), POLLIN, question.deadline, "the question").ok());
      const UniqueFd socket(accept4(bound->fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
      char bytes[64];
      const ssize_t n = recv(socket.get(), bytes, sizeof(bytes), 0);
      heard_.assign(bytes, n > 0 ? static_cast<size_t>(n) : 0);
      send(socket.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    });
    absl::StatusOr<std::string> out = AskForCredential(question);
    other.join();
    return out;
  }

  std::string heard_;
  int silences_ = 0;
};

TEST_F(MungeQuestionTest, TheAnswerIsALine) {
  EXPECT_EQ(Ask("MUNGE:xyz:\n").value_or("none"), "MUNGE:xyz:");
  EXPECT_EQ(heard_, "muster-munge\n");
  EXPECT_EQ(silences_, 0);
}

TEST_F(MungeQuestionTest, WhoDoesNotSpeakItIsNotAskedAgain) {
  EXPECT_TRUE(absl::IsNotFound(Ask("").status()));
  EXPECT_TRUE(absl::IsNotFound(Ask("MUNGE:xy").status()));
  EXPECT_TRUE(absl::IsNotFound(Ask(std::string(100'000, 'x')).status()));  // and not kept for ever
}

TEST_F(MungeQuestionTest, NobodyIsWaitedForAndSaidOnce) {
  const absl::Status status = Ask("", /*answers=*/false).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status));
  EXPECT_THAT(status.message(), HasSubstr("Connection refused"));
  EXPECT_EQ(silences_, 1);
}

}  // namespace
}  // namespace muster
