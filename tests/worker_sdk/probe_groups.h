// What tests/worker_sdk/probe.cc does in groups.
#pragma once

#include <optional>
#include <string>

#include "muster/communicator.h"

// Rows and columns of a grid of all ranks, groups of groups, and what they compute.
int UseGroups(std::optional<muster::Communicator> all);
// Rank 1 ends by `how` in its group; the others say what they learn, and whether the other group
// goes on.
int DieInAGroup(muster::Communicator& all, const std::string& how);
// Rank 1 cannot enter its group; all ranks go on together.
int FailToEnter(muster::Communicator& all);
