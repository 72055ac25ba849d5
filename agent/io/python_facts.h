// Where a Python looks for modules, from files alone. Any thread; nothing is run.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "agent/core/env_filter.h"

namespace muster {

// The executable that a pyenv shim would run; `shim` itself when it is not one, "" when pyenv's
// choice cannot be followed.
std::string ThroughPyenv(const std::string& shim, const std::string& wdir, const EnvBase& env);

// Folders in the order of sys.path, but without those that only hold the standard library.
std::vector<std::string> ModuleFolders(const std::string& interpreter, const EnvBase& env);

struct TorchVersion {
  std::string version;  // "2.3.0+cu121"
  std::string cuda;     // "12.1"; "" = built without
};
// The text of torch/version.py.
TorchVersion ParseTorchVersion(absl::string_view text);

}  // namespace muster
