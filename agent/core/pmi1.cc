#include "agent/core/pmi1.h"

#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "agent/core/programs.h"
#include "agent/core/rank_map.h"

namespace muster {
namespace {

constexpr absl::string_view kMappingKey = "PMI_process_mapping";
constexpr absl::string_view kOurKeys = "PMI_";  // what begins so is the server's

std::string Failed(absl::string_view reply, absl::string_view why) {
  return absl::StrCat("cmd=", reply, " rc=-1 msg=", why, "\n");
}

// What an unknown or unserved command is answered with, and clients await.
std::string ReplyName(absl::string_view command) { return absl::StrCat(command, "_result"); }

// Neighbouring nodes that have as many ranks in a row.
struct Block {
  uint32_t first = 0;
  uint32_t nodes = 0;
  uint32_t ranks = 0;
};

void AddRun(uint32_t node, uint32_t ranks, std::vector<Block>& blocks) {
  if (!blocks.empty() && blocks.back().ranks == ranks &&
      blocks.back().first + blocks.back().nodes == node) {
    ++blocks.back().nodes;
  } else {
    blocks.push_back({node, 1, ranks});
  }
}

std::vector<Block> BlocksOf(const Assignment& assignment) {
  const RankMap map(assignment);
  std::vector<Block> blocks;
  uint32_t node = 0;
  uint32_t in_row = 0;
  for (uint32_t rank = 0; rank < assignment.world_size; ++rank) {
    const uint32_t at = map.NodeOf(Rank{rank})->value;
    if (in_row > 0 && at != node) {
      AddRun(std::exchange(node, at), std::exchange(in_row, 0), blocks);
    }
    node = at;
    ++in_row;
  }
  AddRun(node, in_row, blocks);
  return blocks;
}

void AppendPair(const std::string& key, const std::string& value, std::string& out) {
  absl::StrAppend(&out, key, absl::string_view("\0", 1), value, absl::string_view("\0", 1));
}

}  // namespace

std::string ProcessMapping(const Assignment& assignment) {
  std::string out = "(vector";
  for (const Block& block : BlocksOf(assignment)) {
    absl::StrAppend(&out, ",(", block.first, ",", block.nodes, ",", block.ranks, ")");
  }
  out.push_back(')');
  return out.size() <= kPmi1ValueMax ? out : "";
}

Pmi1Round Pmi1RoundOf(const WorkPlan& plan, const Assignment& assignment) {
  Pmi1Round out;
  out.kvsname = absl::StrCat("muster_", assignment.round.epoch, "_", assignment.round.n);
  out.world_size = assignment.world_size;
  out.asked_for = plan.mpi == MpiMode::kPmi1;
  out.mapping = ProcessMapping(assignment);
  for (uint32_t i = 0; i < assignment.workers; ++i) {
    out.appnums.push_back(
        static_cast<uint32_t>(ProgramOf(plan, assignment.RankOf(LocalRank{i}).value)));
  }
  return out;
}

Pmi1Server::Pmi1Server(Pmi1Round round, size_t bytes_max)
    : round_(std::move(round)), bytes_max_(bytes_max), workers_(round_.appnums.size()) {}

std::vector<Pmi1Effect> Pmi1Server::Take(LocalRank from, absl::string_view line) {
  Out out;
  Worker& worker = workers_[from.value];
  const bool of_spawn = worker.in_spawn || absl::StartsWith(line, "mcmd=spawn");
  if (of_spawn && line.size() <= kPmi1LineMax) {
    SpawnLine(from, line, out);
    return out;
  }
  const absl::StatusOr<Pmi1Line> parsed = ParsePmi1(line);
  if (!parsed.ok()) {
    out.emplace_back(Pmi1Drop{from, std::string(parsed.status().message())});
  } else if (parsed->command == "init" && worker.end.kind != MpiEnd::Kind::kNoMpi) {
    Refuse(from, kSecondMpiInit, out);
  } else if (worker.in_barrier && parsed->command != "abort") {  // of another thread
    out.emplace_back(Pmi1Drop{from, absl::StrCat("cmd=", parsed->command, " within a barrier")});
  } else {
    Command(from, *parsed, out);
  }
  return out;
}

void Pmi1Server::Command(LocalRank from, const Pmi1Line& line, Out& out) {
  const auto reply = [&](std::string text) { out.emplace_back(Pmi1Reply{from, std::move(text)}); };
  const std::string& command = line.command;
  if (command == "init") {
    Init(from, line, out);
  } else if (command == "put") {
    Put(from, line, out);
  } else if (command == "get") {
    Get(from, line, out);
  } else if (command == "barrier_in") {
    Barrier(from, out);
  } else if (command == "abort") {
    Abort(from, line, out);
  } else if (command == "get_maxes") {
    reply(absl::StrCat("cmd=maxes rc=0 kvsname_max=", kPmi1NameMax, " keylen_max=", kPmi1KeyMax,
                       " vallen_max=", kPmi1ValueMax, "\n"));
  } else if (command == "get_universe_size") {
    reply(absl::StrCat("cmd=universe_size rc=0 size=", round_.world_size, "\n"));
  } else if (command == "get_appnum") {
    reply(absl::StrCat("cmd=appnum rc=0 appnum=", round_.appnums[from.value], "\n"));
  } else if (command == "get_my_kvsname") {
    reply(absl::StrCat("cmd=my_kvsname rc=0 kvsname=", round_.kvsname, "\n"));
  } else if (command == "finalize") {
    workers_[from.value].end.Finalize();
    reply("cmd=finalize_ack rc=0\n");
  } else if (command == "publish_name" || command == "unpublish_name" || command == "lookup_name") {
    reply(Failed(ReplyName(absl::StripSuffix(command, "_name")), "names_are_not_served"));
  } else {
    reply(Failed(ReplyName(command), "unknown_command"));
  }
}

void Pmi1Server::Refuse(LocalRank from, absl::string_view why, Out& out) {
  out.emplace_back(Pmi1Reply{from, "cmd=response_to_init rc=-1 pmi_version=1 pmi_subversion=1\n"});
  if (workers_[from.value].end.Refuse(std::string(why))) {
    out.emplace_back(Pmi1Abort{from});
  }
}

// A client that can speak a later version is told that this is the first, and speaks that.
void Pmi1Server::Init(LocalRank from, const Pmi1Line& line, Out& out) {
  const std::string* version = line.Find("pmi_version");
  const bool ours = version != nullptr && *version == "1";
  if (ours && !round_.refusal.empty()) {
    return Refuse(from, round_.refusal, out);
  }
  if (ours) {
    workers_[from.value].end.Init();
  }
  out.emplace_back(Pmi1Reply{from, absl::StrCat("cmd=response_to_init rc=", ours ? "0" : "-1",
                                                " pmi_version=1 pmi_subversion=1\n")});
}

void Pmi1Server::Put(LocalRank from, const Pmi1Line& line, Out& out) {
  const std::string* kvsname = line.Find("kvsname");
  const std::string* key = line.Find("key");
  const std::string* value = line.Find("value");
  std::string why;
  if (kvsname == nullptr || key == nullptr || value == nullptr || key->empty()) {
    why = "kvsname_key_or_value_is_missing";
  } else if (*kvsname != round_.kvsname) {
    why = "unknown_kvsname";
  } else if (UnescapePmi1(*key).size() > kPmi1KeyMax) {
    why = absl::StrCat("a_key_may_have_", kPmi1KeyMax, "_bytes");
  } else if (UnescapePmi1(*value).size() > kPmi1ValueMax) {
    why = absl::StrCat("a_value_may_have_", kPmi1ValueMax, "_bytes");
  } else if (absl::StartsWith(*key, kOurKeys)) {
    why = "keys_that_begin_with_PMI__are_the_server's";
  } else {
    why = Store(*key, *value);
  }
  if (why.empty()) {
    news_[*key] = *value;
  }
  out.emplace_back(
      Pmi1Reply{from, why.empty() ? "cmd=put_result rc=0\n" : Failed("put_result", why)});
}

std::string Pmi1Server::Store(const std::string& key, const std::string& value) {
  const auto old = pairs_.find(key);
  const size_t less = old == pairs_.end() ? 0 : key.size() + old->second.size();
  if (bytes_ - less + key.size() + value.size() > bytes_max_) {
    return absl::StrCat("all_pairs_may_have_", bytes_max_, "_bytes");
  }
  bytes_ += key.size() + value.size() - less;
  pairs_[key] = value;
  return "";
}

void Pmi1Server::Get(LocalRank from, const Pmi1Line& line, Out& out) {
  const std::string* kvsname = line.Find("kvsname");
  const std::string* key = line.Find("key");
  const auto reply = [&](std::string text) { out.emplace_back(Pmi1Reply{from, std::move(text)}); };
  const auto found = [&](absl::string_view value) {
    reply(absl::StrCat("cmd=get_result rc=0 value=", value, "\n"));
  };
  if (kvsname == nullptr || key == nullptr) {
    reply(Failed("get_result", "kvsname_or_key_is_missing"));
  } else if (*kvsname != round_.kvsname) {
    reply(Failed("get_result", "unknown_kvsname"));
  } else if (*key == kMappingKey && !round_.mapping.empty()) {
    found(round_.mapping);
  } else if (*key == "universeSize") {
    found(absl::StrCat(round_.world_size));
  } else if (const auto pair = pairs_.find(*key); pair != pairs_.end()) {
    found(pair->second);
  } else {
    reply(Failed("get_result", "key_not_found"));
  }
}

void Pmi1Server::Barrier(LocalRank from, Out& out) {
  workers_[from.value].in_barrier = true;
  if (++entered_ < workers_.size()) {
    return TellOfMissing(out);
  }
  Pmi1Enter enter;
  for (const auto& [key, value] : news_) {
    AppendPair(key, value, enter.pairs);
  }
  news_.clear();
  out.emplace_back(std::move(enter));
}

std::vector<Pmi1Effect> Pmi1Server::Fenced(const absl::StatusOr<std::string>& pairs) {
  std::string why = pairs.ok() ? "" : std::string(pairs.status().message());
  const std::vector<absl::string_view> words =
      absl::StrSplit(pairs.ok() ? absl::string_view(*pairs) : "", '\0');
  for (size_t i = 0; i + 2 < words.size() && why.empty(); i += 2) {
    why = Store(std::string(words[i]), std::string(words[i + 1]));
  }
  Out out;
  for (uint32_t i = 0; i < workers_.size(); ++i) {
    if (std::exchange(workers_[i].in_barrier, false) && !workers_[i].gone) {
      out.emplace_back(Pmi1Reply{LocalRank{i}, why.empty()
                                                   ? "cmd=barrier_out rc=0\n"
                                                   : Failed("barrier_out", EscapePmi1(why))});
    }
  }
  entered_ = 0;
  return out;
}

void Pmi1Server::Abort(LocalRank from, const Pmi1Line& line, Out& out) {
  const std::string* said = line.Find("exitcode");
  int32_t code = 0;
  if (said == nullptr || !absl::SimpleAtoi(*said, &code)) {
    code = 1;
  }
  const std::string* message = line.Find("message");
  if (workers_[from.value].end.Abort(code, message == nullptr ? "" : UnescapePmi1(*message))) {
    out.emplace_back(Pmi1Abort{from});
  }
}

// Several programs come as several of these; the last one is answered.
void Pmi1Server::SpawnLine(LocalRank from, absl::string_view line, Out& out) {
  Worker& worker = workers_[from.value];
  if (!worker.in_spawn) {
    worker.in_spawn = worker.last_spawn = true;
  } else if (absl::ConsumePrefix(&line, "spawnssofar=")) {
    worker.last_spawn = line == worker.spawns;
  } else if (absl::ConsumePrefix(&line, "totspawns=")) {
    worker.spawns = std::string(line.substr(0, kPmi1KeyMax));
  } else if (line == "endcmd") {
    worker.in_spawn = false;
    if (worker.last_spawn) {
      out.emplace_back(Pmi1Reply{from, Failed("spawn_result", "spawning_is_not_served")});
      out.emplace_back(Pmi1Notice{
          "MPI_Comm_spawn is not served: start all processes at once, other programs behind ':'"});
    }
  }
}

std::vector<Pmi1Effect> Pmi1Server::Ended(LocalRank worker, bool well) {
  Out out;
  workers_[worker.value].gone = true;
  ++gone_;
  all_well_ &= well;
  missing_ += workers_[worker.value].end.kind == MpiEnd::Kind::kNoMpi ? 1 : 0;
  TellOfMissing(out);
  TellOfSingletons(out);
  return out;
}

void Pmi1Server::TellOfSingletons(Out& out) {
  if (round_.asked_for && gone_ == workers_.size() && missing_ == gone_ && all_well_ &&
      round_.world_size > 1) {
    out.emplace_back(Pmi1Notice{NobodyCameInMpi("pmi1", "PMI", workers_.size(),
                                                "is it an MPICH? An Open MPI wants --mpi pmix.")});
  }
}

void Pmi1Server::TellOfMissing(Out& out) {
  if (missing_ > 0 && entered_ > 0 && !std::exchange(told_of_missing_, true)) {
    out.emplace_back(Pmi1Notice{MissingInMpi(missing_, entered_)});
  }
}

}  // namespace muster
