// What each option does with its value, by itself: text in, a field of JobSpec or a message out.
// Pure; thread-safe. Options that only put one flag, text or parsed value into a field need no
// function here (option_table.cc).
#pragma once

#include "absl/status/status.h"
#include "launcher/job_spec.h"
#include "launcher/options.h"

namespace muster {

absl::Status SetNnodes(const OptionValue& v, JobSpec& s);
absl::Status SetSpares(const OptionValue& v, JobSpec& s);
absl::Status SetNprocPerNode(const OptionValue& v, JobSpec& s);
absl::Status SetRdzvEndpoint(const OptionValue& v, JobSpec& s);
absl::Status CheckRdzvBackend(const OptionValue& v, JobSpec& s);
absl::Status SetRdzvConf(const OptionValue& v, JobSpec& s);
absl::Status SetNodeRank(const OptionValue& v, JobSpec& s);
absl::Status SetMasterAddr(const OptionValue& v, JobSpec& s);
absl::Status SetMasterPort(const OptionValue& v, JobSpec& s);
absl::Status SetLocalAddr(const OptionValue& v, JobSpec& s);
absl::Status SetIface(const OptionValue& v, JobSpec& s);
absl::Status SetPortRange(const OptionValue& v, JobSpec& s);
absl::Status SetGrace(const OptionValue& v, JobSpec& s);
absl::Status SetLease(const OptionValue& v, JobSpec& s);
absl::Status SetJobName(const OptionValue& v, JobSpec& s);
absl::Status SetJobLog(const OptionValue& v, JobSpec& s);
absl::Status SetMaxRestarts(const OptionValue& v, JobSpec& s);
absl::Status SetRestart(const OptionValue& v, JobSpec& s);
absl::Status AddExitRule(const OptionValue& v, JobSpec& s);
absl::Status SetOnFailure(const OptionValue& v, JobSpec& s);
absl::Status SetContinuous(const OptionValue& v, JobSpec& s);
absl::Status SetSignalsToHandle(const OptionValue& v, JobSpec& s);
absl::Status SetTotal(const OptionValue& v, JobSpec& s);
absl::Status SetPerNode(const OptionValue& v, JobSpec& s);
absl::Status AddHosts(const OptionValue& v, JobSpec& s);
absl::Status AddWrap(const OptionValue& v, JobSpec& s);
absl::Status SetPropagate(const OptionValue& v, JobSpec& s);
absl::Status SetPty(const OptionValue& v, JobSpec& s);
absl::Status SetGdb(const OptionValue& v, JobSpec& s);
// $MUSTER_DEBUGGER in place of gdb, where --gdb was given.
absl::Status NameDebugger(const Environment& environment, JobSpec& s);
absl::Status AddPrologue(const OptionValue& v, JobSpec& s);
absl::Status AddExclude(const OptionValue& v, JobSpec& s);
absl::Status AddShip(const OptionValue& v, JobSpec& s);
absl::Status AddHostfile(const OptionValue& v, JobSpec& s);
absl::Status AddForward(const OptionValue& v, JobSpec& s);
absl::Status SetStdin(const OptionValue& v, JobSpec& s);
absl::Status SetStore(const OptionValue& v, JobSpec& s);
absl::Status SetStoreFrom(const OptionValue& v, JobSpec& s);
absl::Status SetDialect(const OptionValue& v, JobSpec& s);
absl::Status SetLogPrefix(const OptionValue& v, JobSpec& s);
absl::Status SetLabel(const OptionValue& v, JobSpec& s);
absl::Status SetNoPrefix(const OptionValue& v, JobSpec& s);
absl::Status SetLogLayout(const OptionValue& v, JobSpec& s);
absl::Status SetOutputOverflow(const OptionValue& v, JobSpec& s);
absl::Status SetExplainEnv(const OptionValue& v, JobSpec& s);
absl::Status SetSsh(const OptionValue& v, JobSpec& s);
absl::Status AddSshArgs(const OptionValue& v, JobSpec& s);

}  // namespace muster
