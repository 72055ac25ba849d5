// A job as text, for tests.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "launcher/exit_rules.h"
#include "launcher/job_file.h"
#include "launcher/job_spec.h"

namespace muster {

// Everything of a spec that a job file can say, as text: a difference can be read.
inline std::string Described(const JobSpec& s) {
  const auto streams = [](const StreamSelect& select) {
    return absl::StrCat(select.all, "{",
                        absl::StrJoin(select.by_local_rank, ",", absl::PairFormatter(":")), "}");
  };
  const WorkPlan& p = s.plan;
  const OutputOptions& o = p.output;
  std::vector<int> ids;
  for (const auto& [id, given] : s.given) {
    if (MayBeInJobFile(id)) {
      ids.push_back(static_cast<int>(id));
    }
  }
  const auto nodes = [](const std::vector<NodeOverride>& overrides) {
    std::string out;
    for (const NodeOverride& one : overrides) {
      absl::StrAppend(&out, "\nnode ", one.node, ": ", Described(one.says));
    }
    return out;
  };
  const auto list = [](const auto& items) { return absl::StrJoin(items, "|"); };
  const auto number = [](const auto& n) { return n ? absl::StrCat(*n) : "none"; };
  return absl::StrCat(
      "given ", list(ids), "\nprogram ", s.program, "|", list(s.arguments), "\nargv ", list(p.argv),
      "\nkind ", s.module, s.no_python, s.run_path, "\nnodes ", s.nodes_min, ":", s.nodes_max,
      "\ncounts ", number(s.total), " ", number(s.per_node), " ", p.workers, " ",
      static_cast<int>(p.workers_wanted), "\nhosts ", list(s.hosts_texts), " ", list(s.hostfiles),
      " ", s.oversubscribe, "\nmeet ", s.rendezvous.host, " ", s.rendezvous.port, " ",
      absl::StrJoin(s.rendezvous.others, ","), " ", s.rendezvous.fingerprint, " ",
      s.rendezvous.file, " ", s.rendezvous.id, " ",
      absl::StrJoin(s.rendezvous.conf, ",", absl::PairFormatter("=")), " ", s.serve, " ",
      number(s.node_rank), " ", s.master_addr, " ", number(s.master_port), " ", s.local_addr, " ",
      p.standalone, " ", p.iface, "\nend ", s.max_restarts, " ", RestartModeName(s.restart), " ",
      absl::StrJoin(RestartRulesTexts(s.restart_rules), " ", absl::PairFormatter("=")), " ",
      OnFailureName(s.on_failure), " ", absl::FormatDuration(s.restart_grace), " ",
      absl::FormatDuration(p.grace), " ", absl::FormatDuration(s.timeout), " ", s.report_file,
      "\noutput ", number(s.prefix), " ", s.quiet, s.verbose, " ", o.prefix_template, " ",
      o.timestamps, " ", o.log_dir, " ", static_cast<int>(o.log_layout), " ", list(o.out_filters),
      " ", list(o.err_filters), " ", streams(o.redirects), streams(o.tee), " ", list(o.show), " ",
      list(o.show_local), " ", o.spool_bytes_max, " ", static_cast<int>(o.overflow), "\nssh ",
      list(s.ssh), " ", s.secret_file, " ", s.insecure, "\nenv ", list(s.forward), " ",
      list(p.env_set), "\nwork ", p.wdir, " ", p.role, " ", p.virtual_local_rank, " ",
      static_cast<int>(p.store), p.store_from_any, p.no_new_privileges, p.fill, p.fill_torchrun,
      " ", list(p.dialects), " ", static_cast<int>(p.stdin_mode), " ", p.stdin_rank, "\nports ",
      p.ports.Text(), " ", s.proctable_file, nodes(s.node_overrides));
}

}  // namespace muster
