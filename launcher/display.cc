#include "launcher/display.h"

#include <sys/stat.h>
#include <unistd.h>

#include <ctime>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/base/log.h"
#include "proto/base/log_waiting.h"

namespace muster {
namespace {

FormatOptions FormatOf(const OutputOptions& options, bool many_workers, bool terminal) {
  FormatOptions out;
  out.prefix = options.prefix;
  out.prefix_template = options.prefix_template;
  out.timestamps = options.timestamps;
  out.terminal = terminal;
  out.many_workers = many_workers;
  return out;
}

bool OnePlace(int a, int b) {
  struct stat first {};
  struct stat second {};
  return fstat(a, &first) == 0 && fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

// Time of day, for people: nothing is decided by it.
std::string TimeOfDay() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm local{};
  localtime_r(&now.tv_sec, &local);
  return absl::StrFormat("%02d:%02d:%02d.%03d", local.tm_hour, local.tm_min, local.tm_sec,
                         now.tv_nsec / 1000000);
}

constexpr absl::Duration kLogAgain = absl::Seconds(1);

}  // namespace

Display::Display(uv_loop_t* loop, const OutputOptions& options, std::string role, bool many_workers)
    : together_(OnePlace(STDOUT_FILENO, STDERR_FILENO)),
      out_(loop, STDOUT_FILENO, "stdout"),
      err_(loop, STDERR_FILENO, "stderr"),
      log_again_(loop, FlushLog),
      out_format_(FormatOf(options, many_workers, out_.terminal())),
      err_format_(FormatOf(options, many_workers, err_.terminal())),
      role_(std::move(role)),
      wants_time_(options.timestamps || absl::StrContains(options.prefix_template, "{time}")) {
  SetLogNeverWaits();
  log_again_.Unref();
  log_again_.StartEvery(kLogAgain);
  for (FdWriter* writer : {&out_, &err_}) {
    writer->before_rest = FlushLog;
    writer->on_writable = [this] {
      if (on_writable) {
        on_writable();
      }
    };
  }
  out_.on_closed = [this](const std::string& why) {
    nobody_reads_ = true;
    LogWarning(absl::StrCat(why, ": nobody reads the output, the job is stopped"));
    if (on_closed) {
      on_closed(why);
    }
  };
}

Display::~Display() { SetLogWaits(); }

bool Display::Show(const OutputChunk& chunk, const std::string& host) {
  if (nobody_reads_) {
    return true;
  }
  const bool to_err = chunk.stream == 2 && !together_;
  FdWriter& writer = to_err ? err_ : out_;
  OutputFormatter& format = to_err ? err_format_ : out_format_;
  if (writer.Busy()) {
    return false;
  }
  if (chunk.rank == raw_rank_) {
    writer.Write(chunk.bytes);
    return true;
  }
  if (format.Transparent() && (chunk.ends_line || !format.options().many_workers)) {
    writer.Write(chunk.bytes);
    return true;
  }
  const OutputSource source = {chunk.rank, chunk.local_rank, chunk.node_rank, host,
                               role_,      chunk.stream};
  formatted_.clear();
  format.Format(source, chunk.bytes, chunk.ends_line, chunk.split, wants_time_ ? TimeOfDay() : "",
                formatted_);
  writer.Write(formatted_);
  return true;
}

void Display::Lost(const std::string& why) {
  if (lost_on_the_way_.empty()) {
    lost_on_the_way_ = why;
  }
}

std::string Display::lost() const {
  return lost_on_the_way_.empty() ? LostOf(out_, err_) : lost_on_the_way_;
}

}  // namespace muster
