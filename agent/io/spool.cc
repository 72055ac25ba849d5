#include "agent/io/spool.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/log.h"

namespace muster {
namespace {

struct Record {  // in front of a chunk's bytes in the file
  uint32_t rank;
  uint32_t local_rank;
  uint32_t node_rank;
  uint8_t stream;
  bool ends_line;
  bool split;
  uint64_t bytes;
};

const char* SpoolFolder() {
  const char* folder = std::getenv("TMPDIR");
  return folder != nullptr && *folder != '\0' ? folder : "/tmp";
}

UniqueFd OpenUnlinked() {
  const char* folder = SpoolFolder();
  UniqueFd fd(open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!fd.valid()) {  // a file system without O_TMPFILE
    std::string name = absl::StrCat(folder, "/muster-spool-XXXXXX");
    fd.Reset(mkostemp(name.data(), O_CLOEXEC));
    unlink(name.c_str());
  }
  return fd;
}

// All of it, by `step` (pread or pwrite) on the rest.
template <typename Step>
bool All(size_t size, const Step& step) {
  for (size_t done = 0; done < size;) {
    const ssize_t n = step(done);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      return false;
    }
    done += static_cast<size_t>(n);
  }
  return true;
}

}  // namespace

bool OutputSpool::FileTakes(size_t bytes) const {
  return !file_broken_ && file_bytes() + bytes + sizeof(Record) <= file_max_;
}

bool OutputSpool::Full(size_t bytes) const {
  if (file_chunks_ > 0 && !file_broken_) {
    return !FileTakes(bytes);
  }
  return memory_bytes_ + bytes > memory_max_ && !FileTakes(bytes);
}

void OutputSpool::Push(OutputChunk chunk) {
  while (!late_.empty() && ToFile(late_.front().chunk)) {  // the file has room again
    memory_bytes_ -= late_.front().bytes;
    late_.pop_front();
  }
  if (file_chunks_ == 0 && memory_bytes_ + chunk.bytes.size() <= memory_max_) {
    return ToMemory(memory_, std::move(chunk));
  }
  if (!late_.empty() || !ToFile(chunk)) {
    ToMemory(file_chunks_ > 0 ? late_ : memory_, std::move(chunk));
  }
}

void OutputSpool::ToMemory(std::deque<Waiting>& queue, OutputChunk chunk) {
  const size_t bytes = chunk.bytes.size();
  memory_bytes_ += bytes;
  queue.push_back({std::move(chunk), bytes});
}

bool OutputSpool::ToFile(const OutputChunk& chunk) {
  if (!FileTakes(chunk.bytes.size())) {
    return false;
  }
  if (!file_.valid()) {
    file_ = OpenUnlinked();
  }
  Record record = {chunk.rank,      chunk.local_rank, chunk.node_rank,   chunk.stream,
                   chunk.ends_line, chunk.split,      chunk.bytes.size()};
  if (!file_.valid() ||
      !WriteRing(reinterpret_cast<const char*>(&record), sizeof(record), write_at_) ||
      !WriteRing(chunk.bytes.data(), chunk.bytes.size(), write_at_ + sizeof(record))) {
    LogWarning(absl::StrCat("the output spool in ", SpoolFolder(), " cannot grow (",
                            std::strerror(errno),
                            "): output that nobody reads now waits in memory, then holds the "
                            "workers up"));
    file_broken_ = true;
    return false;
  }
  write_at_ += sizeof(record) + chunk.bytes.size();
  ++file_chunks_;
  return true;
}

bool OutputSpool::WriteRing(const char* data, size_t size, uint64_t at) {
  return All(size, [&](size_t done) {
    const uint64_t place = (at + done) % file_max_;
    return pwrite(file_.get(), data + done, std::min<uint64_t>(size - done, file_max_ - place),
                  static_cast<off_t>(place));
  });
}

bool OutputSpool::ReadRing(char* data, size_t size, uint64_t at) {
  return All(size, [&](size_t done) {
    const uint64_t place = (at + done) % file_max_;
    return pread(file_.get(), data + done, std::min<uint64_t>(size - done, file_max_ - place),
                 static_cast<off_t>(place));
  });
}

void OutputSpool::FromFile() {
  Record record{};
  OutputChunk chunk;
  bool ok = ReadRing(reinterpret_cast<char*>(&record), sizeof(record), read_at_) &&
            sizeof(record) + record.bytes <= file_bytes();
  if (ok) {
    chunk.rank = record.rank;
    chunk.local_rank = record.local_rank;
    chunk.node_rank = record.node_rank;
    chunk.stream = record.stream;
    chunk.ends_line = record.ends_line;
    chunk.split = record.split;
    chunk.bytes.resize(record.bytes);
    ok = ReadRing(chunk.bytes.data(), record.bytes, read_at_ + sizeof(record));
  }
  read_at_ += sizeof(record) + record.bytes;
  --file_chunks_;
  if (!ok) {
    LogWarning("the output spool could not be read back: some output is lost");
    chunk.bytes = "[muster: output lost]\n";
    chunk.ends_line = true;
    file_broken_ = true;
    file_chunks_ = 0;
  }
  if (file_chunks_ == 0) {
    EmptyFile();
  }
  ToMemory(memory_, std::move(chunk));
  if (file_chunks_ == 0) {
    memory_.insert(memory_.end(), std::make_move_iterator(late_.begin()),
                   std::make_move_iterator(late_.end()));
    late_.clear();
  }
}

OutputChunk& OutputSpool::Front() {
  if (memory_.empty()) {
    FromFile();
  }
  return memory_.front().chunk;
}

void OutputSpool::Pop() {
  memory_bytes_ -= memory_.front().bytes;
  memory_.pop_front();
}

void OutputSpool::Clear() {
  memory_.clear();
  late_.clear();
  memory_bytes_ = 0;
  if (file_chunks_ > 0) {
    EmptyFile();
  }
}

void OutputSpool::EmptyFile() {
  file_chunks_ = 0;
  read_at_ = write_at_ = 0;
  if (ftruncate(file_.get(), 0) != 0) {
    file_broken_ = true;
  }
}

}  // namespace muster
