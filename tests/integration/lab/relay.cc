// lab-relay PORT...: the switch between emulated hosts, as a slow network. netem is not in every
// kernel.
//
// Each PORT is a host's end of a veth pair. Frames go to the port where their destination was seen
// as a source, or to all others, in the order in which they came from their port. Lines on stdin
// change what happens to them, each answered by "ok" or "error: ..." on stdout:
//   delay MS     on the way from one host to another (0)
//   rate MBIT    of what each host sends (0: without limit)
//   stall MS     from now on, nothing is delivered; it comes afterwards
// The end of stdin ends the program.
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/base/unique_fd.h"

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;
using Mac = std::array<uint8_t, ETH_ALEN>;

// What the kernel puts before a frame: virtio_net_hdr, whose header is none of C++.
struct FrameHead {
  static constexpr uint8_t kWhole = 0;
  uint8_t flags = 0;
  uint8_t gso_type = kWhole;
  uint16_t hdr_len = 0;   // of each segment
  uint16_t gso_size = 0;  // data of each segment
  uint16_t csum_start = 0;
  uint16_t csum_offset = 0;
};

constexpr size_t kFrameMax = sizeof(FrameHead) + ETH_HLEN + 65536;
constexpr int kSocketBytes = 64 << 20;
constexpr int kFramesAtOnce = 64;             // of one port, before others have their turn
constexpr uint64_t kHeldMax = 256u << 20;     // bytes of one port's frames, above it they are lost
constexpr uint64_t kRouterBytes = 1u << 20;   // that wait for the line, likewise
constexpr uint64_t kMillisecondsMax = 60000;  // of a delay or a stall
constexpr uint64_t kMegabitsMax = 1000000;

struct Settings {
  nanoseconds delay{0};
  double bytes_per_second = 0;  // 0: without limit
  Clock::time_point stalled_until;
};

// How long bytes take on the line.
nanoseconds LineTime(uint64_t bytes, const Settings& settings) {
  if (settings.bytes_per_second == 0) {
    return nanoseconds(0);
  }
  return nanoseconds(
      static_cast<int64_t>(static_cast<double>(bytes) / settings.bytes_per_second * 1e9));
}

// A frame that the kernel has not cut into segments yet counts as all of them, with their headers.
uint64_t BytesOnWire(const std::vector<uint8_t>& frame) {
  FrameHead head;
  std::memcpy(&head, frame.data(), sizeof(head));
  const uint64_t bytes = frame.size() - sizeof(head);
  if (head.gso_type == FrameHead::kWhole || head.gso_size == 0 || bytes < head.hdr_len) {
    return bytes;
  }
  const uint64_t segments = (bytes - head.hdr_len + head.gso_size - 1) / head.gso_size;
  return bytes + (segments - 1) * head.hdr_len;
}

// What one host has sent and no other has yet.
class Uplink {
 public:
  void Add(std::vector<uint8_t> frame, Clock::time_point now, const Settings& settings) {
    const Clock::time_point begin = std::max(now, line_free_);
    if (held_ + frame.size() > kHeldMax ||
        (settings.bytes_per_second != 0 && begin - now > LineTime(kRouterBytes, settings))) {
      return;  // lost, as in any network
    }
    line_free_ = begin + LineTime(BytesOnWire(frame), settings);
    held_ += frame.size();
    frames_.push_back({line_free_ + settings.delay, std::move(frame)});
  }
  bool empty() const { return frames_.empty(); }
  Clock::time_point due(const Settings& settings) const {
    return std::max(frames_.front().due, settings.stalled_until);
  }
  std::vector<uint8_t> Take() {
    std::vector<uint8_t> out = std::move(frames_.front().bytes);
    frames_.pop_front();
    held_ -= out.size();
    return out;
  }

 private:
  struct Frame {
    Clock::time_point due;
    std::vector<uint8_t> bytes;
  };
  std::deque<Frame> frames_;
  uint64_t held_ = 0;
  Clock::time_point line_free_;
};

struct Port {
  muster::UniqueFd fd;
  Uplink uplink;
};

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "lab-relay: %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(1);
}

void Set(int fd, int level, int option, int value, const char* name) {
  if (setsockopt(fd, level, option, &value, sizeof(value)) != 0) {
    Die(name);
  }
}

muster::UniqueFd OpenPort(const char* name) {
  muster::UniqueFd fd(socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, htons(ETH_P_ALL)));
  if (!fd.valid()) {
    Die("a packet socket (it needs root)");
  }
  Set(fd.get(), SOL_PACKET, PACKET_VNET_HDR, 1, "PACKET_VNET_HDR");  // segments stay uncut
  Set(fd.get(), SOL_PACKET, PACKET_IGNORE_OUTGOING, 1, "PACKET_IGNORE_OUTGOING");
  Set(fd.get(), SOL_SOCKET, SO_RCVBUFFORCE, kSocketBytes, "SO_RCVBUFFORCE");
  Set(fd.get(), SOL_SOCKET, SO_SNDBUFFORCE, kSocketBytes, "SO_SNDBUFFORCE");
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(if_nametoindex(name));
  if (address.sll_ifindex == 0 ||
      bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    Die(name);
  }
  return fd;
}

