#include "worker_sdk/algorithm/conversation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace muster {
namespace {

using testing::HasSubstr;

// A transfer and its memory.
struct Owned {
  explicit Owned(uint32_t tag, uint64_t bytes, uint8_t fill = 0, DType dtype = DType::kUInt8)
      : memory(bytes, fill),
        transfer(
            std::make_shared<Transfer>(Transfer{tag, dtype, bytes, memory.data(), false, {}})) {}
  const Status& status() const { return transfer->status; }
  std::vector<uint8_t> memory;
  TransferPtr transfer;
};

// At most so many bytes from one to the other.
uint64_t Move(Conversation& from, Conversation& to, uint64_t most = UINT64_MAX) {
  uint64_t moved = 0;
  while (moved < most) {
    const auto pieces = from.NextOut();
    const Conversation::Piece piece = pieces[0].bytes > 0 ? pieces[0] : pieces[1];
    const Conversation::Room room = to.NextIn();
    const uint64_t bytes = std::min({piece.bytes, room.bytes, most - moved});
    if (bytes == 0) {
      break;
    }
    std::memcpy(room.data, piece.data, bytes);
    from.Wrote(bytes);
    to.Took(bytes);
    moved += bytes;
  }
  return moved;
}

// At most so many bytes out of the other one's memory.
uint64_t Pull(Conversation& to, uint64_t most = UINT64_MAX) {
  const Conversation::Pull pull = to.NextPull();
  const uint64_t bytes = std::min(pull.bytes, most);
  if (bytes > 0) {
    std::memcpy(pull.data, reinterpret_cast<const uint8_t*>(pull.address), bytes);
    to.Pulled(bytes);
  }
  return bytes;
}

class ConversationTest : public testing::Test {
 protected:
  void MoveAll() {
    while (Move(a, b) + Move(b, a) + Pull(a) + Pull(b) > 0) {
    }
  }
  void AllowPulls() {
    a.AllowPulls();
    b.AllowPulls();
  }
  // Of a message that is offered and accepted.
  void SendABeginning(Owned& sent, Owned& received) {
    a.Send(sent.transfer);
    b.Receive(received.transfer);
    Move(a, b);
    Move(b, a);
    Move(a, b, 1000);
  }
  void SendAndReceive(Owned& sent, Owned& received, bool send_first) {
    if (send_first) {
      a.Send(sent.transfer);
      MoveAll();
    }
    b.Receive(received.transfer);
    MoveAll();
    if (!send_first) {
      a.Send(sent.transfer);
      MoveAll();
    }
  }

