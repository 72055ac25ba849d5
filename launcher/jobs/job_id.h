// Names of jobs to which the user gave none.
#pragma once

#include <string>

namespace muster {

// Short, unique enough for a log folder.
std::string MakeJobId();

}  // namespace muster
