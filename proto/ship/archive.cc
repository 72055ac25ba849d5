#include "proto/ship/archive.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

constexpr uint32_t kShipMagic = 0x3150534d;  // "MSP1", in front of each entry; wire
constexpr uint32_t kModeMax = 0777;
constexpr int64_t kNsPerSecond = 1'000'000'000;
constexpr size_t kHeadBytes = 4 + 1 + 4 + 8 + 8 + 4 + 4;

template <typename Number>
void Append(Number number, std::string& out) {
  for (size_t i = 0; i < sizeof(number); ++i) {
    out.push_back(static_cast<char>((number >> (8 * i)) & 0xff));
  }
}

template <typename Number>
Number Take(absl::string_view& text) {
  Number number = 0;
  for (size_t i = 0; i < sizeof(number); ++i) {
    number |= static_cast<Number>(static_cast<Number>(static_cast<uint8_t>(text[i])) << (8 * i));
  }
  text.remove_prefix(sizeof(number));
  return number;
}

absl::Status Wrong(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("what was shipped cannot be unpacked: ", what));
}

absl::Status CheckEntry(const ShipEntry& entry) {
  const bool link = entry.kind == ShipKind::kLink;
  if (entry.kind == ShipKind::kEnd) {
    return entry == ShipEntry{} ? absl::OkStatus() : Wrong("its end says more than that");
  }
  if (entry.kind < ShipKind::kFile || entry.kind > ShipKind::kEnd || entry.mode > kModeMax ||
      (entry.kind != ShipKind::kFile && entry.size != 0) || link == entry.target.empty()) {
    return Wrong(absl::StrCat("the entry of '", entry.path, "' is damaged"));
  }
  if (!IsShipPath(entry.path)) {
    return Wrong(absl::StrCat("the path '", entry.path, "' leads out of the folder"));
  }
  if (link && !LinkStaysInside(entry.path, entry.target)) {
    return Wrong(absl::StrCat("the link '", entry.path, "' leads out of the folder"));
  }
  return absl::OkStatus();
}

}  // namespace

int64_t ShipTime(const timespec& modified) {
  constexpr int64_t kSecondsMax = std::numeric_limits<int64_t>::max() / kNsPerSecond - 1;
  return std::clamp<int64_t>(modified.tv_sec, -kSecondsMax, kSecondsMax) * kNsPerSecond +
         modified.tv_nsec;
}

timespec TimeOfShip(int64_t modified_ns) {
  const int64_t part = modified_ns % kNsPerSecond;
  const bool before = part < 0;  // 1970: nanoseconds count forwards all the same
  return {modified_ns / kNsPerSecond - (before ? 1 : 0), part + (before ? kNsPerSecond : 0)};
}

std::string ShipHead(const ShipEntry& entry) {
  std::string out;
  Append(kShipMagic, out);
  Append(static_cast<uint8_t>(entry.kind), out);
  Append(entry.mode, out);
  Append(static_cast<uint64_t>(entry.modified_ns), out);
  Append(entry.size, out);
  Append(static_cast<uint32_t>(entry.path.size()), out);
  Append(static_cast<uint32_t>(entry.target.size()), out);
  return absl::StrCat(out, entry.path, entry.target);
}

absl::StatusOr<ShipEntry> ReadShipHead(const ShipRead& read) {
  char head[kHeadBytes];
  RETURN_IF_ERROR(read(head, sizeof(head)));
  absl::string_view text(head, sizeof(head));
  if (Take<uint32_t>(text) != kShipMagic) {
    return Wrong("an entry does not begin like one");
  }
  ShipEntry entry;
  entry.kind = ShipKind{Take<uint8_t>(text)};
  entry.mode = Take<uint32_t>(text);
  entry.modified_ns = static_cast<int64_t>(Take<uint64_t>(text));
  entry.size = Take<uint64_t>(text);
  const auto path_bytes = Take<uint32_t>(text);
  const auto target_bytes = Take<uint32_t>(text);
  if (std::max(path_bytes, target_bytes) > kShipPathBytesMax) {
    return Wrong("a path is too long");
  }
  entry.path.resize(path_bytes);
  entry.target.resize(target_bytes);
  RETURN_IF_ERROR(read(entry.path.data(), entry.path.size()));
  RETURN_IF_ERROR(read(entry.target.data(), entry.target.size()));
  RETURN_IF_ERROR(CheckEntry(entry));
  return entry;
}

bool IsShipPath(absl::string_view path) {
  const std::vector<absl::string_view> parts = absl::StrSplit(path, '/');
  return path.size() <= kShipPathBytesMax && !absl::StrContains(path, '\0') &&
         std::none_of(parts.begin(), parts.end(), [](absl::string_view part) {
           return part.empty() || part == "." || part == "..";
         });
}

bool LinkStaysInside(absl::string_view path, absl::string_view target) {
  if (target.empty() || target[0] == '/' || target.size() > kShipPathBytesMax ||
      absl::StrContains(target, '\0')) {
    return false;
  }
  auto depth = std::count(path.begin(), path.end(), '/');
  for (const absl::string_view part : absl::StrSplit(target, '/')) {
    depth += part == ".." ? -1 : part.empty() || part == "." ? 0 : 1;
    if (depth < 0) {
      return false;
    }
  }
  return true;
}

}  // namespace muster
