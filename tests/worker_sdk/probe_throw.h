// What tests/worker_sdk/probe.cc does with an exception.
#pragma once

// One ends the scope of rank 1's communicator, and rank 1 lives on until it is stopped; what the
// others hear is said.
int Throw();
