// How collectives are measured, ours and those of other libraries: the same protocol, options and
// columns. Results are checked first; then calls back to back for --seconds; of each call the
// slowest rank counts; p50 and p99 over the calls. Bus bandwidth: bytes times the share of them
// that must cross a link (2(p-1)/p for all-reduce, (p-1)/p for all-gather and all-to-all, 1 for
// broadcast, 2 for a message there and back), by p50.
//
// A library is a class Comm:
//   int rank(), size();
//   void Barrier(), Sum(float*, size_t count), Max(double*, size_t count), Broadcast(float*, size_t
//   count), AllGather(const float* in, float* out, size_t count), AllToAll(const float* in, float*
//   out, size_t count), Send(const float*, size_t count, int to), Recv(float*, size_t count, int
//   from)
// in place, of `count` elements of one rank, from root 0; a call that fails ends the program.
#pragma once

#include <time.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace bench {

inline constexpr char kHelp[] =
    "options:\n"
    "  --ops LIST       of allreduce,barrier,bcast,allgather,alltoall,pingpong (default: all)\n"
    "  --min BYTES      smallest buffer (8)\n"
    "  --max BYTES      largest buffer (67108864)\n"
    "  --seconds S      of calls for each line (0.3)\n"
    "  --peer NAME      first column (muster)\n"
    "  --layout NAME    second column (host)\n"
    "  --steps N        instead of calls: N steps of 10 to 30 ms of computing and an allreduce\n"
    "  --began T        instead of calls: from T, in seconds of CLOCK_MONOTONIC, to the end of "
    "the\n"
    "                   first barrier\n"
    "  --header         print the names of the columns first\n";

struct Settings {
  std::string ops = "allreduce,barrier,bcast,allgather,alltoall,pingpong";
  uint64_t min = 8;
  uint64_t max = uint64_t{64} << 20;
  double seconds = 0.3;
  std::string peer = "muster";
  std::string layout = "host";
  size_t steps = 0;
  double began = 0;
  bool header = false;
  bool Wants(const std::string& op) const {
    return ("," + ops + ",").find("," + op + ",") != std::string::npos;
  }
};

[[noreturn]] inline void Wrong(const std::string& what) {
  std::fprintf(stderr, "%s\n%s", what.c_str(), kHelp);
  std::exit(2);
}

template <typename T>
T Number(const std::string& option, const char* text) {
  T out{};
  const std::string_view view(text);
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), out);
  if (error != std::errc() || end != view.data() + view.size() || !(out >= T{})) {
    Wrong(option + ": want a number, got '" + text + "'");
  }
  return out;
}

inline Settings Read(int argc, char** argv) {
  Settings out;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--help" || option == "-h") {
      std::fputs(kHelp, stdout);
      std::exit(0);
    }
    if (option == "--header") {
      out.header = true;
      continue;
    }
    if (i + 1 == argc) {
      Wrong("unknown option, or one without its value: " + option);
    }
    const char* value = argv[++i];
    if (option == "--ops") {
      out.ops = value;
    } else if (option == "--min") {
      out.min = Number<uint64_t>(option, value);
    } else if (option == "--max") {
      out.max = Number<uint64_t>(option, value);
    } else if (option == "--seconds") {
      out.seconds = Number<double>(option, value);
    } else if (option == "--peer") {
      out.peer = value;
    } else if (option == "--layout") {
      out.layout = value;
    } else if (option == "--steps") {
      out.steps = Number<size_t>(option, value);
    } else if (option == "--began") {
      out.began = Number<double>(option, value);
    } else {
      Wrong("unknown option: " + option);
    }
  }
  return out;
}

inline double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <typename Comm>
class Bench {
 public:
  Bench(Comm& comm, const Settings& settings)
      : comm_(comm), settings_(settings), ranks_(static_cast<size_t>(comm.size())) {
    data_.resize(std::max<uint64_t>(settings_.max, 1 << 20) / sizeof(float));
  }

