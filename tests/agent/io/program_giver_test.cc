#include "agent/io/program_giver.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/io/torch_store_port.h"
#include "proto/base/clock.h"
#include "tests/agent/io/loopback.h"

namespace muster {
namespace {

class ProgramGiverTest : public testing::Test {
 protected:
  struct Shell {
    UniqueFd socket;
    std::string got;
    bool ended = false;
  };

  ProgramGiverTest() {
    for (size_t i = 0; i < program_.size(); ++i) {
      program_[i] = static_cast<char>(i * 2654435761u >> 24);
    }
    EXPECT_EQ(write(file_.get(), program_.data(), program_.size()),
              static_cast<ssize_t>(program_.size()));
  }
  FileGiverOptions Options() {
    FileGiverOptions options;
    options.listening = std::move(bound_.fd);
    options.file = file_.get();
    options.bytes = program_.size();
    options.greet = [] { return TokenGreeting("token"); };
    options.on_given = [this] { ++given_; };
    options.stall_max = absl::Milliseconds(200);
    return options;
  }
  // A shell that says `words`.
  Shell& Come(const std::string& words) {
    Shell& shell = shells_.emplace_back();
    shell.socket.Reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(ConnectToLoopback(shell.socket.get(), AF_INET, port_), 0);
    Say(shell, words);
    return shell;
  }
  static void Say(Shell& shell, const std::string& words) {
    EXPECT_EQ(send(shell.socket.get(), words.data(), words.size(), 0),
              static_cast<ssize_t>(words.size()));
  }
  // What that shell gets, up to the connection's end; the others read meanwhile, too.
  std::string Got(FileGiver& giver, const Shell& wanted) {
    const absl::Time late = BootNow() + absl::Seconds(60);
    while (!wanted.ended && BootNow() < late) {
      std::vector<pollfd> fds;
      giver.Watch(fds);
      EXPECT_GE(poll(fds.data(), fds.size(), 10), 0);
      giver.Go(fds.data());
      for (Shell& shell : shells_) {
        Read(shell);
      }
    }
    EXPECT_TRUE(wanted.ended);
    return wanted.got;
  }

  std::string program_ = std::string(5000000, '\0');
  const UniqueFd file_{memfd_create("program", MFD_CLOEXEC)};
  BoundPort bound_ = *BindStorePort("127.0.0.1", 0);
  const uint16_t port_ = bound_.port;
  int given_ = 0;
  std::list<Shell> shells_;

 private:
  static void Read(Shell& shell) {
    char bytes[65536];
    ssize_t n = 0;
    while (!shell.ended && (n = recv(shell.socket.get(), bytes, sizeof(bytes), MSG_DONTWAIT)) > 0) {
      shell.got.append(bytes, static_cast<size_t>(n));
    }
    shell.ended = shell.ended || n == 0 || errno != EAGAIN;
  }
};

TEST_F(ProgramGiverTest, WhoSaysTheTokenGetsAllOfIt) {
  FileGiverOptions options = Options();
  options.stall_max = absl::Seconds(60);
  FileGiver giver(std::move(options));
  const Shell& first = Come("token\n");
  Shell& slow = Come("tok");
  const Shell& third = Come("token\n");
  EXPECT_EQ(Got(giver, third), program_);
  EXPECT_EQ(Got(giver, first), program_);
  Say(slow, "en\n");
  EXPECT_EQ(Got(giver, slow), program_);
  EXPECT_EQ(given_, 3);
}

TEST_F(ProgramGiverTest, NobodyElseGetsAByte) {
  FileGiver giver(Options());
  for (const std::string words : {"tokem\n", "token\nGET / HTTP/1.1\r\n", "\n", "x"}) {
    const Shell& shell = Come(words);
    if (words == "x") {
      shutdown(shell.socket.get(), SHUT_WR);
    }
    EXPECT_EQ(Got(giver, shell), "") << words;
  }
  EXPECT_EQ(given_, 0);
}

TEST_F(ProgramGiverTest, WhoSaysNothingGoesAndMakesRoom) {
  FileGiverOptions options = Options();
  options.takers_max = 2;
  FileGiver giver(std::move(options));
  const Shell& silent = Come("");
  const Shell& silent_too = Come("");
  const Shell& waits = Come("token\n");
  EXPECT_EQ(Got(giver, waits), program_);
  EXPECT_EQ(Got(giver, silent) + Got(giver, silent_too), "");
}

TEST_F(ProgramGiverTest, TheDoorIsClosedWhenNobodyComes) {
  GiveWhileTheyCome(Options(), absl::Milliseconds(100));
  const UniqueFd late(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_NE(ConnectToLoopback(late.get(), AF_INET, port_), 0);
}

}  // namespace
}  // namespace muster
