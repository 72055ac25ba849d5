// CPUs that several jobs of a user on one machine bind their workers to: each job says which it
// has, and the next one takes others while there are enough. Pure.
//
// What a job has is in the names of abstract unix sockets, "muster-cpus/UID/PID/0-3,8": they end
// with their process and leave no file, and /proc/net/unix shows them to all of the network
// namespace. Nothing proves who made one: a false one moves workers to other cores, or has them
// share some.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "agent/core/cpu_plan.h"

namespace muster {

inline constexpr size_t kClaimBytesMax = 100;  // with the NUL before it a socket's address has 108

// Whether workers get cores, or hardware threads, that are to be no one else's.
bool WantsOwnCpus(const CpuBinding& binding);

// Of all its workers.
CpuSet CpusOf(const CpuPlan& plan);

// The names by which process `pid` of this user says so, of at most kClaimBytesMax bytes each.
std::vector<std::string> ClaimNames(uint32_t uid, uint32_t pid, const CpuSet& cpus);

// What processes of this user claim, by the text of /proc/net/unix. Lines of others, and what is
// no list of CPUs, say nothing.
CpuSet ClaimedCpus(uint32_t uid, absl::string_view unix_sockets);

// As PlanCpus; on cores of which nothing is `taken`, where enough of `allowed` are left, else as if
// nothing were.
absl::StatusOr<CpuPlan> PlanBeside(const Topology& topology, const CpuSet& allowed,
                                   const CpuSet& taken, uint32_t workers,
                                   const CpuBinding& binding);

// For people: that workers of `plan` are on CPUs that others have; "" where they are not.
std::string SharedNotice(const CpuPlan& plan, const CpuSet& taken);

}  // namespace muster
