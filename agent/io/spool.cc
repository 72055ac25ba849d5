#include "agent/io/spool.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/base/limits.h"
#include "proto/base/log.h"
#include "proto/base/unique_fd.h"

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

std::string SpoolFolder() {
  const char* folder = std::getenv("TMPDIR");
  return folder != nullptr && *folder != '\0' ? folder : "/tmp";
}

UniqueFd OpenUnlinked(const std::string& folder) {
  UniqueFd fd(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!fd.valid()) {  // a file system without O_TMPFILE
    std::string name = absl::StrCat(folder, "/muster-spool-XXXXXX");
    fd.Reset(mkostemp(name.data(), O_CLOEXEC));
    const int error = errno;
    unlink(name.c_str());
    errno = error;
  }
  return fd;
}

uint64_t OnDisk(size_t bytes) { return sizeof(Record) + bytes; }

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

template <typename T>
void Append(std::deque<T>& to, std::deque<T>& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  from.clear();
}

}  // namespace

struct OutputSpool::Write {
  Queue chunks;
  size_t bytes = 0;  // counted in memory_bytes_
  uint64_t at = 0;
  uint64_t on_disk = 0;
  int error = 0;
};

struct OutputSpool::Read {
  uint64_t at = 0;
  size_t size = 0;
  std::vector<OutputChunk> chunks;
  bool lost = false;
};

// Touched on the thread only.
struct OutputSpool::File {
  void Do(Write& write);
  void Do(Read& read);
  bool Put(absl::string_view bytes, uint64_t at);
  bool Get(std::string& bytes, uint64_t at);

  std::string folder;
  uint64_t size_max = 0;
  UniqueFd fd;
};

bool OutputSpool::File::Put(absl::string_view bytes, uint64_t at) {
  return All(bytes.size(), [&](size_t done) {
    const uint64_t place = (at + done) % size_max;
    return pwrite(fd.get(), bytes.data() + done,
                  std::min<uint64_t>(bytes.size() - done, size_max - place),
                  static_cast<off_t>(place));
  });
}

bool OutputSpool::File::Get(std::string& bytes, uint64_t at) {
  return All(bytes.size(), [&](size_t done) {
    const uint64_t place = (at + done) % size_max;
    return pread(fd.get(), bytes.data() + done,
                 std::min<uint64_t>(bytes.size() - done, size_max - place),
                 static_cast<off_t>(place));
  });
}

void OutputSpool::File::Do(Write& write) {
  std::string records;
  records.reserve(write.on_disk);
  for (const Waiting& waiting : write.chunks) {
    const OutputChunk& chunk = waiting.chunk;
    const Record record = {chunk.rank,      chunk.local_rank, chunk.node_rank,   chunk.stream,
                           chunk.ends_line, chunk.split,      chunk.bytes.size()};
    records.append(reinterpret_cast<const char*>(&record), sizeof(record));
    records.append(chunk.bytes);
  }
  errno = 0;
  if (!fd.valid()) {
    fd = OpenUnlinked(folder);
  }
  if (!fd.valid() || !Put(records, write.at)) {
    write.error = errno != 0 ? errno : EIO;
  }
}

void OutputSpool::File::Do(Read& read) {
  std::string records(read.size, '\0');
  read.lost = !Get(records, read.at);
  for (absl::string_view rest = records; !read.lost && !rest.empty();) {
    Record record{};
    read.lost = rest.size() < sizeof(record);
    if (read.lost) {
      break;
    }
    std::memcpy(&record, rest.data(), sizeof(record));
    rest.remove_prefix(sizeof(record));
    read.lost = rest.size() < record.bytes;
    if (!read.lost) {
      read.chunks.push_back({record.rank, record.local_rank, record.node_rank, record.stream,
                             record.ends_line, record.split,
                             std::string(rest.substr(0, record.bytes))});
      rest.remove_prefix(record.bytes);
    }
  }
}

OutputSpool::OutputSpool(std::shared_ptr<DiskThread> disk, size_t memory_max, uint64_t file_max)
    : disk_(std::move(disk)),
      memory_max_(memory_max),
      file_max_(file_max),
      folder_(SpoolFolder()),
      batch_max_(std::min(kOutputSpoolBatch, memory_max / 16)),
      here_(std::make_shared<const bool>(true)),
      life_(std::make_shared<const bool>(true)) {}

OutputSpool::~OutputSpool() {
  if (file_ != nullptr) {
    disk_->Run([file = std::move(file_)] {}, nullptr);  // closing may hang, too
  }
}

bool OutputSpool::FileTakes(size_t bytes) const {
  return !file_broken_ &&
         file_bytes() + writing_on_disk_ + late_on_disk_ + OnDisk(bytes) <= file_max_;
}

bool OutputSpool::Full(size_t bytes) const {
  const bool in_use = !NothingOnDisk() || !late_.empty();
  if (in_use && !file_broken_) {
    return !FileTakes(bytes);
  }
  return memory_bytes_ + bytes > memory_max_ && !FileTakes(bytes);
}

void OutputSpool::Push(OutputChunk chunk) {
  const size_t bytes = chunk.bytes.size();
  if (NothingOnDisk() && late_.empty() && memory_bytes_ + bytes <= memory_max_) {
    return ToMemory(std::move(chunk));
  }
  memory_bytes_ += bytes;
  late_on_disk_ += OnDisk(bytes);
  late_.push_back({std::move(chunk), bytes});
  Settle();
}

OutputChunk* OutputSpool::Front() {
  waited_for_ = memory_.empty();
  return waited_for_ ? nullptr : &memory_.front().chunk;
}

