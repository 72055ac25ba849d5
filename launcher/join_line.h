// The line that makes another node join a job whose serving node was given no endpoint. Pure.
#pragma once

#include <string>

#include "launcher/job_spec.h"

namespace muster {

// A shell command of one line: what the user gave here, with `endpoint` ("HOST:PORT") and without
// what holds for this node only (--node-rank, --serve, --local-addr, --report, is_host) or does
// nothing. Values from the environment (PET_NAME) become options; -x NAME takes its value on the
// other node, as if it were typed there. Where nodes run different numbers of workers, so that each
// must say its rank, that rank is named (two nodes) or its range stands in its place.
std::string JoinLine(const JobSpec& spec, const std::string& endpoint);

}  // namespace muster
