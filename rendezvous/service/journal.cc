#include "rendezvous/service/journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/base/check.h"
#include "proto/base/log.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"

namespace muster {
namespace {

constexpr mode_t kOwnerOnly = 0600;  // it holds host names and the last words of workers

std::string PathOf(const std::string& folder, uint64_t file) {
  return absl::StrCat(folder, "/job-", file);
}

absl::Status Errno(const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat(path, ": ", std::strerror(errno)));
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
void RemoveFile(const std::string& folder, uint64_t file) {
  const std::string path = PathOf(folder, file);
  (void)unlink((path + ".new").c_str());
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    (void)!truncate(path.c_str(), 0);
  }
}

absl::StatusOr<std::string> ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = in.tellg();
  if (!in || size < 0) {
    return Errno(path);
  }
  if (static_cast<uint64_t>(size) > kJournalFileBytesMax) {
    return absl::DataLossError(
        absl::StrCat(path, " has ", size, " bytes; a journal has at most ", kJournalFileBytesMax));
  }
  std::string bytes(static_cast<size_t>(size), '\0');
  in.seekg(0);
  in.read(bytes.data(), size);
  return in ? absl::StatusOr<std::string>(std::move(bytes)) : Errno(path);
}

std::string BootId() {
  std::ifstream in("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(in, id);
  return id;
}

}  // namespace

Journal::Journal(uv_loop_t* loop, std::string folder)
    : loop_(loop),
      folder_(std::move(folder)),
      clock_(BootId()),
      late_(loop, [this] { Late(); }),
      self_(std::make_shared<Journal*>(this)) {}

Journal::~Journal() = default;

absl::StatusOr<std::unique_ptr<Journal>> Journal::Open(uv_loop_t* loop, const std::string& folder,
                                                       uint32_t epoch) {
  constexpr mode_t kFolderMode = 0700;
  if (mkdir(folder.c_str(), kFolderMode) != 0 && errno != EEXIST) {
    return Errno(folder);
  }
  std::unique_ptr<Journal> journal(new Journal(loop, folder));
  RETURN_IF_ERROR(journal->Lock(epoch));
  RETURN_IF_ERROR(journal->Find());
  return journal;
}