  Conversation a{"rank 1"};  // with it
  Conversation b{"rank 0"};
};

constexpr uint64_t kSizes[] = {0,      1, 100, Conversation::kWholeMax, Conversation::kWholeMax + 1,
                               200'000};

TEST_F(ConversationTest, EverySizeInEitherOrder) {
  for (const uint64_t bytes : kSizes) {
    for (const bool send_first : {false, true}) {
      Owned sent(7, bytes, 42);
      Owned received(7, bytes);
      SendAndReceive(sent, received, send_first);
      ASSERT_TRUE(sent.transfer->ended && sent.status().ok()) << bytes;
      ASSERT_TRUE(received.transfer->ended && received.status().ok()) << bytes;
      ASSERT_EQ(received.memory, sent.memory);
      ASSERT_FALSE(a.open() || b.open());
    }
  }
}

// Both sides send and receive what they will in any order, some bytes at a time.
TEST_F(ConversationTest, RandomMessagesArriveInTheOrderOfTheirTag) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    std::minstd_rand random(seed + 1);
    const auto upto = [&](uint64_t most) { return random() % (most + 1); };
    Conversation sides[2] = {Conversation("rank 1"), Conversation("rank 0")};
    for (Conversation& side : sides) {
      if (random() % 3 > 0) {  // one that may not is asked by nobody to do it
        side.AllowPulls();
      }
    }
    struct Plan {
      std::vector<std::unique_ptr<Owned>> sends;
      std::vector<std::unique_ptr<Owned>> receives;  // in an order of their own between tags
      size_t sent = 0;
      size_t posted = 0;
    };
    Plan plans[2];  // of a side's sends; the other side receives
    for (Plan& plan : plans) {
      for (uint64_t i = 0; i < 20; ++i) {
        plan.sends.push_back(std::make_unique<Owned>(static_cast<uint32_t>(upto(2)),
                                                     kSizes[upto(std::size(kSizes) - 1)],
                                                     static_cast<uint8_t>(i + 1)));
      }
      for (uint32_t tag = 0; tag < 3; ++tag) {
        for (const auto& send : plan.sends) {
          if (send->transfer->tag == tag) {
            plan.receives.push_back(std::make_unique<Owned>(tag, send->memory.size()));
          }
        }
      }
    }
    const auto step = [&](size_t side) {
      Plan& mine = plans[side];
      Plan& theirs = plans[1 - side];
      switch (random() % 6) {
        case 0:
          if (mine.sent < mine.sends.size()) {
            sides[side].Send(mine.sends[mine.sent++]->transfer);
            if (random() % 2 == 0) {
              sides[side].Keep();
            }
          }
          break;
        case 1:
          if (theirs.posted < theirs.receives.size()) {
            sides[side].Receive(theirs.receives[theirs.posted++]->transfer);
          }
          break;
        case 2:
          if (random() % 8 == 0 && sides[side].NextPull().bytes > 0) {
            sides[side].PullFailed();
          } else {
            Pull(sides[side], 1 + upto(100'000));
          }
          break;
        default:
          Move(sides[side], sides[1 - side], 1 + upto(100'000));
      }
    };
    for (int i = 0; i < 3000; ++i) {
      step(random() % 2);
    }
    for (const size_t side : {size_t{0}, size_t{1}}) {
      ASSERT_FALSE(sides[side].open()) << "seed " << seed;
      Plan& plan = plans[side];
      ASSERT_EQ(plan.posted, plan.receives.size());
      for (auto& receive : plan.receives) {
        ASSERT_TRUE(receive->transfer->ended && receive->status().ok());
        // The first that was sent with this tag.
        const auto send = std::find_if(plan.sends.begin(), plan.sends.end(), [&](const auto& one) {
          return one && one->transfer->tag == receive->transfer->tag;
        });
        ASSERT_EQ(receive->memory, (*send)->memory) << "seed " << seed;
        ASSERT_TRUE((*send)->transfer->ended && (*send)->status().ok());
        send->reset();
      }
    }
  }
}

TEST_F(ConversationTest, WhatDoesNotFitIsToldAndNothingElseIsDisturbed) {
  for (const uint64_t bytes : {uint64_t{100}, uint64_t{100'000}}) {
    for (const bool send_first : {false, true}) {
      Owned sent(3, bytes, 1, DType::kFloat32);
      Owned received(3, bytes * 2, 0, DType::kFloat64);
      SendAndReceive(sent, received, send_first);
      const std::string count = std::to_string(bytes / 4);
      const auto what = [&](const char* sender, const char* receiver) {
        std::string out = "FAILED_PRECONDITION: message with tag 3: ";
        out += sender;
        out += " sends " + count + " x float32, ";
        out += receiver;
        out += " wants " + count + " x float64";
        return out;
      };
      EXPECT_EQ(received.status().ToString(), what("rank 0", "this rank"));
      EXPECT_TRUE(sent.transfer->ended);
      if (bytes > Conversation::kWholeMax) {
        EXPECT_EQ(sent.status().ToString(), what("this rank", "rank 1"));
      }
      Owned next(3, 10, 9);
      Owned got(3, 10);
      SendAndReceive(next, got, send_first);
      EXPECT_EQ(got.memory, next.memory);
      EXPECT_FALSE(a.open() || b.open());
    }
  }
}

// What has gone whole and is not asked for, on both sides together.
TEST_F(ConversationTest, WhatIsKeptIsBounded) {
  std::vector<std::unique_ptr<Owned>> sends;
  const auto send = [&] {
    sends.push_back(std::make_unique<Owned>(5, 1000, static_cast<uint8_t>(sends.size())));
    a.Send(sends.back()->transfer);
    a.Keep();
    return sends.back()->transfer->ended;
  };
  while (send()) {
    ASSERT_LT(sends.size(), 20'000U);
    if (sends.size() % 2 == 0) {  // some are here, some there
      Owned other(6, 10);
      b.Receive(other.transfer);
      Move(a, b, 2000);
      b.Abandon(other.transfer, {StatusCode::kDeadlineExceeded, "late"});
    }
  }
  constexpr uint64_t kWhole = ConversationLimits().kept / (1000 + Conversation::kMessageCost);
  EXPECT_EQ(sends.size() - 1, kWhole);
  EXPECT_TRUE(a.is_held_back(sends.back()->transfer));
  EXPECT_FALSE(send());
  // Whoever waits for another message gets it.
  Owned other(6, 1000);
  b.Receive(other.transfer);
  Owned last(6, 1000, 77);
  a.Send(last.transfer);
  a.Keep();
  EXPECT_FALSE(last.transfer->ended);
  MoveAll();
  EXPECT_TRUE(last.transfer->ended);
  EXPECT_EQ(other.memory, last.memory);
  for (size_t i = 0; i < sends.size(); ++i) {
    EXPECT_EQ(sends[i]->transfer->ended, i < kWhole);
    Owned taken(5, 1000);
    b.Receive(taken.transfer);
    MoveAll();
    ASSERT_TRUE(taken.transfer->ended && sends[i]->transfer->ended);
    ASSERT_EQ(taken.memory, sends[i]->memory);
  }
  EXPECT_FALSE(a.open() || b.open());
  EXPECT_TRUE(send());
}

TEST_F(ConversationTest, OffersAreBounded) {
  const ConversationLimits limits{0, 3};
  Conversation sender("rank 1", limits);
  Conversation receiver("rank 0", limits);
  std::vector<std::unique_ptr<Owned>> sends;
  for (uint32_t i = 0; i < 4; ++i) {
    sends.push_back(std::make_unique<Owned>(i, 10, 5));
    sender.Send(sends.back()->transfer);
    EXPECT_EQ(sends.back()->transfer->ended, i == 3);
  }
  EXPECT_EQ(sends[3]->status().ToString(),
            "RESOURCE_EXHAUSTED: 3 messages to rank 1 wait to be received, and no more may: wait "
            "for some of them before the next is sent");
  Owned received(1, 10);
  receiver.Receive(received.transfer);
  while (Move(sender, receiver) + Move(receiver, sender) > 0) {
  }
  EXPECT_TRUE(received.transfer->ended && sends[1]->transfer->ended);
  Owned again(4, 10);
  sender.Send(again.transfer);
  EXPECT_FALSE(again.transfer->ended);
}

// All sends of both sides have begun; each side waits for one message after the other, in an order
// of its own. Nothing but who waits moves anything.
TEST_F(ConversationTest, NoMatchedPairHangsForLackOfSpace) {
  constexpr uint32_t kTags = 40;
  constexpr size_t kMessages = 3000;
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    std::minstd_rand random(seed);
    const ConversationLimits limits{random() % 20'000, kMessages};
    Conversation sides[2] = {Conversation("rank 1", limits), Conversation("rank 0", limits)};
    std::vector<std::unique_ptr<Owned>> sends[2];
    std::vector<Owned*> wanted[2];  // what the other side has sent
    uint64_t went = 0;
    for (const size_t side : {0, 1}) {
      if (seed % 2 == 0) {
        sides[side].AllowPulls();
      }
      for (size_t i = 0; i < kMessages; ++i) {
        const uint64_t bytes = random() % 50 == 0 ? 40'000 : random() % 300;
        sends[side].push_back(std::make_unique<Owned>(static_cast<uint32_t>(random() % kTags),
                                                      bytes, static_cast<uint8_t>(i)));
        sides[side].Send(sends[side].back()->transfer);
        sides[side].Keep();
        went += sends[side].back()->transfer->ended ? Conversation::kMessageCost + bytes : 0;
      }
      std::vector<uint32_t> tags(kTags);
      std::iota(tags.begin(), tags.end(), 0);
      std::shuffle(tags.begin(), tags.end(), random);
      for (const uint32_t tag : tags) {
        for (const auto& send : sends[side]) {
          if (send->transfer->tag == tag) {
            wanted[1 - side].push_back(send.get());
          }
        }
      }
    }
    EXPECT_LE(went, 2 * limits.kept);
    std::unique_ptr<Owned> waits[2];
    size_t received[2] = {};
    while (received[0] < kMessages || received[1] < kMessages) {
      uint64_t moved = 0;
      for (const size_t side : {0, 1}) {
        if (!waits[side] && received[side] < kMessages) {
          const Owned& next = *wanted[side][received[side]];
          waits[side] = std::make_unique<Owned>(next.transfer->tag, next.memory.size());
          sides[side].Receive(waits[side]->transfer);
          ++moved;
        }
        moved += Move(sides[side], sides[1 - side]) + Pull(sides[side]);
        if (waits[side] && waits[side]->transfer->ended) {
          ASSERT_EQ(waits[side]->memory, wanted[side][received[side]++]->memory);
          waits[side].reset();
          ++moved;
        }
      }
      ASSERT_GT(moved, 0U) << "seed " << seed << ": " << received[0] << ", " << received[1];
    }
    while (Move(sides[0], sides[1]) + Move(sides[1], sides[0]) > 0) {
    }
    EXPECT_FALSE(sides[0].open() || sides[1].open());
  }
}

// More than a sender may send unasked.
TEST_F(ConversationTest, AFloodEndsIt) {
  for (const bool offers : {false, true}) {
    Conversation sender("rank 1");  // with larger limits
    Conversation receiver("rank 0", {1000, 3});
    Owned asked(6, 10);
    receiver.Receive(asked.transfer);
    std::vector<std::unique_ptr<Owned>> sends;
    for (uint32_t i = 0; i < 5; ++i) {
      sends.push_back(std::make_unique<Owned>(5, offers ? 40'000 : 100));
      sender.Send(sends.back()->transfer);
      Move(sender, receiver);
      EXPECT_EQ(receiver.ended(), i >= (offers ? 3U : 4U));
    }
  }
}

TEST_F(ConversationTest, AnAnswerOvertakesWhatHasNotBegun) {
  Owned first(1, 100, 1);
  Owned second(1, 100, 2);
  Owned offered(2, 100'000, 3);
  b.Send(offered.transfer);
  a.Send(first.transfer);
  a.Send(second.transfer);
  Owned wanted(2, 100'000);
  a.Receive(wanted.transfer);
  Move(b, a);  // the offer; the answer goes before both messages
  const auto next = [&] {
    FrameHead head;
    const Conversation::Piece piece = a.NextOut()[0];
    EXPECT_EQ(piece.bytes, sizeof(head));
    std::memcpy(&head, piece.data, sizeof(head));
    return head;
  };
  EXPECT_EQ(next().kind, FrameKind::kAccept);
  EXPECT_EQ(next().number, 1U);
  a.Wrote(8);  // what has begun is not overtaken
  Owned more(2, 100'000, 4);
  Owned wanted_too(2, 100'000);
  b.Send(more.transfer);
  a.Receive(wanted_too.transfer);
  Move(b, a);
  EXPECT_EQ(a.NextOut()[0].bytes, sizeof(FrameHead) - 8);
  a.Wrote(sizeof(FrameHead) - 8);
  EXPECT_EQ(next().number, 2U);
}

TEST_F(ConversationTest, WhatIsPulledIsTheSendersUntilAllOfItIsTaken) {
  AllowPulls();
  Owned sent(1, 3'000'000, 5);
  Owned received(1, 3'000'000);
  a.Send(sent.transfer);
  b.Receive(received.transfer);
  Move(a, b);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(received.transfer->ended);
    EXPECT_TRUE(b.open());
    EXPECT_GT(Pull(b), 0U);
  }
  EXPECT_TRUE(received.transfer->ended && received.status().ok());
  EXPECT_EQ(received.memory, sent.memory);
  EXPECT_FALSE(sent.transfer->ended);
  Move(b, a);
  EXPECT_TRUE(sent.transfer->ended && sent.status().ok());
  EXPECT_FALSE(a.open() || b.open());
}

TEST_F(ConversationTest, WhatCannotBePulledIsSent) {
  AllowPulls();
  Owned sent(1, 2'000'000, 5);
  Owned received(1, 2'000'000);
  a.Send(sent.transfer);
  b.Receive(received.transfer);
  Move(a, b);
  Pull(b, 1'000'000);
  b.PullFailed();
  EXPECT_EQ(b.NextPull().bytes, 0U);
  MoveAll();
  EXPECT_TRUE(sent.transfer->ended && received.transfer->ended);
  EXPECT_EQ(received.memory, sent.memory);
}

TEST_F(ConversationTest, AnAbandonedPullIsOver) {
  AllowPulls();
  Owned sent(1, 2'000'000, 5);
  Owned received(1, 2'000'000);
  Owned next(1, 100'000, 6);
  Owned next_received(1, 100'000);
  a.Send(sent.transfer);
  a.Send(next.transfer);
  b.Receive(received.transfer);
  b.Receive(next_received.transfer);
  Move(a, b);
  Pull(b, 1'000'000);
  b.Abandon(received.transfer, {StatusCode::kDeadlineExceeded, "late"});
  EXPECT_EQ(received.status().message(), "late");
  EXPECT_EQ(next_received.status().message(), "late");
  EXPECT_EQ(b.NextPull().bytes, 0U);
  EXPECT_FALSE(b.open());
}

TEST_F(ConversationTest, WhatIsKeptIsCopied) {
  Owned sent(1, 100, 8);
  a.Send(sent.transfer);
  a.Keep();
  ASSERT_TRUE(sent.transfer->ended);
  std::fill(sent.memory.begin(), sent.memory.end(), uint8_t{0});
  Owned received(1, 100);
  b.Receive(received.transfer);
  MoveAll();
  EXPECT_EQ(received.memory, std::vector<uint8_t>(100, 8));
}

TEST_F(ConversationTest, EndEndsAllButWhatIsHere) {
  Owned here(1, 100, 8);
  Owned asked(2, 100);
  a.Send(here.transfer);
  b.Receive(asked.transfer);
  MoveAll();  // `here` has come; nobody has asked for it
  Owned offered(4, 100'000);
  Owned offer(3, 100'000);
  b.Send(offered.transfer);
  b.Send(offer.transfer);
  Owned accepted(3, 100'000);
  a.Receive(accepted.transfer);
  Move(b, a);
  Move(a, b);
  Move(b, a, 50'000);  // half of it
  const Status died(StatusCode::kUnavailable, "rank 0 has died");
  a.End(died);
  b.End(died);
  for (const Owned* owned : {&asked, &offered, &offer, &accepted}) {
    EXPECT_TRUE(owned->transfer->ended);
    EXPECT_EQ(owned->status().message(), "rank 0 has died");
  }
  EXPECT_EQ(a.NextIn().bytes, 0U);
  EXPECT_FALSE(a.open() || b.open());
  Owned got(1, 100);
  b.Receive(got.transfer);
  EXPECT_TRUE(got.transfer->ended && got.status().ok());
  EXPECT_EQ(got.memory, here.memory);
  Owned late(1, 100);
  b.Receive(late.transfer);
  EXPECT_EQ(late.status().message(), "rank 0 has died");
  Owned too_late(1, 100);
  b.Send(too_late.transfer);
  EXPECT_EQ(too_late.status().message(), "rank 0 has died");
}

TEST_F(ConversationTest, AbandonedMemoryIsNotTouched) {
  const Status late(StatusCode::kDeadlineExceeded, "rank 0 did not come");
  Owned waiting(1, 10);
  b.Receive(waiting.transfer);
  b.Abandon(waiting.transfer, late);
  EXPECT_EQ(waiting.status().message(), "rank 0 did not come");
  Owned sent(1, 100'000, 5);
  Owned received(1, 100'000);
  SendABeginning(sent, received);
  b.Abandon(received.transfer, late);
  const std::vector<uint8_t> before = received.memory;
  MoveAll();
  EXPECT_EQ(received.memory, before);
  EXPECT_EQ(received.status().message(), "rank 0 did not come");
  EXPECT_TRUE(b.ended());
}

TEST_F(ConversationTest, CloseSendsWhatIsKeptAndSaysGoodbye) {
  Owned kept(1, 100, 8);
  Owned asked(2, 10);
  a.Send(kept.transfer);
  a.Keep();
  a.Receive(asked.transfer);
  a.Close({StatusCode::kFailedPrecondition, "closed"});
  EXPECT_EQ(asked.status().message(), "closed");
  Owned received(1, 100);
  Owned more(1, 100);
  b.Receive(received.transfer);
  b.Receive(more.transfer);
  MoveAll();
  EXPECT_EQ(received.memory, kept.memory);
  EXPECT_EQ(more.status().message(), "rank 0 has closed its communicator");
}

TEST_F(ConversationTest, WhatComesToAClosedOneIsForNobody) {
  Owned sent(1, 100'000, 5);
  Owned received(1, 100'000);
  SendABeginning(sent, received);
  b.Close({StatusCode::kFailedPrecondition, "closed"});
  const std::vector<uint8_t> before = received.memory;
  Owned next(2, 100'000, 5);
  a.Send(next.transfer);
  MoveAll();
  EXPECT_EQ(received.memory, before);
  EXPECT_TRUE(sent.status().ok());
  EXPECT_THAT(next.status().message(), HasSubstr("has closed"));
}

TEST_F(ConversationTest, NonsenseEndsIt) {
  const auto heard = [](const FrameHead& head) {
    Conversation c("rank 4");
    Owned asked(0, 10);
    c.Receive(asked.transfer);
    uint64_t done = 0;
    while (done < HeadBytes(head.kind)) {
      const Conversation::Room room = c.NextIn();
      EXPECT_GT(room.bytes, 0U);
      std::memcpy(room.data, reinterpret_cast<const uint8_t*>(&head) + done, room.bytes);
      done += room.bytes;
      c.Took(room.bytes);
    }
    EXPECT_TRUE(c.ended());
    return asked.status().ToString();
  };
  const std::string other = "INTERNAL: rank 4 speaks another protocol: use one libmuster";
  FrameHead head;
  head.kind = static_cast<FrameKind>(99);
  EXPECT_EQ(heard(head), other);
  head = {};
  head.dtype = static_cast<DType>(kDTypes);
  EXPECT_EQ(heard(head), other);
  head = {};
  head.whole_bytes = Conversation::kWholeMax + 1;
  EXPECT_EQ(heard(head), other);
  for (const FrameKind kind : {FrameKind::kAccept, FrameKind::kRefuse, FrameKind::kData}) {
    head = {};
    head.kind = kind;
    head.number = 3;
    EXPECT_EQ(heard(head), other);
  }
  head = {};
  head.kind = FrameKind::kCredit;
  head.bytes = 1;  // nothing has gone whole
  EXPECT_EQ(heard(head), other);
  head = {};
  head.kind = FrameKind::kBye;
  EXPECT_EQ(heard(head), "FAILED_PRECONDITION: rank 4 has closed its communicator");
}

}  // namespace
}  // namespace muster
