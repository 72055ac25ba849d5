#include "agent/probe/pair_client.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/io/thread.h"
#include "agent/probe/pair_io.h"
#include "agent/probe/pair_server.h"
#include "proto/base/clock.h"
#include "proto/base/connect_tcp.h"
#include "proto/base/status_macros.h"
#include "proto/base/unique_fd.h"

namespace muster {
namespace {

constexpr absl::Duration kConnectWithin = absl::Seconds(3);  // a lost SYN is sent again after 1 s
constexpr absl::Duration kSmallWithin = absl::Seconds(2);
constexpr absl::Duration kLargeWithin = absl::Seconds(3);
constexpr size_t kLargeBytes = 64u << 10;  // many full segments, whatever the MTU
constexpr int kLargeTrips = 6;             // that TCP needs for these, being slow at its start
constexpr size_t kRoundTripsMax = 20;
constexpr absl::Duration kRoundTripsEnough = absl::Milliseconds(500);  // a far peer takes fewer
constexpr size_t kSampleFrames = 64;
constexpr absl::Duration kSampleSends = absl::Milliseconds(100);
constexpr int kSamplesMax = 3;
constexpr absl::Duration kSampleWithin = absl::Seconds(5);
// Since the first measure of all: a second sample of a peer, and the first of one.
constexpr absl::Duration kRepeatWithin = absl::Seconds(10);
constexpr absl::Duration kMeasureWithin = absl::Seconds(15);

struct Pair {
  const ProbePeer* peer = nullptr;  // of TryPeers' caller
  UniqueFd fd;
  PairResult result;
};

std::string SourceOf(int fd) {
  sockaddr_storage own{};
  socklen_t size = sizeof(own);
  char text[NI_MAXHOST] = "";
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) == 0) {
    (void)getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text, sizeof(text), nullptr, 0,
                      NI_NUMERICHOST);
  }
  return text;
}

absl::Status SendFrame(int fd, const std::string& bytes, absl::Time deadline) {
  RETURN_IF_ERROR(SendFrameSize(fd, bytes.size(), deadline));
  return SendAll(fd, bytes.data(), bytes.size(), deadline);
}

absl::Status Exchange(int fd, const std::string& bytes, absl::Time deadline) {
  char answer = 0;
  RETURN_IF_ERROR(SendFrame(fd, bytes, deadline));
  return ReceiveAll(fd, &answer, 1, deadline);
}

void Fail(Pair& pair, absl::string_view step, const absl::Status& status) {
  pair.result.failed = std::string(step);
  pair.result.error = std::string(status.message());
  pair.fd.Reset();
}

// Whether it can be had, and holds.
void TryConnection(Pair& pair, const std::string& word) {
  absl::StatusOr<UniqueFd> fd =
      ConnectTcp(pair.peer->address, absl::StrCat(pair.peer->port), BootNow() + kConnectWithin);
  if (!fd.ok()) {
    return Fail(pair, "connect", fd.status());
  }
  pair.fd = *std::move(fd);
  pair.result.source = SourceOf(pair.fd.get());
  const absl::Time began = BootNow();
  const absl::Time small_deadline = began + kSmallWithin;
  absl::Status said = SendAll(pair.fd.get(), word.data(), word.size(), small_deadline);
  if (said.ok()) {
    said = Exchange(pair.fd.get(), "?", small_deadline);
  }
  if (!said.ok()) {
    return Fail(pair, "small", said);
  }
  const std::string large(kLargeBytes, '.');
  const absl::Time small_ended = BootNow();
  const absl::Time large_deadline =
      small_ended + kLargeWithin + kLargeTrips * (small_ended - began);
  if (const absl::Status held = Exchange(pair.fd.get(), large, large_deadline); !held.ok()) {
    Fail(pair, "large", held);
  }
}

// The median of some; so many as fit into the time, and one at least.
absl::StatusOr<double> TakeRoundTrip(int fd) {
  std::vector<double> trips;
  const absl::Time enough = BootNow() + kRoundTripsEnough;
  absl::Time sent = BootNow();
  while (trips.empty() || (trips.size() < kRoundTripsMax && sent < enough)) {
    RETURN_IF_ERROR(Exchange(fd, "?", sent + kSmallWithin));
    const absl::Time answered = BootNow();
    trips.push_back(absl::ToDoubleSeconds(answered - sent));
    sent = answered;
  }
  const auto median = trips.begin() + static_cast<ptrdiff_t>(trips.size() / 2);
  std::nth_element(trips.begin(), median, trips.end());
  return *median;
}

// Sends frames, and takes how many arrive in which time: bytes per second into `best`, if more. An
// error where some have not arrived until the deadline.
absl::Status TakeSample(int fd, const std::string& frame, absl::Time deadline, double& best) {
  const absl::Time began = BootNow();
  absl::Status status;
  size_t sent = 0;
  while (status.ok() && sent < kSampleFrames && BootNow() < began + kSampleSends) {
    status = SendFrame(fd, frame, deadline);
    ++sent;
  }
  size_t arrived = 0;
  absl::Time last = began;
  for (char answer = 0; arrived < sent; ++arrived) {
    if (const absl::Status got = ReceiveAll(fd, &answer, 1, deadline); !got.ok()) {
      status.Update(got);
      break;
    }
    last = BootNow();
  }
  if (arrived > 0) {
    best = std::max(
        best, static_cast<double>(arrived * frame.size()) / absl::ToDoubleSeconds(last - began));
  }
  return status;
}

void TakeSpeeds(Pair& pair, absl::Time repeat_until) {
  const int fd = pair.fd.get();
  PairResult& result = pair.result;
  const absl::StatusOr<double> round_trip = TakeRoundTrip(fd);
  if (!round_trip.ok()) {
    return Fail(pair, "small", round_trip.status());
  }
  result.round_trip_s = *round_trip;

  // A link is as fast as its best sample: a machine that stands still for a moment spoils one, and
  // a link that is slow is so in each. One that did not keep the sender waiting needs no second.
  const std::string large(kLargeBytes, '.');
  absl::Time began = BootNow();
  for (int taken = 0; taken < kSamplesMax && (taken == 0 || began < repeat_until); ++taken) {
    const absl::Status sample = TakeSample(fd, large, began + kSampleWithin, result.bytes_per_s);
    if (result.bytes_per_s == 0) {
      return Fail(pair, "large", sample);
    }
    const absl::Time ended = BootNow();
    if (!sample.ok() || ended - began < kSampleSends) {
      break;
    }
    began = ended;
  }
}

}  // namespace

std::vector<PairResult> TryPeers(const std::vector<ProbePeer>& peers, const std::string& word) {
  std::vector<Pair> pairs(peers.size());
  {
    std::vector<Thread> threads;
    for (size_t i = 0; i < peers.size(); ++i) {
      Pair& pair = pairs[i];
      pair.peer = &peers[i];
      pair.result.to = peers[i].rank;
      absl::StatusOr<Thread> thread =
          Thread::Start("muster-try", [&pair, &word] { TryConnection(pair, word); });
      if (thread.ok()) {
        threads.push_back(*std::move(thread));
      } else {
        Fail(pair, "connect", thread.status());
      }
    }
  }
  std::vector<PairResult> out;
  const absl::Time began = BootNow();
  for (Pair& pair : pairs) {
    if (pair.fd.valid() && BootNow() < began + kMeasureWithin) {
      TakeSpeeds(pair, began + kRepeatWithin);
    }
    out.push_back(std::move(pair.result));
  }
  return out;
}

}  // namespace muster
