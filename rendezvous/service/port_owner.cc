// Who listens on a port, as far as /proc shows it to us.
#include <dirent.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "rendezvous/service/listener.h"

namespace muster {
namespace {

int CloseFolder(DIR* folder) { return closedir(folder); }  // the pointer to closedir has attributes
using Folder = std::unique_ptr<DIR, int (*)(DIR*)>;

// Inodes of the sockets that listen on `port` (proc(5): state 0A).
std::set<std::string> ListeningInodes(uint16_t port) {
  std::set<std::string> inodes;
  for (const char* file : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream in(file);
    std::string line;
    while (std::getline(in, line)) {
      const std::vector<std::string> fields = absl::StrSplit(line, ' ', absl::SkipEmpty());
      if (fields.size() < 10 || fields[3] != "0A") {
        continue;
      }
      const size_t colon = fields[1].rfind(':');
      uint32_t number = 0;
      if (colon != std::string::npos && absl::SimpleHexAtoi(fields[1].substr(colon + 1), &number) &&
          number == port) {
        inodes.insert(absl::StrCat("socket:[", fields[9], "]"));
      }
    }
  }
  return inodes;
}

bool Holds(const std::string& process, const std::set<std::string>& inodes) {
  const std::string path = process + "/fd";
  const Folder folder(opendir(path.c_str()), &CloseFolder);
  while (const dirent* entry = folder == nullptr ? nullptr : readdir(folder.get())) {
    char target[64];
    const ssize_t size =
        readlink(absl::StrCat(path, "/", entry->d_name).c_str(), target, sizeof(target));
    if (size > 0 && inodes.contains(std::string(target, static_cast<size_t>(size)))) {
      return true;
    }
  }
  return false;
}

// The kernel keeps 15 letters of it; the rest is in its command line, if that begins so.
std::string NameOf(const std::string& process) {
  std::ifstream comm(process + "/comm");
  std::ifstream cmdline(process + "/cmdline");
  std::string name, typed;
  std::getline(comm, name);
  std::getline(cmdline, typed, '\0');
  typed.erase(0, typed.rfind('/') + 1);
  return absl::StartsWith(typed, name) ? typed : name;
}

}  // namespace

std::string PortOwner(uint16_t port) {
  const std::set<std::string> inodes = ListeningInodes(port);
  const Folder folder(inodes.empty() ? nullptr : opendir("/proc"), &CloseFolder);
  while (const dirent* entry = folder == nullptr ? nullptr : readdir(folder.get())) {
    const std::string process = absl::StrCat("/proc/", entry->d_name);
    if (absl::ascii_isdigit(static_cast<unsigned char>(entry->d_name[0])) &&
        Holds(process, inodes)) {
      return absl::StrCat(NameOf(process), " (pid ", entry->d_name, ")");
    }
  }
  return "";
}

}  // namespace muster
