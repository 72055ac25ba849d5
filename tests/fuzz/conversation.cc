// What another rank says when programs send each other messages.
#include "worker_sdk/algorithm/conversation.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "proto/base/check.h"
#include "tests/fuzz/fuzz_target.h"

namespace muster::fuzz {
namespace {

constexpr uint64_t kMuch = 100'000;  // goes by an offer

std::string Head(FrameKind kind, uint32_t tag, uint64_t bytes, uint64_t number = 0) {
  FrameHead head;
  head.kind = kind;
  head.tag = tag;
  head.bytes = bytes;
  head.number = number;
  head.whole_bytes = static_cast<uint16_t>(bytes);
  return {reinterpret_cast<const char*>(&head), HeadBytes(kind)};
}

// A program's side, which does something between any two pieces that it hears.
class Program {
 public:
  Program() { conversation_.AllowPulls(); }
  void Do(uint8_t what) {
    const uint32_t tag = what / 16 % 3;
    switch (what % 16) {
      case 0:
        return conversation_.Receive(New(tag, 5));
      case 1:
        return conversation_.Receive(New(tag, kMuch));
      case 2:
        conversation_.Send(New(tag, 5));
        return conversation_.Keep(all_.back()->transfer);
      case 3:
        return conversation_.Send(New(tag, kMuch));
      case 4:
        return Write();
      case 5:
        if (!all_.empty() && !all_.front()->transfer->ended) {
          conversation_.Abandon(all_.front()->transfer, late_);
          CHECK(all_.front()->transfer->ended);
        }
        return;
      case 6:
        return conversation_.Close(late_);
      case 7:
        return Pull();
      case 8:
        if (conversation_.NextPull().bytes > 0) {
          conversation_.PullFailed();
        }
        return;
      default:
        return;
    }
  }
  // False: it waits for nothing.
  bool Hear(absl::string_view& said, uint64_t most) {
    const Conversation::Room room = conversation_.NextIn();
    const uint64_t bytes = std::min<uint64_t>({room.bytes, said.size(), most});
    if (bytes > 0) {
      std::memcpy(room.data, said.data(), bytes);
      said.remove_prefix(bytes);
      conversation_.Took(bytes);
    }
    return room.bytes > 0;
  }
  void End() {
    conversation_.End(late_);
    for (const auto& one : all_) {
      CHECK(one->transfer->ended);
    }
    CHECK(conversation_.NextIn().bytes == 0 && !conversation_.open());
  }

 private:
  struct Owned {
    std::vector<uint8_t> memory;
    TransferPtr transfer;
  };
  TransferPtr New(uint32_t tag, uint64_t bytes) {
    auto one = std::make_unique<Owned>();
    one->memory.resize(bytes);
    one->transfer = std::make_shared<Transfer>(
        Transfer{tag, DType::kUInt8, bytes, one->memory.data(), false, {}});
    all_.push_back(std::move(one));
    return all_.back()->transfer;
  }
  // Wherever it says that it lies.
  void Pull() {
    const Conversation::Pull pull = conversation_.NextPull();
    if (pull.bytes > 0) {
      std::memset(pull.data, 1, pull.bytes);
      conversation_.Pulled(pull.bytes);
    }
  }
  // All that there is to be written; ASan looks at it.
  void Write() {
    for (;;) {
      uint64_t wrote = 0;
      for (const Conversation::Piece& piece : conversation_.NextOut()) {
        sum_ += piece.bytes == 0 ? 0 : piece.data[0] + piece.data[piece.bytes - 1];
        wrote += piece.bytes;
      }
      if (wrote == 0) {
        return;
      }
      conversation_.Wrote(wrote);
    }
  }

  const Status late_{StatusCode::kDeadlineExceeded, "late"};
  Conversation conversation_{"rank 1"};
  std::vector<std::unique_ptr<Owned>> all_;
  uint64_t sum_ = 0;
};

constexpr size_t kDeeds = 8;

}  // namespace

std::vector<std::string> Seeds() {
  const std::string whole = Head(FrameKind::kWhole, 0, 5) + "hello";
  const std::string other = Head(FrameKind::kWhole, 1, 5) + "hello";
  const std::string much(kMuch, 'x');
  const std::string offer = Head(FrameKind::kOffer, 0, kMuch, 1);
  FrameHead there;
  there.kind = FrameKind::kOffer;
  there.bytes = kMuch;
  there.number = 1;
  there.address = 4096;
  const std::string pulled(reinterpret_cast<const char*>(&there), sizeof(there));
  const std::string data = Head(FrameKind::kData, 0, kMuch, 1) + much;
  std::vector<std::string> out;
  for (const std::string& said : {whole + whole,
                                  other + whole,
                                  offer + data,
                                  offer + whole,
                                  other + other,
                                  Head(FrameKind::kWhole, 0, 7) + "greeted" + whole,
                                  Head(FrameKind::kOffer, 0, 50'000, 1),
                                  Head(FrameKind::kCredit, 0, 133) + whole,
                                  other + Head(FrameKind::kCredit, 0, 1),
                                  pulled + whole,
                                  pulled + data,
                                  Head(FrameKind::kTaken, 0, kMuch, 1),
                                  Head(FrameKind::kAccept, 0, kMuch, 1),
                                  Head(FrameKind::kRefuse, 0, 7, 1),
                                  whole + Head(FrameKind::kBye, 0, 0),
                                  Head(FrameKind::kWhole, 0, 50'000),
                                  data,
                                  whole.substr(0, 7),
                                  other.substr(0, 10),
                                  offer.substr(0, 20)}) {
    for (const char* deeds : {"\x00\x10\x04\x07\x07\x07\x07", "\x01\x04\x04\x04\x00\x04\x07",
                              "\x03\x04\x04\x02\x04\x10\x06", "\x20\x04\x00\x04\x05\x04\x04",
                              "\x03\x04\x06\x04\x04\x04\x04", "\x01\x04\x07\x04\x08\x04\x04",
                              "\x01\x04\x05\x04\x00\x04\x06"}) {
      out.push_back(std::string(deeds, 7) + '\x30' + said);
    }
  }
  return out;
}

void Run(absl::string_view bytes) {
  if (bytes.size() < kDeeds) {
    return;
  }
  absl::string_view said = bytes.substr(kDeeds);
  const uint64_t most = uint64_t{static_cast<uint8_t>(bytes[kDeeds - 1])} * 64 + 1;
  Program program;
  for (size_t i = 0; i + 1 < kDeeds; ++i) {
    program.Do(static_cast<uint8_t>(bytes[i]));
    const size_t before = said.size();
    while (program.Hear(said, most) && !said.empty() && before - said.size() < 64) {
    }
  }
  while (!said.empty() && program.Hear(said, most)) {
  }
  program.End();
}

}  // namespace muster::fuzz
