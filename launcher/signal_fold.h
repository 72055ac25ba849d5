// One signal that several hear: launch and the agents of a Slurm step (`scancel --full`, say), each
// in its own moment. Values only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "absl/time/time.h"
#include "proto/base/ids.h"

namespace muster {

class SignalFold {
 public:
  // Whether it is another one than those before; `agent`: who heard it, none = launch. What the
  // same one hears twice was sent twice, but for INT within 0.1 s.
  bool IsNew(int signo, std::optional<NodeId> agent, absl::Time now);

 private:
  struct Last {
    absl::Time began;  // when the first of them heard it
    std::set<std::optional<NodeId>> heard_by;
  };
  std::map<int, Last> last_;
};

}  // namespace muster
