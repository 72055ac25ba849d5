// What --ship names on this machine, and the archive that is made of it. Blocks on the file system;
// any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/base/limits.h"
#include "proto/base/ship_terms.h"
#include "proto/base/unique_fd.h"
#include "proto/ship/archive.h"

namespace muster {

struct ShipSource {
  std::string path;  // here
  ShipEntry entry;   // as it travels
  dev_t device = 0;
  ino_t inode = 0;
};

struct ShipScan {
  std::vector<ShipSource> sources;  // a folder before what is in it
  uint64_t bytes = 0;               // of the files
};

// Bounds a test may lower.
struct ShipBounds {
  uint64_t bytes_max = kShipBytesMax;
  size_t entries_max = kShipEntriesMax;
};

// Looks at the files, and reads none. `shipped`: as typed. Folders of version control and
// __pycache__ in a shipped folder stay here. Errors name the file, what is wrong with it, and what
// to do.
absl::StatusOr<ShipScan> ScanShip(const std::vector<std::string>& shipped, ShipBounds bounds = {});

struct ShipArchive {
  UniqueFd file;  // without a name
  ShipTerms terms;
};

// Errors: a file that cannot be read or that changes meanwhile; no room in $TMPDIR, or /tmp.
absl::StatusOr<ShipArchive> PackShip(const ShipScan& scan);

// Both; none where nothing is shipped.
absl::StatusOr<std::optional<ShipArchive>> ShipArchiveOf(const std::vector<std::string>& shipped);

}  // namespace muster