void OutputSpool::Pop() {
  memory_bytes_ -= memory_.front().bytes;
  next_bytes_ -= memory_.front().bytes;
  memory_.pop_front();
  StartRead();
}

void OutputSpool::Clear() {
  life_ = std::make_shared<const bool>(true);
  memory_.clear();
  late_.clear();
  extents_.clear();
  memory_bytes_ = next_bytes_ = 0;
  late_on_disk_ = writing_on_disk_ = 0;
  waited_for_ = false;
  Truncate();
}

// What follows from any change.
void OutputSpool::Settle() {
  StartWrite();
  if (NothingOnDisk() && !writing_) {
    TakeLate();  // the file cannot have it
    Truncate();
  }
  StartRead();
}

void OutputSpool::StartWrite() {
  if (writing_ || file_broken_ || late_.empty() ||
      file_bytes() + OnDisk(late_.front().bytes) > file_max_) {
    return;
  }
  if (const absl::Status started = disk_->Start(); !started.ok()) {
    return BreakFile(started.message());
  }
  auto write = std::make_shared<Write>();
  while (!late_.empty()) {
    const uint64_t batch = write->on_disk + OnDisk(late_.front().bytes);
    if (file_bytes() + batch > file_max_ || (!write->chunks.empty() && batch > batch_max_)) {
      break;
    }
    write->on_disk = batch;
    write->bytes += late_.front().bytes;
    write->chunks.push_back(std::move(late_.front()));
    late_.pop_front();
  }
  if (file_ == nullptr) {
    file_ = std::make_shared<File>(File{folder_, file_max_, UniqueFd()});
  }
  write->at = write_at_;
  late_on_disk_ -= write->on_disk;
  writing_on_disk_ = write->on_disk;
  writing_ = file_used_ = true;
  disk_->Run([file = file_, write] { file->Do(*write); },
             [this, write, here = std::weak_ptr(here_), life = std::weak_ptr(life_)] {
               if (here.expired()) {
                 return;
               }
               writing_ = false;
               if (!life.expired()) {
                 writing_on_disk_ = 0;
                 OnWritten(*write);
               }
               Settle();
               TellReady();
             });
}

void OutputSpool::OnWritten(Write& write) {
  if (write.error != 0 && !file_broken_) {
    BreakFile(std::strerror(write.error));
  }
  // Who reads has come this far meanwhile: no need to fetch from the disk what is still here.
  const bool wanted_now = memory_.empty() && file_bytes() == 0;
  if (file_broken_ || wanted_now) {
    Append(write.chunks, late_);
    late_.swap(write.chunks);
    late_on_disk_ += write.on_disk;
    if (NothingOnDisk()) {
      TakeLate();
    }
    return;
  }
  write_at_ += write.on_disk;
  memory_bytes_ -= write.bytes;
  // Small writes are read back together; not into what is being read now.
  const bool joins =
      extents_.size() > (reading_ ? 1 : 0) && extents_.back() + write.on_disk <= batch_max_;
  if (joins) {
    extents_.back() += write.on_disk;
  } else {
    extents_.push_back(write.on_disk);
  }
}

void OutputSpool::BreakFile(absl::string_view why) {
  file_broken_ = true;
  LogWarning(absl::StrCat("the output spool in ", folder_, " cannot grow (", why,
                          "): output that nobody reads now waits in memory, then holds the "
                          "workers up"));
}

void OutputSpool::StartRead() {
  if (reading_ || extents_.empty() || next_bytes_ > batch_max_) {
    return;
  }
  reading_ = true;
  auto read = std::make_shared<Read>();
  read->at = read_at_;
  read->size = extents_.front();
  disk_->Run([file = file_, read] { file->Do(*read); },
             [this, read, here = std::weak_ptr(here_), life = std::weak_ptr(life_)] {
               if (here.expired()) {
                 return;
               }
               reading_ = false;
               if (!life.expired()) {
                 OnRead(*read);
               }
               Settle();
               TellReady();
             });
}

void OutputSpool::OnRead(Read& read) {
  for (OutputChunk& chunk : read.chunks) {
    ToMemory(std::move(chunk));
  }
  read_at_ += read.size;
  extents_.pop_front();
  if (read.lost) {
    LoseFile();
  }
  if (NothingOnDisk()) {
    TakeLate();
  }
}

void OutputSpool::LoseFile() {
  const std::string why = absl::StrCat("the output spool in ", folder_, " could not be read back");
  LogWarning(absl::StrCat(why, ": some output is lost"));
  if (on_lost) {
    on_lost(why);
  }
  OutputChunk chunk;
  chunk.bytes = "[muster: output lost]\n";
  ToMemory(std::move(chunk));
  file_broken_ = true;
  read_at_ = write_at_;
  extents_.clear();
}

void OutputSpool::Truncate() {
  read_at_ = write_at_ = 0;
  if (!file_used_) {
    return;
  }
  file_used_ = false;
  disk_->Run(
      [file = file_] {
        if (file->fd.valid() && ftruncate(file->fd.get(), 0) != 0) {
          // It keeps its blocks, still within its bound (S2).
        }
      },
      nullptr);
}

void OutputSpool::TakeLate() {
  for (const Waiting& waiting : late_) {
    next_bytes_ += waiting.bytes;
  }
  late_on_disk_ = 0;
  Append(memory_, late_);
}

void OutputSpool::ToMemory(OutputChunk chunk) {
  const size_t bytes = chunk.bytes.size();
  memory_bytes_ += bytes;
  next_bytes_ += bytes;
  memory_.push_back({std::move(chunk), bytes});
}

void OutputSpool::TellReady() {
  if (waited_for_ && !memory_.empty()) {
    waited_for_ = false;
    if (on_ready) {
      on_ready();
    }
  }
}

}  // namespace muster
