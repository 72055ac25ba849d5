#include "agent/io/wait_place.h"

#include <unistd.h>

#include <array>
#include <climits>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "agent/io/process_tree.h"
#include "agent/io/small_file.h"
#include "agent/io/wait_text.h"

namespace muster {
namespace {

constexpr size_t kLineBytesRead = 4096;
constexpr size_t kSocketBytesRead = 1u << 20;  // some 7,000 sockets
constexpr int kChildrenDeep = 4;               // a shell that runs a script that runs ...

std::string FileOf(pid_t pid, const std::string& name) {
  return absl::StrCat("/proc/", pid, "/", name);
}

// The letter of its state: S, D, T ...
char StateOf(pid_t pid) {
  const std::string stat = ReadHead(FileOf(pid, "stat"), kLineBytesRead);
  const size_t end = stat.rfind(')');  // a name may have any byte
  return end == std::string::npos || end + 2 >= stat.size() ? '?' : stat[end + 2];
}

}  // namespace

std::string WaitSight::DescriptorOf(pid_t pid, int fd) {
  std::array<char, PATH_MAX> target{};
  const ssize_t n =
      readlink(FileOf(pid, absl::StrCat("fd/", fd)).c_str(), target.data(), target.size());
  if (n <= 0) {
    return "";
  }
  const absl::string_view text(target.data(), static_cast<size_t>(n));
  if (absl::StartsWith(text, "socket:") && !peers_.has_value()) {
    peers_.emplace();
    for (const char* table : {"net/tcp", "net/tcp6"}) {
      peers_->merge(ParseTcpPeers(ReadHead(FileOf(pid, table), kSocketBytesRead)));
    }
  }
  return DescriptorText(text, peers_.has_value() ? *peers_ : std::map<uint64_t, std::string>());
}

std::string WaitSight::At(pid_t pid, int deep) {
  const char state = StateOf(pid);
  if (state == 'T' || state == 't') {
    return state == 'T' ? "stopped by a signal" : "held by a debugger";
  }
  const ThreadCall call = ParseThreadCall(ReadHead(FileOf(pid, "syscall"), kLineBytesRead));
  if (!call.is_known || call.runs) {
    return call.runs ? "its own code: it runs" : "";
  }
  const CallKind kind = KindOfCall(call.number);
  if (kind.on == CallOn::kChild && deep > 0) {
    if (const std::vector<pid_t> children = ProcessesStartedBy(pid); children.size() == 1) {
      return At(children[0], deep - 1);
    }
  }
  const std::string on =
      kind.on == CallOn::kDescriptor ? DescriptorOf(pid, static_cast<int>(call.arguments[0])) : "";
  return absl::StrCat(kind.name.empty() ? absl::StrCat("system call ", call.number) : kind.name,
                      on.empty() ? "" : ": ", on,
                      state == 'D' ? " (state D: a disk or device that does not answer)" : "");
}

std::string WaitSight::Of(pid_t pid) { return At(pid, kChildrenDeep); }

}  // namespace muster
