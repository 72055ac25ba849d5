// What a child of ours says on its stderr: line by line, and the last of them for the sentence
// about its end. Loop thread only.
#pragma once

#include <uv.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "proto/base/unique_fd.h"
#include "proto/wire/uv_handles.h"

namespace muster {

class LastWords {
 public:
  using OnLine = std::function<void(const std::string& line)>;
  // Takes the non-blocking reading end. Blank lines are left out; one that is too long is cut.
  LastWords(uv_loop_t* loop, UniqueFd fd, OnLine on_line);

  // The child has ended: takes what is there, then nothing more.
  void Finish();
  const std::deque<std::string>& lines() const { return lines_; }
  // ": line | line", "" = it said nothing.
  std::string Text() const;

 private:
  // False: there is nothing now, or ever again.
  bool Read();
  void Close();
  void Add(std::string line);

  UniqueFd fd_;
  const OnLine on_line_;
  std::unique_ptr<UvPoll> poll_;
  std::string line_;  // that is not whole yet
  std::deque<std::string> lines_;
};

}  // namespace muster
