// Python's lock, where torch ends something of ours while it has that.
#pragma once

#include <Python.h>

namespace muster_torch {

// While it lives, this thread does not have the interpreter's lock, if it had it: for what waits
// for a thread that may want it, as for a listener or to let go of a tensor. An interpreter that is
// at its end may not give it back.
class WithoutPythonLock {
 public:
  WithoutPythonLock() {
    if (Py_IsInitialized() != 0 && !IsAtItsEnd() && PyGILState_Check() != 0) {
      had_ = PyEval_SaveThread();
    }
  }
  ~WithoutPythonLock() {
    if (had_ != nullptr) {
      PyEval_RestoreThread(had_);
    }
  }
  WithoutPythonLock(const WithoutPythonLock&) = delete;
  WithoutPythonLock& operator=(const WithoutPythonLock&) = delete;

 private:
  static bool IsAtItsEnd() {
#if PY_VERSION_HEX >= 0x030d0000
    return Py_IsFinalizing() != 0;
#else
    return _Py_IsFinalizing() != 0;
#endif
  }

  PyThreadState* had_ = nullptr;
};

}  // namespace muster_torch
