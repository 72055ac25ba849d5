// The checks that Diagnose runs, in this order. Each adds its rows. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/doctor/diagnose.h"

namespace muster {

using Rows = std::vector<DoctorRow>;

// diagnose_start.cc
void CheckStart(const Examination& examined, Rows& rows);
// diagnose_network.cc
void CheckNames(const Examination& examined, Rows& rows);
void CheckAddresses(const Examination& examined, Rows& rows);
void CheckPorts(const Examination& examined, Rows& rows);
void CheckConnections(const Examination& examined, Rows& rows);
void CheckLargePackets(const Examination& examined, Rows& rows);
void CheckSpeed(const Examination& examined, Rows& rows);
void CheckProxies(const Examination& examined, Rows& rows);
void CheckClocks(const Examination& examined, Rows& rows);
// diagnose_node.cc
void CheckLimits(const Examination& examined, Rows& rows);
void CheckListenQueue(const Examination& examined, Rows& rows);
void CheckSharedMemory(const Examination& examined, Rows& rows);
void CheckDisks(const Examination& examined, Rows& rows);
void CheckCgroups(const Examination& examined, Rows& rows);
void CheckCpus(const Examination& examined, Rows& rows);
void CheckGpus(const Examination& examined, Rows& rows);
void CheckVersions(const Examination& examined, Rows& rows);
void CheckProgram(const Examination& examined, Rows& rows);

// The rows of one check; the good row at the end is left out where there is another (D1).
class CheckRows {
 public:
  CheckRows(std::string check, Rows& rows) : check_(std::move(check)), rows_(rows) {}

  void Bad(std::string where, std::string seen, std::string fix) {
    Add(Health::kBad, std::move(where), std::move(seen), std::move(fix));
  }
  void Suspect(std::string where, std::string seen, std::string fix) {
    Add(Health::kSuspect, std::move(where), std::move(seen), std::move(fix));
  }
  void Add(const std::string& where, const Findings& findings) {
    for (const Finding& finding : findings) {
      Add(finding.health, where, finding.seen, finding.fix);
    }
  }
  void ElseWell(std::string seen) {
    if (!any_) {
      Add(Health::kWell, "", std::move(seen), "");
    }
  }

 private:
  void Add(Health health, std::string where, std::string seen, std::string fix) {
    any_ = true;
    rows_.push_back({check_, health, std::move(where), std::move(seen), std::move(fix)});
  }

  const std::string check_;
  Rows& rows_;  // of Diagnose
  bool any_ = false;
};

// One text for each value that the nodes have: "3.11.2 on node0, node1". Empty values are left out.
using Values = std::vector<std::pair<std::string, std::vector<std::string>>>;  // value, nodes
void AddValue(const std::string& value, const std::string& node, Values& values);
std::string ValuesText(const Values& values);

}  // namespace muster