class Relay {
 public:
  explicit Relay(std::vector<Port> ports) : ports_(std::move(ports)), buffer_(kFrameMax) {}

  // Until stdin ends.
  void Run() {
    std::vector<pollfd> polls = {{STDIN_FILENO, POLLIN, 0}};
    for (const Port& port : ports_) {
      polls.push_back({port.fd.get(), POLLIN, 0});
    }
    for (;;) {
      const timespec until = Wait();
      if (ppoll(polls.data(), polls.size(), &until, nullptr) < 0 && errno != EINTR) {
        Die("ppoll");
      }
      if (polls[0].revents != 0 && !HearCommands()) {
        return;
      }
      for (size_t i = 0; i < ports_.size(); ++i) {
        Collect(i);
        Deliver(i);
      }
    }
  }

 private:
  timespec Wait() const {
    constexpr nanoseconds kIdle = std::chrono::seconds(1);
    nanoseconds wait = kIdle;
    for (const Port& port : ports_) {
      if (!port.uplink.empty()) {
        wait = std::min<nanoseconds>(wait, port.uplink.due(settings_) - Clock::now());
      }
    }
    wait = std::max(wait, nanoseconds(0));
    return {wait / std::chrono::seconds(1), (wait % std::chrono::seconds(1)).count()};
  }

  void Collect(size_t from) {
    for (int i = 0; i < kFramesAtOnce; ++i) {
      const ssize_t got = recv(ports_[from].fd.get(), buffer_.data(), buffer_.size(), 0);
      if (got < static_cast<ssize_t>(sizeof(FrameHead) + ETH_HLEN)) {
        return;  // nothing, or nothing that could be an Ethernet frame
      }
      where_[MacAt(buffer_, ETH_ALEN)] = from;
      ports_[from].uplink.Add({buffer_.begin(), buffer_.begin() + got}, Clock::now(), settings_);
    }
  }

  void Deliver(size_t from) {
    Uplink& uplink = ports_[from].uplink;
    while (!uplink.empty() && uplink.due(settings_) <= Clock::now()) {
      const std::vector<uint8_t> frame = uplink.Take();
      const auto known = where_.find(MacAt(frame, 0));
      for (size_t to = 0; to < ports_.size(); ++to) {
        if (to != from && (known == where_.end() || known->second == to)) {
          // What a host cannot take is lost.
          (void)!send(ports_[to].fd.get(), frame.data(), frame.size(), 0);
        }
      }
    }
  }

  static Mac MacAt(const std::vector<uint8_t>& frame, size_t offset) {
    Mac out;
    std::memcpy(out.data(), frame.data() + sizeof(FrameHead) + offset, out.size());
    return out;
  }

  // False: there will be no more.
  bool HearCommands() {
    char text[256];
    const ssize_t got = read(STDIN_FILENO, text, sizeof(text));
    if (got <= 0) {
      return false;
    }
    heard_.append(text, static_cast<size_t>(got));
    for (size_t end; (end = heard_.find('\n')) != std::string::npos;) {
      std::puts(Obey(heard_.substr(0, end)).c_str());
      std::fflush(stdout);
      heard_.erase(0, end + 1);
    }
    return heard_.size() < sizeof(text);  // none of ours is that long
  }

  std::string Obey(std::string_view line) {
    const size_t space = line.find(' ');
    const std::string_view verb = line.substr(0, space);
    const std::string_view text =
        space == std::string_view::npos ? std::string_view() : line.substr(space + 1);
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const uint64_t limit = verb == "rate" ? kMegabitsMax : kMillisecondsMax;
    if (error != std::errc() || end != text.data() + text.size() || value > limit) {
      return "error: " + std::string(verb) + ": want 0.." + std::to_string(limit) + ", got '" +
             std::string(text) + "'";
    }
    const auto time = std::chrono::milliseconds(value);
    if (verb == "delay") {
      settings_.delay = time;
    } else if (verb == "rate") {
      settings_.bytes_per_second = static_cast<double>(value) * 1e6 / 8;
    } else if (verb == "stall") {
      settings_.stalled_until = Clock::now() + time;
    } else {
      return "error: want delay, rate or stall, got '" + std::string(verb) + "'";
    }
    return "ok";
  }

  std::vector<Port> ports_;
  std::vector<uint8_t> buffer_;
  std::map<Mac, size_t> where_;  // one for each host
  Settings settings_;
  std::string heard_;
};

}  // namespace

int main(int argc, char** argv) {
  std::vector<Port> ports;
  for (int i = 1; i < argc; ++i) {
    ports.push_back({OpenPort(argv[i]), {}});
  }
  // A network does not wait for its turn on a busy machine.
  sched_param priority{};
  priority.sched_priority = 1;
  if (sched_setscheduler(0, SCHED_FIFO, &priority) != 0) {
    std::fprintf(stderr, "lab-relay: no real-time priority (%s): delays are longer under load\n",
                 std::strerror(errno));
  }
  Relay(std::move(ports)).Run();
  return 0;
}
