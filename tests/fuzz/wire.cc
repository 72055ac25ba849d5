// The frames of gRPC: agent to master and back, handshake, output. The first byte says which.
#include "proto/base/build_info.h"
#include "proto/base/check.h"
#include "proto/base/limits.h"
#include "proto/wire/convert.h"
#include "rendezvous/service/handshake.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/proto/wire/random_values.h"

namespace muster::fuzz {
namespace {

enum Kind : char { kAgent, kMaster, kTerms, kChunk, kHello, kStreamHello, kKinds };

template <typename T>
std::string Bytes(const T& value) {
  return ToWire(value).SerializeAsString();
}

std::string Seed(Kind kind, const std::string& bytes) { return std::string(1, kind) + bytes; }

// What was read, written, is read as the same.
template <typename Message>
void RoundTrip(absl::string_view bytes) {
  Message message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return;
  }
  const auto value = FromWire(message);
  if (!value.ok()) {
    CHECK(absl::IsInvalidArgument(value.status()));
    return;
  }
  Message again;
  CHECK(again.ParseFromString(Bytes(*value)));
  const auto second = FromWire(again);
  CHECK(second.ok() && Bytes(*second) == Bytes(*value));
}

// Bounds that others count on.
void CheckAgent(absl::string_view bytes) {
  v1::AgentFrame frame;
  if (!frame.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return;
  }
  const auto message = FromWire(frame);
  if (!message.ok()) {
    return;
  }
  if (const auto* beat = std::get_if<Beat>(&*message)) {
    CHECK(beat->exits.size() <= kExitsPerBeatMax);
    for (const WorkerExit& exit : beat->exits) {
      CHECK(exit.local_rank.value < kWorkersPerNodeMax && exit.rank.value < kWorldSizeMax);
      CHECK(exit.ran_for >= absl::ZeroDuration());
    }
  } else if (const auto* join = std::get_if<Join>(&*message)) {
    CHECK(join->workers <= kWorkersPerNodeMax && join->node_rank >= -1);
  }
}

void CheckHello(absl::string_view bytes) {
  v1::Hello hello;
  if (hello.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    Handshake handshake{std::string(kNonceBytes, 'm'), "", ""};
    KnownUser user;
    const std::string why = RefusalOf(hello, {{"", "secret"}}, "node0", &handshake, &user);
    CHECK(!why.empty() && why.size() < 4096);  // nobody here knows the proof
    for (const char c : why) {
      CHECK(c >= ' ' && c <= '~');  // goes to a person's terminal
    }
    (void)RefusalOf(hello, {{"", ""}}, "node0", &handshake, &user);
  }
}

void CheckStreamHello(absl::string_view bytes) {
  v1::StreamHello hello;
  if (hello.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    const Handshake handshake{std::string(kNonceBytes, 'm'), std::string(kNonceBytes, 'a'), "job"};
    CHECK(!RefusalOf(hello, "secret", handshake).empty());
    (void)RefusalOf(hello, "", handshake);
  }
}

}  // namespace

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  RandomValues make(1);
  for (int i = 0; i < 24; ++i) {
    AgentMessage up = make.FromAgent();
    if (auto* beat = std::get_if<Beat>(&up)) {
      for (WorkerExit& exit : beat->exits) {
        exit.stderr_tail = "tail";  // a long one leaves no room for the rest
      }
    }
    seeds.push_back(Seed(kAgent, Bytes(up)));
    seeds.push_back(Seed(kMaster, Bytes(make.FromMaster())));
  }
  Directive directive = make.ADirective();
  directive.assignment = make.AnAssignment();
  directive.assignment.nodes = 2;
  directive.assignment.node_rank.value = 1;
  directive.assignment.world_size = 3;
  directive.assignment.rank_first.value = 2;
  directive.assignment.workers = 1;
  directive.assignment.layout = {{2, 1}, {1, 1}};
  seeds.push_back(Seed(kMaster, Bytes(MasterMessage(directive))));
  seeds.push_back(Seed(kTerms, Bytes(make.Terms())));
  OutputChunk chunk;
  chunk.bytes = "line\n";
  seeds.push_back(Seed(kChunk, ToWire(std::move(chunk)).SerializeAsString()));
  v1::Hello hello;
  hello.set_protocol(kProtocolVersion);
  hello.set_build(std::string(BuildName()));
  hello.set_hostname("node1");
  hello.set_nonce(std::string(kNonceBytes, 'n'));
  seeds.push_back(Seed(kHello, hello.SerializeAsString()));
  hello.set_proof("proof");
  seeds.push_back(Seed(kHello, hello.SerializeAsString()));
  v1::StreamHello stream;
  stream.set_protocol(kProtocolVersion);
  stream.set_job_id("job");
  seeds.push_back(Seed(kStreamHello, stream.SerializeAsString()));
  return seeds;
}

void Run(absl::string_view bytes) {
  if (bytes.empty()) {
    return;
  }
  const absl::string_view rest = bytes.substr(1);
  switch (static_cast<unsigned char>(bytes[0]) % kKinds) {
    case kAgent:
      RoundTrip<v1::AgentFrame>(rest);
      CheckAgent(rest);
      break;
    case kMaster:
      RoundTrip<v1::MasterFrame>(rest);
      break;
    case kTerms:
      RoundTrip<v1::JobTerms>(rest);
      break;
    case kChunk: {
      v1::OutputChunk chunk;
      if (chunk.ParseFromArray(rest.data(), static_cast<int>(rest.size()))) {
        auto value = FromWire(std::move(chunk));
        if (value.ok()) {
          const OutputChunk copy = *value;
          const auto again = FromWire(ToWire(*std::move(value)));
          CHECK(again.ok() && *again == copy);
        }
      }
      break;
    }
    case kHello:
      CheckHello(rest);
      break;
    default:
      CheckStreamHello(rest);
  }
}

}  // namespace muster::fuzz
