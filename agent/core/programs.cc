#include "agent/core/programs.h"

#include <algorithm>
#include <utility>

#include "proto/base/check.h"

namespace muster {

size_t ProgramOf(const WorkPlan& plan, uint32_t rank) {
  const auto behind = std::upper_bound(
      plan.further.begin(), plan.further.end(), rank,
      [](uint32_t r, const FurtherProgram& program) { return r < program.rank_first; });
  return static_cast<size_t>(behind - plan.further.begin());
}

WorkPlan PlanOfProgram(const WorkPlan& plan, size_t program) {
  CHECK(program < ProgramCount(plan));
  WorkPlan out = plan;
  out.further.clear();
  if (program > 0) {
    const FurtherProgram& own = plan.further[program - 1];
    out.argv = own.argv;
    out.wdir = own.wdir;
    out.env_set = own.env_set;
  }
  return out;
}

}  // namespace muster
