// Python's lock, where torch ends something of ours while it has that.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <optional>

namespace muster_torch {

// While it lives, this thread does not have the interpreter's lock, if it had it: for what waits
// for a thread that may want it, as for a listener or to let go of a tensor.
class WithoutPythonLock {
 public:
  WithoutPythonLock() {
    if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) {
      released_.emplace();
    }
  }

 private:
  std::optional<pybind11::gil_scoped_release> released_;
};

}  // namespace muster_torch
