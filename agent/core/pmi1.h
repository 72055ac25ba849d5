// A node's PMI-1 server: what MPICH and its relatives ask of their
// launcher. Lines of workers in, replies and effects out; pure.
//
// Invariants (cited by tests):
//  P1 exactly one reply to each request, in order; abort has none;
//  P2 what a worker of any node has put before a barrier is there for all behind it;
//  P3 a barrier is left when all workers of all nodes are in it;
//  P4 what a client sends is bounded: a longer key, value or line is refused, never cut;
//  P5 a worker has one world: its second init is refused, and ends it.
//
// Fences: where all workers of this node are in a barrier, what they have put since the one before
// goes out as one text (Pmi1Enter), and comes back as that of all nodes (Fenced).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "agent/core/mpi_end.h"
#include "agent/core/pmi1_wire.h"
#include "proto/base/ids.h"
#include "proto/base/messages.h"
#include "proto/base/work_plan.h"

namespace muster {

// What workers are told of their round.
struct Pmi1Round {
  std::string kvsname;
  uint32_t world_size = 0;
  std::string mapping;            // PMI_process_mapping; "" = none
  std::vector<uint32_t> appnums;  // by local rank: which of the job's programs
  bool asked_for = false;         // --mpi pmi1; else any program may be one that calls no MPI
  std::string refusal = "";       // why no worker may have a world; "" = it may
};
Pmi1Round Pmi1RoundOf(const WorkPlan& plan, const Assignment& assignment);

// Which ranks share a node: "(vector,(0,2,16))", blocks of (first node, nodes, ranks on each).
// "" where it would be longer than a value may be: the MPI finds out by itself then.
std::string ProcessMapping(const Assignment& assignment);

struct Pmi1Reply {
  LocalRank to;
  std::string line;  // with its end
};
struct Pmi1Enter {
  std::string pairs;
};  // answered by Fenced
struct Pmi1Abort {
  LocalRank by;
};  // it is about to exit, or to be ended; End() says with what
struct Pmi1Drop {
  LocalRank worker;
  std::string why;
};  // it does not speak PMI-1: nothing is read from it any more
struct Pmi1Notice {
  std::string text;
};  // for the user
using Pmi1Effect = std::variant<Pmi1Reply, Pmi1Enter, Pmi1Abort, Pmi1Drop, Pmi1Notice>;

class Pmi1Server {
 public:
  // A test may bound the pairs closer: their bytes together.
  explicit Pmi1Server(Pmi1Round round, size_t bytes_max);

  // One line of this worker, without its end.
  std::vector<Pmi1Effect> Take(LocalRank from, absl::string_view line);
  // Answers Pmi1Enter: the texts of all nodes one behind the other; or why there is none.
  std::vector<Pmi1Effect> Fenced(const absl::StatusOr<std::string>& pairs);
  // Its process has ended, with 0 if `well`; nothing comes from it any more.
  std::vector<Pmi1Effect> Ended(LocalRank worker, bool well);
  MpiEnd End(LocalRank worker) const { return workers_[worker.value].end; }

 private:
  struct Worker {
    MpiEnd end;
    bool in_barrier = false;
    bool in_spawn = false;    // lines up to "endcmd" say what to spawn
    std::string spawns;       // how many programs are to be spawned
    bool last_spawn = false;  // of them
    bool gone = false;
  };
  using Out = std::vector<Pmi1Effect>;

  void Command(LocalRank from, const Pmi1Line& line, Out& out);
  void Init(LocalRank from, const Pmi1Line& line, Out& out);
  void Refuse(LocalRank from, absl::string_view why, Out& out);
  void Put(LocalRank from, const Pmi1Line& line, Out& out);
  void Get(LocalRank from, const Pmi1Line& line, Out& out);
  void Barrier(LocalRank from, Out& out);
  void Abort(LocalRank from, const Pmi1Line& line, Out& out);
  // Of those for whom a barrier waits in vain, once.
  void TellOfMissing(Out& out);
  // Of an MPI that speaks no PMI-1: each rank was a world of its own, and all look well.
  void TellOfSingletons(Out& out);
  void SpawnLine(LocalRank from, absl::string_view line, Out& out);
  // "" or why it cannot be stored, as a word.
  std::string Store(const std::string& key, const std::string& value);

  const Pmi1Round round_;
  const size_t bytes_max_;
  std::vector<Worker> workers_;
  size_t entered_ = 0;
  size_t bytes_ = 0;  // of `pairs_`
  std::map<std::string, std::string> pairs_;
  std::map<std::string, std::string> news_;  // put here since the last barrier
  size_t missing_ = 0;                       // workers that ended without a word
  bool told_of_missing_ = false;
  size_t gone_ = 0;
  bool all_well_ = true;  // of those
};

}  // namespace muster
