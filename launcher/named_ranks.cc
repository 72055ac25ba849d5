#include "launcher/named_ranks.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"

namespace muster {
namespace {

// Of those that every node counts from 0.
absl::Status CheckLocalRanks(const JobSpec& spec) {
  uint32_t most = spec.plan.workers_wanted == WorkersWanted::kNumber ? spec.plan.workers : 0;
  for (const NodeWorkers& node : spec.nodes) {
    if (node.wanted != WorkersWanted::kNumber) {
      return absl::OkStatus();
    }
    most = std::max(most, node.workers);
  }
  const OutputOptions& output = spec.plan.output;
  const auto last_of = [](const StreamSelect& select) {
    return select.by_local_rank.empty() ? 0 : select.by_local_rank.rbegin()->first;
  };
  const std::pair<OptionId, uint32_t> named[] = {
      {OptionId::kShowLocal, output.show_local.empty() ? 0 : output.show_local.back()},
      {OptionId::kRedirects, last_of(output.redirects)},
      {OptionId::kTee, last_of(output.tee)}};
  for (const auto& [option, last] : named) {
    if (most > 0 && last >= most) {
      return absl::InvalidArgumentError(absl::StrCat(spec.Said(option), ": there is no local rank ",
                                                     last, ", a node has ",
                                                     Plural(most, "worker", "workers")));
    }
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t WorldOf(const JobSpec& spec) {
  uint64_t world = 0;
  for (size_t i = 0; i < std::min<size_t>(spec.nodes.size(), spec.nodes_max); ++i) {
    if (spec.nodes[i].wanted != WorkersWanted::kNumber) {
      return 0;
    }
    world += spec.nodes[i].workers;
  }
  return world;
}

absl::Status NoSuchRank(absl::string_view said, uint32_t rank, uint64_t world) {
  return absl::InvalidArgumentError(absl::StrCat(
      said, ": there is no rank ", rank, ", the job has ", Plural(world, "worker", "workers")));
}

absl::Status CheckRanks(const JobSpec& spec) {
  RETURN_IF_ERROR(CheckLocalRanks(spec));
  const uint64_t world = WorldOf(spec);
  if (world == 0) {
    return absl::OkStatus();
  }
  for (size_t i = 0; i < spec.plan.wraps.size(); ++i) {
    if (const uint32_t last = spec.plan.wraps[i].ranks.back(); last >= world) {
      return NoSuchRank(absl::StrCat("--wrap ", spec.wrap_texts[i]), last, world);
    }
  }
  if (const auto& show = spec.plan.output.show; !show.empty() && show.back() >= world) {
    return NoSuchRank(spec.Said(OptionId::kShow), show.back(), world);
  }
  if (spec.Has(OptionId::kStdin) && spec.plan.stdin_mode == StdinMode::kRank &&
      spec.plan.stdin_rank >= world) {
    return NoSuchRank(spec.Said(OptionId::kStdin), spec.plan.stdin_rank, world);
  }
  return absl::OkStatus();
}

}  // namespace muster
