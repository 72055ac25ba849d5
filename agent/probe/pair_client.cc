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
constexpr size_t kRoundTrips = 20;
constexpr size_t kSampleFrames = 64;
constexpr absl::Duration kSampleSends = absl::Milliseconds(100);
constexpr int kSamplesMax = 3;
constexpr absl::Duration kSampleWithin = absl::Seconds(5);
constexpr absl::Duration kRepeatWithin = absl::Seconds(10);  // since the first sample of all

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
  const absl::Time small_deadline = BootNow() + kSmallWithin;
  absl::Status said = SendAll(pair.fd.get(), word.data(), word.size(), small_deadline);
  if (said.ok()) {
    said = Exchange(pair.fd.get(), "?", small_deadline);
  }
  if (!said.ok()) {
    return Fail(pair, "small", said);
  }
  const std::string large(kLargeBytes, '.');
  if (const absl::Status held = Exchange(pair.fd.get(), large, BootNow() + kLargeWithin);
      !held.ok()) {
    Fail(pair, "large", held);
  }
}

// Sends frames, and takes how long they need to arrive: bytes per second.
absl::StatusOr<double> TakeSample(int fd, const std::string& frame, absl::Time deadline) {
  const absl::Time began = BootNow();
  size_t frames = 0;
  while (frames < kSampleFrames && BootNow() < began + kSampleSends) {
    RETURN_IF_ERROR(SendFrame(fd, frame, deadline));
    ++frames;
  }
  std::string answers(frames, '\0');
  RETURN_IF_ERROR(ReceiveAll(fd, answers.data(), answers.size(), deadline));
  return static_cast<double>(frames * frame.size()) / absl::ToDoubleSeconds(BootNow() - began);
}

absl::Status TakeSpeeds(Pair& pair, absl::Time repeat_until) {
  const int fd = pair.fd.get();
  std::vector<double> trips;
  const absl::Time trips_deadline = BootNow() + kSmallWithin;
  for (size_t i = 0; i < kRoundTrips; ++i) {
    const absl::Time sent = BootNow();
    RETURN_IF_ERROR(Exchange(fd, "?", trips_deadline));
    trips.push_back(absl::ToDoubleSeconds(BootNow() - sent));
  }
  std::nth_element(trips.begin(), trips.begin() + kRoundTrips / 2, trips.end());
  pair.result.round_trip_s = trips[kRoundTrips / 2];

  // A link is as fast as its best sample: a machine that stands still for a moment spoils one, and
  // a link that is slow is so in each. One that did not keep the sender waiting needs no second.
  const std::string large(kLargeBytes, '.');
  absl::Time began = BootNow();
  for (int taken = 0; taken < kSamplesMax && (taken == 0 || began < repeat_until); ++taken) {
    ASSIGN_OR_RETURN(const double speed, TakeSample(fd, large, began + kSampleWithin));
    pair.result.bytes_per_s = std::max(pair.result.bytes_per_s, speed);
    const absl::Time ended = BootNow();
    if (ended - began < kSampleSends) {
      break;
    }
    began = ended;
  }
  return absl::OkStatus();
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
  const absl::Time repeat_until = BootNow() + kRepeatWithin;
  for (Pair& pair : pairs) {
    if (pair.fd.valid()) {
      if (const absl::Status taken = TakeSpeeds(pair, repeat_until); !taken.ok()) {
        Fail(pair, "large", taken);
      }
    }
    out.push_back(std::move(pair.result));
  }
  return out;
}

}  // namespace muster
