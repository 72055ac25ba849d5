// How the agents of a scheduler's step have ended, as a line of the command that started them
// tells.
#pragma once

#include <string>
#include <vector>

namespace muster {

// Most lines tell nothing: neither `hosts` nor `how`, nor that it is `cancelled`.
struct StepEnd {
  std::vector<std::string> hosts;  // whose agents; none = the command has one
  std::string how;                 // for people
  bool killed = false;             // by SIGKILL
  bool by_itself = false;          // with an exit code of its own: it has said why
  bool cancelled = false;          // the whole step is: the agents of all its nodes end
};

}  // namespace muster
