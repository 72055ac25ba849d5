// Parts of messages that convert.cc converts. Not for others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/base/drill.h"
#include "proto/base/messages.h"
#include "proto/wire/field_checker.h"
#include "proto/wire/muster.pb.h"

namespace muster {

// A sentence, as much of it as a message may have.
inline std::string Cut(const std::string& text, size_t max) { return text.substr(0, max); }

inline RoundId RoundOf(const v1::RoundId& wire) { return {wire.epoch(), wire.n()}; }
inline void SetRound(const RoundId& round, v1::RoundId* wire) {
  wire->set_epoch(round.epoch);
  wire->set_n(round.n);
}

// Of the workers of a node: of all or, where they follow from the order of the nodes, of none.
std::vector<uint32_t> RanksOf(absl::string_view field,
                              const google::protobuf::RepeatedField<uint32_t>& wire,
                              uint32_t workers, uint32_t world_size, FieldChecker& check);
// Of each of a node's workers, or none.
std::vector<uint16_t> WorkerPortsOf(absl::string_view field,
                                    const google::protobuf::RepeatedField<uint32_t>& wire,
                                    uint32_t workers, FieldChecker& check);
void SetAssignment(const Assignment& assignment, v1::Assignment* wire);
Assignment AssignmentOf(const v1::Assignment& wire, FieldChecker& check);

void SetDrills(const std::vector<DrillOrder>& drills, v1::Directive* wire);
std::vector<DrillOrder> DrillsOf(const v1::Directive& wire, FieldChecker& check);

}  // namespace muster
