// Frames between the I/O process and its shepherd: one message of any bytes, with descriptors.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/io/shepherd_protocol.h"
#include "proto/base/check.h"
#include "tests/fuzz/fuzz_target.h"

namespace muster::fuzz {
namespace {

struct Pair {
  UniqueFd a, b;
};

Pair MakePair() {
  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

ShepherdFrame AFrame(uint32_t type, std::string payload) {
  ShepherdFrame frame;
  frame.type = type;
  frame.index = 3;
  frame.value = 9;
  frame.payload = std::move(payload);
  return frame;
}

}  // namespace

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  SpawnBinding bound;
  bound.cpus.Add(3);
  bound.memory = MemoryBinding::kBind;
  bound.must = true;
  std::vector<std::vector<std::string>> payloads(6, {"A=b", "", "C"});
  payloads.push_back(PackBinding(bound));
  payloads.push_back({"/", "2", "/bin/sh", "/usr/bin/sh", "2", "sh", "-i", "A=b"});
  for (uint32_t type = 0; type < payloads.size(); ++type) {
    const Pair pair = MakePair();
    CHECK(SendFrame(pair.a.get(), AFrame(type, PackStrings(payloads[type]))).ok());
    std::string bytes(1024, '\0');
    const ssize_t n = recv(pair.b.get(), bytes.data(), bytes.size(), 0);
    CHECK(n > 0);
    seeds.push_back(bytes.substr(0, static_cast<size_t>(n)));
  }
  return seeds;
}

void Run(absl::string_view bytes) {
  Pair pair = MakePair();
  CHECK(send(pair.a.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  auto frame = ReceiveFrame(pair.b.get());
  CHECK(absl::IsUnavailable(ReceiveFrame(pair.b.get()).status()));  // one message, one frame
  if (!frame.ok()) {
    CHECK(absl::IsOutOfRange(frame.status()));
    return;
  }
  const std::vector<char*> words = UnpackStrings(frame->payload);
  for (const char* text : words) {
    CHECK(text >= frame->payload.data() && text < frame->payload.data() + frame->payload.size());
  }
  if (words.size() >= kBindingWords) {
    const std::vector<std::string> binding = PackBinding(UnpackBinding(words));
    std::string packed = PackStrings(binding);
    CHECK(PackBinding(UnpackBinding(UnpackStrings(packed))) == binding);
  }
  const UnpackedPrograms programs = UnpackPrograms(frame->payload);
  CHECK(programs.candidates.size() + programs.argv.size() + programs.environment.size() <=
        words.size());
  for (const auto* list : {&programs.candidates, &programs.argv, &programs.environment}) {
    for (const char* text : *list) {
      CHECK(text >= frame->payload.data() && text < frame->payload.data() + frame->payload.size());
    }
  }
  // Sent on as it came, with descriptors: it arrives as it was sent.
  frame->fds.clear();
  const int32_t descriptors = frame->index & 3;
  for (int32_t i = 0; i < descriptors; ++i) {
    frame->fds.emplace_back(dup(STDERR_FILENO));
  }
  CHECK(SendFrame(pair.b.get(), *frame).ok());
  const auto again = ReceiveFrame(pair.a.get());
  CHECK(again.ok() && again->payload == frame->payload && again->value == frame->value &&
        again->type == frame->type && again->fds.size() == frame->fds.size());
  pair.a.Reset();
  // Whoever looks through /proc just now has the other end open a moment longer.
  pollfd ended = {pair.b.get(), POLLIN, 0};
  CHECK(poll(&ended, 1, 10000) == 1);
  CHECK(absl::IsOutOfRange(ReceiveFrame(pair.b.get()).status()));
  CHECK(absl::IsFailedPrecondition(SendFrame(pair.b.get(), *frame)));
}

}  // namespace muster::fuzz
