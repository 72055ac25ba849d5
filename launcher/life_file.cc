#include "launcher/life_file.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/log.h"
#include "proto/base/private_file.h"

namespace muster {

struct LifeFile::Task {
  uv_work_t request{};
  std::string path;
  std::string text;
  absl::Status status;
  std::weak_ptr<LifeFile*> owner;
};

LifeFile::LifeFile(uv_loop_t* loop, std::string path)
    : loop_(loop), path_(std::move(path)), self_(std::make_shared<LifeFile*>(this)) {}

LifeFile::~LifeFile() = default;

void LifeFile::Write(std::string text) {
  if (busy_) {
    next_ = std::move(text);
    return;
  }
  busy_ = true;
  auto task = std::make_unique<Task>();
  task->request.data = task.get();
  task->path = path_;
  task->text = std::move(text);
  task->owner = self_;
  const int error = uv_queue_work(
      loop_, &task->request,
      [](uv_work_t* request) {
        auto* on_pool = static_cast<Task*>(request->data);
        on_pool->status = MakePrivateFolders(on_pool->path);
        if (on_pool->status.ok()) {
          on_pool->status = ReplacePrivateFile(on_pool->path, on_pool->text);
        }
      },
      [](uv_work_t* request, int) {
        const std::unique_ptr<Task> ended(static_cast<Task*>(request->data));
        if (const std::shared_ptr<LifeFile*> owner = ended->owner.lock(); owner != nullptr) {
          (*owner)->Ended(ended->status);
        }
      });
  CHECK(error == 0);
  (void)task.release();  // the second function owns it
}

void LifeFile::Ended(const absl::Status& status) {
  busy_ = false;
  if (!status.ok() && !std::exchange(failed_, true)) {
    LogWarning(absl::StrCat("--journal: ", path_, ": ", status.message(),
                            ": if Slurm starts this job again, its ranks are given anew"));
  }
  if (next_.has_value()) {
    Write(*std::exchange(next_, std::nullopt));
  }
}

void LifeFile::Remove() { (void)unlink(path_.c_str()); }

}  // namespace muster
