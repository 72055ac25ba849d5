// Reads our stdin for the worker that gets it: only as much as it takes, never while we are in the
// terminal's background. Loop thread only.
#pragma once

#include <uv.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "proto/base/unique_fd.h"
#include "proto/wire/uv_handles.h"

namespace muster {

class StdinReader {
 public:
  // `on_bytes(bytes, eof)`: eof comes once.
  StdinReader(uv_loop_t* loop, std::function<void(std::string, bool)> on_bytes);

  // Nothing can come from it (closed, /dev/null): workers may have /dev/null at once.
  static bool NothingThere();
  void Start();
  void Taken(size_t bytes);
  void Continued();  // SIGCONT: we may be in the foreground now
  void Stop();

 private:
  void Watch();
  void ReadOnce();
  bool Background() const;

  uv_loop_t* const loop_;
  const std::function<void(std::string, bool)> on_bytes_;
  UniqueFd watcher_;
  std::optional<UvPoll> poll_;
  std::optional<UvIdle> idle_;         // a regular file: always readable
  std::optional<UvTimer> foreground_;  // `fg` of a job that runs tells nobody: we look
  size_t under_way_ = 0;
  bool started_ = false;
  bool ended_ = false;
};

}  // namespace muster
