#include "launcher/ship/ship_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "launcher/ship_places.h"
#include "proto/base/status_macros.h"
#include "proto/ship/sha256.h"

namespace muster {
namespace {

constexpr size_t kPieceBytes = 256u << 10;
constexpr uint32_t kFolderMode = 0755;
constexpr uint32_t kModeBits = 0777;
constexpr const char* kStaysHere[] = {".git", ".hg", ".svn", "__pycache__"};

absl::Status Wrong(const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("--ship: ", path, what));
}

absl::Status WrongCall(const std::string& path, int error) {
  const absl::string_view hint = error == ENOENT   ? ": is it written as it is from here?"
                                 : error == EACCES ? ": make it readable, or ship less"
                                                   : "";
  return Wrong(path, absl::StrCat(": ", std::strerror(error), hint));
}

absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(folder.c_str()), closedir);
  if (dir == nullptr) {
    return WrongCall(folder, errno);
  }
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = readdir(dir.get())) {
    const std::string name = entry->d_name;
    const bool stays = std::any_of(std::begin(kStaysHere), std::end(kStaysHere),
                                   [&name](const char* other) { return name == other; });
    if (name != "." && name != ".." && !stays) {
      names.push_back(name);
    }
  }
  if (errno != 0) {
    return WrongCall(folder, errno);
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<std::string> TargetOf(const std::string& path) {
  std::string target(kShipPathBytesMax + 1, '\0');
  const ssize_t size = readlink(path.c_str(), target.data(), target.size());
  if (size < 0) {
    return WrongCall(path, errno);
  }
  target.resize(static_cast<size_t>(size));
  return target;
}

class Scanner {
 public:
  explicit Scanner(ShipBounds bounds) : bounds_(bounds) {}

  absl::Status Add(const std::string& typed) {
    const std::string place = ShipPlace(typed);
    for (size_t slash = place.find('/'); slash != std::string::npos;
         slash = place.find('/', slash + 1)) {
      const std::string parent = place.substr(0, slash);
      if (places_.count(parent) == 0) {
        struct stat info {};
        if (stat(parent.c_str(), &info) != 0) {
          return WrongCall(parent, errno);
        }
        RETURN_IF_ERROR(Keep(parent, {ShipKind::kFolder, parent, kFolderMode, 0, 0, ""}, info));
      }
    }
    struct stat info {};
    if (stat(typed.c_str(), &info) != 0) {  // what is named may be a link to it
      return WrongCall(typed, errno);
    }
    return Walk(typed, place, info);
  }

  ShipScan Take() { return std::move(scan_); }

 private:
  absl::Status Walk(const std::string& path, const std::string& place, const struct stat& info) {
    ShipEntry entry;
    entry.path = place;
    entry.mode = info.st_mode & kModeBits;
    if (S_ISREG(info.st_mode)) {
      entry.kind = ShipKind::kFile;
      entry.size = static_cast<uint64_t>(info.st_size);
      entry.modified_ns = ShipTime(info.st_mtim);
      if (access(path.c_str(), R_OK) != 0) {
        return WrongCall(path, errno);
      }
      return Keep(path, std::move(entry), info);
    }
    if (S_ISLNK(info.st_mode)) {
      entry.kind = ShipKind::kLink;
      entry.mode = 0;
      ASSIGN_OR_RETURN(entry.target, TargetOf(path));
      if (!LinkStaysInside(place, entry.target)) {
        return Wrong(path, absl::StrCat(" is a link to ", entry.target,
                                        ", which leads out of what is shipped: ship the file "
                                        "itself, or take the link away"));
      }
      return Keep(path, std::move(entry), info);
    }
    if (!S_ISDIR(info.st_mode)) {
      return Wrong(path,
                   " is neither a file nor a folder nor a link: take it out of what is "
                   "shipped");
    }
    entry.kind = ShipKind::kFolder;
    if (!place.empty()) {
      RETURN_IF_ERROR(Keep(path, std::move(entry), info));
    }
    ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(path));
    for (const std::string& name : names) {
      const std::string below = absl::StrCat(path, "/", name);
      struct stat one {};
      if (lstat(below.c_str(), &one) != 0) {
        return WrongCall(below, errno);
      }
      RETURN_IF_ERROR(Walk(below, place.empty() ? name : absl::StrCat(place, "/", name), one));
    }
    return absl::OkStatus();
  }

  absl::Status Keep(const std::string& path, ShipEntry entry, const struct stat& info) {
    if (!IsShipPath(entry.path)) {
      return Wrong(path, absl::StrCat(": want at most ", kShipPathBytesMax, " bytes of path"));
    }
    const auto [at, fresh] = places_.emplace(entry.path, scan_.sources.size());
    if (!fresh) {
      const ShipSource& first = scan_.sources[at->second];
      const bool same = first.device == info.st_dev && first.inode == info.st_ino;
      const bool folders = first.entry.kind == ShipKind::kFolder && entry.kind == ShipKind::kFolder;
      return same || folders ? absl::OkStatus()
                             : Wrong(path, absl::StrCat(" and ", first.path, " would both be '",
                                                        entry.path, "' on the nodes: rename one"));
    }
    scan_.bytes += entry.size;
    scan_.sources.push_back({path, std::move(entry), info.st_dev, info.st_ino});
    if (scan_.sources.size() > bounds_.entries_max) {
      return Wrong(path, absl::StrCat(": want at most ", bounds_.entries_max,
                                      " files and folders in all: pack them into one file that "
                                      "the program reads, or put them on a shared file system"));
    }
    if (scan_.bytes > bounds_.bytes_max) {
      return Wrong(path, absl::StrCat(": want at most ", bounds_.bytes_max,
                                      " bytes in all: put data on a file system that the nodes "
                                      "share, or copy it there once"));
    }
    return absl::OkStatus();
  }

  const ShipBounds bounds_;
  ShipScan scan_;
  std::map<std::string, size_t> places_;  // of scan_.sources
};

