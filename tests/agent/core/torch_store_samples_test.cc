// Replays byte transcripts (tests/agent/samples) of torch's TCPStore.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "tests/agent/core/torch_store_testing.h"

namespace muster {
namespace {

using testing_store::Bench;

struct Line {
  uint64_t client = 0;
  char what = '!';
  std::string bytes;
};

std::vector<Line> ReadSample(const std::string& name) {
  std::ifstream in(std::string(MUSTER_SAMPLES) + "/" + name);
  std::vector<Line> out;
  std::string text;
  while (std::getline(in, text)) {
    if (text.empty() || text[0] == '#') {
      continue;
    }
    Line line;
    std::string hex;
    std::istringstream words(text);
    words >> line.client >> line.what >> hex;
    line.bytes = absl::HexStringToBytes(hex);
    EXPECT_EQ(line.bytes.size() * 2, hex.size()) << text;
    out.push_back(std::move(line));
  }
  return out;
}

// Feeds the sample; the piece that holds byte `cut` of a connection's input is cut there in two.
// Returns the first difference, "" if there is none.
std::string Replay(const std::vector<Line>& lines, uint64_t cut_client, size_t cut,
                   bool byte_by_byte) {
  Bench bench;
  std::map<uint64_t, size_t> fed;
  std::map<uint64_t, std::string> want;
  for (const Line& line : lines) {
    if (line.what == '<') {
      want[line.client] += line.bytes;
    }
  }
  const auto open = [&](uint64_t client) {
    if (fed.try_emplace(client, 0).second) {
      bench.Open(client);
    }
  };
  for (const Line& line : lines) {
    open(line.client);
    if (line.what == '!') {
      bench.Close(line.client);
    } else if (line.what == '>') {
      const size_t start = fed[line.client];
      fed[line.client] += line.bytes.size();
      if (byte_by_byte) {
        for (const char byte : line.bytes) {
          bench.Feed(line.client, std::string(1, byte));
        }
      } else if (line.client == cut_client && cut > start && cut < fed[line.client]) {
        bench.Feed(line.client, line.bytes.substr(0, cut - start));
        bench.Feed(line.client, line.bytes.substr(cut - start));
      } else {
        bench.Feed(line.client, line.bytes);
      }
    }
    if (!bench.closed.empty()) {
      return "closed: " + bench.closed.begin()->second;
    }
  }
  for (const auto& [client, bytes] : want) {
    if (bench.received[client] != bytes) {
      return "client " + std::to_string(client) + ": got " +
             absl::BytesToHexString(bench.received[client]) + ", want " +
             absl::BytesToHexString(bytes);
    }
  }
  return bench.store.clients() == 0 ? "" : "a connection is left";
}

class Samples : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Store, Samples,
                         testing::Values("torch_1_13_calls.txt", "torch_1_13_gloo_3_ranks.txt",
                                         "torch_2_6_calls.txt", "torch_2_6_gloo_3_ranks.txt",
                                         "torch_2_x_by_hand.txt"),
                         [](const auto& each) {
                           const std::string name = each.param;
                           return name.substr(0, name.size() - 4);
                         });

TEST_P(Samples, AreAnsweredAsTorchAnswersThem) {
  const std::vector<Line> lines = ReadSample(GetParam());
  ASSERT_GT(lines.size(), 30u);
  EXPECT_EQ(Replay(lines, 0, 0, false), "");
}

TEST_P(Samples, HoweverTheBytesAreCut) {  // W1: every place, one after the other
  const std::vector<Line> lines = ReadSample(GetParam());
  EXPECT_EQ(Replay(lines, 0, 0, true), "");
  std::map<uint64_t, size_t> sizes;
  for (const Line& line : lines) {
    sizes[line.client] += line.what == '>' ? line.bytes.size() : 0;
  }
  for (const auto& [client, size] : sizes) {
    for (size_t cut = 1; cut < size; ++cut) {
      ASSERT_EQ(Replay(lines, client, cut, false), "") << "client " << client << " at " << cut;
    }
  }
}

TEST_P(Samples, OfWhichAByteIsWrongHarmNothing) {
  // Every byte of the first connection, one bit changed: any outcome but a crash, and the memory
  // of what the sample's connections held is given back.
  const std::vector<Line> lines = ReadSample(GetParam());
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].what != '>' || lines[i].client != 1) {
      continue;
    }
    for (size_t at = 0; at < lines[i].bytes.size(); ++at) {
      Bench bench;
      bench.Open(1);
      bench.Open(99);
      for (size_t k = 0; k <= i && !bench.closed.contains(1); ++k) {
        if (lines[k].what == '>' && lines[k].client == 1) {
          std::string bytes = lines[k].bytes;
          if (k == i) {
            bytes[at] = static_cast<char>(bytes[at] ^ (1 << (at % 8)));
          }
          bench.Feed(1, bytes);
        }
      }
      ASSERT_FALSE(bench.closed.contains(99));
      ASSERT_EQ(bench.store.clients(), bench.closed.contains(1) ? 1u : 2u);
    }
  }
}

}  // namespace
}  // namespace muster
