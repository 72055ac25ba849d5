// What the agent knows about its node and about the program, as values; agent/io/node_facts and
// agent/io/program_facts read them. With them the choices that follow from nothing else. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "agent/core/cpu_count.h"
#include "proto/base/work_plan.h"

namespace muster {

struct NodeFacts {
  std::string hostname;               // for people; nothing is resolved from it
  std::string address = "127.0.0.1";  // how other nodes reach this one; never link-local
  std::string interface;              // that has it; "" = not found
  std::string address_why;            // "the route to 10.0.0.1"
  bool address_is_loopback = true;
  std::vector<std::string>
      addresses;              // all but loopback and link-local ones, at most kNodeAddressesMax
  CpuSet cpus;                // that workers may use (allowed_cpus.h); empty = not known
  uint32_t cpus_allowed = 1;  // how many these are
  std::string cpus_notice;    // about them, for the user; "" = nothing
  double cpu_quota = 0;       // cores, of the cgroup; 0 = none
  uint32_t gpus = 0;          // NVIDIA GPUs that workers may see
  uint32_t rdma_devices = 0;  // InfiniBand or RoCE: UCX must not be tied to an Ethernet interface

  uint32_t cpus_usable() const;  // whole CPUs, at least 1
};

struct ProgramFacts {
  std::string program;  // as people know it: the script, else the file
  bool found = false;   // on this node
  // Path of what is the user's own of it: the script, else its file; "" = nothing, or not seen.
  std::string file;
  std::string interpreter;  // path of the Python that runs it; "" = none, or not found
  bool is_python = false;
  std::string torch_version;  // "" = unknown or none
  std::string torch_cuda;     // CUDA version torch was built for; "" = none or unknown
  // "" | "Open MPI" | "MPICH" | "MPI" (some, by mpi4py; or several, by a script)
  std::string mpi;
  // Where its ranks meet, if that is the script's own choice (script_text.h); "" = nothing seen.
  std::string own_meeting_place;
  bool starts_ranks = false;  // it does so itself (script_text.h)
  // It is, or runs, torchrun or another program that gives ranks of its own to what it starts,
  // which would find PMI_RANK and PMI_SIZE of this worker beside them.
  bool runs_launcher = false;
};

// Whether the agent can serve torch's store: --store as given; auto where the torch that the
// program will load was run against it (kTorchStoreVersions) and does not refuse it
// (TorchLacksLibuv), and its ranks do not meet at an address of their own.
bool StoreIsAgent(StoreMode mode, const ProgramFacts& facts);

// A line for the user, when a program that starts its ranks itself is started `workers` times on a
// node; "" when there is nothing to say.
std::string StartsRanksNotice(const ProgramFacts& facts, uint32_t workers);

// A line for the user, where --store auto leaves the store to rank 0 for the sake of such an
// address; "" when there is nothing to say, as of one that starts its ranks itself.
std::string MeetingPlaceNotice(StoreMode mode, const ProgramFacts& facts, bool one_node);

// Debian's torch 2.x ("2.6.0+debian") is built without libuv and refuses every store for which
// libuv is asked: a store of its own unless USE_LIBUV=0, an agent's store always.
bool TorchLacksLibuv(absl::string_view torch_version);

// An MPI that a worker was seen to have loaded; "" and "" = none.
struct LoadedMpi {
  std::string mpi;      // "Open MPI" | "MPICH"
  std::string library;  // the path of its file
};

// How the program's MPI is served: --mpi as given; auto as the MPI that it links wants it.
MpiMode MpiServed(MpiMode mode, const ProgramFacts& facts);

// Whether each worker is offered PMI-1, and Open MPI made to fail where it finds no server: with
// --mpi auto, where no MPI is seen in the program, which may run one all the same (a script, make,
// Python), and the world has more than one rank; 0 = not known yet, more than one.
bool OffersPmi1(MpiMode mode, const ProgramFacts& facts, uint32_t world_size);

// One world has one server, and MPI_Init waits for all ranks of it. FailedPrecondition: these
// programs of a job cannot be one. Those that were not found count for nothing: they may be on
// other nodes only, or the start of a worker says what is wrong.
absl::Status CheckOneWorld(MpiMode mode, const std::vector<ProgramFacts>& programs);

// One or two lines for the user, when `world_size` workers of a program that uses an MPI may not
// find each other; 0 = not known yet, more than one. "" when there is nothing to say.
std::string MpiNotice(MpiMode mode, const ProgramFacts& facts, uint32_t world_size);

// For the user, of --mpi auto, where the program's own file did not show this MPI, and it has not
// come to the server that was offered.
std::string LoadedMpiNotice(uint32_t rank, const LoadedMpi& loaded, uint32_t world_size);

// --nproc-per-node on this node; of kObjects what CountObjects (worker_placement.h) has put into
// the plan. Errors: FailedPrecondition (gpu, and there is none).
absl::StatusOr<uint32_t> WorkersOnNode(const WorkPlan& plan, const NodeFacts& facts);

}  // namespace muster
