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
  // Where no master writes one for --report, the first node of the last round does: the same, with
  // the number of restarts. One that was in no round does, too: nobody has had more of the job.
  bool WritesFile() const { return is_first_; }
  JobReport ForFile(const JobOutcome& outcome) const;

 private:
  bool is_first_ = true;           // of the present or last round
  uint32_t restarts_ = 0;          // of the present round
  std::string told_;               // likewise
  std::vector<ExitRecord> exits_;  // of the present or last round
};

}  // namespace muster
