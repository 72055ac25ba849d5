// Shows workers' output on our stdout and stderr. Where both are one terminal, pipe or file, there
// is one writer and one formatter for both, so that neither stands in the middle of the other's
// line. While it is there our own messages wait for no reader either. Loop thread only.
#pragma once

#include <uv.h>

#include <functional>
#include <optional>
#include <string>

#include "agent/core/output_format.h"
#include "agent/io/links.h"
#include "launcher/fd_writer.h"
#include "proto/base/work_plan.h"
#include "proto/wire/uv_handles.h"

namespace muster {

class Display {
 public:
  Display(uv_loop_t* loop, const OutputOptions& options, std::string role, bool many_workers);
  ~Display();
  Display(const Display&) = delete;
  Display& operator=(const Display&) = delete;

  // `host`: its node, for prefixes. False: not now; on_writable follows.
  [[nodiscard]] bool Show(const OutputChunk& chunk, const std::string& host);
  // What this rank writes is shown as it is: it has the terminal.
  void SetRaw(uint32_t rank) { raw_rank_ = rank; }
  bool Idle() const { return out_.Idle() && err_.Idle(); }
  bool out_is_terminal() const { return out_.terminal(); }
  // stdout is closed; what Show is given is lost.
  bool nobody_reads() const { return nobody_reads_; }
  // Some of it did not come this far, or is in no log file.
  void Lost(const std::string& why);
  // Why some of the output is lost: on its way, or where stdout or stderr is a file; "": none is.
  std::string lost() const;
  bool err_is_terminal() const { return err_.terminal(); }
  std::function<void()> on_writable;
  // stdout was closed (`launch ... | head`), so the job has no purpose any more: it is to be
  // stopped. Comes once.
  std::function<void(const std::string& why)> on_closed;

 private:
  const bool together_;  // stdout and stderr go to one place: only out_ and out_format_ are used
  FdWriter out_;
  FdWriter err_;
  UvTimer log_again_;  // where our own lines wait, and nothing of the workers does
  OutputFormatter out_format_;
  OutputFormatter err_format_;
  const std::string role_;
  const bool wants_time_;
  bool nobody_reads_ = false;
  std::string lost_on_the_way_;
  std::optional<uint32_t> raw_rank_;
  std::string formatted_;
};

}  // namespace muster
