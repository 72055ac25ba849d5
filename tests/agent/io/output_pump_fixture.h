// What the tests of the output pump share: a link that takes chunks when told to, and workers made
// of pipes.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "agent/io/output_pump.h"
#include "proto/base/log.h"
#include "proto/base/rng.h"
#include "tests/agent/io/loop_test.h"
#include "tests/agent/io/no_threads.h"
#include "tests/agent/io/slow_disk.h"

namespace muster {

// Takes chunks as long as `take` says so.
class FakeLink : public OutputLink {
 public:
  void Start(Callbacks) override {}
  bool Send(OutputChunk& chunk) override {
    if (!take(chunk)) {
      return false;
    }
    on_chunk(std::move(chunk));
    return true;
  }
  void Lost(const std::string& why) override { lost.push_back(why); }
  void StdinTaken(size_t) override {}
  void Finish(std::function<void()>) override {}

  std::function<bool(const OutputChunk&)> take = [](const OutputChunk&) { return true; };
  std::function<void(OutputChunk)> on_chunk = [this](OutputChunk chunk) {
    chunks.push_back(std::move(chunk));
  };
  std::vector<OutputChunk> chunks;
  std::vector<std::string> lost;

  std::string Joined(uint32_t rank, uint8_t stream) const {
    std::string out;
    for (const OutputChunk& chunk : chunks) {
      out += chunk.rank == rank && chunk.stream == stream ? chunk.bytes : "";
    }
    return out;
  }
};

inline void WriteAll(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return;  // the pump closed its end
    }
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

inline std::string Content(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// Line `i` of a flood: its number, then some bytes.
inline std::string FloodLine(uint64_t i) {
  return absl::StrCat(i, ":", std::string(i * 37 % 2000, static_cast<char>('a' + i % 26)), "\n");
}

class OutputPumpTest : public LoopTest {
 protected:
  OutputPumpTest() {
    std::string name = absl::StrCat(::testing::TempDir(), "/muster-pump-XXXXXX");
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    SetLogSink([this](LogLevel, absl::string_view text) { log_ += std::string(text) + "\n"; });
    options_.spool_bytes_max = kOutputSpoolMax;
  }
  ~OutputPumpTest() override {
    pump_.reset();  // so that no writer waits for a reader, also after a failure
    for (std::thread& thread : threads_) {
      thread.join();
    }
    SetLogSink(nullptr);
    EXPECT_EQ(std::system(absl::StrCat("rm -rf '", folder_, "'").c_str()), 0);
  }

  void Begin(uint32_t workers, uint32_t rank_first = 0, uint32_t round = 1) {
    if (pump_ == nullptr) {
      pump_ = std::make_unique<OutputPump>(&loop_, options_, "job", "node", &link_, disks_, bars_);
    }
    Assignment assignment;
    assignment.round = {1, round};
    assignment.rank_first = Rank{rank_first};
    assignment.node_rank = NodeRank{5};
    pump_->BeginRound(assignment);
    ends_.clear();
    for (uint32_t i = 0; i < workers; ++i) {
      absl::StatusOr<OutputPump::WorkerEnds> ends = pump_->Open(i);
      ASSERT_TRUE(ends.ok());
      ends_.push_back(*std::move(ends));
    }
  }
  void CloseEnds() { ends_.clear(); }
  bool RunUntilClosed() {
    CloseEnds();
    return RunUntil([this] { return pump_->round_closed() && pump_->Empty(); });
  }

  // As RunUntil, of a flood: a disk shared with others may take long for it, so only that nothing
  // moves for kHangMs is a hang.
  bool RunWhileMoving(const std::function<bool()>& done) {
    uint64_t moved_before = 0;
    uint64_t moved = 0;
    do {
      if (RunUntil(done)) {
        return true;
      }
      moved_before = std::exchange(moved, written_ + received_);
    } while (moved != moved_before);
    return false;
  }

  // Turns of the loop, `wait` apart, with all that is ready in between.
  void RunTicks(int wanted, uint64_t wait_ms) {
    int ticks = 0;
    uv_timer_t timer;
    uv_timer_init(&loop_, &timer);
    timer.data = &ticks;
    uv_timer_start(
        &timer, [](uv_timer_t* handle) { ++*static_cast<int*>(handle->data); }, 0, wait_ms);
    EXPECT_TRUE(RunUntil([&] { return ticks >= wanted; }));
    uv_close(reinterpret_cast<uv_handle_t*>(&timer), nullptr);
    uv_run(&loop_, UV_RUN_NOWAIT);
  }

  // `workers` threads write `lines` flood lines each to stdout, in pieces that ignore lines.
  void StartFlood(uint32_t workers, uint64_t lines) {
    for (uint32_t rank = 0; rank < workers; ++rank) {
      threads_.emplace_back([this, rank, lines] {
        SplitMix64 rng(rank);
        std::string buffer;
        for (uint64_t i = 0; i < lines; ++i) {
          buffer += FloodLine(i);
          if (buffer.size() > 60000 || i + 1 == lines) {
            const size_t size = i + 1 == lines ? buffer.size() : rng.Below(buffer.size());
            WriteAll(ends_[rank].out.get(), absl::string_view(buffer).substr(0, size));
            written_ += size;
            buffer.erase(0, size);
          }
        }
        ends_[rank].out.Reset();
        ends_[rank].err.Reset();
        ++writers_done_;
      });
    }
    // Checks order and bytes without keeping them.
    link_.on_chunk = [this](const OutputChunk& chunk) {
      EXPECT_TRUE(chunk.ends_line);
      for (const absl::string_view line : absl::StrSplit(chunk.bytes, '\n', absl::SkipEmpty())) {
        uint64_t number = 0;
        const bool parsed = absl::SimpleAtoi(line.substr(0, line.find(':')), &number);
        uint64_t& next = next_[chunk.rank];
        if (!parsed || absl::StrCat(line, "\n") != FloodLine(number) ||
            (in_full_ ? number != next : number < next)) {
          torn_ += torn_.size() < 1000 ? absl::StrCat(line, "|") : "";
        }
        next = number + 1;
        ++received_;
      }
    };
  }

  OutputOptions options_;
  OutputPump::Disks disks_;
  BarDelays bars_;
  FakeLink link_;
  std::unique_ptr<OutputPump> pump_;
  std::vector<OutputPump::WorkerEnds> ends_;
  std::string folder_;
  std::string log_;
  std::vector<std::thread> threads_;
  std::atomic<uint64_t> written_ = 0;
  std::atomic<uint32_t> writers_done_ = 0;
  std::map<uint32_t, uint64_t> next_;  // by rank: number of the line that must come
  bool in_full_ = true;                // no line may be missing
  uint64_t received_ = 0;
  std::string torn_;
};

}  // namespace muster
