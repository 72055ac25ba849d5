// `launch --explain-env[=RANK] prog`: what one worker would find in its environment, each variable
// with its value and why, and which torch backend fits. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "agent/core/cpu_plan.h"
#include "agent/core/env_filter.h"
#include "agent/core/facts.h"
#include "proto/base/ids.h"
#include "proto/base/messages.h"
#include "proto/base/work_plan.h"

namespace muster {

struct ExplainInput {
  const WorkPlan& plan;
  // As the round would be. What only a started job knows is left empty: master_addr "",
  // master_port 0, round none.
  const Assignment& assignment;
  const NodeFacts& facts;
  const ProgramFacts& program;
  const EnvBase& base;
  bool store_is_agent = false;
  LocalRank local;
  const WorkerShare* share = nullptr;  // as in WorkerEnvInput
  const Topology* topology = nullptr;
};

std::string ExplainEnvText(const ExplainInput& input);
// One object: worker, variables [{name, value, why}], kept, removed, backend, notes. A value that
// only a started job knows is null.
std::string ExplainEnvJson(const ExplainInput& input);

struct BackendAdvice {
  std::string backend;  // for init_process_group()
  std::string why;
};
BackendAdvice AdviseBackend(const NodeFacts& facts, const ProgramFacts& program, uint32_t workers);

}  // namespace muster
