// What tests/worker_sdk/probe.cc does with parts that differ from rank to rank.
#pragma once

#include "muster/communicator.h"

// Every such call, small and large, also started only.
int UseParts(muster::Communicator& comm);
// Rank 1 has other counts; what each learns is said.
int DisagreeOnParts(muster::Communicator& comm);
// Rank 1 expects more of rank 0 than that one sends.
int ExpectMore(muster::Communicator& comm);
