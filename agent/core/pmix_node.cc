#include "agent/core/pmix_node.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace muster {

PmixNode::PmixNode(PmixWorld world)
    : world_(std::move(world)), workers_(world_.ranks[world_.node].size()) {}

std::vector<PmixEffect> PmixNode::Take(PmixMessage message) {
  Out out;
  const bool begins =
      std::holds_alternative<PmixReady>(message) || std::holds_alternative<PmixFailed>(message);
  if (phase_ == Phase::kStarting && !begins) {
    Refuse("what only a server that is ready says", out);
  } else if (phase_ != Phase::kLost) {
    std::visit([this, &out](auto& one) { On(one, out); }, message);
  }
  return out;
}

void PmixNode::On(const PmixServe&, Out& out) { Refuse("an order of ours", out); }

void PmixNode::On(const PmixFenced&, Out& out) { Refuse("an answer of ours", out); }

void PmixNode::On(PmixReady& ready, Out& out) {
  if (phase_ != Phase::kStarting || ready.variables.size() != workers_.size()) {
    return Refuse(
        absl::StrCat("variables of ", ready.variables.size(), " workers, of ", workers_.size()),
        out);
  }
  phase_ = Phase::kServing;
  out.emplace_back(PmixStart{std::move(ready.variables)});
}

void PmixNode::On(const PmixFailed& failed, Out& out) {
  const Out effects = Lost(failed.why);
  out.insert(out.end(), effects.begin(), effects.end());
}

void PmixNode::On(const PmixInit& init, Out& out) {
  if (!IsClient(init.client)) {
    return Refuse("a client that is none", out);
  }
  MpiEnd& end = workers_[init.client.value].end;
  if (end.kind == MpiEnd::Kind::kInside) {  // beside the first: each would wait for the other
    if (end.Refuse(std::string(kSecondMpiInit))) {
      out.emplace_back(PmixKill{init.client, /*at_once=*/false});
    }
    return;
  }
  end.Init();
  ++inits_;
  TellOfMissing(out);
}

void PmixNode::On(const PmixFinalized& finalized, Out& out) {
  if (!IsClient(finalized.client)) {
    return Refuse("a client that is none", out);
  }
  workers_[finalized.client.value].end.Finalize();
}

void PmixNode::On(const PmixAborted& aborted, Out& out) {
  if (!IsClient(aborted.client)) {
    return Refuse("a client that is none", out);
  }
  if (workers_[aborted.client.value].end.Abort(aborted.code, aborted.message)) {
    out.emplace_back(PmixKill{aborted.client, /*at_once=*/false});
  }
}

void PmixNode::On(PmixFence& fence, Out& out) {
  if (std::exchange(in_fence_, true)) {
    return Refuse("a fence within a fence", out);
  }
  out.emplace_back(PmixEnter{std::move(fence.bytes)});
}

void PmixNode::On(const PmixNotServed& not_served, Out& out) {
  if (std::exchange(told_of_not_served_, true)) {
    return;  // it may ask in a loop
  }
  out.emplace_back(PmixNotice{absl::StrCat(
      "--mpi pmix: a program asked for ", not_served.what,
      ", which is not served: start all processes at once, other programs behind ':'")});
}

void PmixNode::On(const PmixFound&, Out& out) { Refuse("an answer of ours", out); }

void PmixNode::On(const PmixShow&, Out& out) { Refuse("an order of ours", out); }

void PmixNode::On(const PmixWant& want, Out& out) {
  const std::optional<uint32_t> node = world_.OtherNodeOf(want.rank);
  if (!node.has_value()) {
    return Refuse("a rank that is on no other node", out);
  }
  if (wants_.insert(want.rank).second) {
    out.emplace_back(PmixSeek{*node, want.rank});
  }
}

void PmixNode::On(PmixShown& shown, Out& out) {
  if (!IsClient(shown.client)) {
    return Refuse("a client that is none", out);
  }
  const uint32_t rank = world_.ranks[world_.node][shown.client.value];
  if (showing_.erase(rank) == 0) {
    return Refuse("what nobody has asked for", out);
  }
  if (shown.ok) {
    out.emplace_back(PmixTell{rank, std::move(shown.bytes)});
  } else {
    out.emplace_back(PmixTell{rank, absl::NotFoundError(absl::StrCat(
                                        "rank ", rank, " has put nothing that its server finds"))});
  }
}

