// Values of every kind that travels, for tests. The same seed, the same values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/base/limits.h"
#include "proto/base/messages.h"
#include "proto/base/rng.h"
#include "proto/base/work_plan.h"
#include "proto/wire/bootstrap.h"
#include "proto/wire/job_terms.h"
#include "proto/wire/secret.h"

namespace muster {

// Random values within the limits.
class RandomValues {
 public:
  explicit RandomValues(uint64_t seed) : rng_(seed) {}

  uint32_t Below(uint64_t n) { return static_cast<uint32_t>(rng_.Below(n)); }
  bool Flag() { return Below(2) == 1; }
  uint64_t Any() { return rng_.Next(); }
  std::string Text(size_t max = 40) {
    std::string text(Below(max + 1), '\0');
    for (char& c : text) {
      c = static_cast<char>(Below(256));  // also NUL and what is not UTF-8
    }
    return text;
  }
  std::string Word() {
    std::string word = Text();
    std::replace(word.begin(), word.end(), '\0', 'x');
    return word;
  }
  std::vector<std::string> Words() {
    std::vector<std::string> words(Below(5));
    for (std::string& word : words) word = Word();
    return words;
  }
  absl::Duration Time() {
    return Below(10) == 0 ? absl::InfiniteDuration()
                          : absl::Nanoseconds(static_cast<int64_t>(Any() >> 2));
  }
  RoundId Round() { return {Below(5), static_cast<uint32_t>(Any())}; }
  uint16_t Port() { return static_cast<uint16_t>(Below(65536)); }

