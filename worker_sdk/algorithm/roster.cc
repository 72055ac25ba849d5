#include "worker_sdk/algorithm/roster.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <type_traits>
#include <utility>

namespace muster {
namespace {

static_assert(std::is_trivially_copyable_v<RankCard>);
static_assert(sizeof(RankCard) == 768, "no bytes of nobody between its fields");

bool IsOurs(const RankCard& card) {
  return card.magic == RankCard::kMagic && card.version == RankCard::kVersion;
}

Status OfAnotherBuild(uint32_t rank) {
  return {StatusCode::kFailedPrecondition,
          "rank " + std::to_string(rank) +
              " has left a card in the store that this libmuster cannot read: all ranks must use "
              "the same version of it"};
}

bool IsSameProcess(const RankCard& a, const RankCard& b) {
  return a.pid == b.pid && std::strncmp(a.host, b.host, sizeof(a.host)) == 0;
}

// By rank. A node is known by its number in the job, or by the lowest rank there.
std::vector<uint32_t> NodesOf(const Roster& roster) {
  std::vector<uint32_t> out;
  const bool of_one_job = IsOfOneJob(roster);
  std::map<std::string, uint32_t> lowest;
  for (const RankCard& card : roster.cards) {
    const std::string host(card.host, strnlen(card.host, sizeof(card.host)));
    const auto rank = static_cast<uint32_t>(out.size());
    out.push_back(of_one_job ? card.node : lowest.try_emplace(host, rank).first->second);
  }
  return out;
}

}  // namespace

std::string TextOf(const RankCard& card) {
  return {reinterpret_cast<const char*>(&card), sizeof(card)};
}

std::string Roster::Text() const {
  std::string out(reinterpret_cast<const char*>(&number), sizeof(number));
  for (const RankCard& card : cards) {
    out += TextOf(card);
  }
  return out;
}

StatusOr<RankCard> ReadCard(const std::string& text, uint32_t rank) {
  RankCard out;
  if (text.size() != sizeof(out)) {
    return OfAnotherBuild(rank);
  }
  std::memcpy(&out, text.data(), sizeof(out));
  return IsOurs(out) ? StatusOr<RankCard>(out) : OfAnotherBuild(rank);
}

StatusOr<Roster> ReadRoster(const std::string& text, uint32_t size) {
  Roster out;
  if (text.size() != sizeof(out.number) + size * sizeof(RankCard)) {
    return OfAnotherBuild(0);
  }
  std::memcpy(&out.number, text.data(), sizeof(out.number));
  for (uint32_t rank = 0; rank < size; ++rank) {
    StatusOr<RankCard> card =
        ReadCard(text.substr(sizeof(out.number) + rank * sizeof(RankCard), sizeof(RankCard)), rank);
    if (!card.ok()) {
      return card.status();
    }
    out.cards.push_back(*card);
  }
  return out;
}

bool IsOfOneJob(const Roster& roster) {
  const RankCard& first = roster.cards.front();
  std::set<uint32_t> ranks;
  return std::all_of(roster.cards.begin(), roster.cards.end(), [&](const RankCard& card) {
    return card.launched != 0 && card.round == first.round &&
           std::strncmp(card.job, first.job, sizeof(card.job)) == 0 &&
           ranks.insert(card.rank).second;
  });
}

Status CheckAllDiffer(const Roster& roster) {
  for (size_t i = 0; i < roster.cards.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (IsSameProcess(roster.cards[i], roster.cards[j])) {
        return {StatusCode::kFailedPrecondition,
                "ranks " + std::to_string(j) + " and " + std::to_string(i) +
                    " are one process: each process has one rank in a group"};
      }
    }
  }
  return {};
}

SplitGroup GroupOf(const Roster& roster, uint32_t rank) {
  const std::vector<uint32_t> nodes = NodesOf(roster);
  std::map<uint32_t, std::vector<uint32_t>> by_node;
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    by_node[nodes[i]].push_back(i);
  }
  std::vector<uint32_t> sizes;
  std::vector<uint32_t> ranks;
  for (const auto& [node, here] : by_node) {
    sizes.push_back(static_cast<uint32_t>(here.size()));
    ranks.insert(ranks.end(), here.begin(), here.end());
  }
  std::vector<uint32_t> in_job;
  if (IsOfOneJob(roster)) {
    for (const RankCard& card : roster.cards) {
      in_job.push_back(card.rank);
    }
  }
  return {Layout(sizes, std::move(ranks), std::move(in_job)), rank};
}

}  // namespace muster
