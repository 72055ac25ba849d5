// The file of a job's life (job_life.h). Loop thread only; the disk is touched by a thread of
// libuv's pool, one write at a time: of what comes meanwhile the newest counts.
#pragma once

#include <uv.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace muster {

class LifeFile {
 public:
  // `path`: its folder is made if it is not there.
  LifeFile(uv_loop_t* loop, std::string path);
  ~LifeFile();

  // Whoever reads it sees this text or the one before. A failure is said, once.
  void Write(std::string text);
  // Nothing waits for the disk.
  bool idle() const { return !busy_; }
  // Blocks.
  void Remove();

 private:
  struct Task;
  void Ended(const absl::Status& status);

  uv_loop_t* const loop_;
  const std::string path_;
  bool busy_ = false;
  bool failed_ = false;
  std::optional<std::string> next_;
  const std::shared_ptr<LifeFile*> self_;  // shared with the write under way, which may outlive us
};

}  // namespace muster
