#include "launcher/start_failures.h"

namespace muster {

StartFailures::StartFailures(uv_loop_t* loop, size_t under_way,
                             std::function<void(size_t, const std::string&)> tell,
                             absl::Duration together)
    : tell_(std::move(tell)),
      together_(together),
      under_way_(under_way),
      timer_(loop, [this] { Tell(); }) {}

void StartFailures::Succeeded() { OneLess(); }

void StartFailures::Failed(size_t index, std::string reason) {
  untold_.emplace_back(index, std::move(reason));
  if (!timer_.active()) {
    timer_.StartAfter(together_);
  }
  OneLess();
}

void StartFailures::OneLess() {
  under_way_ -= under_way_ > 0 ? 1 : 0;
  if (under_way_ == 0 && !untold_.empty()) {
    timer_.StartAfter(absl::ZeroDuration());
  }
}

void StartFailures::Tell() {
  for (const auto& [index, reason] : std::exchange(untold_, {})) {
    tell_(index, reason);
  }
}

}  // namespace muster
