#include "tests/worker_sdk/algorithm/schedule_world.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "proto/base/rng.h"

namespace muster {

int64_t MeanOf(int64_t sum, int64_t n) {
  int64_t inverse = 1;  // n to the (prime - 2), by Fermat
  for (int64_t power = kPrime - 2, square = n % kPrime; power > 0; power /= 2) {
    inverse = power % 2 == 1 ? inverse * square % kPrime : inverse;
    square = square * square % kPrime;
  }
  return sum % kPrime * inverse % kPrime;
}

namespace {

Space SpaceOf(const World& world, const Ref& ref) {
  return world.in_place && ref.space == Space::kIn ? Space::kOut : ref.space;
}

// Where in its memory `ref` begins.
uint64_t WordAt(const World& world, const World::Rank& rank, const Ref& ref) {
  const uint64_t first = !world.in_place            ? 0
                         : ref.space == Space::kIn  ? rank.in_at
                         : ref.space == Space::kOut ? rank.out_at
                                                    : 0;
  return first + ref.offset / kWord;
}

bool IsPrivate(Space space) { return space == Space::kScratch || space == Space::kNarrow; }

uint64_t AreaOf(const Ref& ref, uint64_t phase) {
  return (uint64_t{ref.place} * 8 + static_cast<uint64_t>(ref.space)) * 2 + (phase & 1);
}

bool HasEnded(const World::Rank& rank) {
  return rank.progress.done && rank.at == rank.steps.size();
}

std::vector<int64_t>& BufferOf(World& world, World::Rank& rank, const Ref& ref) {
  return SpaceOf(world, ref) == Space::kIn ? rank.in : rank.out;
}

int64_t ReadDirectly(World& world, uint32_t me, const Ref& ref, uint64_t word) {
  const World::Rank& rank = world.ranks[me];
  World::Rank& other = world.Peer(rank, ref.place);
  if (rank.known[ref.place] < rank.phase || !other.told || other.told_phase != rank.phase) {
    ADD_FAILURE() << "S4: rank " << me << " has not waited for what it reads";
    return 0;
  }
  if (HasEnded(other)) {
    ADD_FAILURE() << "S10: rank " << me << " reads from one that has gone on";
  }
  const uint64_t at = WordAt(world, other, *other.told) + ref.offset / kWord + word;
  const Space space = SpaceOf(world, *other.told);
  DirectRead* const last = other.reads.empty() ? nullptr : &other.reads.back();
  if (last != nullptr && last->reader == rank.seat.place && last->phase == rank.phase &&
      last->space == space && last->end == at) {
    ++last->end;
  } else {
    other.reads.push_back({rank.seat.place, rank.phase, space, at, at + 1});
  }
  return BufferOf(world, other, *other.told).at(at);
}

// S10: of what this rank has told, nobody it has not waited for has read words begin..end.
void CheckNotRead(const World::Rank& rank, Space space, uint64_t begin, uint64_t end) {
  for (const DirectRead& read : rank.reads) {
    if (read.space == space && read.begin < end && begin < read.end &&
        rank.known[read.reader] <= read.phase) {
      ADD_FAILURE() << "S10: what place " << read.reader << " reads is not left alone";
      return;
    }
  }
}

int64_t Read(World& world, uint32_t me, const Ref& ref, uint64_t word) {
  World::Rank& rank = world.ranks[me];
  const uint64_t at = WordAt(world, rank, ref) + word;
  if (ref.space == Space::kTheirs) {
    return ReadDirectly(world, me, ref, word);
  }
  if (ref.space == Space::kIn || ref.space == Space::kOut) {
    return BufferOf(world, rank, ref).at(at);
  }
  if (IsPrivate(ref.space)) {
    return WordOf(ref.space == Space::kNarrow ? rank.narrow : rank.scratch, at);
  }
  const Cell& cell = WordOf(WordOf(world.areas[rank.seat.node], AreaOf(ref, rank.phase)), at);
  if (cell.phase != rank.phase) {  // EXPECT_EQ would take most of the time
    ADD_FAILURE() << "S2: rank " << me << " reads what is not of its phase";
  }
  if (rank.known[cell.writer] < rank.phase) {
    ADD_FAILURE() << "S4: rank " << me << " has not waited";
  }
  return cell.value;
}

// S6: nobody of that node sends what `ref` means to a rank in its next phase.
void CheckNotSent(World& world, uint32_t me, const Ref& ref, uint64_t words) {
  const World::Rank& rank = world.ranks[me];
  const bool own = ref.space == Space::kOut || IsPrivate(ref.space);
  const uint64_t at = WordAt(world, rank, ref);
  for (uint32_t place = 0; place < rank.known.size(); ++place) {
    const World::Rank& sender = world.Peer(rank, place);
    for (const Message& message : sender.sent) {
      const uint64_t begin = WordAt(world, sender, message.src);
      const bool same_area =
          own ? &sender == &rank && SpaceOf(world, message.src) == ref.space
              : AreaOf(message.src, message.phase) == AreaOf(ref, rank.phase + 1);
      EXPECT_FALSE(same_area && at < begin + message.words && at + words > begin)
          << "S6: rank " << me << " writes to what is being sent";
    }
  }
}

void Write(World& world, uint32_t me, const Ref& ref, uint64_t word, int64_t value) {
  World::Rank& rank = world.ranks[me];
  const uint64_t at = WordAt(world, rank, ref) + word;
  if (ref.space == Space::kOut) {
    if (!rank.reads.empty()) {
      CheckNotRead(rank, Space::kOut, at, at + 1);
    }
    rank.out.at(at) = value;
    return;
  }
  if (ref.space == Space::kScratch) {
    WordOf(rank.scratch, at) = value;
    return;
  }
  if (ref.space == Space::kNarrow) {
    WordOf(rank.narrow, at) = value / kNarrowUnit * kNarrowUnit;
    return;
  }
  ASSERT_NE(ref.space, Space::kIn);
  for (uint32_t i = 0; i < rank.known.size(); ++i) {
    if (rank.known[i] < rank.phase) {
      ADD_FAILURE() << "S3: rank " << me << " has not waited for " << i;
    }
  }
  WordOf(WordOf(world.areas[rank.seat.node], AreaOf(ref, rank.phase + 1)), at) = {
      value, rank.seat.place, rank.phase + 1};
}

// Of what this rank has written just now.
void Divide(World& world, uint32_t me, const Ref& ref, uint64_t word) {
  World::Rank& rank = world.ranks[me];
  const uint64_t at = WordAt(world, rank, ref) + word;
  int64_t& value =
      ref.space == Space::kOut ? rank.out.at(at)
      : ref.space == Space::kScratch
          ? WordOf(rank.scratch, at)
          : WordOf(WordOf(world.areas[rank.seat.node], AreaOf(ref, rank.phase + 1)), at).value;
  value /= static_cast<int64_t>(world.ranks.size());
}

// Read by the receiver, as the memory is now.
int64_t Sent(World& world, const Message& message, uint64_t word) {
  World::Rank& rank = world.ranks[message.sender];
  const uint64_t at = WordAt(world, rank, message.src) + word;
  switch (message.src.space) {
    case Space::kIn:
    case Space::kOut:
      return BufferOf(world, rank, message.src).at(at);
    case Space::kScratch:
      return WordOf(rank.scratch, at);
    case Space::kNarrow:
      return WordOf(rank.narrow, at);
    default:
      return WordOf(WordOf(world.areas[rank.seat.node], AreaOf(message.src, message.phase)), at)
          .value;
  }
}

void Begin(World& world, uint32_t me, const Step& step) {
  World::Rank& rank = world.ranks[me];
  for (uint64_t word = 0; word < step.bytes / kWord; ++word) {
    (void)Read(world, me, step.src, word);  // S2, S4
  }
  const bool narrow = world.call.wire == Wire::kBFloat16 && step.bytes > kNearBytes;
  EXPECT_TRUE(!narrow || step.src.space == Space::kNarrow) << "S8: rank " << me << " sends in full";
  const uint32_t to = world.layout.First(step.node) + rank.seat.place;
  const Message message = {me, step.src, rank.phase, step.bytes / kWord, ++rank.sends};
  world.wire[{me, to}].push_back(message);
  rank.sent.push_back(message);
}

// False: nothing is there yet.
bool Receive(World& world, uint32_t me, const Step& step) {
  const uint32_t from = world.layout.First(step.node) + world.ranks[me].seat.place;
  std::deque<Message>& queue = world.wire[{from, me}];
  if (queue.empty()) {
    return false;
  }
  const Message message = queue.front();
  queue.pop_front();
  EXPECT_EQ(message.words, step.bytes / kWord) << "S5: from " << from << " to " << me;
  EXPECT_EQ(message.src.space == Space::kNarrow, step.dst.space == Space::kNarrow)
      << "S8: from " << from << " to " << me;
  CheckNotSent(world, me, step.dst, step.bytes / kWord);
  for (uint64_t word = 0; word < std::min(message.words, step.bytes / kWord); ++word) {
    Write(world, me, step.dst, word, Sent(world, message, word));
  }
  World::Rank& sender = world.ranks[from];
  std::erase_if(sender.sent, [&](const Message& m) { return m.number == message.number; });
  return true;
}

int64_t Reduced(World& world, uint32_t me, const Step& step, uint64_t word) {
  const World::Rank& rank = world.ranks[me];
  const bool means = step.kind == StepKind::kMeanPair;
  if (means || step.kind == StepKind::kReducePair) {
    const int64_t left = Read(world, me, step.src, word);
    const int64_t right = Read(world, me, {step.from, 0, step.offset}, word);
    return means ? MeanOf(left * step.ranks + right * step.ranks_from, step.ranks + step.ranks_from)
                 : left + right;
  }
  const bool mean_nodes = step.kind == StepKind::kMeanNodes;
  const bool nodes = mean_nodes || step.kind == StepKind::kReduceNodes;
  const uint32_t own = nodes ? rank.seat.node : rank.seat.place;
  int64_t sum = 0;
  for (uint32_t i = 0; i < (nodes ? world.layout.nodes() : rank.known.size()); ++i) {
    const Ref from =
        nodes ? Ref{step.from, 0, step.offset + i * step.stride} : Ref{step.from, i, step.offset};
    sum += Read(world, me, i == own ? step.src : from, word) *
           (mean_nodes ? world.layout.SizeOf(i) : 1);
  }
  return mean_nodes                     ? MeanOf(sum, world.layout.world())
         : step.kind == StepKind::kMean ? MeanOf(sum, static_cast<int64_t>(rank.known.size()))
                                        : sum;
}

void Tell(World& world, World::Rank& rank, const Step& step) {
  for (uint32_t i = 0; i < rank.known.size(); ++i) {
    EXPECT_GE(rank.known[i], rank.phase) << "S3: what is told is written into the arena";
  }
  rank.told = step.src;
  rank.told_phase = rank.phase + 1;
  if (step.kind == StepKind::kTellApart && world.in_place) {
    rank.told = step.dst;
    if (step.dst.space == Space::kIn) {
      rank.told.reset();
    }
  }
}

// After the part that asks.
bool AllHaveTold(World& world, const World::Rank& rank) {
  bool all = true;
  for (uint32_t place = 0; place < rank.known.size(); ++place) {
    EXPECT_GE(rank.known[place], rank.phase) << "S4: has not waited for what they tell";
    all = all && world.Peer(rank, place).told.has_value();
  }
  return all;
}

// False: it has to wait.
bool RunOne(World& world, uint32_t me) {
  World::Rank& rank = world.ranks[me];
  const Step& step = rank.steps[rank.at];
  for (uint32_t i = 0; i < rank.known.size(); ++i) {
    const bool waits =
        step.kind == StepKind::kWaitAll || (step.kind == StepKind::kWaitOne && step.src.place == i);
    if (waits && world.Peer(rank, i).phase < rank.phase) {
      return false;
    }
    if (waits) {
      rank.known[i] = rank.phase;
    }
  }
  if (step.kind == StepKind::kFlush && !rank.sent.empty() &&
      rank.sent.front().number <= step.offset) {
    EXPECT_LE(step.offset, rank.sends);
    return false;
  }
  if (step.kind == StepKind::kReceive && !Receive(world, me, step)) {
    return false;
  }
  if (step.kind == StepKind::kSend) {
    Begin(world, me, step);
  }
  const bool reduces = step.kind == StepKind::kReduce || step.kind == StepKind::kMean ||
                       step.kind == StepKind::kReduceNodes || step.kind == StepKind::kMeanNodes ||
                       step.kind == StepKind::kReducePair || step.kind == StepKind::kMeanPair;
  if (reduces || step.kind == StepKind::kCopy) {
    CheckNotSent(world, me, step.dst, step.bytes / kWord);
  }
  for (uint64_t word = 0; word < step.bytes / kWord; ++word) {
    switch (step.kind) {
      case StepKind::kCopy:
        Write(world, me, step.dst, word, Read(world, me, step.src, word));
        break;
      case StepKind::kReduce:
      case StepKind::kMean:
      case StepKind::kReduceNodes:
      case StepKind::kMeanNodes:
      case StepKind::kReducePair:
      case StepKind::kMeanPair:
        Write(world, me, step.dst, word, Reduced(world, me, step, word));
        break;
      case StepKind::kDivide:
        Divide(world, me, step.dst, word);
        break;
      default:
        break;
    }
  }
  if (step.kind == StepKind::kAsk || step.kind == StepKind::kTell ||
      step.kind == StepKind::kTellApart) {
    Tell(world, rank, step);
  }
  if (step.kind == StepKind::kPublish) {
    rank.known[rank.seat.place] = ++rank.phase;
  }
  ++rank.at;
  return true;
}

// S9, of a part that has just been made.
void CheckNeeds(World& world, uint32_t me, bool is_first) {
  World::Rank& rank = world.ranks[me];
  const auto need = [&](Space space, uint64_t bytes) {
    if (IsPrivate(space)) {
      uint64_t& most = rank.private_bytes[space == Space::kNarrow ? 1 : 0];
      EXPECT_TRUE(is_first || bytes <= most) << "S9: rank " << me << " needs more memory";
      most = std::max(most, bytes);
    }
  };
  for (const Step& step : rank.steps) {
    need(step.dst.space, step.dst.offset + step.bytes);
    need(step.src.space, step.src.offset + step.bytes);
    if (step.kind == StepKind::kReduceNodes) {
      need(step.from, step.offset + (world.layout.nodes() - 1) * step.stride + step.bytes);
    }
    if (step.kind == StepKind::kSend || step.kind == StepKind::kReceive) {
      EXPECT_TRUE(rank.peers.insert(step.node).second <= is_first)
          << "S9: rank " << me << " needs node " << step.node;
    }
  }
}

// False: it has done all its steps.
bool HasSteps(World& world, uint32_t me) {
  World::Rank& rank = world.ranks[me];
  while (rank.at == rank.steps.size() && !rank.progress.done) {
    const bool is_first = rank.progress.turn == 0;
    rank.progress.refused =
        rank.progress.refused || (rank.progress.asked && !AllHaveTold(world, rank));
    MakeSchedule(
        {&world.layout, rank.seat.node, rank.seat.place, world.slot_bytes,
         world.slot_bytes * world.layout.SmallestNode(), world.carriers, world.ahead, world.direct},
        world.call, rank.progress, rank.steps);
    rank.at = 0;
    CheckNeeds(world, me, is_first);
    std::erase_if(rank.steps, [&](const Step& step) { return step.kind == world.without; });
  }
  if (HasEnded(rank)) {
    CheckNotRead(rank, Space::kIn, 0, UINT64_MAX);
    CheckNotRead(rank, Space::kOut, 0, UINT64_MAX);
    return false;
  }
  return true;
}

}  // namespace

void RunAll(World& world, uint64_t seed) {
  SplitMix64 random(seed);
  std::vector<uint32_t> left;
  for (uint32_t i = 0; i < world.ranks.size(); ++i) {
    left.push_back(i);
  }
  std::erase_if(left, [&](uint32_t i) { return !HasSteps(world, i); });
  while (!left.empty()) {
    const size_t first = random.Next() % left.size();
    bool moved = false;
    for (size_t i = 0; i < left.size() && !moved; ++i) {
      const size_t pick = (first + i) % left.size();
      // Some steps in a row, else neighbours would move in lockstep.
      for (uint64_t steps = random.Next() % 8 + 1; steps > 0 && HasSteps(world, left[pick]);
           --steps) {
        if (!RunOne(world, left[pick])) {
          break;
        }
        moved = true;
      }
      if (!HasSteps(world, left[pick])) {
        left.erase(left.begin() + static_cast<ptrdiff_t>(pick));
        moved = true;
      }
    }
    ASSERT_TRUE(moved) << "S7: every rank waits for another";
  }
  for (const auto& [ends, queue] : world.wire) {
    EXPECT_TRUE(queue.empty()) << "S5: from " << ends.first << " to " << ends.second;
  }
}

}  // namespace muster
