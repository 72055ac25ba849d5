#include "launcher/node_starts.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "agent/core/env_filter.h"
#include "agent/io/master_client.h"
#include "agent/io/node_facts.h"
#include "launcher/job_run.h"
#include "launcher/node_overrides.h"
#include "launcher/preflight.h"
#include "launcher/remote_starter.h"
#include "launcher/schedule/hostlist.h"
#include "launcher/schedule/local_starter.h"
#include "launcher/schedule/said_by.h"
#include "launcher/schedule/ssh_starter.h"
#include "proto/base/check.h"
#include "proto/base/limits.h"
#include "proto/base/log.h"

namespace muster {
namespace {

constexpr absl::string_view kKeyPrefix = "list/";

std::string KeyOf(size_t index) { return absl::StrCat(kKeyPrefix, index); }

size_t IndexOf(absl::string_view key) {
  size_t index = 0;
  CHECK(absl::ConsumePrefix(&key, kKeyPrefix) && absl::SimpleAtoi(key, &index));
  return index;
}

}  // namespace

NodeStarts::NodeStarts(uv_loop_t* loop, const JobSpec& spec, const JobSecret& secret,
                       MasterServer& server, NodeStartsOptions options)
    : loop_(loop),
      spec_(spec),
      secret_(secret),
      server_(server),
      options_(std::move(options)),
      route_to_(OtherMachine(spec)),
      hold_name_(absl::StrCat(absl::Hex(NewLife()), absl::Hex(NewLife()))),
      failed_starts_(loop, spec.nodes.size(),
                     [this](size_t index, const std::string& reason) {
                       Failed(index, AttemptAt(index), reason);
                     }),
      local_(MakeLocalStarter(loop, options_.agent_path)),
      remote_(MakeRemoteStarter(loop, spec, secret, options_.agent_path, options_.on_unreachable)) {
  for (Starter* starter : {local_.get(), remote_.get()}) {
    starter->SetCallbacks(StarterCallbacks());
  }
  if (options_.shipped.has_value()) {
    const bool all = spec_.nodes_min == spec_.nodes.size();
    shipper_.emplace(loop, *std::move(options_.shipped), all ? spec_.nodes.size() : 0,
                     ShipCallbacks());
  }
}

// Other machines first: they take longer to come.
void NodeStarts::StartAll() {
  for (const bool here : {false, true}) {
    for (size_t i = 0; i < spec_.nodes.size(); ++i) {
      if (StartsHere(spec_, spec_.nodes[i].host) == here) {
        Start(i);
      }
    }
  }
}

void NodeStarts::Again(const StartAgain& wanted) {
  if (over_) {
    return;
  }
  const size_t index = IndexOf(wanted.key);
  if (wanted.failed < kStartsAgainMax) {
    LogInfo(absl::StrCat(ListName(spec_, index), ": its agent is started again"));
  }
  attempts_[index] = wanted.attempt;
  Start(index);
}

void NodeStarts::JobOver() {
  over_ = true;
  if (shipper_) {
    shipper_->Stop();
  }
}

bool NodeStarts::HasToldEndOn(absl::string_view host) const {
  return cancelled_ || std::any_of(told_end_.begin(), told_end_.end(), [this, host](size_t index) {
           return IsSameHost(ListName(spec_, index), host);
         });
}

void NodeStarts::Stop(std::function<void()> done) {
  over_ = true;
  stopped_ = std::move(done);
  ++left_to_stop_;
  if (!here_instead_) {
    ++left_to_stop_;
    remote_->Stop([this] { OneStopped(); });
  }
  local_->Stop([this] { OneStopped(); });  // it takes its time; ssh is only killed
}

void NodeStarts::OneStopped() {
  if (--left_to_stop_ == 0 && stopped_) {
    stopped_();
  }
}

void NodeStarts::Start(size_t index) {
  const bool here = here_instead_ || StartsHere(spec_, spec_.nodes[index].host);
  (here ? local_ : remote_)->Start(TargetOf(index));
}

bool NodeStarts::MayStartHere() const {
  return InLoneStep(spec_) && !here_instead_ && !over_ && !cancelled_;
}

void NodeStarts::StartHereInstead(size_t index, const std::string& why) {
  here_instead_ = true;
  LogWarning(
      absl::StrCat("Slurm has started no step for the agent (", why, "): it is started ",
                   "without one, so its workers may get no time to save when Slurm stops it"));
  ++left_to_stop_;
  remote_->Stop([this] { OneStopped(); });
  Start(index);
}

uint32_t NodeStarts::AttemptAt(size_t index) const {
  const auto it = attempts_.find(index);
  return it == attempts_.end() ? 0 : it->second;
}

void NodeStarts::Failed(size_t index, uint32_t attempt, const std::string& reason, bool killed) {
  server_.Post(spec_.plan.job_id, StartFailed{KeyOf(index), reason, attempt, killed});
}

Starter::Callbacks NodeStarts::StarterCallbacks() {
  Starter::Callbacks out;
  out.on_connected = [this](size_t index, UniqueFd socket) {
    failed_starts_.Succeeded();
    options_.on_connected();
    if (shipper_) {
      shipper_->Add(index, std::move(socket));
    } else {
      server_.AdoptConnection(std::move(socket));
    }
  };
  out.on_failed = [this](size_t index, const std::string& reason) {
    if (MayStartHere()) {
      return StartHereInstead(index, reason);
    }
    if (shipper_) {
      shipper_->NotComing(index);
    }
    failed_starts_.Failed(index, reason);
  };
  out.on_exit = [this](size_t index, const std::string& how, bool killed) {
    if (!over_) {
      told_end_.insert(index);
      // One that never joined is not missed by the master. Its connection's end goes first; and the
      // news that the job is over, which an agent may have heard before us.
      start_failures_.push_back(
          std::make_unique<UvTimer>(loop_, [this, index, attempt = AttemptAt(index), how, killed] {
            an_agent_gave_up_ = an_agent_gave_up_ || (!killed && !over_);
            Failed(index, attempt, how, killed);
          }));
      start_failures_.back()->StartAfter(2 * kReconnectWindow);
    }
  };
  out.on_cancelled = [this] { cancelled_ = true; };
  out.on_line = [this](size_t index, const std::string& line) {
    LogInfo(SaidBy(ListName(spec_, index), line));
  };
  return out;
}

Shipper::Callbacks NodeStarts::ShipCallbacks() {
  Shipper::Callbacks out;
  out.name = [this](size_t index) { return ListName(spec_, index); };
  out.on_done = [this](size_t, UniqueFd socket) { server_.AdoptConnection(std::move(socket)); };
  out.on_failed = [this](size_t index, const std::string& why) {
    Failed(index, AttemptAt(index), absl::StrCat(ListName(spec_, index), ": ", why));
  };
  return out;
}

StartTarget NodeStarts::TargetOf(size_t index) {
  const NodeWorkers& node = spec_.nodes[index];
  StartTarget target;
  target.index = index;
  target.host = spec_.way == StartWay::kHosts && !spec_.given_hosts.has_value()
                    ? SshTarget(node.host)
                    : ListName(spec_, index);
  AgentBootstrap& bootstrap = target.bootstrap;
  bootstrap.secret = secret_.secret;
  bootstrap.nonce = server_.IssueNonce();
  bootstrap.job_id = spec_.plan.job_id;
  bootstrap.hold = absl::StrCat(hold_name_, "/", index);
  bootstrap.plan = spec_.plan;
  bootstrap.plan.standalone = spec_.way == StartWay::kStandalone;
  TakeNodeOverrides(spec_, ListName(spec_, index), static_cast<uint32_t>(index), bootstrap.plan);
  bootstrap.plan.workers_wanted = node.wanted;
  bootstrap.plan.workers = node.workers;
  if (shipper_) {  // the agent has a folder of its own for the workers
    bootstrap.ship = shipper_->terms();
  } else {
    RunInOwnFolder(bootstrap.plan);
  }
  if (StartsHere(spec_, node.host) || InLoneStep(spec_)) {
    bootstrap.plan.limits.insert(bootstrap.plan.limits.begin(), options_.own_limits.begin(),
                                 options_.own_limits.end());
    if (InLoneStep(spec_)) {  // the step has its own; what describes a task is taken out again
      for (const std::string& entry : OwnEnvironment()) {
        if (absl::StartsWith(entry, "SLURM_")) {
          bootstrap.plan.env_base.push_back(entry);
        }
      }
    }
  } else {
    bootstrap.plan.env_base = EnvironmentForOthers(spec_);
  }
  bootstrap.join.key = KeyOf(index);
  bootstrap.join.key_is_exact = true;
  bootstrap.join.node_rank = static_cast<int32_t>(index);
  bootstrap.join.ranks = node.ranks;
  bootstrap.join.workers = static_cast<uint32_t>(node.ranks.size());
  if (spec_.way == StartWay::kStandalone) {
    bootstrap.join.hostname = ListName(spec_, index);  // the machine's own would be that of all
    bootstrap.join.address = absl::StrCat("127.0.", index / 250, ".", index % 250 + 1);
  }
  bootstrap.terms = TermsOf(spec_);
  bootstrap.route_to = route_to_;
  bootstrap.preflight = PreflightWanted(spec_);
  return target;
}

}  // namespace muster
