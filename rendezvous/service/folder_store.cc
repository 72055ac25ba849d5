#include "rendezvous/service/folder_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/base/status_macros.h"
#include "rendezvous/service/journal_frames.h"

namespace muster {
namespace {

constexpr mode_t kOwnerOnly = 0600;  // it holds host names and the last words of workers

std::string PathOf(const std::string& folder, uint64_t file) {
  return absl::StrCat(folder, "/job-", file);
}

absl::Status Errno(const std::string& path) {
  return absl::ErrnoToStatus(errno, path);  // which adds what the error is
}

absl::Status WriteAll(int fd, const std::string& path, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno != EINTR) {
      return Errno(path);
    }
    bytes.remove_prefix(n > 0 ? static_cast<size_t>(n) : 0);
  }
  return absl::OkStatus();
}

absl::Status Sync(int fd, const std::string& path) {
  return fdatasync(fd) == 0 ? absl::OkStatus() : Errno(path);
}

absl::Status SyncFolder(const std::string& folder) {
  const UniqueFd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return fd.valid() && fsync(fd.get()) == 0 ? absl::OkStatus() : Errno(folder);
}

absl::Status Replace(const std::string& folder, uint64_t file, const std::string& bytes) {
  const std::string path = PathOf(folder, file);
  const std::string fresh = path + ".new";
  const UniqueFd fd(
      open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, kOwnerOnly));
  if (!fd.valid()) {
    return Errno(fresh);
  }
  RETURN_IF_ERROR(WriteAll(fd.get(), fresh, bytes));
  RETURN_IF_ERROR(Sync(fd.get(), fresh));
  if (rename(fresh.c_str(), path.c_str()) != 0) {
    return Errno(path);
  }
  return SyncFolder(folder);
}

// Nothing of it is needed any more; where it cannot be removed it is at least empty.
absl::Status RemoveFile(const std::string& folder, uint64_t file) {
  const std::string path = PathOf(folder, file);
  (void)unlink((path + ".new").c_str());
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    const absl::Status status = Errno(path);
    return truncate(path.c_str(), 0) == 0 ? absl::OkStatus() : status;
  }
  return SyncFolder(folder);
}

absl::StatusOr<std::string> ReadBytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = in.tellg();
  if (!in || size < 0) {
    return Errno(path);
  }
  // Frames of batches add a little to what was written.
  if (static_cast<uint64_t>(size) > 2 * kJournalFileBytesMax) {
    return absl::DataLossError(absl::StrCat(path, " has ", size, " bytes; a journal has at most ",
                                            2 * kJournalFileBytesMax));
  }
  std::string bytes(static_cast<size_t>(size), '\0');
  in.seekg(0);
  in.read(bytes.data(), size);
  return in ? absl::StatusOr<std::string>(std::move(bytes)) : Errno(path);
}

}  // namespace

FolderStore::FolderStore(std::string folder) : folder_(std::move(folder)) {}

absl::StatusOr<std::shared_ptr<JournalStore>> FolderStore::Open(const std::string& folder,
                                                                uint32_t epoch) {
  constexpr mode_t kFolderMode = 0700;
  if (mkdir(folder.c_str(), kFolderMode) != 0 && errno != EEXIST) {
    return Errno(folder);
  }
  std::shared_ptr<FolderStore> store(new FolderStore(folder));
  RETURN_IF_ERROR(store->Lock(epoch));
  return store;
}

std::string FolderStore::who() const { return absl::StrCat(folder_, ": the disk"); }

// The file that is locked holds the epoch.
absl::Status FolderStore::Lock(uint32_t epoch) {
  const std::string path = folder_ + "/lock";
  lock_ = UniqueFd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kOwnerOnly));
  if (!lock_.valid()) {
    return Errno(path);
  }
  if (flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    return errno == EWOULDBLOCK ? absl::AlreadyExistsError(
                                      absl::StrCat(folder_,
                                                   " is in use by another launch or "
                                                   "muster-rendezvous: end that one, or give each "
                                                   "a folder of its own"))
                                : Errno(path);
  }
  char text[32] = "";
  const ssize_t size = pread(lock_.get(), text, sizeof(text) - 1, 0);
  uint32_t last = 0;
  if (size < 0 || (size > 0 && !absl::SimpleAtoi(text, &last))) {
    return size < 0 ? Errno(path)
                    : absl::DataLossError(absl::StrCat(path, ": want a number, got '", text, "'"));
  }
  epoch_ = std::max(epoch, last + 1);
  const std::string line = absl::StrCat(absl::Dec(epoch_, absl::kZeroPad10), "\n");
  if (pwrite(lock_.get(), line.data(), line.size(), 0) != static_cast<ssize_t>(line.size())) {
    return Errno(path);
  }
  RETURN_IF_ERROR(Sync(lock_.get(), path));
  return SyncFolder(folder_);
}

absl::StatusOr<std::vector<StoredFile>> FolderStore::ReadAll() {
  std::error_code error;
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
    names.push_back(entry.path().filename().string());
  }
  if (error) {
    return absl::InternalError(absl::StrCat(folder_, ": ", error.message()));
  }
  std::vector<StoredFile> files;
  for (const std::string& name : names) {
    RETURN_IF_ERROR(ReadOne(name, files));
  }
  return files;
}

absl::Status FolderStore::ReadOne(const std::string& name, std::vector<StoredFile>& files) const {
  absl::string_view number = name;
  uint64_t file = 0;
  if (!absl::ConsumePrefix(&number, "job-")) {
    return absl::OkStatus();  // not ours
  }
  if (absl::ConsumeSuffix(&number, ".new")) {
    (void)unlink(absl::StrCat(folder_, "/", name).c_str());  // F1: nobody was told of it
    return absl::OkStatus();
  }
  if (!absl::SimpleAtoi(number, &file)) {
    return absl::OkStatus();
  }
  const std::string path = PathOf(folder_, file);
  ASSIGN_OR_RETURN(std::string bytes, ReadBytes(path));
  files.push_back({file, path, std::move(bytes)});
  return absl::OkStatus();
}

// What is appended to a file is one write, which is there as a whole or not at all
// (journal_frames.h), and one sync.
absl::Status FolderStore::AppendAll(uint64_t file,
                                    const std::vector<absl::string_view>& pieces) const {
  const std::string path = PathOf(folder_, file);
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid()) {
    return Errno(path);
  }
  RETURN_IF_ERROR(WriteAll(fd.get(), path, JoinFrames(pieces)));
  return Sync(fd.get(), path);
}

bool FolderStore::Do(std::vector<JournalTask>& tasks) {
  std::map<uint64_t, std::vector<absl::string_view>> appended;
  for (JournalTask& task : tasks) {
    switch (task.what) {
      case JournalTask::What::kRemove:
        appended.erase(task.file);
        task.status = RemoveFile(folder_, task.file);
        break;
      case JournalTask::What::kReplace:
        appended.erase(task.file);
        task.status = Replace(folder_, task.file, task.bytes);
        break;
      case JournalTask::What::kAppend:
        appended[task.file].push_back(task.bytes);
        break;
    }
  }
  std::map<uint64_t, absl::Status> ends;
  for (const auto& [file, pieces] : appended) {
    ends[file] = AppendAll(file, pieces);
  }
  for (JournalTask& task : tasks) {
    const auto end = ends.find(task.file);
    if (task.what == JournalTask::What::kAppend && end != ends.end()) {
      task.status = end->second;
    }
  }
  return true;
}

}  // namespace muster
