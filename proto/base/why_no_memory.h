// Why memory, or a descriptor, could not be had, for people: where a limit of this process is the
// cause, by its name, its value, what was wanted, and how it is raised.
#pragma once

#include <sys/resource.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

namespace muster {

// The soft limit of this process; RLIM_INFINITY: none.
inline rlim_t SoftLimitOf(decltype(RLIMIT_FSIZE) resource) {
  rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
  return getrlimit(resource, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

// After `error` (errno) of a call that makes a descriptor: "Too many open files: this process may
// have 16 (ulimit -n 16): raise it (ulimit -n 65536), or close some".
inline std::string WhyNoDescriptor(int error) {
  const std::string text = std::strerror(error);
  if (error == EMFILE) {
    const std::string files = std::to_string(SoftLimitOf(RLIMIT_NOFILE));
    return text + ": this process may have " + files + " (ulimit -n " + files +
           "): raise it (ulimit -n 65536), or close some";
  }
  return error == ENFILE
             ? text + ": the machine has as many as it may: raise it (sysctl fs.file-max)"
             : text;
}

// After `error` (errno) where `bytes` of shared memory were to be made or mapped:
// "File too large: 1056768 bytes of shared memory are wanted, and the limit of file sizes is 65536
// bytes (ulimit -f 64): raise it (ulimit -f unlimited)".
inline std::string WhyNoMemory(int error, uint64_t bytes) {
  const std::string text = std::strerror(error);
  const std::string wanted = text + ": " + std::to_string(bytes) +
                             " bytes of shared memory are "
                             "wanted";
  const auto kib = [](rlim_t limit) { return std::to_string(limit / 1024); };
  const rlim_t file = SoftLimitOf(RLIMIT_FSIZE);
  const rlim_t space = SoftLimitOf(RLIMIT_AS);
  if (error == EFBIG && file != RLIM_INFINITY) {
    return wanted + ", and the limit of file sizes is " + std::to_string(file) +
           " bytes (ulimit -f " + kib(file) + "): raise it (ulimit -f unlimited)";
  }
  if (error == EMFILE || error == ENFILE) {
    return WhyNoDescriptor(error);
  }
  if (error == ENOMEM && space != RLIM_INFINITY) {
    return wanted + ", and the limit of this process's memory is " + std::to_string(space) +
           " bytes (ulimit -v " + kib(space) + "): raise it (ulimit -v unlimited)";
  }
  return error == ENOMEM || error == ENOSPC
             ? wanted + ": free some memory, or raise the limit of the container or cgroup"
             : wanted;
}

}  // namespace muster
