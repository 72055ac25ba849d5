// Gives a file to everyone who comes and says what it has to. One thread; never waits.
#pragma once

#include <poll.h>

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/base/unique_fd.h"

namespace muster {

// What comes before the file, with one of those.
class Greeting {
 public:
  virtual ~Greeting() = default;
  // Bytes to be read next, at most; 0 = none for now, or none any more.
  virtual size_t Wants() const = 0;
  // What was read, at most Wants(). False: it is nobody who gets the file.
  virtual bool Take(absl::string_view bytes) = 0;
  // What is to be sent now; each byte is given once.
  virtual std::string TakeOutput() { return ""; }
  // Once our output is sent, it gets the file.
  virtual bool Done() const = 0;
};

struct FileGiverOptions {
  UniqueFd listening;                                // takes connections from now on
  int file = -1;                                     // whole, outlives the giver
  uint64_t bytes = 0;                                // of it
  std::function<std::unique_ptr<Greeting>()> greet;  // null: not this one
  std::function<void()> on_given = {};               // once for each that was sent it whole
  size_t takers_max = 64;  // launch sends it two at a time; strangers go in silence
  absl::Duration stall_max = absl::Seconds(10);
};

class FileGiver {
 public:
  explicit FileGiver(FileGiverOptions options);

  // What to wait for, behind what is in `fds`.
  void Watch(std::vector<pollfd>& fds) const;
  // `fds`: as Watch added them, and poll(2) filled them in. Also now and then, for stall_max.
  void Go(const pollfd* fds);
  bool busy() const { return !takers_.empty(); }
  absl::Time last_came() const { return last_came_; }  // at first: when this was made

 private:
  struct Taker {
    UniqueFd socket;
    std::unique_ptr<Greeting> greeting;
    std::string out;
    uint64_t sent = 0;
    absl::Time moved;  // last time that bytes went, or came
  };

  void Accept();
  // Whether it goes on.
  bool GoOn(Taker& taker, short events);
  bool Talk(Taker& taker);
  bool Flush(Taker& taker);
  bool SendBytes(Taker& taker);

  const FileGiverOptions options_;
  std::list<Taker> takers_;
  absl::Time last_came_;
};

}  // namespace muster
