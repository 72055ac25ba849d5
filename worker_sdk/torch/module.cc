// The Python module muster._torch: what muster/torch.py registers.
#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include "worker_sdk/torch/calls.h"
#include "worker_sdk/torch/communicator.h"
#include "worker_sdk/torch/process_group.h"

PYBIND11_MODULE(_torch, module) {
  // Without the interpreter's lock: the others may be threads of this process, or its store.
  module.def("create", &muster_torch::ProcessGroup::Create, pybind11::arg("store"),
             pybind11::arg("rank"), pybind11::arg("size"), pybind11::arg("timeout"),
             pybind11::call_guard<pybind11::gil_scoped_release>());
  module.def(
      "close_all",
      [] {
        muster_torch::Calls::CloseAll();
        muster_torch::BeginToEnd();
      },
      pybind11::call_guard<pybind11::gil_scoped_release>());
  module.def("take_lost", &muster_torch::TakeLost);
}
