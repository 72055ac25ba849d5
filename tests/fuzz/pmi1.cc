// What workers say to the agent's PMI-1 server: two of one node, whose lines the first byte of each
// deals out. Whatever they say, each request is answered once, and a barrier is left by those in
// it.
#include "agent/core/pmi1.h"

#include <algorithm>
#include <array>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/base/check.h"
#include "tests/fuzz/fuzz_target.h"

namespace muster::fuzz {
namespace {

constexpr size_t kBytesMax = 4096;

// What the workers have to be told, and have been.
struct Told {
  std::array<size_t, 2> replies{};
  size_t of_barrier = 0;
};

void Note(const std::vector<Pmi1Effect>& effects, Told& told) {
  for (const Pmi1Effect& effect : effects) {
    if (const auto* reply = std::get_if<Pmi1Reply>(&effect)) {
      CHECK(absl::StartsWith(reply->line, "cmd=") && absl::EndsWith(reply->line, "\n"));
      CHECK(std::count(reply->line.begin(), reply->line.end(), '\n') == 1);
      ++told.replies.at(reply->to.value);
      told.of_barrier += absl::StartsWith(reply->line, "cmd=barrier_out") ? 1 : 0;
    }
  }
}

}  // namespace

std::vector<std::string> Seeds() {
  const std::string put = "cmd=put kvsname=kvs key=a value=b";
  return {
      "0cmd=init pmi_version=1 pmi_subversion=1\n0cmd=get_maxes\n0cmd=get_appnum\n",
      absl::StrCat("0", put, "\n1cmd=barrier_in\n0cmd=barrier_in\n1cmd=get kvsname=kvs key=a\n"),
      "0mcmd=spawn\n0nprocs=1\n0totspawns=1\n0spawnssofar=1\n0endcmd\n0cmd=finalize\n",
      "1cmd=abort exitcode=3 message=no\\ more\\nof it\n",
      "0cmd=get_my_kvsname\n0cmd=get_universe_size\n0cmd=publish_name service=s port=p\n",
      "0cmd=get kvsname=kvs key=PMI_process_mapping\n0cmd=get kvsname=kvs key=universeSize\n",
      absl::StrCat("0cmd=put kvsname=kvs key=k value=", std::string(kPmi1ValueMax, 'v'), "\n"),
      "0cmd=tea\n0\n0key=a cmd=put\n1cmd=init pmi_version=2\n"};
}

void Run(absl::string_view bytes) {
  Pmi1Server server({"kvs", 4, "(vector,(0,2,2))", {0, 1}}, kBytesMax);
  Told told;
  for (const absl::string_view text : absl::StrSplit(bytes, '\n')) {
    if (text.empty()) {
      continue;
    }
    const uint32_t worker = text[0] == '1' ? 1 : 0;
    const absl::string_view line = text.substr(1);
    const Told before = told;
    const std::vector<Pmi1Effect> effects = server.Take({worker}, line);
    Note(effects, told);
    CHECK(told.replies.at(worker) - before.replies.at(worker) <= 1);
    CHECK(told.replies.at(1 - worker) == before.replies.at(1 - worker));
    for (const Pmi1Effect& effect : effects) {
      if (const auto* enter = std::get_if<Pmi1Enter>(&effect)) {
        CHECK(enter->pairs.size() <= 4 * kBytesMax);
        const size_t left = told.of_barrier;
        Note(server.Fenced(enter->pairs), told);
        CHECK(told.of_barrier == left + told.replies.size());
      }
      if (std::holds_alternative<Pmi1Drop>(effect)) {
        return;
      }
    }
    const auto parsed = ParsePmi1(line);
    if (parsed.ok()) {
      for (const auto& [name, value] : parsed->fields) {
        CHECK(UnescapePmi1(EscapePmi1(value)) == value);
        CHECK(!absl::StrContains(UnescapePmi1(value), '\0'));
      }
    }
  }
  for (const uint32_t worker : {0U, 1U}) {
    Note(server.Ended({worker}, true), told);
    CHECK(server.End({worker}).message.size() <= kPmi1LineMax);
  }
}

}  // namespace muster::fuzz
