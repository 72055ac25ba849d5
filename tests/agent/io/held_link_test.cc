#include "agent/io/held_link.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/agent/io/loop_test.h"

namespace muster {
namespace {

// The master's side: what comes to it, and its answers.
class FakeLink : public MasterLink {
 public:
  void Start(Callbacks callbacks) override { callbacks_ = std::move(callbacks); }
  void Send(AgentMessage message) override {
    seen.push_back(std::get<Leave>(std::move(message)).reason);
  }
  void SendFence(FencePiece piece) override { seen.push_back(std::string(piece.bytes)); }
  void SendModex(ModexNote note) override { seen.push_back(std::move(note.bytes)); }
  void Stop(std::function<void()> done) override { done(); }
  void Say(const std::string& reason) { callbacks_.on_message(Refused{0, reason}); }
  void SayFence(FencePiece piece) { callbacks_.on_fence(std::move(piece)); }
  void SayModex(ModexNote note) { callbacks_.on_modex(std::move(note)); }

  std::vector<std::string> seen;

 private:
  Callbacks callbacks_;
};

class HeldLinkTest : public TickingLoopTest {
 protected:
  HeldLinkTest() {
    MasterLink::Callbacks callbacks;
    callbacks.on_message = [this](const MasterMessage& message) {
      heard_.push_back(std::get<Refused>(message).reason);
    };
    callbacks.on_fence = [this](const FencePiece& piece) {
      heard_.push_back(std::string(piece.bytes));
    };
    callbacks.on_modex = [this](ModexNote note) { heard_.push_back(std::move(note.bytes)); };
    held_.Start(std::move(callbacks));
  }
  void Say(const std::string& reason) { held_.Send(Leave{NodeId(), Incarnation(), reason}); }

  FakeLink link_;
  HeldLink held_{&loop_, &link_};
  std::vector<std::string> heard_;
};

using Texts = std::vector<std::string>;

TEST_F(HeldLinkTest, PassesAllOnAtOnce) {
  Say("a");
  link_.Say("b");
  EXPECT_EQ(link_.seen, Texts{"a"});
  EXPECT_EQ(heard_, Texts{"b"});
}

TEST_F(HeldLinkTest, AFenceAndAModexKeepTheirPlaceAmongTheMessages) {
  FencePiece piece;
  piece.bytes = "fence";
  ModexNote note;
  note.bytes = "modex";
  held_.Hold(absl::Milliseconds(50), absl::Milliseconds(50));
  Say("a");
  held_.SendFence(piece);
  held_.SendModex(note);
  Say("b");
  link_.Say("c");
  link_.SayFence(piece);
  link_.SayModex(note);
  RunUntil([&] { return heard_.size() == 3; });
  EXPECT_EQ(link_.seen, (Texts{"a", "fence", "modex", "b"}));
  EXPECT_EQ(heard_, (Texts{"c", "fence", "modex"}));
}

TEST_F(HeldLinkTest, WhatIsCutComesInOrderWhenItIsOver) {
  held_.Hold(absl::Milliseconds(50), absl::Milliseconds(50));
  Say("a");
  Say("b");
  link_.Say("c");
  EXPECT_TRUE(link_.seen.empty());
  EXPECT_TRUE(heard_.empty());
  EXPECT_TRUE(RunUntil([&] { return heard_.size() == 1; }));
  EXPECT_EQ(link_.seen, (Texts{"a", "b"}));
  Say("d");
  EXPECT_EQ(link_.seen, (Texts{"a", "b", "d"}));
}

TEST_F(HeldLinkTest, NothingOvertakesWhatIsHeld) {
  held_.Hold(absl::Milliseconds(50), absl::Minutes(1));
  Say("a");
  held_.Hold(absl::Milliseconds(1), absl::Minutes(1));
  Say("b");
  EXPECT_TRUE(link_.seen.empty());
  EXPECT_TRUE(RunUntil([&] { return link_.seen.size() == 2; }));
  EXPECT_EQ(link_.seen, (Texts{"a", "b"}));
}

TEST_F(HeldLinkTest, WhatIsHeldIsDroppedAtTheEnd) {
  held_.Hold(absl::Minutes(1), absl::Minutes(1));
  Say("a");
  bool stopped = false;
  held_.Stop([&] { stopped = true; });
  EXPECT_TRUE(stopped);
  EXPECT_TRUE(link_.seen.empty());
}

}  // namespace
}  // namespace muster
