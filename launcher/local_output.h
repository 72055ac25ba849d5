// Output of workers of this very machine, shown by the process that runs them. Loop thread only.
#pragma once

#include <string>
#include <utility>

#include "agent/io/links.h"
#include "launcher/display.h"
#include "launcher/stdin_reader.h"

namespace muster {

class LocalOutput : public OutputLink {
 public:
  // All outlive the link; `in` may be nullptr: no stdin. The display's callbacks stay its owner's.
  LocalOutput(Display* display, StdinReader* in, const std::string* host)
      : display_(display), in_(in), host_(host) {}

  void Start(Callbacks callbacks) override {
    callbacks_ = std::move(callbacks);
    if (in_ != nullptr) {
      in_->Start();
    }
  }
  bool Send(OutputChunk& chunk) override { return display_->Show(chunk, *host_); }
  void Lost(const std::string& why) override { display_->Lost(why); }
  void StdinTaken(size_t bytes) override {
    if (in_ != nullptr) {
      in_->Taken(bytes);
    }
  }
  void Finish(std::function<void()> done) override {
    done_ = std::move(done);
    Writable();
  }

  void Writable() {
    if (callbacks_.on_writable) {
      callbacks_.on_writable();
    }
    if (done_ && display_->Idle()) {
      std::exchange(done_, nullptr)();
    }
  }
  void Stdin(std::string bytes, bool eof) { callbacks_.on_stdin(std::move(bytes), eof); }
  void Window(uint16_t rows, uint16_t columns) { callbacks_.on_window(rows, columns); }
  void Closed(const std::string& why) { callbacks_.on_closed(why); }

 private:
  Display* const display_;
  StdinReader* const in_;
  const std::string* const host_;
  Callbacks callbacks_;
  std::function<void()> done_;
};

}  // namespace muster
