#include "worker_sdk/transport/direct_read.h"

#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace muster {
namespace {

uint64_t ByChance() {
  uint64_t out = 0;
  (void)getrandom(&out, sizeof(out), 0);  // so few bytes always come
  return out;
}

}  // namespace

DirectReader::DirectReader()
    : word_(std::make_unique<const uint64_t>(ByChance())), user_(geteuid()), group_(getegid()) {}

void DirectReader::Allow() {
  prctl(PR_SET_PTRACER, getppid(), 0, 0, 0);  // an error without Yama
}

DirectCard DirectReader::card() const {
  return {getpid(), reinterpret_cast<uint64_t>(word_.get()), *word_};
}

bool DirectReader::Meet(std::vector<DirectCard> cards) {
  cards_ = std::move(cards);
  for (uint32_t place = 0; place < cards_.size(); ++place) {
    uint64_t word = 0;
    if (!Read(place, &word, cards_[place].address, sizeof(word)).ok() ||
        word != cards_[place].word) {
      return false;
    }
  }
  return true;
}

bool DirectReader::MayBeRead(const void* address, uint64_t bytes) const {
  if (geteuid() != user_ || getegid() != group_ || prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 1) {
    return false;
  }
  if (bytes == 0) {
    return true;
  }
  uint8_t ends[2] = {};
  const auto first = std::bit_cast<uint64_t>(address);
  const iovec here{ends, sizeof(ends)};
  const iovec there[] = {{std::bit_cast<void*>(first), 1},
                         {std::bit_cast<void*>(first + bytes - 1), 1}};
  return process_vm_readv(getpid(), &here, 1, there, 2, 0) == sizeof(ends);
}

Status DirectReader::Read(uint32_t place, void* to, uint64_t address, uint64_t bytes) const {
  uint64_t done = 0;
  while (done < bytes) {
    const iovec here{static_cast<uint8_t*>(to) + done, bytes - done};
    const iovec there{std::bit_cast<void*>(address + done), bytes - done};
    const ssize_t n =
        process_vm_readv(static_cast<pid_t>(cards_[place].process), &here, 1, &there, 1, 0);
    if (n < 0) {
      const int error = errno;
      return {error == ESRCH   ? StatusCode::kUnavailable
              : error == EPERM ? StatusCode::kFailedPrecondition
                               : StatusCode::kInternal,
              std::string("process_vm_readv: ") + std::strerror(error)};
    }
    done += static_cast<uint64_t>(n);
  }
  return {};
}

}  // namespace muster
