#include "agent/io/wait_text.h"

#include <arpa/inet.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proto/base/text.h"

namespace muster {
namespace {

constexpr size_t kTargetBytesShown = 200;

struct Call {
  int64_t number;
  CallKind kind;
};

// Those that may wait for long. Old names of a call are not there on every architecture.
constexpr Call kCalls[] = {
    {SYS_futex, {"futex (a lock, or another thread)"}},
    {SYS_nanosleep, {"sleep"}},
    {SYS_clock_nanosleep, {"sleep"}},
    {SYS_read, {"read", CallOn::kDescriptor}},
    {SYS_readv, {"read", CallOn::kDescriptor}},
    {SYS_pread64, {"read", CallOn::kDescriptor}},
    {SYS_write, {"write", CallOn::kDescriptor}},
    {SYS_writev, {"write", CallOn::kDescriptor}},
    {SYS_pwrite64, {"write", CallOn::kDescriptor}},
    {SYS_recvfrom, {"recv", CallOn::kDescriptor}},
    {SYS_recvmsg, {"recv", CallOn::kDescriptor}},
    {SYS_sendto, {"send", CallOn::kDescriptor}},
    {SYS_sendmsg, {"send", CallOn::kDescriptor}},
    {SYS_accept, {"accept", CallOn::kDescriptor}},
    {SYS_accept4, {"accept", CallOn::kDescriptor}},
    {SYS_connect, {"connect", CallOn::kDescriptor}},
    {SYS_flock, {"flock", CallOn::kDescriptor}},
    {SYS_fcntl, {"fcntl (a lock)", CallOn::kDescriptor}},
    {SYS_fsync, {"fsync", CallOn::kDescriptor}},
    {SYS_fdatasync, {"fsync", CallOn::kDescriptor}},
    {SYS_ioctl, {"ioctl", CallOn::kDescriptor}},
    {SYS_getdents64, {"read of a folder", CallOn::kDescriptor}},
    {SYS_openat, {"open of a file"}},
    {SYS_newfstatat, {"stat of a file"}},
    {SYS_ppoll, {"poll"}},
    {SYS_pselect6, {"select"}},
    {SYS_epoll_pwait, {"epoll"}},
    {SYS_wait4, {"wait for a process", CallOn::kChild}},
    {SYS_waitid, {"wait for a process", CallOn::kChild}},
    {SYS_rt_sigsuspend, {"wait for a signal"}},
    {SYS_rt_sigtimedwait, {"wait for a signal"}},
    {SYS_semtimedop, {"semaphore"}},
    {SYS_msgrcv, {"message queue"}},
#ifdef SYS_poll
    {SYS_poll, {"poll"}},
#endif
#ifdef SYS_select
    {SYS_select, {"select"}},
#endif
#ifdef SYS_epoll_wait
    {SYS_epoll_wait, {"epoll"}},
#endif
#ifdef SYS_pause
    {SYS_pause, {"wait for a signal"}},
#endif
};

// "0100007F:1F90": the address in the machine's own order, 32 bits at a time; "" = it is none.
std::string PeerText(absl::string_view hex) {
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(hex, ':');
  const auto& [address, port_text] = parts;
  uint32_t port = 0;
  if ((address.size() != 8 && address.size() != 32) || !absl::SimpleHexAtoi(port_text, &port) ||
      port > 0xffff) {
    return "";
  }
  std::array<uint32_t, 4> words{};
  for (size_t i = 0; i < address.size() / 8; ++i) {
    if (!absl::SimpleHexAtoi(address.substr(8 * i, 8), &words[i])) {
      return "";
    }
  }
  const int family = address.size() == 8 ? AF_INET : AF_INET6;
  std::array<char, INET6_ADDRSTRLEN> out{};
  inet_ntop(family, words.data(), out.data(), out.size());
  absl::string_view shown(out.data());
  absl::ConsumePrefix(&shown, "::ffff:");
  return HostPort(shown, static_cast<uint16_t>(port));
}

}  // namespace

ThreadCall ParseThreadCall(absl::string_view text) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(absl::StripAsciiWhitespace(text), ' ', absl::SkipEmpty());
  ThreadCall out;
  if (words.size() == 1) {
    out.is_known = out.runs = words[0] == "running";
    return out;
  }
  if (words.size() < 3 || !absl::SimpleAtoi(words[0], &out.number)) {
    return {};
  }
  for (size_t i = 0; i < std::min(out.arguments.size(), words.size() - 3); ++i) {
    if (!absl::SimpleHexAtoi(words[1 + i], &out.arguments[i])) {
      return {};
    }
  }
  out.is_known = true;
  return out;
}

CallKind KindOfCall(int64_t number) {
  const auto* found = std::find_if(std::begin(kCalls), std::end(kCalls),
                                   [&](const Call& call) { return call.number == number; });
  return found == std::end(kCalls) ? CallKind() : found->kind;
}

std::map<uint64_t, std::string> ParseTcpPeers(absl::string_view text) {
  std::map<uint64_t, std::string> out;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    // "sl local remote state queues timer retransmissions user timeout inode ..."
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    uint64_t inode = 0;
    if (words.size() < 10 || !absl::SimpleAtoi(words[9], &inode) || inode == 0) {
      continue;
    }
    constexpr absl::string_view kListens = "0A";
    const std::string peer = PeerText(words[words[3] == kListens ? 1 : 2]);
    if (!peer.empty()) {
      out[inode] = words[3] == kListens
                       ? absl::StrCat("any at port ", peer.substr(peer.rfind(':') + 1))
                       : peer;
    }
  }
  return out;
}

std::string DescriptorText(absl::string_view target, const std::map<uint64_t, std::string>& peers) {
  absl::string_view inner = target;
  uint64_t inode = 0;
  if (absl::ConsumePrefix(&inner, "socket:[") && absl::ConsumeSuffix(&inner, "]") &&
      absl::SimpleAtoi(inner, &inode)) {
    const auto peer = peers.find(inode);
    return peer == peers.end() ? "a socket" : absl::StrCat("TCP ", peer->second);
  }
  return absl::StartsWith(target, "pipe:")
             ? "a pipe"
             : absl::Utf8SafeCEscape(target.substr(0, kTargetBytesShown));
}

}  // namespace muster
