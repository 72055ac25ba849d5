// What a starter hands over: job terms, work plan, bootstrap.
#include <string>
#include <utility>
#include <vector>

#include "google/protobuf/repeated_field.h"
#include "proto/base/build_info.h"
#include "proto/base/limits.h"
#include "proto/base/status_macros.h"
#include "proto/wire/convert.h"
#include "proto/wire/field_checker.h"
#include "proto/wire/secret.h"

namespace muster {
namespace {

using WireStrings = google::protobuf::RepeatedPtrField<std::string>;

void SetStrings(const std::vector<std::string>& strings, WireStrings* wire) {
  wire->Assign(strings.begin(), strings.end());
}

std::vector<std::string> StringsOf(absl::string_view field, const WireStrings& wire,
                                   FieldChecker& check) {
  check.Bound(field, static_cast<size_t>(wire.size()), 0, kPlanStringsMax);
  std::vector<std::string> strings;
  if (check.ok()) {
    strings.assign(wire.begin(), wire.end());
  }
  for (const std::string& one : strings) {
    if (one.find('\0') != std::string::npos) {
      check.Fail(field, "holds a NUL byte");  // cannot be an argument or environment entry
    }
  }
  return strings;
}

void SetSelect(const StreamSelect& select, v1::StreamSelect* wire) {
  wire->set_all(select.all);
  for (const auto& [local_rank, streams] : select.by_local_rank) {
    (*wire->mutable_by_local_rank())[local_rank] = streams;
  }
}

StreamSelect SelectOf(absl::string_view field, const v1::StreamSelect& wire, FieldChecker& check) {
  StreamSelect select;
  select.all = static_cast<uint8_t>(check.Number(field, wire.all(), 0, 3));
  for (const auto& [local_rank, streams] : wire.by_local_rank()) {
    check.Bound(field, local_rank, 0, kWorkersPerNodeMax - 1);
    select.by_local_rank[local_rank] = static_cast<uint8_t>(check.Number(field, streams, 0, 3));
  }
  return select;
}

std::vector<uint32_t> RanksOf(absl::string_view field,
                              const google::protobuf::RepeatedField<uint32_t>& wire, uint32_t max,
                              FieldChecker& check) {
  check.Bound(field, static_cast<size_t>(wire.size()), 0, max);
  return check.ok() ? std::vector<uint32_t>(wire.begin(), wire.end()) : std::vector<uint32_t>();
}

void SetOutput(const OutputOptions& output, v1::OutputOptions* wire) {
  wire->set_prefix(output.prefix);
  wire->set_prefix_template(output.prefix_template);
  wire->set_timestamps(output.timestamps);
  wire->set_log_dir(output.log_dir);
  wire->set_log_layout(static_cast<uint32_t>(ChoiceToWire(output.log_layout)));
  wire->mutable_out_filters()->Assign(output.out_filters.begin(), output.out_filters.end());
  wire->mutable_err_filters()->Assign(output.err_filters.begin(), output.err_filters.end());
  wire->set_out_file(output.out_file);
  wire->set_err_file(output.err_file);
  SetSelect(output.redirects, wire->mutable_redirects());
  SetSelect(output.tee, wire->mutable_tee());
  wire->mutable_show()->Assign(output.show.begin(), output.show.end());
  wire->mutable_show_local()->Assign(output.show_local.begin(), output.show_local.end());
  wire->set_spool_bytes_max(output.spool_bytes_max);
  wire->set_overflow(static_cast<uint32_t>(ChoiceToWire(output.overflow)));
  wire->set_partial_out(output.partial_out);
  wire->set_partial_err(output.partial_err);
}

OutputOptions OutputOf(const v1::OutputOptions& wire, FieldChecker& check) {
  OutputOptions output;
  output.prefix = wire.prefix();
  output.prefix_template =
      check.Text("output.prefix_template", wire.prefix_template(), kTextBytesMax);
  output.timestamps = wire.timestamps();
  output.log_dir = check.Text("output.log_dir", wire.log_dir(), kTextBytesMax);
  output.log_layout = check.Choice("output.log_layout", wire.log_layout(), LogLayout::kTorchrun);
  output.out_filters = StringsOf("output.out_filters", wire.out_filters(), check);
  output.err_filters = StringsOf("output.err_filters", wire.err_filters(), check);
  output.out_file = check.Text("output.out_file", wire.out_file(), kTextBytesMax);
  output.err_file = check.Text("output.err_file", wire.err_file(), kTextBytesMax);
  output.redirects = SelectOf("output.redirects", wire.redirects(), check);
  output.tee = SelectOf("output.tee", wire.tee(), check);
  output.show = RanksOf("output.show", wire.show(), kWorldSizeMax, check);
  output.show_local = RanksOf("output.show_local", wire.show_local(), kWorkersPerNodeMax, check);
  output.spool_bytes_max = wire.spool_bytes_max();
  output.overflow = check.Choice("output.overflow", wire.overflow(), OverflowMode::kDrop);
  output.partial_out = wire.partial_out();
  output.partial_err = wire.partial_err();
  return output;
}

// Each begins behind the one before: a rank has one program.
std::vector<FurtherProgram> FurtherOf(const v1::WorkPlan& wire, FieldChecker& check) {
  std::vector<FurtherProgram> out;
  check.Bound("further", static_cast<size_t>(wire.further_size()), 0, kProgramsMax - 1);
  uint32_t before = 0;
  for (const v1::FurtherProgram& program : wire.further()) {
    FurtherProgram one;
    one.rank_first = check.Number("further.rank_first", program.rank_first(), uint64_t{before} + 1,
                                  kWorldSizeMax - 1);
    one.argv = StringsOf("further.argv", program.argv(), check);
    one.wdir = check.Text("further.wdir", program.wdir(), kTextBytesMax);
    one.env_set = StringsOf("further.env_set", program.env_set(), check);
    if (!check.ok()) {
      return {};
    }
    before = one.rank_first;
    out.push_back(std::move(one));
  }
  return out;
}

Terminal TerminalOf(const v1::Terminal& wire, FieldChecker& check) {
  constexpr uint64_t kSizeMax = 65535;  // of struct winsize
  Terminal out;
  out.rank = check.Number("pty.rank", wire.rank(), 0, kWorldSizeMax - 1);
  out.rows = static_cast<uint16_t>(check.Number("pty.rows", wire.rows(), 0, kSizeMax));
  out.columns = static_cast<uint16_t>(check.Number("pty.columns", wire.columns(), 0, kSizeMax));
  out.term = check.Text("pty.term", wire.term(), kNameBytesMax);
  return out;
}

PortRange PortsOf(const v1::PortRange& wire, FieldChecker& check) {
  PortRange out;
  out.high = check.Port("ports.high", wire.high());
  out.low = static_cast<uint16_t>(check.Number("ports.low", wire.low(), 0, out.high));
  return out;
}

void SetBinding(const CpuBinding& binding, v1::CpuBinding* wire) {
  wire->set_bind_to(static_cast<uint32_t>(ChoiceToWire(binding.bind_to)));
  wire->set_map_by(static_cast<uint32_t>(ChoiceToWire(binding.map_by)));
  wire->set_workers_per_object(binding.workers_per_object);
  wire->set_cores_per_worker(binding.cores_per_worker);
  wire->set_overload(binding.overload);
  wire->set_cpu_list(binding.cpu_list);
  wire->set_memory(static_cast<uint32_t>(ChoiceToWire(binding.memory)));
  wire->set_memory_nodes(binding.memory_nodes);
  wire->set_gpu_mode(static_cast<uint32_t>(ChoiceToWire(binding.gpu_mode)));
  wire->set_gpus_per_worker(binding.gpus_per_worker);
  wire->set_report(binding.report);
}

CpuBinding BindingOf(const v1::CpuBinding& wire, FieldChecker& check) {
  CpuBinding out;
  out.bind_to = check.Choice("binding.bind_to", wire.bind_to(), BindTo::kPackage);
  out.map_by = check.Choice("binding.map_by", wire.map_by(), MapBy::kGpu);
  out.workers_per_object =
      check.Number("binding.workers_per_object", wire.workers_per_object(), 0, kWorkersPerNodeMax);
  out.cores_per_worker =
      check.Number("binding.cores_per_worker", wire.cores_per_worker(), 0, kCpusMax);
  out.overload = wire.overload();
  out.cpu_list = check.Text("binding.cpu_list", wire.cpu_list(), kTextBytesMax);
  out.memory = check.Choice("binding.memory", wire.memory(), MemoryBinding::kInterleave);
  out.memory_nodes = check.Text("binding.memory_nodes", wire.memory_nodes(), kTextBytesMax);
  out.gpu_mode = check.Choice("binding.gpu_mode", wire.gpu_mode(), GpuMode::kOneIfEnough);
  out.gpus_per_worker =
      check.Number("binding.gpus_per_worker", wire.gpus_per_worker(), 0, kGpusPerNodeMax);
  out.report = wire.report();
  return out;
}

void SetPlan(const WorkPlan& plan, v1::WorkPlan* wire) {
  wire->set_job_id(plan.job_id);
  SetStrings(plan.argv, wire->mutable_argv());
  wire->set_wdir(plan.wdir);
  SetStrings(plan.env_base, wire->mutable_env_base());
  SetStrings(plan.env_set, wire->mutable_env_set());
  SetStrings(plan.env_unset, wire->mutable_env_unset());
  wire->set_workers_wanted(static_cast<uint32_t>(ChoiceToWire(plan.workers_wanted)));
  wire->set_workers(plan.workers);
  wire->set_role(plan.role);
  wire->set_store(static_cast<uint32_t>(ChoiceToWire(plan.store)));
  wire->set_mpi(static_cast<uint32_t>(ChoiceToWire(plan.mpi)));
  SetStrings(plan.dialects, wire->mutable_dialects());
  wire->set_iface(plan.iface);
  wire->set_stdin_mode(static_cast<uint32_t>(ChoiceToWire(plan.stdin_mode)));
  wire->set_stdin_rank(plan.stdin_rank);
  SetOutput(plan.output, wire->mutable_output());
  wire->set_standalone(plan.standalone);
  wire->set_grace(absl::ToInt64Nanoseconds(plan.grace));
  wire->set_virtual_local_rank(plan.virtual_local_rank);
  wire->set_store_from_any(plan.store_from_any);
  wire->set_fill(plan.fill);
  wire->set_fill_torchrun(plan.fill_torchrun);
  wire->set_no_new_privileges(plan.no_new_privileges);
  wire->set_env_none(plan.env_none);
  for (const Wrap& wrap : plan.wraps) {
    v1::Wrap* out = wire->add_wraps();
    out->mutable_ranks()->Assign(wrap.ranks.begin(), wrap.ranks.end());
    SetStrings(wrap.argv, out->mutable_argv());
  }
  wire->set_prologue(plan.prologue);
  for (const FurtherProgram& program : plan.further) {
    v1::FurtherProgram* out = wire->add_further();
    out->set_rank_first(program.rank_first);
    SetStrings(program.argv, out->mutable_argv());
    out->set_wdir(program.wdir);
    SetStrings(program.env_set, out->mutable_env_set());
  }
  SetBinding(plan.binding, wire->mutable_binding());
  wire->mutable_ports()->set_low(plan.ports.low);
  wire->mutable_ports()->set_high(plan.ports.high);
  wire->set_tell_pids(plan.tell_pids);
  wire->set_hold(plan.hold);
  wire->set_slurm_nodelist(plan.slurm_nodelist);
  wire->set_slurm_cpus_per_task(plan.slurm_cpus_per_task);
  wire->mutable_stop_signals()->Assign(plan.stop_signals.begin(), plan.stop_signals.end());
  for (const WorkerLimit& limit : plan.limits) {
    v1::WorkerLimit* out = wire->add_limits();
    out->set_name(limit.name);
    out->set_soft(limit.soft);
  }
  if (plan.pty.has_value()) {
    wire->mutable_pty()->set_rank(plan.pty->rank);
    wire->mutable_pty()->set_rows(plan.pty->rows);
    wire->mutable_pty()->set_columns(plan.pty->columns);
    wire->mutable_pty()->set_term(plan.pty->term);
  }
}

absl::StatusOr<WorkPlan> PlanOf(const v1::WorkPlan& wire) {
  FieldChecker check("plan");
  WorkPlan plan;
  plan.job_id = check.Text("job_id", wire.job_id(), kNameBytesMax);
  plan.argv = StringsOf("argv", wire.argv(), check);
  plan.wdir = check.Text("wdir", wire.wdir(), kTextBytesMax);
  plan.env_base = StringsOf("env_base", wire.env_base(), check);
  plan.env_set = StringsOf("env_set", wire.env_set(), check);
  plan.env_unset = StringsOf("env_unset", wire.env_unset(), check);
  plan.workers_wanted =
      check.Choice("workers_wanted", wire.workers_wanted(), WorkersWanted::kObjects);
  plan.workers = check.Number("workers", wire.workers(), 0, kWorkersPerNodeMax);
  plan.role = check.Text("role", wire.role(), kTextBytesMax);
  plan.store = check.Choice("store", wire.store(), StoreMode::kWorker);
  plan.mpi = check.Choice("mpi", wire.mpi(), MpiMode::kNone);
  plan.dialects = StringsOf("dialects", wire.dialects(), check);
  plan.iface = check.Text("iface", wire.iface(), kNameBytesMax);
  plan.stdin_mode = check.Choice("stdin_mode", wire.stdin_mode(), StdinMode::kAll);
  plan.stdin_rank = check.Number("stdin_rank", wire.stdin_rank(), 0, kWorldSizeMax - 1);
  plan.output = OutputOf(wire.output(), check);
  plan.standalone = wire.standalone();
  plan.slurm_nodelist = check.Text("slurm_nodelist", wire.slurm_nodelist(), kTextBytesMax);
  plan.slurm_cpus_per_task = wire.slurm_cpus_per_task();
  plan.grace = check.Time("grace", wire.grace());
  plan.virtual_local_rank = wire.virtual_local_rank();
  plan.store_from_any = wire.store_from_any();
  plan.fill = wire.fill();
  plan.fill_torchrun = wire.fill_torchrun();
  plan.no_new_privileges = wire.no_new_privileges();
  plan.env_none = wire.env_none();
  check.Bound("wraps", static_cast<size_t>(wire.wraps_size()), 0, kPlanStringsMax);
  for (const v1::Wrap& wrap : wire.wraps()) {
    plan.wraps.push_back({RanksOf("wraps.ranks", wrap.ranks(), kWorldSizeMax, check),
                          StringsOf("wraps.argv", wrap.argv(), check)});
  }
  plan.prologue = check.Text("prologue", wire.prologue(), kTextBytesMax);
  plan.further = FurtherOf(wire, check);
  check.Bound("limits", static_cast<size_t>(wire.limits_size()), 0, kLimitsMax);
  for (const v1::WorkerLimit& limit : wire.limits()) {
    plan.limits.push_back({check.Text("limits.name", limit.name(), kNameBytesMax), limit.soft()});
  }
  if (wire.has_pty()) {
    plan.pty = TerminalOf(wire.pty(), check);
  }
  plan.binding = BindingOf(wire.binding(), check);
  plan.ports = PortsOf(wire.ports(), check);
  plan.tell_pids = wire.tell_pids();
  plan.hold = wire.hold();
  check.Bound("stop_signals", static_cast<size_t>(wire.stop_signals_size()), 0, kStopSignalsMax);
  for (const int32_t signo : wire.stop_signals()) {
    plan.stop_signals.push_back(check.Signal("stop_signals", signo));
  }
  RETURN_IF_ERROR(check.status());
  return plan;
}

void SetRules(const RestartRules& rules, v1::RestartRules* wire) {
  wire->set_window(absl::ToInt64Nanoseconds(rules.window));
  if (rules.of_rank.has_value()) {
    wire->set_of_rank(*rules.of_rank);
  }
  if (rules.of_node.has_value()) {
    wire->set_of_node(*rules.of_node);
  }
  wire->set_wait_first(absl::ToInt64Nanoseconds(rules.wait_first));
  wire->set_wait_max(absl::ToInt64Nanoseconds(rules.wait_max));
  wire->set_bad_node_after(rules.bad_node_after);
  wire->set_bad_node_for(absl::ToInt64Nanoseconds(rules.bad_node_for));
  for (const ExitRule& rule : rules.on_exit) {
    v1::ExitRule* out = wire->add_on_exit();
    out->set_match(static_cast<uint32_t>(ChoiceToWire(rule.match)));
    out->mutable_values()->Assign(rule.values.begin(), rule.values.end());
    out->set_action(static_cast<uint32_t>(ChoiceToWire(rule.action)));
  }
}

RestartRules RulesOf(const v1::RestartRules& wire, FieldChecker& check) {
  RestartRules rules;
  rules.window = check.Time("window", wire.window());
  if (wire.has_of_rank()) {
    rules.of_rank = check.Number("of_rank", wire.of_rank(), 0, kRestartsMax);
  }
  if (wire.has_of_node()) {
    rules.of_node = check.Number("of_node", wire.of_node(), 0, kRestartsMax);
  }
  rules.wait_first = check.Time("wait_first", wire.wait_first());
  rules.wait_max = check.Time("wait_max", wire.wait_max());
  rules.bad_node_after = check.Number("bad_node_after", wire.bad_node_after(), 0, kRestartsMax);
  rules.bad_node_for = check.Time("bad_node_for", wire.bad_node_for());
  check.Bound("on_exit", static_cast<size_t>(wire.on_exit_size()), 0, kExitRulesMax);
  for (const v1::ExitRule& rule : wire.on_exit()) {
    check.Bound("on_exit.values", static_cast<size_t>(rule.values_size()), 0, kExitCodeMax);
    if (!check.ok()) {
      break;
    }
    rules.on_exit.push_back(
        {check.Choice("on_exit.match", rule.match(), ExitMatch::kNodeLost),
         {rule.values().begin(), rule.values().end()},
         check.Choice("on_exit.action", rule.action(), ExitAction::kReplaceNode)});
  }
  return rules;
}

}  // namespace

v1::JobTerms ToWire(const JobTerms& terms) {
  v1::JobTerms wire;
  wire.set_nodes_min(terms.nodes_min);
  wire.set_nodes_max(terms.nodes_max);
  if (terms.spares.has_value()) {
    wire.set_spares(*terms.spares);
  }
  if (terms.lease.has_value()) {
    wire.set_lease(absl::ToInt64Nanoseconds(*terms.lease));
  }
  wire.set_restarts_max(terms.restarts_max);
  wire.set_join_timeout(absl::ToInt64Nanoseconds(terms.join_timeout));
  wire.set_last_call(absl::ToInt64Nanoseconds(terms.last_call));
  wire.set_grace(absl::ToInt64Nanoseconds(terms.grace));
  wire.set_restart_grace(absl::ToInt64Nanoseconds(terms.restart_grace));
  wire.set_time_limit(absl::ToInt64Nanoseconds(terms.time_limit));
  wire.set_tell_idle(absl::ToInt64Nanoseconds(terms.tell_idle));
  wire.set_master_port(terms.master_port);
  wire.set_master_addr(terms.master_addr);
  wire.set_restart(static_cast<uint32_t>(ChoiceToWire(terms.restart)));
  SetRules(terms.restart_rules, wire.mutable_restart_rules());
  wire.set_continue_on_failure(terms.on_failure == OnFailure::kContinue);
  return wire;
}

absl::StatusOr<JobTerms> FromWire(const v1::JobTerms& wire) {
  FieldChecker check("terms");
  JobTerms terms;
  terms.nodes_max = check.Number("nodes_max", wire.nodes_max(), 1, kNodesMax);
  terms.nodes_min = check.Number("nodes_min", wire.nodes_min(), 1, terms.nodes_max);
  if (wire.has_spares()) {
    terms.spares = check.Number("spares", wire.spares(), 0, kNodesMax);
  }
  if (wire.has_lease()) {
    terms.lease = check.Time("lease", wire.lease());
    if (*terms.lease < kLeaseMin || *terms.lease > kLeaseMax) {
      check.Fail("lease", "not 1 s to 1 h");
    }
  }
  terms.restarts_max = check.Number("restarts_max", wire.restarts_max(), 0, kRestartsMax);
  terms.join_timeout = check.Time("join_timeout", wire.join_timeout());
  terms.last_call = check.Time("last_call", wire.last_call());
  terms.grace = check.Time("grace", wire.grace());
  terms.restart_grace = check.Time("restart_grace", wire.restart_grace());
  terms.time_limit = check.Time("time_limit", wire.time_limit());
  terms.tell_idle = check.Time("tell_idle", wire.tell_idle());
  if (terms.tell_idle <= absl::ZeroDuration()) {
    check.Fail("tell_idle", "not above 0");
  }
  terms.master_port = check.Port("master_port", wire.master_port());
  terms.master_addr = check.Text("master_addr", wire.master_addr(), kNameBytesMax);
  terms.restart = check.Choice("restart", wire.restart(), RestartMode::kNever);
  terms.restart_rules = RulesOf(wire.restart_rules(), check);
  terms.on_failure = wire.continue_on_failure() ? OnFailure::kContinue : OnFailure::kStop;
  RETURN_IF_ERROR(check.status());
  return terms;
}

v1::Bootstrap ToWire(const AgentBootstrap& bootstrap) {
  v1::Bootstrap wire;
  wire.set_protocol(kProtocolVersion);
  wire.set_build(std::string(BuildName()));
  wire.set_secret(bootstrap.secret);
  wire.set_job_id(bootstrap.job_id);
  SetPlan(bootstrap.plan, wire.mutable_plan());
  *wire.mutable_join() = ToWire(bootstrap.join);
  *wire.mutable_terms() = ToWire(bootstrap.terms);
  wire.set_route_to(bootstrap.route_to);
  wire.set_nonce(bootstrap.nonce);
  wire.set_hold(bootstrap.hold);
  if (bootstrap.ship.has_value()) {
    wire.mutable_ship()->set_digest(bootstrap.ship->digest);
    wire.mutable_ship()->set_bytes(bootstrap.ship->bytes);
    wire.mutable_ship()->set_entries(bootstrap.ship->entries);
  }
  wire.set_preflight(bootstrap.preflight);
  wire.set_program_token(bootstrap.program_token);
  return wire;
}

absl::StatusOr<AgentBootstrap> FromWire(const v1::Bootstrap& wire) {
  FieldChecker check("bootstrap");
  if (wire.protocol() != kProtocolVersion || wire.build() != std::string(BuildName())) {
    return absl::InvalidArgumentError(
        absl::StrCat("the starter is muster ", wire.build().substr(0, kNameBytesMax),
                     ", this agent is ", BuildName(), ": install the same build"));
  }
  AgentBootstrap bootstrap;
  bootstrap.secret = check.Text("secret", wire.secret(), kNameBytesMax);
  bootstrap.job_id = check.Text("job_id", wire.job_id(), kNameBytesMax);
  bootstrap.route_to = check.Text("route_to", wire.route_to(), kNameBytesMax);
  bootstrap.hold = check.Text("hold", wire.hold(), kNameBytesMax);
  bootstrap.nonce = check.Text("nonce", wire.nonce(), kNonceBytes);
  if (wire.has_ship()) {
    ShipTerms& ship = bootstrap.ship.emplace();
    ship.digest = check.Text("ship.digest", wire.ship().digest(), kShipDigestBytes);
    check.Bound("ship.digest", ship.digest.size(), kShipDigestBytes, kShipDigestBytes);
    ship.bytes = check.Number("ship.bytes", wire.ship().bytes(), 0, kShipBytesMax);
    ship.entries = check.Number("ship.entries", wire.ship().entries(), 0, kShipEntriesMax);
  }
  bootstrap.preflight = wire.preflight();
  bootstrap.program_token = check.Text("program_token", wire.program_token(), kNameBytesMax);
  RETURN_IF_ERROR(check.status());
  ASSIGN_OR_RETURN(bootstrap.plan, PlanOf(wire.plan()));
  ASSIGN_OR_RETURN(bootstrap.join, FromWire(wire.join()));
  ASSIGN_OR_RETURN(bootstrap.terms, FromWire(wire.terms()));
  return bootstrap;
}

}  // namespace muster
