// Disks that hang until the test lets them go on, and slow ones.
#pragma once

#include <chrono>
#include <memory>

#include "agent/io/disk_thread.h"
#include "tests/agent/io/loop_test.h"
#include "tests/gate.h"

namespace muster {

// A disk that takes `each` longer for every work.
inline std::shared_ptr<DiskThread> SlowDisk(uv_loop_t* loop, std::chrono::milliseconds each) {
  auto never = std::make_shared<Gate>();
  return std::make_shared<DiskThread>(loop, [never, each] { EXPECT_FALSE(never->Wait(each)); });
}

// A disk that does nothing while `gate` is closed.
inline std::shared_ptr<DiskThread> GatedDisk(uv_loop_t* loop, const std::shared_ptr<Gate>& gate) {
  return std::make_shared<DiskThread>(loop, [gate] { EXPECT_TRUE(gate->Wait()); });
}

}  // namespace muster
