// A thread that the program does not know of: none of its signals is delivered there.
#pragma once

#include <pthread.h>

#include <csignal>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "muster/status.h"
#include "worker_sdk/base/at_end.h"
#include "worker_sdk/base/no_memory.h"

namespace muster {

// Internal: there is none to be had, `what_for`; or ResourceExhausted.
template <typename Body>
Status StartQuietThread(const char* what_for, Body body, std::thread& out) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const AtEnd restore([&before] { pthread_sigmask(SIG_SETMASK, &before, nullptr); });
  try {
    out = std::thread(std::move(body));
  } catch (const std::system_error& error) {
    return {StatusCode::kInternal, std::string("no thread ") + what_for + ": " + error.what()};
  } catch (const std::bad_alloc&) {
    return NoMemory();
  }
  return {};
}

}  // namespace muster