  void Run() {
    CheckResults();
    constexpr uint64_t kSizes[] = {8,         64,      1 << 10,  16 << 10,
                                   256 << 10, 1 << 20, 16 << 20, 64 << 20};
    const double share = static_cast<double>(ranks_ - 1) / static_cast<double>(ranks_);
    if (settings_.Wants("allreduce")) {
      for (const uint64_t bytes : kSizes) {
        Measure("allreduce", bytes, 2 * share, [&] { comm_.Sum(data_.data(), bytes / 4); });
      }
    }
    if (settings_.Wants("barrier")) {
      Measure("barrier", 0, 0, [&] { comm_.Barrier(); });
    }
    if (settings_.Wants("bcast")) {
      for (const uint64_t bytes : {uint64_t{1} << 20, uint64_t{64} << 20}) {
        // The root of a broadcast does not wait: the barrier makes a call mean "everyone has it".
        Measure("bcast", bytes, 1, [&] {
          comm_.Broadcast(data_.data(), bytes / 4);
          comm_.Barrier();
        });
      }
    }
    for (const uint64_t bytes : {uint64_t{16} << 10, uint64_t{1} << 20, uint64_t{16} << 20}) {
      const size_t part = bytes / 4 / ranks_;
      in_.resize(part * ranks_);
      const uint64_t rounded = in_.size() * 4;
      if (settings_.Wants("allgather")) {
        Measure("allgather", rounded, share,
                [&] { comm_.AllGather(in_.data(), data_.data(), part); });
      }
      if (settings_.Wants("alltoall")) {
        Measure("alltoall", rounded, share,
                [&] { comm_.AllToAll(in_.data(), data_.data(), part); });
      }
    }
    if (settings_.Wants("pingpong") && ranks_ > 1) {
      for (const uint64_t bytes : kSizes) {
        Measure("pingpong_rtt", bytes, 2, [&] { PingPong(bytes / 4); });
      }
    }
  }

 private:
  // Between rank 0 and the last one; the others have nothing to do.
  void PingPong(size_t count) {
    const int last = comm_.size() - 1;
    if (comm_.rank() == 0) {
      comm_.Send(data_.data(), count, last);
      comm_.Recv(data_.data(), count, last);
    } else if (comm_.rank() == last) {
      comm_.Recv(data_.data(), count, 0);
      comm_.Send(data_.data(), count, 0);
    }
  }

  // A fast wrong answer is no figure.
  void CheckResults() {
    for (const size_t count : {size_t{1}, size_t{1000}, size_t{1} << 18}) {
      std::vector<float> values(count, static_cast<float>(comm_.rank() + 1));
      comm_.Sum(values.data(), count);
      const float want = static_cast<float>(ranks_ * (ranks_ + 1)) / 2;
      for (const float value : values) {
        if (value != want) {
          std::fprintf(stderr, "rank %d: all_reduce of %zu gave %f, not %f\n", comm_.rank(), count,
                       static_cast<double>(value), static_cast<double>(want));
          std::exit(1);
        }
      }
    }
  }

  double Slowest(double value) {
    comm_.Max(&value, 1);
    return value;
  }

