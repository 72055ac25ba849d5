// How a journal's file is cut into frames, so that what a crash has left of the last one is told
// from damage. Pure.
//
//   FRAME = size, checksum of the payload, checksum of these two (4 bytes each), payload
//
// What is appended by one write is one frame, which is not confirmed before all of it is on the
// disk: of a batch of records the payload is (size, record)..., and the size has its top bit set.
// Invariants:
//  T1 a frame that was confirmed is never taken for a torn one where another follows it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

inline constexpr size_t kJournalRecordBytesMax = 64u << 20;

// The payload in its frame. InvalidArgument: longer than kJournalRecordBytesMax.
absl::StatusOr<std::string> FrameJournal(const std::string& payload);

// One frame for the records of these frames, in order. What is none of FrameJournal's, or is too
// long together, is put in as it is, one behind the other.
std::string JoinFrames(const std::vector<absl::string_view>& frames);

struct JournalFrame {
  std::vector<absl::string_view> payloads;  // of the text that it was found in
  size_t bytes = 0;
  bool whole = false;  // else it was never confirmed, and ends the file
};

// The frame at `offset` of a file. DataLoss, with the offset: damaged.
absl::StatusOr<JournalFrame> FrameAt(absl::string_view bytes, size_t offset);

}  // namespace muster
