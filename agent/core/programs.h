// Which of a job's programs a rank runs (`launch -n 2 ./a : -n 3 ./b`). Pure; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "proto/base/work_plan.h"

namespace muster {

// 0 = the plan's own, i = plan.further[i - 1].
size_t ProgramOf(const WorkPlan& plan, uint32_t rank);

inline size_t ProgramCount(const WorkPlan& plan) { return 1 + plan.further.size(); }

// The plan as it would be if all ranks ran this program.
WorkPlan PlanOfProgram(const WorkPlan& plan, size_t program);

}  // namespace muster