void PmixNode::Refuse(absl::string_view what, Out& out) {
  const Out effects = Lost(absl::StrCat("it said ", what));
  out.insert(out.end(), effects.begin(), effects.end());
}

std::vector<PmixEffect> PmixNode::Fenced(const absl::StatusOr<std::string>& bytes) {
  Out out;
  if (!std::exchange(in_fence_, false) || phase_ != Phase::kServing) {
    return out;
  }
  if (!bytes.ok()) {
    out.emplace_back(PmixNotice{
        absl::StrCat("--mpi pmix: a fence of all ranks failed: ", bytes.status().message())});
  }
  out.emplace_back(PmixSay{PmixFenced{bytes.ok(), bytes.ok() ? *bytes : ""}});
  return out;
}

std::vector<PmixEffect> PmixNode::Found(uint32_t rank, const absl::StatusOr<std::string>& bytes) {
  Out out;
  if (wants_.erase(rank) == 0 || phase_ != Phase::kServing) {
    return out;
  }
  if (!bytes.ok() && !std::exchange(told_of_not_found_, true)) {
    out.emplace_back(PmixNotice{
        absl::StrCat("--mpi pmix: what rank ", rank,
                     " has put was asked for here, and not found: ", bytes.status().message())});
  }
  out.emplace_back(PmixSay{PmixFound{rank, bytes.ok(), bytes.ok() ? *bytes : ""}});
  return out;
}

std::vector<PmixEffect> PmixNode::Show(uint32_t rank) {
  Out out;
  const std::optional<LocalRank> client = world_.LocalOf(rank);
  if (!client.has_value()) {
    out.emplace_back(
        PmixTell{rank, absl::NotFoundError(absl::StrCat("rank ", rank, " is on another node"))});
  } else if (phase_ == Phase::kLost) {
    out.emplace_back(PmixTell{rank, absl::UnavailableError(absl::StrCat("the PMIx server of rank ",
                                                                        rank, " has ended"))});
  } else if (phase_ == Phase::kServing && showing_.insert(rank).second) {
    out.emplace_back(PmixSay{PmixShow{*client}});
  }
  return out;
}

std::vector<PmixEffect> PmixNode::Ended(LocalRank worker, bool well) {
  Out out;
  workers_[worker.value].gone = true;
  ++gone_;
  all_well_ &= well;
  missing_ += workers_[worker.value].end.kind == MpiEnd::Kind::kNoMpi ? 1 : 0;
  TellOfMissing(out);
  TellOfSingletons(out);
  return out;
}

// Those that wait, wait in MPI_Init's fence, which the library keeps to itself on one node.
void PmixNode::TellOfMissing(Out& out) {
  uint32_t waiting = 0;
  for (const Worker& worker : workers_) {
    waiting += worker.end.kind == MpiEnd::Kind::kInside && !worker.gone ? 1 : 0;
  }
  if (missing_ > 0 && waiting > 0 && !std::exchange(told_of_missing_, true)) {
    out.emplace_back(PmixNotice{MissingInMpi(missing_, waiting)});
  }
}

// An Open MPI that does not find its server makes each rank a world of its own, and all look well.
void PmixNode::TellOfSingletons(Out& out) {
  if (gone_ == workers_.size() && inits_ == 0 && all_well_ && world_.size() > 1 &&
      phase_ == Phase::kServing) {
    out.emplace_back(
        PmixNotice{NobodyCameInMpi("pmix", "PMIx", workers_.size(),
                                   "is it an Open MPI, version 4 or later, built with PMIx?")});
  }
}

std::vector<PmixEffect> PmixNode::Lost(absl::string_view why) {
  Out out;
  const Phase before = std::exchange(phase_, Phase::kLost);
  if (before == Phase::kStarting) {
    out.emplace_back(PmixNoStart{absl::StrCat("--mpi pmix: no PMIx server: ", why)});
  } else if (before == Phase::kServing && gone_ < workers_.size()) {
    out.emplace_back(PmixNotice{
        absl::StrCat("--mpi pmix: the PMIx server of this node is lost: ", why,
                     "; workers that are between MPI_Init and MPI_Finalize are killed")});
    for (uint32_t i = 0; i < workers_.size(); ++i) {  // N3
      if (workers_[i].end.kind == MpiEnd::Kind::kInside && !workers_[i].gone) {
        out.emplace_back(PmixKill{LocalRank{i}});
      }
    }
  }
  return out;
}

}  // namespace muster
