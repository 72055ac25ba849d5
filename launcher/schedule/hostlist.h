// Slurm's host list expressions and run-length counts, without scontrol (which containers lack).
// Pure functions; thread-safe.
//
// Grammar: items separated by commas; an item is text with any number
// of bracket groups; a group is a comma list of numbers and ranges lo-hi, where the digits of `lo`
// give the zero padding: n[008-010] = n008 n009 n010. Several groups multiply from left to right:
// r[1-2]n[01-02] = r1n01 r1n02 r2n01 r2n02.
//
// Invariants:
//  H1 names come in the order of the text, never sorted, never merged;
//  H2 ExpandHostList(CompressHostList(names)) == names, and of SlurmHostList;
//  H3 the work is bounded by `names_max` and the text, whatever a range claims.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/base/limits.h"

namespace muster {

// All names of `text`. InvalidArgument: an empty item (an unset variable in "$A,$B" looks like
// that), a bracket without its partner, a range that runs backwards, more than `names_max` names, a
// name that no host can have.
absl::StatusOr<std::vector<std::string>> ExpandHostList(absl::string_view text,
                                                        size_t names_max = kNodesMax);

// The shortest text that a reader finds natural: neighbours that differ in one number share a
// bracket group.
std::string CompressHostList(const std::vector<std::string>& names);
// The same for Slurm, which takes nothing behind a name's last bracket (before 23.11): "Invalid
// hostlist: r[1-2]n5".
std::string SlurmHostList(const std::vector<std::string>& names);

// "2(x3),1" = 2 2 2 1. InvalidArgument: not of that form, a count of 0 repeats, more than
// `numbers_max` numbers.
absl::StatusOr<std::vector<uint32_t>> ExpandRunLengths(absl::string_view text,
                                                       size_t numbers_max = kNodesMax);
std::string CompressRunLengths(const std::vector<uint32_t>& numbers);

// An IPv6 address, with or without a zone (fe80::1%eth0), without brackets.
bool IsIpv6(absl::string_view text);

// Whether a scheduler's name means the machine that calls itself `hostname`: one of them may have
// the domain behind it.
bool IsSameHost(absl::string_view name, absl::string_view hostname);

// Ok for what may stand on a command line as a host: an IPv6 address, or letters, digits, "._-",
// not beginning with
// "-" (ssh would take that for an option), at most 253 characters.
absl::Status CheckHostName(absl::string_view name);

// Pieces of `text` between commas that are not in brackets; the pieces may be empty.
absl::StatusOr<std::vector<absl::string_view>> SplitOutsideBrackets(absl::string_view text);

}  // namespace muster
