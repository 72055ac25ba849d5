// Output that waits to be shown: first in memory, beyond a bound in an unlinked file on the node's
// disk, in order. The file is opened, written and read on a DiskThread only, in batches: nothing
// here waits for the disk. Loop thread only.
//
// Invariants:
//  S1 chunks leave in the order in which they came: `memory_`, then the batch that is being read,
//     the file, the batch that is being written, then `late_`;
//  S2 the file never takes more than `file_max` of the disk, however long it is in use;
//  S3 no call waits for the disk: with a disk that hangs Push keeps all in memory (the caller heeds
//     Full and Behind) and Front says that the next chunk is not there yet;
//  S4 on_ready comes whenever the next chunk is there after Front gave nullptr, and never from
//     within a call; so whoever calls Front again then gets everything;
//  S5 while the caller heeds Full and Behind, memory holds `memory_max`, slack() and what it pushes
//     before it looks again; besides, one batch is read and one is copied at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "agent/io/disk_thread.h"
#include "agent/io/links.h"

namespace muster {

class OutputSpool {
 public:
  // `disk` is ours and its maker's (a test that hangs it); outstanding on it: a write, a read, a
  // truncation.
  OutputSpool(std::shared_ptr<DiskThread> disk, size_t memory_max, uint64_t file_max);
  ~OutputSpool();
  OutputSpool(const OutputSpool&) = delete;
  OutputSpool& operator=(const OutputSpool&) = delete;

  bool Empty() const { return memory_.empty() && late_.empty() && NothingOnDisk(); }
  // The file's bound is used up, and so is memory: no room for `bytes` more. Push takes them all
  // the same, into memory.
  bool Full(size_t bytes) const;
  // The disk does not keep up: memory is above its bound, though the file has room.
  bool Behind() const { return writing_ && memory_bytes_ > memory_max_ + slack(); }
  void Push(OutputChunk chunk);
  // The oldest chunk, or nullptr while it is on the disk: on_ready follows. Not Empty(). Its bytes
  // may be moved away before Pop.
  OutputChunk* Front();
  void Pop();  // what Front gave
  void Clear();
  std::function<void()> on_ready;
  std::function<void(const std::string& why)> on_lost;  // what was on the disk

  size_t memory_bytes() const { return memory_bytes_; }
  uint64_t file_bytes() const { return write_at_ - read_at_; }  // with what is being read
  // Above memory_max: a batch that is being written, and one that gathers meanwhile.
  size_t slack() const { return 2 * batch_max_; }

 private:
  struct Waiting {
    OutputChunk chunk;
    size_t bytes = 0;  // counted in memory_bytes_
  };
  using Queue = std::deque<Waiting>;
  struct File;
  struct Write;
  struct Read;

  bool FileTakes(size_t bytes) const;
  bool NothingOnDisk() const { return file_bytes() == 0 && writing_on_disk_ == 0; }
  void Settle();
  void StartWrite();
  void OnWritten(Write& write);
  void StartRead();
  void OnRead(Read& read);
  void BreakFile(absl::string_view why);
  void LoseFile();
  void Truncate();
  void TakeLate();
  void ToMemory(OutputChunk chunk);
  void TellReady();

  const std::shared_ptr<DiskThread> disk_;
  const size_t memory_max_;
  const uint64_t file_max_;
  const std::string folder_;
  const size_t batch_max_;     // a batch has one chunk at least, however large
  Queue memory_;               // older than everything in the file
  Queue late_;                 // newer than everything in the file
  size_t memory_bytes_ = 0;    // of both, and of what is being written
  size_t next_bytes_ = 0;      // of memory_
  uint64_t late_on_disk_ = 0;  // what late_ would take of the file
  // Ours and the outstanding work's, which alone touches what is in it.
  std::shared_ptr<File> file_;
  bool file_broken_ = false;  // disk full, no folder, no thread: memory only from then on
  bool file_used_ = false;    // since it was last truncated
  // Bytes of the stream of records; a byte's place in the file is this modulo `file_max_`.
  uint64_t read_at_ = 0;
  uint64_t write_at_ = 0;
  std::deque<size_t> extents_;  // whole records from read_at_ to write_at_; each is read at once
  // A work is outstanding. Clear cannot end it: its result is then for nobody.
  bool writing_ = false;
  bool reading_ = false;
  uint64_t writing_on_disk_ = 0;  // what that takes of the file; 0 after a Clear
  bool waited_for_ = false;       // Front gave nullptr
  // Ours alone; a `done` holds them weakly, and finds out that we or what it was for are gone.
  const std::shared_ptr<const bool> here_;
  std::shared_ptr<const bool> life_;  // anew with each Clear
};

}  // namespace muster
