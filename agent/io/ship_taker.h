// An agent's side of --ship, before it has threads, a shepherd or gRPC: gets the files as launch
// orders, on its channel or from another agent, unpacks them, and passes them on until launch lets
// it go on. Blocking; single thread.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "agent/io/shipped_folder.h"
#include "proto/base/port_range.h"
#include "proto/base/ship_terms.h"

namespace muster {

struct ShipTakerOptions {
  ShipTerms terms;
  int in = -1;  // the channel; the caller's
  int out = -1;
  std::string root;         // ShipRoot
  std::string address;      // by which other agents reach this one
  bool only_there = false;  // listen at that address alone: all nodes are this machine
  PortRange ports;
  std::string secret;
  std::string job_id;
};

// Launch is told of every error but that it went away itself.
absl::StatusOr<ShippedFolder> TakeShipped(const ShipTakerOptions& options);

}  // namespace muster
