// Which script a Python runs, and what its text says of torch.distributed, as far as it can be seen
// without running it. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace muster {

// "python3", "python3.11", "pypy3", also with folders in front.
bool IsPythonName(absl::string_view path);

struct PythonCommand {
  std::string script;  // as it is typed; "" of -c, -m and none
  std::string module;  // of -m
};

// `argv`: of a Python, its own name first.
PythonCommand ParsePythonCommand(const std::vector<std::string>& argv);

// Where its ranks meet at an address of the script's own, of which no launcher knows: the first
// statement that sets MASTER_ADDR or MASTER_PORT in the environment, or the first tcp://HOST:PORT,
// as "line 7: os.environ['MASTER_PORT'] = '29500'". "" = none seen. Of a variable that the script
// asks for with `not in` its assignment does not count, as launch gives both. Of its `arguments`
// the same: "its argument tcp://10.0.0.1:23456".
std::string OwnMeetingPlace(absl::string_view script, const std::vector<std::string>& arguments);

// Whether it starts the ranks itself (torch.multiprocessing's spawn), and is to be run once.
bool StartsRanks(absl::string_view script);

}  // namespace muster
