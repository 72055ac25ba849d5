// Python's lock, where torch ends something of ours while it has that.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <optional>

namespace muster_torch {

// While it lives, this thread does not have the interpreter's lock, if it had it: for what waits
// for a thread that may want it, as for a listener or to let go of a tensor. An interpreter that is
// at its end may not give it back.
class WithoutPythonLock {
 public:
  WithoutPythonLock() {
    if (Py_IsInitialized() != 0 && !IsAtItsEnd() && PyGILState_Check() != 0) {
      released_.emplace();
    }
  }

 private:
  static bool IsAtItsEnd() {
#if PY_VERSION_HEX >= 0x030d0000
    return Py_IsFinalizing() != 0;
#else
    return _Py_IsFinalizing() != 0;
#endif
  }

  std::optional<pybind11::gil_scoped_release> released_;
};

}  // namespace muster_torch