class Packer {
 public:
  absl::Status Open() {
    const char* tmp = std::getenv("TMPDIR");
    folder_ = tmp == nullptr || *tmp == '\0' ? "/tmp" : tmp;
    std::string name = absl::StrCat(folder_, "/muster-ship-XXXXXX");
    file_.Reset(mkostemp(name.data(), O_CLOEXEC));
    if (!file_.valid()) {
      return NoRoom();
    }
    unlink(name.c_str());
    return absl::OkStatus();
  }

  absl::Status Add(const ShipSource& source) {
    RETURN_IF_ERROR(Write(ShipHead(source.entry)));
    return source.entry.kind == ShipKind::kFile ? AddBytes(source) : absl::OkStatus();
  }

  absl::StatusOr<ShipArchive> End(size_t entries) {
    RETURN_IF_ERROR(Write(ShipHead(ShipEntry{})));
    ShipArchive out;
    out.file = std::move(file_);
    out.terms = {digest_.Digest(), bytes_, static_cast<uint32_t>(entries)};
    return out;
  }

 private:
  absl::Status NoRoom() const {
    return absl::ResourceExhaustedError(absl::StrCat("--ship: no room to pack it in ", folder_,
                                                     ": ", std::strerror(errno),
                                                     "; set TMPDIR to a larger folder"));
  }

  absl::Status Write(absl::string_view bytes) {
    digest_.Add(bytes);
    bytes_ += bytes.size();
    while (!bytes.empty()) {
      const ssize_t n = write(file_.get(), bytes.data(), bytes.size());
      if (n < 0 && errno != EINTR) {
        return NoRoom();
      }
      bytes.remove_prefix(n > 0 ? static_cast<size_t>(n) : 0);
    }
    return absl::OkStatus();
  }

  static bool IsAsSeen(const UniqueFd& file, const ShipSource& source) {
    struct stat info {};
    return fstat(file.get(), &info) == 0 && S_ISREG(info.st_mode) && info.st_dev == source.device &&
           info.st_ino == source.inode &&
           static_cast<uint64_t>(info.st_size) == source.entry.size &&
           ShipTime(info.st_mtim) == source.entry.modified_ns;
  }

  absl::Status AddBytes(const ShipSource& source) {
    const UniqueFd file(open(source.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file.valid()) {
      return WrongCall(source.path, errno);
    }
    uint64_t left = source.entry.size;
    bool as_seen = IsAsSeen(file, source);
    while (as_seen && left > 0) {
      const ssize_t n = read(file.get(), piece_.data(), std::min<uint64_t>(left, piece_.size()));
      if (n < 0 && errno != EINTR) {
        return WrongCall(source.path, errno);
      }
      as_seen = n != 0;  // else it became shorter
      const size_t got = n > 0 ? static_cast<size_t>(n) : 0;
      RETURN_IF_ERROR(Write({piece_.data(), got}));
      left -= got;
    }
    if (!as_seen || !IsAsSeen(file, source)) {
      return Wrong(source.path, " changed while it was read: start when it is complete");
    }
    return absl::OkStatus();
  }

  std::string folder_;
  UniqueFd file_;
  Sha256 digest_;
  uint64_t bytes_ = 0;
  std::string piece_ = std::string(kPieceBytes, '\0');
};

}  // namespace

absl::StatusOr<ShipScan> ScanShip(const std::vector<std::string>& shipped, ShipBounds bounds) {
  Scanner scanner(bounds);
  for (const std::string& typed : shipped) {
    RETURN_IF_ERROR(scanner.Add(typed));
  }
  return scanner.Take();
}

absl::StatusOr<ShipArchive> PackShip(const ShipScan& scan) {
  Packer packer;
  RETURN_IF_ERROR(packer.Open());
  for (const ShipSource& source : scan.sources) {
    RETURN_IF_ERROR(packer.Add(source));
  }
  return packer.End(scan.sources.size());
}

absl::StatusOr<std::optional<ShipArchive>> ShipArchiveOf(const std::vector<std::string>& shipped) {
  if (shipped.empty()) {
    return std::nullopt;
  }
  ASSIGN_OR_RETURN(const ShipScan scan, ScanShip(shipped));
  ASSIGN_OR_RETURN(ShipArchive archive, PackShip(scan));
  return archive;
}

}  // namespace muster