// The file that is locked holds the epoch.
absl::Status Journal::Lock(uint32_t epoch) {
  const std::string path = folder_ + "/lock";
  lock_ = UniqueFd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kOwnerOnly));
  if (!lock_.valid()) {
    return Errno(path);
  }
  if (flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    return errno == EWOULDBLOCK
               ? absl::AlreadyExistsError(absl::StrCat(
                     folder_,
                     " is in use by another muster-rendezvous: end that one, or give each "
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

absl::Status Journal::Find() {
  std::error_code error;
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
    names.push_back(entry.path().filename().string());
  }
  if (error) {
    return absl::InternalError(absl::StrCat(folder_, ": ", error.message()));
  }
  for (const std::string& name : names) {
    RETURN_IF_ERROR(FindFile(name));
  }
  // Of two files of one job the newer counts: the master before was about to remove the other.
  std::sort(found_.begin(), found_.end(),
            [](const Found& one, const Found& other) { return one.file > other.file; });
  std::map<std::string, bool> seen;
  std::vector<Found> newest;
  for (Found& one : found_) {
    if (seen.emplace(one.content.header.key, true).second) {
      newest.push_back(std::move(one));
    } else {
      RemoveFile(folder_, one.file);
    }
  }
  found_ = std::move(newest);
  return absl::OkStatus();
}

absl::Status Journal::FindFile(const std::string& name) {
  absl::string_view number = name;
  uint64_t file = 0;
  if (!absl::ConsumePrefix(&number, "job-")) {
    return absl::OkStatus();  // not ours
  }
  if (absl::ConsumeSuffix(&number, ".new")) {
    (void)unlink(absl::StrCat(folder_, "/", name).c_str());  // J2: nobody was told of it
    return absl::OkStatus();
  }
  if (!absl::SimpleAtoi(number, &file)) {
    return absl::OkStatus();
  }
  const std::string path = PathOf(folder_, file);
  files_ = std::max(files_, file);
  ASSIGN_OR_RETURN(const std::string bytes, ReadAll(path));
  if (bytes.empty()) {  // given up
    RemoveFile(folder_, file);
    return absl::OkStatus();
  }
  absl::StatusOr<JournalFile> content = DecodeJournal(bytes);
  if (!content.ok()) {
    const bool damaged = absl::IsDataLoss(content.status());
    return absl::Status(content.status().code(),
                        absl::StrCat(path, ": ", content.status().message(),
                                     damaged ? "; remove the file to give its job up" : ""));
  }
  if (content->good_bytes < bytes.size()) {
    LogWarning(absl::StrCat(path, ": its last ", bytes.size() - content->good_bytes,
                            " bytes were not written to the end; nobody has heard of them"));
    if (truncate(path.c_str(), static_cast<off_t>(content->good_bytes)) != 0) {
      return Errno(path);
    }
  }
  const bool same_clock = content->header.clock == clock_;
  found_.push_back({file, path, *std::move(content), same_clock});
  return absl::OkStatus();
}

void Journal::Write(uint64_t file, bool anew, std::string bytes,
                    std::function<void(absl::Status)> done) {
  if (stuck_) {
    return done(absl::DeadlineExceededError(
        absl::StrCat(folder_, ": the disk took nothing for ", ShortDuration(kJournalWriteMax))));
  }
  waiting_.push_back({anew ? What::kReplace : What::kAppend, file, std::move(bytes),
                      std::move(done), absl::OkStatus()});
  Start();
}

void Journal::Remove(uint64_t file) {
  waiting_.push_back({What::kRemove, file, "", [](const absl::Status&) {}, absl::OkStatus()});
  Start();
}

void Journal::Start() {
  if (busy_ || waiting_.empty()) {
    return;
  }
  busy_ = true;
  auto batch = std::make_unique<Batch>();
  batch->folder = folder_;
  batch->owner = self_;
  batch->request.data = batch.get();
  for (Task& task : waiting_) {
    under_way_.push_back(std::move(task.done));
    batch->tasks.push_back(std::move(task));
  }
  waiting_.clear();
  const int error = uv_queue_work(
      loop_, &batch->request,
      [](uv_work_t* request) { Execute(*static_cast<Batch*>(request->data)); },
      [](uv_work_t* request, int) {
        const std::unique_ptr<Batch> ended(static_cast<Batch*>(request->data));
        if (const std::shared_ptr<Journal*> owner = ended->owner.lock(); owner != nullptr) {
          (*owner)->Ended(*ended);
        }
      });
  CHECK(error == 0);
  (void)batch.release();  // the second function owns it
  late_.StartAfter(kJournalWriteMax);
}

// On the pool's thread. One sync for all that is appended to a file.
void Journal::Execute(Batch& batch) {
  std::map<uint64_t, std::pair<UniqueFd, absl::Status>> appended;
  for (Task& task : batch.tasks) {
    const std::string path = PathOf(batch.folder, task.file);
    switch (task.what) {
      case What::kRemove:
        appended.erase(task.file);
        RemoveFile(batch.folder, task.file);
        break;
      case What::kReplace:
        appended.erase(task.file);
        task.status = Replace(batch.folder, task.file, task.bytes);
        break;
      case What::kAppend: {
        auto [it, is_new] = appended.try_emplace(task.file);
        auto& [fd, status] = it->second;
        if (is_new) {
          fd = UniqueFd(open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW));
          status = fd.valid() ? absl::OkStatus() : Errno(path);
        }
        status = status.ok() ? WriteAll(fd.get(), path, task.bytes) : status;
        break;
      }
    }
  }
  for (auto& [file, one] : appended) {
    auto& [fd, status] = one;
    status = status.ok() ? Sync(fd.get(), PathOf(batch.folder, file)) : status;
  }
  for (Task& task : batch.tasks) {
    const auto it = appended.find(task.file);
    if (task.what == What::kAppend && it != appended.end()) {
      task.status = it->second.second;
    }
  }
}

void Journal::Ended(Batch& batch) {
  late_.Stop();
  busy_ = stuck_ = false;
  const std::vector<std::function<void(absl::Status)>> done = std::move(under_way_);
  under_way_.clear();
  for (size_t i = 0; i < done.size(); ++i) {
    done[i](batch.tasks[i].status);
  }
  Start();
}

// J3
void Journal::Late() {
  stuck_ = true;
  const absl::Status late = absl::DeadlineExceededError(
      absl::StrCat(folder_, ": the disk took nothing for ", ShortDuration(kJournalWriteMax)));
  std::vector<std::function<void(absl::Status)>> done = std::move(under_way_);
  under_way_.clear();
  for (Task& task : std::exchange(waiting_, {})) {
    if (task.what == What::kRemove) {
      waiting_.push_back(std::move(task));
    } else {
      done.push_back(std::move(task.done));
    }
  }
  for (const auto& one : done) {
    one(late);
  }
}

}  // namespace muster
