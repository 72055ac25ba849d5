// The files of a job's programs, as nodes compare them (Join::program_files). Any thread; blocks on
// the file system.
#pragma once

#include <vector>

#include "agent/io/program_facts.h"
#include "proto/base/messages.h"

namespace muster {

// Of each file its length and its first 64 KiB count. Empty: there is nothing to compare.
std::vector<ProgramFile> FilesToCompare(const std::vector<PreparedProgram>& programs);

}  // namespace muster
