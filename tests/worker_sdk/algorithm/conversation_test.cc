#include "worker_sdk/algorithm/conversation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/worker_sdk/algorithm/conversation_pair.h"

namespace muster {
namespace {

using testing::HasSubstr;

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
              sides[side].Keep(mine.sends[mine.sent - 1]->transfer);
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
  Offer(sent, received);
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

TEST_F(ConversationTest, OnlyWhatPaysIsPulled) {
  AllowPulls();
  for (const uint64_t bytes : {Conversation::kPulledAbove, Conversation::kPulledMax + 1}) {
    Owned sent(1, bytes, 5);
    Owned received(1, bytes);
    Offer(sent, received);
    EXPECT_EQ(b.NextPull().bytes, 0U) << bytes;
    MoveAll();
    EXPECT_TRUE(received.transfer->ended && received.memory == sent.memory) << bytes;
  }
}

TEST_F(ConversationTest, WhatCannotBePulledIsSent) {
  AllowPulls();
  Owned sent(1, 2'000'000, 5);
  Owned received(1, 2'000'000);
  Offer(sent, received);
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
  a.Keep(sent.transfer);
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

// An answer to the other side may have come between.
TEST_F(ConversationTest, WhatIsKeptNeedNotBeTheLast) {
  Owned large(1, 100'000, 5);
  Owned large_received(1, 100'000);
  Offer(large, large_received);
  Owned sent(2, 100, 8);
  a.Send(sent.transfer);
  Move(b, a);  // accepted: its data goes behind
  a.Keep(sent.transfer);
  EXPECT_TRUE(sent.transfer->ended && sent.status().ok());
  sent.memory.assign(100, 0);
  Owned received(2, 100);
  b.Receive(received.transfer);
  MoveAll();
  EXPECT_EQ(received.memory, std::vector<uint8_t>(100, 8));
  EXPECT_EQ(large_received.memory, large.memory);
}

TEST_F(ConversationTest, CloseSendsWhatIsKeptAndSaysGoodbye) {
  Owned kept(1, 100, 8);
  Owned asked(2, 10);
  a.Send(kept.transfer);
  a.Keep(kept.transfer);
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

// Rank 0's conversations with two others, and theirs with it.
class AnyTest : public testing::Test {
 protected:
  // `count` receives, which both have.
  std::vector<std::unique_ptr<Owned>> Ask(size_t count, uint64_t bytes) {
    std::vector<std::unique_ptr<Owned>> out;
    for (size_t i = 0; i < count; ++i) {
      out.push_back(std::make_unique<Owned>(7, bytes));
      out.back()->transfer->any = true;
      one.Receive(out.back()->transfer);
      two.Receive(out.back()->transfer);
    }
    return out;
  }
  void MoveAll() {
    while (Move(one, to_one) + Move(to_one, one) + Move(two, to_two) + Move(to_two, two) > 0) {
    }
  }
  Conversation one{"rank 1", {}, 1};
  Conversation two{"rank 2", {}, 2};
  Conversation to_one{"rank 0", {}, 0};  // rank 1's
  Conversation to_two{"rank 0", {}, 0};
};

TEST_F(AnyTest, EachMessageIsForTheFirstThatHasNone) {
  for (const uint64_t bytes : kSizes) {
    const auto asked = Ask(3, bytes);
    Owned last(7, bytes);  // of rank 1 only, which comes behind the others
    one.Receive(last.transfer);
    Owned sent[] = {Owned(7, bytes, 20), Owned(7, bytes, 10), Owned(7, bytes, 21),
                    Owned(7, bytes, 11)};
    for (size_t i = 0; i < std::size(sent); ++i) {
      (i % 2 == 0 ? to_two : to_one).Send(sent[i].transfer);
      MoveAll();
    }
    for (size_t i = 0; i < asked.size(); ++i) {
      ASSERT_TRUE(asked[i]->transfer->ended && asked[i]->status().ok()) << bytes;
      ASSERT_EQ(asked[i]->transfer->from, i % 2 == 0 ? 2 : 1);
      ASSERT_EQ(asked[i]->memory, sent[i].memory);
      one.Withdraw(asked[i]->transfer);
      two.Withdraw(asked[i]->transfer);
    }
    ASSERT_TRUE(last.transfer->ended && last.memory == sent[3].memory);
    ASSERT_EQ(last.transfer->from, 1);
    ASSERT_FALSE(one.open() || two.open());
  }
}

TEST_F(AnyTest, WhatHasComeOrIsComingIsTaken) {
  for (const uint64_t bytes : kSizes) {
    for (const uint64_t moved : {uint64_t{9}, UINT64_MAX}) {
      Owned before(6, 1);  // so that rank 1 is heard
      one.Receive(before.transfer);
      Owned sent(7, bytes, 10);
      to_one.Send(sent.transfer);
      Move(to_one, one, moved);
      const auto asked = Ask(1, bytes);
      MoveAll();
      ASSERT_TRUE(asked[0]->transfer->ended) << bytes;
      ASSERT_EQ(asked[0]->transfer->from, 1);
      ASSERT_EQ(asked[0]->memory, sent.memory);
      two.Withdraw(asked[0]->transfer);
      Owned awaited(6, 1);
      to_one.Send(awaited.transfer);
      MoveAll();
    }
  }
}

TEST_F(AnyTest, TheEndOfOneIsNoEndButForItsOwnMessage) {
  auto asked = Ask(1, 200'000);
  one.End({StatusCode::kUnavailable, "gone"});
  EXPECT_FALSE(asked[0]->transfer->ended);
  one.Receive(asked[0]->transfer);
  EXPECT_FALSE(asked[0]->transfer->ended);
  Owned sent(7, 200'000, 10);
  to_two.Send(sent.transfer);
  Move(to_two, two);
  Move(two, to_two);
  Move(to_two, two, 1000);
  EXPECT_EQ(asked[0]->transfer->from, 2);
  EXPECT_FALSE(asked[0]->transfer->ended);
  two.End({StatusCode::kUnavailable, "gone, too"});
  EXPECT_TRUE(asked[0]->transfer->ended);
  EXPECT_EQ(asked[0]->status().message(), "gone, too");
}

}  // namespace
}  // namespace muster
