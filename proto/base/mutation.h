// Hand-made bugs for the mutation check (tests/sim/mutation_test.cc): does the simulator notice?
// Compiled in only with MUSTER_MUTATION, that is in the test's own build of the cores; in programs
// Mutated() is a constant false.
#pragma once

#include <cstdint>

namespace muster {

enum class Mutation : uint8_t {
  kNone,
  kOldIncarnationBelieved,  // I3: beats of an older life count
  kLeaseFromReceipt,        // counted from the receipt of the answer
  kRanksSwapped,            // the first two nodes change places after a restart
  kExitAckedUnrecorded,     // an exit is acknowledged, and forgotten
  kRestartNotCounted,       // I4
  kRoundIdReused,           // I2
  kStopNotRepeated,         // answers do not say that the round is to be stopped
  kStartsUnready,           // I6: a round takes nodes that are not ready
  kEndedRoundStarts,        // A2: an order for a round that is over starts it again
  kExitsSentOnce,           // an exit whose beat is lost is never told again
  kLeaseIgnored,            // A4: a round starts without a lease
  kSoughtOnce,              // a peer whose answer is lost is never sought again
  kFailureStopsAll,         // --on-failure=continue is forgotten
  kLostNodeForgotten,       // ... and so is a node that is lost meanwhile
  kBlameNotFollowed,    // whoever fails first is the cause, also if it failed because of another
  kGrowsAtTheEnd,       // I8: a round whose workers have begun to end is stopped for a newcomer
  kGrowsTooSoon,        // I8: ... and one that has just begun
  kRegroupingCounted,   // nodes that come and go use up the restarts
  kComebackForgotten,   // a lost agent is never started again
  kStartsAgainEndless,  // I9: ... or without a limit
  kSentBeforeDurable,   // agents hear of what the journal does not have yet
  kRoundNotKept,        // the journal never hears of a round that follows another
  kReplayKeepsNoExits,  // exits are told a second time to the next master
  kLowerEpochBelieved,  // A5: a master that another has replaced still counts
  kOwnBudgetForgotten,  // I4: restarts of a rank or a node are not counted
  kFreeCharged,         // ... and what is free of charge is
  kBackoffSkipped,      // every restart is at once
  kBudgetsNotKept,      // the next master does not know what nodes have used
  kSetAsideChosen,      // a node that is set aside is taken though the others are enough
  kHoldNotCompared,     // whoever holds anything shows that the life before has ended
  kPlaceTakenAtOnce,    // a node takes the place of a lost one whose workers may still run
  kReplacedStopsAll,    // A1: a round that keeps workers stops them
  kExitsNumberedAnew,   // ... and its agent forgets which exits it has told
  kReplacesEndedWell,   // ... and starts those anew that have ended well
  kGoesOnUnanswered,    // A4: workers whose lease ended in a standstill go on without an answer
  kLast,
};

#ifdef MUSTER_MUTATION
extern Mutation active_mutation;  // set by the test before a run
inline bool Mutated(Mutation mutation) { return active_mutation == mutation; }
#else
constexpr bool Mutated(Mutation) { return false; }
#endif

}  // namespace muster
