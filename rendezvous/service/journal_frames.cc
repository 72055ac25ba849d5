#include "rendezvous/service/journal_frames.h"

#include <zlib.h>

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rendezvous/service/journal_store.h"

namespace muster {
namespace {

constexpr size_t kNumberBytes = 4;
constexpr size_t kFrameBytes = 3 * kNumberBytes;
constexpr uint32_t kBatch = uint32_t{1} << 31;  // in the file
constexpr size_t kSectorBytes = 512;            // a disk writes each of them, or not

uint32_t Crc(absl::string_view bytes) {
  return static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()),
                                       static_cast<z_size_t>(bytes.size())));
}

void PutNumber(uint32_t value, std::string& out) {
  for (size_t i = 0; i < kNumberBytes; ++i) {
    out.push_back(static_cast<char>(value >> (8 * i)));
  }
}

uint32_t NumberAt(absl::string_view bytes, size_t offset) {
  uint32_t value = 0;
  for (size_t i = 0; i < kNumberBytes; ++i) {
    value |= uint32_t{static_cast<unsigned char>(bytes[offset + i])} << (8 * i);
  }
  return value;
}

std::string Framed(uint32_t size, absl::string_view payload) {
  std::string out;
  PutNumber(size, out);
  PutNumber(Crc(payload), out);
  PutNumber(Crc(out), out);
  out.append(payload.data(), payload.size());
  return out;
}

bool LengthsHold(absl::string_view bytes) {
  return bytes.size() >= kFrameBytes &&
         NumberAt(bytes, 2 * kNumberBytes) == Crc(bytes.substr(0, 2 * kNumberBytes));
}

bool IsZero(absl::string_view bytes) {
  return bytes.find_first_not_of('\0') == absl::string_view::npos;
}

// No frame begins at `offset`; whether one was being written there, and a sector with the beginning
// of it has not got to the disk. Inside of a batch nothing looks like a frame.
bool IsTornHead(absl::string_view bytes, size_t offset) {
  const absl::string_view rest = bytes.substr(offset);
  if (IsZero(rest)) {
    return true;  // room that the file system had given, and nothing was written to
  }
  const size_t in_first = kSectorBytes - offset % kSectorBytes;
  const bool spans = in_first < kFrameBytes && in_first < rest.size();
  const bool hole =
      IsZero(rest.substr(0, in_first)) || (spans && IsZero(rest.substr(in_first, kSectorBytes)));
  for (size_t at = 1; hole && at + kFrameBytes <= rest.size(); ++at) {
    if (LengthsHold(rest.substr(at, kFrameBytes))) {
      return false;  // T1
    }
  }
  return hole;
}

absl::Status Damaged(size_t offset) {
  return absl::DataLossError(absl::StrCat("damaged at byte ", offset));
}

}  // namespace

absl::StatusOr<std::string> FrameJournal(const std::string& payload) {
  if (payload.size() > kJournalRecordBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a record of ", payload.size(), " bytes; the limit is ", kJournalRecordBytesMax));
  }
  return Framed(static_cast<uint32_t>(payload.size()), payload);
}

std::string JoinFrames(const std::vector<absl::string_view>& frames) {
  std::string payload;
  for (const absl::string_view frame : frames) {
    const bool is_one =
        LengthsHold(frame) && NumberAt(frame, 0) == frame.size() - kFrameBytes && frames.size() > 1;
    if (!is_one || payload.size() + frame.size() > kJournalFileBytesMax) {
      return absl::StrJoin(frames, "");
    }
    PutNumber(static_cast<uint32_t>(frame.size() - kFrameBytes), payload);
    payload.append(frame.substr(kFrameBytes).data(), frame.size() - kFrameBytes);
  }
  return Framed(kBatch | static_cast<uint32_t>(payload.size()), payload);
}

absl::StatusOr<JournalFrame> FrameAt(absl::string_view bytes, size_t offset) {
  const absl::string_view rest = bytes.substr(offset);
  if (rest.size() < kFrameBytes) {
    return JournalFrame();
  }
  const bool batch = (NumberAt(rest, 0) & kBatch) != 0;
  const size_t size = NumberAt(rest, 0) & ~kBatch;
  if (!LengthsHold(rest)) {
    return IsTornHead(bytes, offset) ? absl::StatusOr<JournalFrame>(JournalFrame())
                                     : Damaged(offset);
  }
  if (size > (batch ? kJournalFileBytesMax : kJournalRecordBytesMax)) {
    return Damaged(offset);
  }
  if (size > rest.size() - kFrameBytes) {
    return JournalFrame();
  }
  absl::string_view payload = rest.substr(kFrameBytes, size);
  if (NumberAt(rest, kNumberBytes) != Crc(payload)) {
    return IsZero(rest.substr(kFrameBytes + size)) ? absl::StatusOr<JournalFrame>(JournalFrame())
                                                   : Damaged(offset);
  }
  JournalFrame frame{{}, kFrameBytes + size, true};
  if (!batch) {
    frame.payloads.push_back(payload);
    return frame;
  }
  while (!payload.empty()) {
    const size_t one = payload.size() < kNumberBytes ? payload.size() : NumberAt(payload, 0);
    if (payload.size() < kNumberBytes || one > payload.size() - kNumberBytes) {
      return Damaged(offset);
    }
    frame.payloads.push_back(payload.substr(kNumberBytes, one));
    payload.remove_prefix(kNumberBytes + one);
  }
  return frame;
}

}  // namespace muster
