// What a launch whose job is served elsewhere tells of it: why rounds follow each other, as the
// master tells, and the ends of its own node's workers, as the master's page would put them. Pure;
// not thread-safe.
#pragma once

#include <string>
#include <vector>

#include "proto/base/messages.h"
#include "rendezvous/core/types.h"

namespace muster {

class OwnEnds {
 public:
  void Ended(const std::string& hostname, const WorkerExit& exit);
  // A line: how the round before it ended, and which restart it is. "" where there is nothing new.
  std::string RoundBegan(const Assignment& round);
  // Whose first cause is a worker of this node, if the master says so; it knows nothing of others.
  JobReport Report(const JobOutcome& outcome) const;

 private:
  uint32_t restarts_ = 0;          // of the present round
  std::string told_;               // likewise
  std::vector<ExitRecord> exits_;  // of the present or last round
};

}  // namespace muster
