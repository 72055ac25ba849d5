// One worker's log file. Writing, and even opening, happens on libuv's thread pool, so that a hung
// file system delays nobody but the worker that writes to it. Loop thread only.
#pragma once

#include <uv.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace muster {

class LogFile {
 public:
  // `path`'s folders are made. Problems are logged once per file, and the rest of the output is
  // dropped.
  static std::shared_ptr<LogFile> Make(uv_loop_t* loop, std::string path);
  // An open descriptor that stays the caller's; `name` is what messages call it.
  static std::shared_ptr<LogFile> OnDescriptor(uv_loop_t* loop, int fd, std::string name);

  ~LogFile();
  void Append(absl::string_view bytes);
  size_t waiting_bytes() const { return waiting_.size() + (busy_ ? writing_.size() : 0); }
  bool idle() const { return !busy_ && waiting_.empty(); }
  std::function<void()> on_idle;  // everything appended so far is in the file (or given up)

 private:
  struct Job;
  LogFile(uv_loop_t* loop, std::string path) : loop_(loop), path_(std::move(path)) {}
  void Start();
  void Work();  // pool thread; touches writing_, fd_, error_ only, which the loop leaves alone
                // while busy_

  uv_loop_t* const loop_;
  const std::string path_;
  std::string waiting_;
  std::string writing_;
  bool busy_ = false;
  bool opened_ = false;
  bool borrowed_ = false;  // fd_ is the caller's
  bool told_ = false;
  int fd_ = -1;
  std::string error_;
  std::weak_ptr<LogFile> self_;
};

}  // namespace muster
