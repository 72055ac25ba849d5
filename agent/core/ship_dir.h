// What the folder of a job's shipped files (--ship) means for its workers. Pure.
#pragma once

#include <string>

#include "proto/base/work_plan.h"

namespace muster {

// Workers run there, one with a relative --wdir below it, one with an absolute --wdir where that
// says; every one finds it by MUSTER_SHIP_DIR.
void RunInShipDir(const std::string& folder, WorkPlan& plan);

}  // namespace muster
