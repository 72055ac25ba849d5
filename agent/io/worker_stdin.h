// Feeds stdin to the workers that get it: bounded, never blocking. Loop thread only.
#pragma once

#include <uv.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/base/unique_fd.h"
#include "proto/wire/uv_handles.h"

namespace muster {

class WorkerStdin {
 public:
  // `taken(bytes)`: every reader has them (or is gone); at most kStdinWindow bytes are waiting if
  // the sender obeys.
  WorkerStdin(uv_loop_t* loop, std::function<void(size_t)> taken);
  ~WorkerStdin();

  // A pipe for one more worker; the worker's end. What came before it started is kept for it.
  UniqueFd Open();
  // For a worker that reads from a terminal, whose other side `terminal` is.
  void OpenTerminal(UniqueFd terminal);
  void Put(absl::string_view bytes, bool eof);
  void CloseAll();  // the round is over; what it has not read is dropped, what comes now is kept

 private:
  struct Pipe {
    UniqueFd fd;
    std::optional<UvPoll> poll;  // once it was full
    uint64_t at = 0;             // bytes of the stream this worker has
  };
  void Add(UniqueFd fd);
  void Flush(Pipe& pipe);
  void Close(Pipe& pipe);
  void Trim();

  uv_loop_t* const loop_;
  const std::function<void(size_t)> taken_;
  std::vector<std::unique_ptr<Pipe>> pipes_;
  std::string waiting_;  // bytes base_ .. base_ + size of the stream
  uint64_t base_ = 0;
  bool eof_ = false;
};

}  // namespace muster
