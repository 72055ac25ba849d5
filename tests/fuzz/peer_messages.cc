// What a peer sends to a worker's SDK over TCP.
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "proto/base/check.h"
#include "proto/base/unique_fd.h"
#include "tests/fuzz/fuzz_target.h"
#include "worker_sdk/transport/peers.h"

namespace muster::fuzz {
namespace {

constexpr int kRank = 11;
constexpr uint64_t kCall = 7;
constexpr uint64_t kLastCall = 6;
constexpr CallMark kMark = {1, 2, 3, 0, 4, 5};
constexpr CallMark kLastMark = {1, 2, 3, 0, 4, 6};
constexpr uint64_t kBytes = 5;  // that each message shall have

std::string Head(MessageKind kind, uint64_t call, uint64_t bytes, const CallMark& mark = kMark) {
  MessageHead head;
  head.kind = kind;
  head.call = call;
  head.bytes = bytes;
  head.mark = mark;
  return {reinterpret_cast<const char*>(&head), sizeof(head)};
}

Status Disagree(uint32_t, const MessageHead&) {
  return {StatusCode::kFailedPrecondition, "ranks disagree"};
}

// A plain second reading: what Receive should make of `text` from `at` on. All of it is there, and
// behind it the end of the connection.
struct Reading {
  StatusCode code = StatusCode::kOk;
  std::string data;
  int peer = -1;  // that is to blame
};
Reading ReadNext(absl::string_view text, size_t& at) {
  for (;;) {
    MessageHead head;
    if (text.size() - at < sizeof(head)) {
      return {StatusCode::kUnavailable, "", kRank};
    }
    std::memcpy(&head, text.data() + at, sizeof(head));
    at += sizeof(head);
    if (head.magic != MessageHead::kMagic) {
      return {StatusCode::kInternal, ""};
    }
    const bool last = head.call == kLastCall;
    const bool another = head.call != kCall || head.mark != kMark || head.bytes != kBytes;
    if (head.kind == MessageKind::kWaiting) {
      if ((last || head.call == kCall) && head.mark != (last ? kLastMark : kMark)) {
        return {StatusCode::kFailedPrecondition, ""};
      }
    } else if (head.kind == MessageKind::kFailure) {
      constexpr uint64_t kReasons[] = {3, 4, 8, 9, 12, 13, 14};
      const bool known =
          std::find(std::begin(kReasons), std::end(kReasons), head.call) != std::end(kReasons);
      if (!known) {
        return {StatusCode::kInternal, ""};
      }
      return {static_cast<StatusCode>(head.call), "", static_cast<int>(head.mark.root - 1)};
    } else if (head.kind == MessageKind::kBye) {
      return {StatusCode::kFailedPrecondition, "", kRank};
    } else if (head.kind == MessageKind::kData && another) {
      return {StatusCode::kFailedPrecondition, ""};
    } else if (head.kind != MessageKind::kData) {
      return {StatusCode::kInternal, ""};
    } else if (text.size() - at < kBytes) {
      return {StatusCode::kUnavailable, "", kRank};
    } else {
      at += kBytes;
      return {StatusCode::kOk, std::string(text.substr(at - kBytes, kBytes))};
    }
  }
}

Status AtOnce(uint32_t rank) {
  CHECK(rank == kRank);
  return {StatusCode::kDeadlineExceeded, "nothing came"};
}

// All that was said is there, and the other side says no more.
void ReceiveAll(Peers& peers, absl::string_view text) {
  size_t at = 0;
  for (StatusCode code = StatusCode::kOk; code == StatusCode::kOk;) {
    uint8_t data[kBytes] = {};
    const Reading want = ReadNext(text, at);
    const Status got = peers.Receive(1, data, kBytes, AtOnce);
    CHECK(got.code() == want.code && got.peer() == want.peer);
    CHECK(got.ok() == got.message().empty());
    CHECK(!got.ok() || std::memcmp(data, want.data.data(), kBytes) == 0);
    code = want.code;
  }
  uint8_t data[kBytes];
  CHECK(!peers.Receive(1, data, kBytes, AtOnce).ok());  // an end is for good
}

}  // namespace

std::vector<std::string> Seeds() {
  const std::string whole = Head(MessageKind::kData, kCall, kBytes) + "hello";
  const std::string waits = Head(MessageKind::kWaiting, kCall, 0);
  std::vector<std::string> out;
  for (const char how : {'\0', '\1', '\2', '\3'}) {
    for (const std::string& said :
         {whole + whole, waits + whole, whole + Head(MessageKind::kBye, 0, 0),
          Head(MessageKind::kFailure, 14, 18) + "rank 3 has died   ",
          Head(MessageKind::kFailure, 14, 0), Head(MessageKind::kFailure, 0, 0) + whole,
          whole.substr(0, sizeof(MessageHead) + 2), whole.substr(0, 7),
          Head(MessageKind::kWaiting, kLastCall, 0, kLastMark) + whole,
          Head(MessageKind::kWaiting, kLastCall, 0) + whole,
          Head(MessageKind::kData, kCall, kBytes, kLastMark) + "hello", std::string()}) {
      out.push_back(how + said);
    }
  }
  return out;
}

void Run(absl::string_view bytes) {
  if (bytes.empty()) {
    return;
  }
  const bool sends = (bytes[0] & 1) != 0;  // we send first
  const bool gone = (bytes[0] & 2) != 0;   // the other side takes nothing any more
  const absl::string_view said = bytes.substr(1);
  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  Peers peers(2, {}, Disagree);
  const UniqueFd far(ends[1]);  // goes first: peers wait for who may still take what they sent
  CHECK(send(far.get(), said.data(), said.size(), 0) == static_cast<ssize_t>(said.size()));
  CHECK(shutdown(far.get(), gone ? SHUT_RDWR : SHUT_WR) == 0);
  peers.Add(1, kRank, UniqueFd(ends[0]));
  peers.Begin(kLastCall, kLastMark);
  peers.Begin(kCall, kMark);
  if (!sends) {
    if (bytes.size() % 2 == 0) {
      (void)peers.Failure();  // what it finds, the next call says
    }
    return ReceiveAll(peers, said);
  }
  const std::vector<uint8_t> data(40000, 42);  // more than goes out in one piece
  const Status sent = peers.Send(1, data.data(), data.size());
  const Status flushed = peers.Flush(1, AtOnce);
  CHECK(flushed.ok() == !gone && (sent.ok() || gone));
  CHECK(!gone || !flushed.message().empty());
  peers.Fail({StatusCode::kInternal, "we stop"});
  uint8_t none[kBytes];
  CHECK(!peers.Receive(1, none, kBytes, AtOnce).ok());
}

}  // namespace muster::fuzz