  WorkerExit Exit() {
    WorkerExit exit;
    exit.local_rank.value = Below(kWorkersPerNodeMax);
    exit.rank.value = Below(kWorldSizeMax);
    exit.pid = static_cast<int32_t>(Any());
    exit.kind = static_cast<ExitKind>(Below(3));
    exit.code = static_cast<int32_t>(Any());
    exit.core_dumped = Flag();
    exit.oom_killed = Flag();
    exit.stopped_by_us = Flag();
    exit.ran_for = Time();
    exit.age = Time();
    exit.rss_max_bytes = Any();
    exit.detail = Text();
    exit.error_message = Text();
    if (Flag()) {
      exit.error_before = Time();
    }
    exit.stderr_tail = Text(kStderrTailBytes);
    if (Flag()) exit.because_of = Rank{Below(kWorldSizeMax)};
    return exit;
  }
  std::vector<uint32_t> Ranks(uint32_t workers, uint32_t world_size) {
    std::vector<uint32_t> ranks;
    for (; workers > 0; --workers) ranks.push_back(Below(world_size));
    return ranks;
  }
  std::vector<uint16_t> WorkerPorts(uint32_t workers) {
    std::vector<uint16_t> ports;
    for (; workers > 0; --workers) ports.push_back(static_cast<uint16_t>(1 + Below(65535)));
    return ports;
  }
  Join AJoin() {
    Join join;
    join.key = Text();
    join.key_is_exact = Flag();
    join.life = Any();
    join.node_rank = static_cast<int32_t>(Below(kNodesMax + 1)) - 1;
    join.hostname = Text();
    join.address = Text();
    join.interface = Text();
    join.workers = 1 + Below(kWorkersPerNodeMax);
    join.store_port = Port();
    join.agent_store = Flag();
    join.holds = Round();
    join.hold = {Text(), Any()};
    for (uint32_t i = Below(4); i > 0; --i) {
      join.must_agree.emplace_back(Text(), Text());
    }
    for (uint64_t i = Below(4); i > 0; --i) {
      join.doubts.push_back(Text());
    }
    for (uint64_t i = Below(4); i > 0; --i) {
      join.program_files.push_back({Text(), Text()});
    }
    for (uint64_t i = Below(4); i > 0; --i) {
      join.addresses.push_back(Text());
    }
    if (join.workers < 99) join.ranks = Ranks(join.workers, kWorldSizeMax);
    if (Flag()) join.worker_ports = WorkerPorts(join.workers);
    return join;
  }
  // What a beat and the answer to it have in common.
  template <typename Message>
  Message OfANode() {
    Message message;
    message.node.value = static_cast<uint32_t>(Any());
    message.incarnation.value = Any();
    message.round = Round();
    message.paused = Flag();
    return message;
  }
  Beat ABeat() {
    Beat beat = OfANode<Beat>();
    beat.seq = Any();
    beat.phase = static_cast<AgentPhase>(Below(3));
    beat.store_port = Port();
    beat.workers_alive = Below(kWorkersPerNodeMax + 1);
    beat.workers_started = Below(kWorkersPerNodeMax + 1);
    for (uint32_t i = Below(4); i > 0; --i) beat.pids.push_back(static_cast<int32_t>(Any()));
    beat.exits_from = Below(kWorkersPerNodeMax);
    for (uint32_t i = Below(4); i > 0; --i) beat.exits.push_back(Exit());
    beat.signals_done = static_cast<uint32_t>(Any());
    beat.drills_done = static_cast<uint32_t>(Any());
    beat.stop_asked = static_cast<int32_t>(Below(65));
    beat.kill_asked = Flag();
    beat.leaves = static_cast<int32_t>(Below(65));
    beat.restart_asked = Flag() ? Round() : RoundId();
    for (uint32_t i = Below(4); i > 0; --i) beat.sought.push_back({Below(kNodesMax)});
    for (uint32_t i = Below(4); i > 0; --i) beat.awaited.push_back({Below(kWorldSizeMax)});
    for (uint32_t i = Below(4); i > 0; --i) {
      beat.heard.push_back({static_cast<int32_t>(Below(65)), static_cast<uint32_t>(Any())});
    }
    if (Flag()) beat.use = Use();
    return beat;
  }
  std::vector<WaitPlace> Waits() {
    return {{Text(), static_cast<int32_t>(Below(1u << 22)), Ranks(Below(9), kWorkersPerNodeMax)}};
  }
  NodeUse Use() {
    return {Below(kWorkersPerNodeMax + 1),
            Below(kCpusMax + 1),
            Time(),
            Time(),
            Time(),
            Time(),
            Time(),
            Time(),
            Flag() ? Waits() : std::vector<WaitPlace>(),
            Any(),
            Time()};
  }
  Assignment AnAssignment() {
    Assignment assignment;
    assignment.round = Round();
    const bool small = Flag();
    for (uint32_t runs = 1 + Below(4); runs > 0; --runs) {
      const uint32_t workers = 1 + Below(small ? 4 : 64);
      const uint32_t nodes = 1 + Below(small ? 4 : kNodesMax / 4);
      assignment.layout.emplace_back(workers, nodes);
      assignment.nodes += nodes;
      assignment.world_size += workers * nodes;
    }
    assignment.workers = assignment.layout[0].first;  // it is one of the first nodes
    assignment.node_rank.value = Below(assignment.layout[0].second);
    assignment.rank_first.value = Below(assignment.world_size - assignment.workers + 1);
    assignment.master_addr = Text();
    assignment.master_port = Port();
    assignment.agent_store = Flag();
    assignment.restart_count = static_cast<uint32_t>(Any());
    assignment.restarts_max = Below(kRestartsMax + 1);
    assignment.because = Text();
    assignment.one_host = Flag();
    for (uint32_t i = Below(4); i > 0; --i) assignment.worker_addresses.push_back(Text());
    for (const auto& [workers, nodes] : assignment.layout) {
      for (uint32_t i = 0; small && i < nodes; ++i) {
        assignment.worker_ports.push_back({Text(), WorkerPorts(workers)});
      }
    }
    if (small) {
      for (uint32_t i = 0; i < assignment.world_size; ++i) assignment.ranks_by_node.push_back(i);
      for (uint32_t i = assignment.world_size; i > 1; --i) {
        std::swap(assignment.ranks_by_node[i - 1], assignment.ranks_by_node[Below(i)]);
      }
      const auto first = assignment.ranks_by_node.begin() +
                         ptrdiff_t{assignment.workers} * assignment.node_rank.value;
      assignment.ranks.assign(first, first + assignment.workers);
    }
    if (assignment.round.n > 0 && Flag()) {
      if (Flag()) assignment.keeps_from = {assignment.round.epoch, assignment.round.n - 1};
      for (uint32_t i = 0; i < assignment.workers; ++i) {
        assignment.started_in.push_back(Below(uint64_t{assignment.round.n} + 1));
      }
    }
    return assignment;
  }
  Directive ADirective() {
    Directive directive = OfANode<Directive>();
    directive.beat_seq = Any();
    directive.wanted = static_cast<Wanted>(Below(4));
    if (Flag()) directive.assignment = AnAssignment();
    directive.stop_signal = static_cast<int32_t>(Below(65));
    directive.grace = Time();
    directive.exits_seen = static_cast<uint32_t>(Any());
    for (uint32_t i = Below(4); i > 0; --i) {
      directive.signals.push_back({static_cast<uint32_t>(Any()), static_cast<int32_t>(Below(65))});
    }
    for (uint32_t i = Below(4); i > 0; --i) {
      directive.drills.push_back({static_cast<uint32_t>(Any()), static_cast<DrillKind>(Below(5)),
                                  LocalRank{Below(kWorkersPerNodeMax)},
                                  absl::Milliseconds(Below(3'600'001)),
                                  absl::Milliseconds(Below(3'600'001))});
    }
    directive.note = Text();
    directive.notices = {Text(), Text()};
    directive.outcome = {static_cast<int32_t>(Any()), Text()};
    for (uint32_t i = Below(4); i > 0; --i) {
      directive.peers.push_back({{Below(kNodesMax)}, Text(), Port()});
    }
    for (uint32_t i = Below(4); i > 0; --i) directive.gone.push_back({Below(kWorldSizeMax)});
    directive.stop_is_final = Flag();
    if (Flag()) directive.ended_well = Rank{Below(kWorldSizeMax)};
    return directive;
  }
  AgentMessage FromAgent() {
    switch (Below(3)) {
      case 0:
        return AJoin();
      case 1:
        return ABeat();
      default:
        return Leave{{Below(9)}, {Any()}, Text()};
    }
  }
  MasterMessage FromMaster() {
    switch (Below(3)) {
      case 0:
        return Admitted{Any(),  {Below(9)}, {Any()}, Time() + absl::Milliseconds(1),
                        Time(), Below(9),   Flag()};
      case 1:
        return Refused{Any(), Text()};
      default:
        return ADirective();
    }
  }
  StreamSelect Select() {
    StreamSelect select;
    select.all = static_cast<uint8_t>(Below(4));
    for (uint32_t i = Below(3); i > 0; --i) {
      select.by_local_rank[Below(kWorkersPerNodeMax)] = static_cast<uint8_t>(Below(4));
    }
    return select;
  }
  RestartRules Rules() {
    RestartRules rules;
    rules.window = Time();
    if (Below(2) == 0) {
      rules.of_rank = Below(kRestartsMax + 1);
    }
    if (Below(2) == 0) {
      rules.of_node = Below(kRestartsMax + 1);
    }
    rules.wait_first = Time();
    rules.wait_max = Time();
    rules.bad_node_after = Below(kRestartsMax + 1);
    rules.bad_node_for = Time();
    for (uint32_t i = Below(3); i > 0; --i) {
      rules.on_exit.push_back({static_cast<ExitMatch>(Below(4)),
                               {Below(256), Below(256)},
                               static_cast<ExitAction>(Below(4))});
    }
    return rules;
  }
  JobTerms Terms() {
    JobTerms terms;
    terms.nodes_max = 1 + Below(kNodesMax);
    terms.nodes_min = 1 + Below(terms.nodes_max);
    if (Flag()) {
      terms.spares = Below(kNodesMax + 1);
      terms.lease = kLeaseMin + absl::Milliseconds(Below(3599001));
    }
    terms.restarts_max = Below(kRestartsMax + 1);
    terms.join_timeout = Time();
    terms.last_call = Time();
    terms.grace = Time();
    terms.restart_grace = Time();
    terms.time_limit = Time();
    terms.tell_idle = absl::Nanoseconds(1) + absl::Seconds(Below(99999));
    terms.master_port = Port();
    terms.master_addr = Text();
    terms.restart = static_cast<RestartMode>(Below(3));
    terms.restart_rules = Rules();
    terms.on_failure = Below(2) == 0 ? OnFailure::kStop : OnFailure::kContinue;
    return terms;
  }
  CpuBinding Binding() {
    CpuBinding binding;
    binding.bind_to = static_cast<BindTo>(Below(7));
    binding.map_by = static_cast<MapBy>(Below(6));
    binding.workers_per_object = Below(kWorkersPerNodeMax + 1);
    binding.cores_per_worker = Below(kCpusMax + 1);
    binding.overload = Flag();
    binding.cpu_list = Text();
    binding.memory = static_cast<MemoryBinding>(Below(4));
    binding.memory_nodes = Text();
    binding.gpu_mode = static_cast<GpuMode>(Below(4));
    binding.gpus_per_worker = Below(kGpusPerNodeMax + 1);
    binding.report = Flag();
    return binding;
  }
  OutputOptions Output() {
    OutputOptions output;
    output.prefix = Flag();
    output.prefix_template = Text();
    output.timestamps = Flag();
    output.log_dir = Text();
    output.log_layout = static_cast<LogLayout>(Below(2));
    output.out_filters = Words();
    output.err_filters = Words();
    output.out_file = Text();
    output.err_file = Text();
    output.redirects = Select();
    output.tee = Select();
    output.show = {Below(9), static_cast<uint32_t>(Any())};
    output.show_local = {Below(9), static_cast<uint32_t>(Any())};
    output.partial_out = Flag();
    output.partial_err = Flag();
    output.spool_bytes_max = Any();
    output.overflow = static_cast<OverflowMode>(Below(2));
    return output;
  }
  AgentBootstrap Bootstrap() {
    AgentBootstrap bootstrap;
    bootstrap.secret = Text();
    bootstrap.job_id = Text();
    bootstrap.route_to = Text();
    bootstrap.nonce = Text(kNonceBytes);
    bootstrap.hold = Text();
    if (Below(2) == 0) {
      bootstrap.ship = {std::string(kShipDigestBytes, static_cast<char>(Below(256))),
                        Below(1000000), Below(kShipEntriesMax + 1)};
    }
    bootstrap.preflight = Below(2) == 0;
    bootstrap.program_token = Text();
    bootstrap.join = AJoin();
    bootstrap.terms = Terms();
    WorkPlan& plan = bootstrap.plan;
    plan.job_id = Text();
    plan.argv = Words();
    plan.wdir = Text();
    plan.env_base = Words();
    plan.env_set = Words();
    plan.env_unset = Words();
    plan.workers_wanted = static_cast<WorkersWanted>(Below(5));
    plan.workers = Below(kWorkersPerNodeMax + 1);
    plan.role = Text();
    plan.store = static_cast<StoreMode>(Below(3));
    plan.dialects = Words();
    plan.iface = Text();
    plan.stdin_mode = static_cast<StdinMode>(Below(3));
    plan.stdin_rank = Below(kWorldSizeMax);
    plan.standalone = Flag();
    plan.grace = Time();
    plan.virtual_local_rank = Flag();
    plan.store_from_any = Flag();
    plan.fill = Flag();
    plan.fill_torchrun = Flag();
    plan.no_new_privileges = Flag();
    plan.env_none = Flag();
    plan.wraps = {{{Below(9), 7}, Words()}, {{Below(9)}, Words()}};
    plan.prologue = Text();
    plan.limits = {{Text(), Any()}, {"core", UINT64_MAX}};
    plan.further = {{1 + Below(9), Words(), Text(), Words()}, {10 + Below(9), Words(), "", {}}};
    if (Flag()) {
      plan.pty = Terminal{Below(kWorldSizeMax), static_cast<uint16_t>(Any()), 80, Text()};
    }
    plan.ports.high = Port();
    plan.ports.low = static_cast<uint16_t>(Below(uint64_t{plan.ports.high} + 1));
    plan.binding = Binding();
    plan.tell_pids = Flag();
    plan.hold = Flag();
    plan.slurm_nodelist = Text();
    plan.slurm_cpus_per_task = Flag();
    plan.stop_signals = {static_cast<int32_t>(Below(65))};
    plan.output = Output();
    return bootstrap;
  }

 private:
  SplitMix64 rng_;
};

}  // namespace muster
