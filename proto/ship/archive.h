// The form in which --ship's files travel: entries one behind the other, each a head, its path, and
// what is in it; a head of kind kEnd is the last. A folder comes before what is in it. Pure.
//
// Invariants (cited by tests):
//  A1 what is read back is what was written, and nothing else is accepted;
//  A2 no entry leads out of the folder it is unpacked in: neither its path, nor where a link
//  points.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

inline constexpr size_t kShipPathBytesMax = 4095;  // of a path or a link's target: PATH_MAX; wire

enum class ShipKind : uint8_t { kFile = 1, kFolder = 2, kLink = 3, kEnd = 4 };  // wire

struct ShipEntry {
  ShipKind kind = ShipKind::kEnd;
  std::string path;         // below the folder, as in "data/train.csv"
  uint32_t mode = 0;        // permission bits; a link has none
  int64_t modified_ns = 0;  // since 1970; of files
  uint64_t size = 0;        // bytes of a file, which follow the head
  std::string target;       // of a link
  bool operator==(const ShipEntry&) const = default;
};

// A file's time as an entry has it, and back; what 64 bits cannot hold (beyond the years
// 1677..2262) is the nearest that they can.
int64_t ShipTime(const timespec& modified);
timespec TimeOfShip(int64_t modified_ns);

// Head and path (and target); of a file the bytes follow.
std::string ShipHead(const ShipEntry& entry);

// `read` fills the whole buffer or fails. Errors: those of `read`; InvalidArgument: not what
// ShipHead writes, or against A2.
using ShipRead = std::function<absl::Status(char* data, size_t size)>;
absl::StatusOr<ShipEntry> ReadShipHead(const ShipRead& read);

// Whether it is a path below a folder: neither empty nor absolute, no "..", "." or empty part.
bool IsShipPath(absl::string_view path);
// Whether a link at `path` that says `target` ends in the folder that `path` is below.
bool LinkStaysInside(absl::string_view path, absl::string_view target);

}  // namespace muster
