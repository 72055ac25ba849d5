// A world of PMIx that tests tell of.
#pragma once

#include "agent/core/pmix_world.h"

namespace muster {

// Node 1 of two, with the ranks 0 and 2 of three, the last of which runs another program.
inline PmixWorld SampleWorld() {
  return {.name = "w",
          .folder = "/f",
          .node = 1,
          .hosts = {"a", "b"},
          .ranks = {{1}, {0, 2}},
          .apps = {0, 0, 1}};
}

}  // namespace muster
