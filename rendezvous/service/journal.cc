#include "rendezvous/service/journal.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/log.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"
#include "rendezvous/service/folder_store.h"

namespace muster {
namespace {

std::string BootId() {
  std::ifstream in("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(in, id);
  return id;
}

}  // namespace

Journal::Journal(uv_loop_t* loop, std::shared_ptr<JournalStore> store,
                 std::function<void()> on_superseded, const JournalLimits& limits)
    : loop_(loop),
      store_(std::move(store)),
      on_superseded_(std::move(on_superseded)),
      limits_(limits),
      clock_(BootId()),
      late_(loop, [this] { Late(); }),
      again_(loop,
             [this] {
               for (const uint64_t file : std::exchange(not_removed_, {})) {
                 Remove(file);
               }
             }),
      self_(std::make_shared<Journal*>(this)) {}

Journal::~Journal() = default;

absl::StatusOr<std::unique_ptr<Journal>> Journal::Open(uv_loop_t* loop, const std::string& folder,
                                                       uint32_t epoch) {
  ASSIGN_OR_RETURN(std::shared_ptr<JournalStore> store, FolderStore::Open(folder, epoch));
  return On(loop, std::move(store));
}

absl::StatusOr<std::unique_ptr<Journal>> Journal::On(uv_loop_t* loop,
                                                     std::shared_ptr<JournalStore> store,
                                                     std::function<void()> on_superseded,
                                                     const JournalLimits& limits) {
  std::unique_ptr<Journal> journal(
      new Journal(loop, std::move(store), std::move(on_superseded), limits));
  RETURN_IF_ERROR(journal->Find());
  return journal;
}

absl::Status Journal::Find() {
  ASSIGN_OR_RETURN(std::vector<StoredFile> stored, store_->ReadAll());
  // Of two files of one job the newer counts: the master before was about to remove the other.
  std::sort(stored.begin(), stored.end(),
            [](const StoredFile& one, const StoredFile& other) { return one.file > other.file; });
  std::set<std::string> seen;
  std::vector<JournalTask> mends;
  for (StoredFile& one : stored) {
    files_ = std::max(files_, one.file);
    const bool given_up = one.bytes.empty();
    if (!given_up) {
      absl::StatusOr<Found> found = Decode(one, mends);
      if (absl::IsDataLoss(found.status())) {
        damaged_.push_back(found.status());
        continue;
      }
      RETURN_IF_ERROR(found.status());
      if (seen.insert(found->content.header.key).second) {
        bytes_[found->file] = found->content.good_bytes;
        found_.push_back(*std::move(found));
        continue;
      }
    }
    mends.push_back({JournalTask::What::kRemove, one.file, "", absl::OkStatus()});
  }
  if (!store_->Do(mends)) {
    return absl::AbortedError("another master has it now");
  }
  for (const JournalTask& mend : mends) {
    RETURN_IF_ERROR(mend.status);
  }
  return absl::OkStatus();
}

absl::StatusOr<Journal::Found> Journal::Decode(const StoredFile& stored,
                                               std::vector<JournalTask>& mends) const {
  absl::StatusOr<JournalFile> content = DecodeJournal(stored.bytes);
  if (!content.ok()) {
    return absl::Status(content.status().code(),
                        absl::StrCat(stored.path, ": ", content.status().message()));
  }
  if (content->good_bytes < stored.bytes.size()) {
    LogWarning(absl::StrCat(stored.path, ": its last ", stored.bytes.size() - content->good_bytes,
                            " bytes were not written to the end; nobody has heard of them"));
    mends.push_back({JournalTask::What::kReplace, stored.file,
                     stored.bytes.substr(0, content->good_bytes), absl::OkStatus()});
  }
  const bool same_clock = content->header.clock == clock_;
  return Found{stored.file, stored.path, *std::move(content), same_clock};
}

absl::Status Journal::TookNothing() const {
  return absl::DeadlineExceededError(
      absl::StrCat(store_->who(), " took nothing for ", ShortDuration(limits_.write_max)));
}

void Journal::Write(uint64_t file, bool anew, std::string bytes,
                    std::function<void(absl::Status)> done) {
  if (stuck_) {
    return done(TookNothing());
  }
  const size_t wanted = bytes.size();
  size_t& size = bytes_[file];
  size = (anew ? 0 : size) + bytes.size();
  if (size > limits_.file_bytes_max) {
    return done(absl::ResourceExhaustedError(
        absl::StrCat("its journal has more than ", limits_.file_bytes_max, " bytes")));
  }
  if (wanted > limits_.write_bytes_max) {  // J6
    return done(absl::ResourceExhaustedError(absl::StrCat(
        "one write of its journal has ", wanted, " bytes, the limit is ", limits_.write_bytes_max,
        ": the job has too many nodes, or too much to tell")));
  }
  const auto what = anew ? JournalTask::What::kReplace : JournalTask::What::kAppend;
  waiting_.push_back({{what, file, std::move(bytes), absl::OkStatus()}, std::move(done)});
  Start();
}

void Journal::Remove(uint64_t file) {
  bytes_.erase(file);
  const auto removed = [this, file](const absl::Status& status) {
    if (!status.ok()) {  // J5
      not_removed_.insert(file);
      again_.StartAfter(limits_.remove_again);
    }
  };
  waiting_.push_back({{JournalTask::What::kRemove, file, "", absl::OkStatus()}, removed});
  Start();
}

size_t Journal::BytesOf(uint64_t file) const {
  const auto it = bytes_.find(file);
  return it == bytes_.end() ? 0 : it->second;
}

// J6. The first that waits is always in it.
void Journal::Fill(Batch& batch) {
  size_t bytes = 0;
  std::set<uint64_t> later;  // files whose order has to stay
  std::deque<Waiting> rest;
  for (Waiting& one : waiting_) {
    const size_t wanted = one.task.bytes.size();
    const bool fits = batch.tasks.empty() || bytes + wanted <= limits_.write_bytes_max;
    if (!fits || later.count(one.task.file) != 0) {
      later.insert(one.task.file);
      rest.push_back(std::move(one));
      continue;
    }
    bytes += wanted;
    under_way_.push_back(std::move(one.done));
    batch.tasks.push_back(std::move(one.task));
  }
  waiting_ = std::move(rest);
}

void Journal::Start() {
  if (busy_ || waiting_.empty()) {
    return;
  }
  busy_ = true;
  auto batch = std::make_unique<Batch>();
  batch->store = store_;
  batch->owner = self_;
  batch->request.data = batch.get();
  Fill(*batch);
  const int error = uv_queue_work(
      loop_, &batch->request,
      [](uv_work_t* request) {
        auto* on_pool = static_cast<Batch*>(request->data);
        on_pool->superseded = !on_pool->store->Do(on_pool->tasks);
      },
      [](uv_work_t* request, int) {
        const std::unique_ptr<Batch> ended(static_cast<Batch*>(request->data));
        if (const std::shared_ptr<Journal*> owner = ended->owner.lock(); owner != nullptr) {
          (*owner)->Ended(*ended);
        }
      });
  CHECK(error == 0);
  (void)batch.release();  // the second function owns it
  late_.StartAfter(limits_.write_max);
}

void Journal::Ended(Batch& batch) {
  late_.Stop();
  if (batch.superseded) {
    return on_superseded_();  // J4: it stays busy
  }
  busy_ = stuck_ = false;
  const std::vector<std::function<void(absl::Status)>> done = std::move(under_way_);
  under_way_.clear();
  for (size_t i = 0; i < done.size(); ++i) {
    done[i](batch.tasks[i].status);
  }
  Start();
}

// J2
void Journal::Late() {
  stuck_ = true;
  const absl::Status late = TookNothing();
  std::vector<std::function<void(absl::Status)>> done = std::move(under_way_);
  under_way_.clear();
  for (Waiting& one : std::exchange(waiting_, {})) {
    if (one.task.what == JournalTask::What::kRemove) {
      waiting_.push_back(std::move(one));
    } else {
      done.push_back(std::move(one.done));
    }
  }
  for (const auto& one : done) {
    one(late);
  }
}

}  // namespace muster