  void Measure(const char* op, uint64_t bytes, double bus_factor,
               const std::function<void()>& call) {
    if (bytes != 0 && (bytes < settings_.min || bytes > settings_.max)) {
      return;
    }
    call();
    double begin = Now();
    for (int i = 0; i < 3; ++i) {
      call();
    }
    double estimate = Slowest((Now() - begin) / 3);
    if (estimate < 2e-3) {  // cheap: warm up properly
      begin = Now();
      for (int i = 0; i < 50; ++i) {
        call();
      }
      estimate = Slowest((Now() - begin) / 50);
    }
    auto count =
        static_cast<size_t>(std::clamp(settings_.seconds / std::max(estimate, 1e-7), 5.0, 20000.0));
    if (estimate * static_cast<double>(count) > 4.0) {
      count = 3;
    }
    std::vector<double> times(count);
    comm_.Barrier();
    begin = Now();
    double last = begin;
    for (double& time : times) {
      call();
      const double now = Now();
      time = now - last;
      last = now;
    }
    const double mean = Slowest(last - begin) / static_cast<double>(count);
    comm_.Max(times.data(), count);
    if (comm_.rank() != 0) {
      return;
    }
    std::sort(times.begin(), times.end());
    const double p50 = times[count / 2];
    const double p99 =
        times[std::min(count - 1, static_cast<size_t>(static_cast<double>(count) * 0.99))];
    std::printf("%s,%s,%zu,%llu,%.2f,%.2f,%.4f,%s,%.2f,%zu\n", settings_.peer.c_str(),
                settings_.layout.c_str(), ranks_, static_cast<unsigned long long>(bytes), p50 * 1e6,
                p99 * 1e6, bytes == 0 ? 0 : static_cast<double>(bytes) * bus_factor / p50 / 1e9, op,
                mean * 1e6, count);
    std::fflush(stdout);
  }

  Comm& comm_;                // outlives this
  const Settings& settings_;  // likewise
  const size_t ranks_;
  std::vector<float> data_;
  std::vector<float> in_;
};

// A line of one figure; `seconds` are rank 0's.
template <typename Comm>
void PrintOne(Comm& comm, const Settings& settings, const char* op, uint64_t bytes, double seconds,
              size_t count) {
  if (comm.rank() == 0) {
    const double us = seconds * 1e6;
    std::printf("%s,%s,%d,%llu,%.2f,%.2f,0,%s,%.2f,%zu\n", settings.peer.c_str(),
                settings.layout.c_str(), comm.size(), static_cast<unsigned long long>(bytes), us,
                us, op, us, count);
    std::fflush(stdout);
  }
}

inline double CpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// A training run whose ranks outnumber the cores: who waits for a slow one takes its time away, or
// does not. load_wall: of all steps; load_cpu: of all ranks together, computing included.
template <typename Comm>
void RunLoad(Comm& comm, const Settings& settings) {
  for (const uint64_t bytes : {uint64_t{1} << 10, uint64_t{1} << 20}) {
    if (bytes < settings.min || bytes > settings.max) {
      continue;
    }
    std::vector<float> data(bytes / sizeof(float));
    std::minstd_rand random(static_cast<unsigned>(comm.rank()) + 1);
    comm.Barrier();
    const double begin = Now();
    const double cpu_begin = CpuSeconds();
    for (size_t step = 0; step < settings.steps; ++step) {
      const double drawn = static_cast<double>(random()) / static_cast<double>(random.max());
      const double until = CpuSeconds() + 0.010 + 0.020 * drawn;
      while (CpuSeconds() < until) {
      }
      comm.Sum(data.data(), data.size());
    }
    const double wall = Now() - begin;
    auto cpu = static_cast<float>(CpuSeconds() - cpu_begin);
    comm.Sum(&cpu, 1);
    PrintOne(comm, settings, "load_wall", bytes, wall, settings.steps);
    PrintOne(comm, settings, "load_cpu", bytes, static_cast<double>(cpu), settings.steps);
  }
}

// What a driver's main does once its library is up; `init_seconds` is what that took.
template <typename Comm>
void Run(Comm& comm, const Settings& settings, double init_seconds) {
  if (settings.began > 0) {
    comm.Barrier();
    return PrintOne(comm, settings, "first_barrier", 0, Now() - settings.began, 1);
  }
  comm.Max(&init_seconds, 1);
  if (comm.rank() == 0) {
    std::fprintf(stderr, "# %s %s P=%d init_s=%.3f\n", settings.peer.c_str(),
                 settings.layout.c_str(), comm.size(), init_seconds);
    if (settings.header) {
      std::puts("peer,layout,P,bytes,p50_us,p99_us,busbw_GBps,op,mean_us,iters");
    }
  }
  if (settings.steps > 0) {
    return RunLoad(comm, settings);
  }
  Bench<Comm>(comm, settings).Run();
}

}  // namespace bench
