// A job's journal as bytes: a header, then the records of its newest round.
//
// Each of them is framed: length, CRC-32 of the payload, CRC-32 of these two; four bytes each,
// little endian. A frame that the end of the file cuts off, or whose payload is damaged and the
// last thing in it, was never confirmed to anybody: it does not count. Anything else that is
// damaged is an error.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/wire/job_terms.h"
#include "rendezvous/core/journal_record.h"

namespace muster {

inline constexpr size_t kJournalRecordBytesMax = 64u << 20;

struct JournalHeader {
  std::string key;     // KnownUser::KeyOf(job_id)
  std::string job_id;  // as its nodes say it
  std::string clock;   // of the boot that the records' times count from
  JobTerms terms;
};

struct JournalFile {
  JournalHeader header;
  std::vector<JournalRecord> records;
  size_t good_bytes = 0;  // what follows them was never confirmed
};

// InvalidArgument: longer than kJournalRecordBytesMax.
absl::StatusOr<std::string> EncodeHeader(const JournalHeader& header);
absl::StatusOr<std::string> EncodeRecord(const JournalRecord& record);

// The payload in its frame. InvalidArgument: as above.
absl::StatusOr<std::string> FrameJournal(const std::string& payload);

// Errors, with the offset: DataLoss (damaged), FailedPrecondition (of another build, by both
// names).
absl::StatusOr<JournalFile> DecodeJournal(absl::string_view bytes);

}  // namespace muster
