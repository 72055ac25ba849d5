#include "agent/io/program_giver.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "agent/io/torch_store_port.h"
#include "tests/agent/io/loopback.h"
#include "tests/proto/wire/test_loop.h"

namespace muster {
namespace {

constexpr char kToken[] = "token";

class ProgramGiverTest : public testing::Test {
 protected:
  void Make(ProgramGiverOptions options = {}) {
    options.listening = std::move(bound_.fd);
    options.program.Reset(memfd_create("program", MFD_CLOEXEC));
    for (size_t i = 0; i < 5000000; ++i) {
      program_.push_back(static_cast<char>(i * 2654435761u >> 24));
    }
    ASSERT_EQ(write(options.program.get(), program_.data(), program_.size()),
              static_cast<ssize_t>(program_.size()));
    options.token = kToken;
    options.on_given = [this] { ++given_; };
    giver_ = std::make_unique<ProgramGiver>(loop_.get(), std::move(options));
  }
  // A shell that says `words`, and reads to the end.
  void Come(int shell, const std::string& words) {
    Shell& one = shells_[shell];
    one.socket.Reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(ConnectToLoopback(one.socket.get(), AF_INET, port_), 0);
    ASSERT_EQ(send(one.socket.get(), words.data(), words.size(), 0),
              static_cast<ssize_t>(words.size()));
    one.poll = std::make_unique<UvPoll>(loop_.get(), one.socket.get(), [&one](int) {
      char bytes[65536];
      ssize_t n = 0;
      while ((n = recv(one.socket.get(), bytes, sizeof(bytes), MSG_DONTWAIT)) > 0) {
        one.got.append(bytes, static_cast<size_t>(n));
      }
      if (n == 0 || errno != EAGAIN) {
        one.ended = true;
        one.poll->Stop();
      }
    });
    one.poll->Start(UV_READABLE);
  }
  std::string Got(int shell) {
    loop_.Until([&] { return shells_[shell].ended; }, "the end of a connection");
    return shells_[shell].got;
  }

  struct Shell {
    UniqueFd socket;
    std::unique_ptr<UvPoll> poll;
    std::string got;
    bool ended = false;
  };

  TestLoop loop_;
  BoundPort bound_ = *BindStorePort("127.0.0.1", 0);
  const uint16_t port_ = bound_.port;
  std::string program_;
  int given_ = 0;
  std::unique_ptr<ProgramGiver> giver_;
  std::map<int, Shell> shells_;
};

TEST_F(ProgramGiverTest, WhoSaysTheTokenGetsAllOfIt) {
  Make();
  Come(0, "token\n");
  Come(1, "tok");
  Come(2, "token\n");
  EXPECT_EQ(Got(2), program_);
  EXPECT_EQ(Got(0), program_);
  ASSERT_EQ(send(shells_[1].socket.get(), "en\n", 3, 0), 3);
  EXPECT_EQ(Got(1), program_);
  EXPECT_EQ(given_, 3);
}

TEST_F(ProgramGiverTest, NobodyElseGetsAByte) {
  ProgramGiverOptions options;
  options.stall_max = absl::Milliseconds(200);
  Make(std::move(options));
  int shell = 0;
  for (const std::string words : {"tokem\n", "token\nGET / HTTP/1.1\r\n", "\n", "x"}) {
    Come(shell, words);
    if (words == "x") {
      shutdown(shells_[shell].socket.get(), SHUT_WR);
    }
    EXPECT_EQ(Got(shell++), "") << words;
  }
  EXPECT_EQ(given_, 0);
}

TEST_F(ProgramGiverTest, WhoSaysNothingGoesAndMakesRoom) {
  ProgramGiverOptions options;
  options.takers_max = 2;
  options.stall_max = absl::Milliseconds(200);
  Make(std::move(options));
  for (const int silent : {0, 1}) {
    Come(silent, "");
  }
  Come(2, "token\n");  // waits in the queue
  EXPECT_EQ(Got(2), program_);
  EXPECT_EQ(Got(0) + Got(1), "");
}

TEST_F(ProgramGiverTest, TheDoorIsClosedWhenNobodyComes) {
  ProgramGiverOptions options;
  options.idle_max = absl::Milliseconds(100);
  Make(std::move(options));
  EXPECT_TRUE(giver_->listens());
  loop_.Until([this] { return !giver_->listens(); }, "the end of it");
  const UniqueFd late(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_NE(ConnectToLoopback(late.get(), AF_INET, port_), 0);
}

}  // namespace
}  // namespace muster
