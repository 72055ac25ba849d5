// Output that waits to be shown: first in memory, beyond a bound in an unlinked file on the node's
// disk, in order. Loop thread only.
//
// Invariants:
//  S1 chunks leave in the order in which they came: `memory_`, then the file, then `late_`;
//  S2 the file never takes more than `file_max` of the disk, however long it is in use.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "agent/io/links.h"
#include "proto/base/unique_fd.h"

namespace muster {

class OutputSpool {
 public:
  OutputSpool(size_t memory_max, uint64_t file_max)
      : memory_max_(memory_max), file_max_(file_max) {}

  bool Empty() const { return memory_.empty() && file_chunks_ == 0; }
  // Neither memory nor file has room for `bytes` more. Push takes them all the same, into memory.
  bool Full(size_t bytes) const;
  void Push(OutputChunk chunk);
  // The oldest chunk; not Empty(). Reads from the file when memory is used up. Its bytes may be
  // moved away before Pop.
  OutputChunk& Front();
  void Pop();  // what Front gave
  void Clear();

  size_t memory_bytes() const { return memory_bytes_; }
  uint64_t file_bytes() const { return write_at_ - read_at_; }

 private:
  bool FileTakes(size_t bytes) const;
  bool ToFile(const OutputChunk& chunk);
  void FromFile();
  struct Waiting {
    OutputChunk chunk;
    size_t bytes = 0;  // counted in memory_bytes_
  };
  void ToMemory(std::deque<Waiting>& queue, OutputChunk chunk);
  void EmptyFile();
  bool WriteRing(const char* data, size_t size, uint64_t at);
  bool ReadRing(char* data, size_t size, uint64_t at);

  const size_t memory_max_;
  const uint64_t file_max_;
  std::deque<Waiting> memory_;  // older than everything in the file
  std::deque<Waiting> late_;    // newer than everything in the file; empty when that is
  size_t memory_bytes_ = 0;     // of both
  UniqueFd file_;
  bool file_broken_ = false;  // disk full or no folder: memory only from then on
  // Bytes of the stream of records; a byte's place in the file is this modulo `file_max_`.
  uint64_t read_at_ = 0;
  uint64_t write_at_ = 0;
  size_t file_chunks_ = 0;
};

}  // namespace muster
