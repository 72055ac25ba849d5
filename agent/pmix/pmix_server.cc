#include "agent/pmix/pmix_server.h"

#include <pmix.h>
#include <pmix_server.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/modex.h"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

// The one object, set before the library can call; it lives as long as the process.
PmixServer* g_server = nullptr;

absl::Status Check(pmix_status_t status, absl::string_view call) {
  if (status == PMIX_SUCCESS || status == PMIX_OPERATION_SUCCEEDED) {
    return absl::OkStatus();
  }
  return absl::InternalError(absl::StrCat(call, ": ", PMIx_Error_string(status)));
}

pmix_proc_t ProcOf(const PmixWorld& world, pmix_rank_t rank) {
  pmix_proc_t proc;
  PMIX_LOAD_PROCID(&proc, world.name.c_str(), rank);
  return proc;
}

// The library's own array, each value copied into it.
class InfoList {
 public:
  explicit InfoList(size_t capacity) : capacity_(capacity) { PMIX_INFO_CREATE(infos_, capacity_); }
  ~InfoList() {
    if (infos_ != nullptr) {
      PMIX_INFO_FREE(infos_, capacity_);
    }
  }
  InfoList(const InfoList&) = delete;
  InfoList& operator=(const InfoList&) = delete;

  void Text(const char* key, const std::string& value) { Load(key, value.c_str(), PMIX_STRING); }
  void Regex(const char* key, const char* value) { Load(key, value, PMIX_REGEX); }
  void Rank(const char* key, pmix_rank_t value) { Load(key, &value, PMIX_PROC_RANK); }
  void Number(const char* key, uint32_t value) { Load(key, &value, PMIX_UINT32); }
  void Short(const char* key, uint32_t value) {
    const auto narrow = static_cast<uint16_t>(value);
    Load(key, &narrow, PMIX_UINT16);
  }
  // What `list` holds becomes a value of this one.
  void Array(const char* key, InfoList& list) {
    pmix_data_array_t array = {PMIX_INFO, list.size_, list.infos_};
    Load(key, &array, PMIX_DATA_ARRAY);
  }

  pmix_info_t* get() { return infos_; }
  size_t size() const { return size_; }

 private:
  void Load(const char* key, const void* value, pmix_data_type_t type) {
    CHECK(size_ < capacity_);
    PMIX_INFO_LOAD(&infos_[size_], key, value, type);
    ++size_;
  }

  const size_t capacity_;
  pmix_info_t* infos_ = nullptr;
  size_t size_ = 0;
};

void LoadRank(const PmixWorld& world, uint32_t node, uint32_t local, InfoList& list) {
  const uint32_t rank = world.ranks[node][local];
  list.Rank(PMIX_RANK, rank);
  list.Rank(PMIX_GLOBAL_RANK, rank);
  list.Short(PMIX_LOCAL_RANK, local);
  list.Short(PMIX_NODE_RANK, local);
  list.Number(PMIX_NODEID, node);
  list.Number(PMIX_APPNUM, world.apps[rank]);
  list.Text(PMIX_HOSTNAME, world.hosts[node]);
}
constexpr size_t kKeysOfRank = 7;
constexpr size_t kKeysOfWorld = 15;

// Whether the fence is one of the whole world: others have no place in the round's order of fences.
bool IsOfAll(const PmixWorld& world, const pmix_proc_t* procs, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (!PMIX_CHECK_NSPACE(procs[i].nspace, world.name.c_str())) {
      return false;
    }
  }
  return count == world.size() || (count == 1 && procs[0].rank == PMIX_RANK_WILDCARD);
}

}  // namespace

// Each runs on the library's thread, and what it returns goes to the client.
struct PmixUpCalls {
  // A client waits until `done` has been called; a mailbox that is full has one that lies.
  static pmix_status_t Post(PmixMessage tell, pmix_op_cbfunc_t done, void* context) {
    std::function<void()> then;
    if (done != nullptr) {
      then = [done, context] { done(PMIX_SUCCESS, context); };
    }
    return g_server->up_calls_.Post({std::move(tell), std::move(then)}) ? PMIX_SUCCESS
                                                                        : PMIX_ERR_OUT_OF_RESOURCE;
  }

  // The library reads them until it releases them, on its own thread.
  static void GiveBytes(bool ok, std::string bytes, pmix_modex_cbfunc_t done, void* context) {
    auto kept = std::make_unique<std::string>(std::move(bytes));
    const std::string& data = *kept;
    done(ok ? PMIX_SUCCESS : PMIX_ERROR, data.data(), data.size(), context, ReleaseBytes,
         kept.release());
  }
  static void ReleaseBytes(void* bytes) {
    const std::unique_ptr<std::string> over(static_cast<std::string*>(bytes));
  }

  static pmix_status_t Connected(const pmix_proc_t* proc, void*, pmix_info_t*, size_t,
                                 pmix_op_cbfunc_t done, void* context) {
    const auto local = g_server->world_.LocalOf(proc->rank);
    return local.has_value() ? Post(PmixInit{*local}, done, context) : PMIX_ERR_NOT_FOUND;
  }

  static pmix_status_t Finalized(const pmix_proc_t* proc, void*, pmix_op_cbfunc_t done,
                                 void* context) {
    const auto local = g_server->world_.LocalOf(proc->rank);
    return local.has_value() ? Post(PmixFinalized{*local}, done, context) : PMIX_ERR_NOT_FOUND;
  }

  static pmix_status_t Abort(const pmix_proc_t* proc, void*, int status, const char* message,
                             pmix_proc_t*, size_t, pmix_op_cbfunc_t done, void* context) {
    const auto local = g_server->world_.LocalOf(proc->rank);
    if (!local.has_value()) {
      return PMIX_ERR_NOT_FOUND;
    }
    // "N/A" is Open MPI's word for none.
    const bool none = message == nullptr || std::strcmp(message, "N/A") == 0;
    return Post(PmixAborted{*local, status, none ? "" : message}, done, context);
  }

  static pmix_status_t Fence(const pmix_proc_t* procs, size_t count, const pmix_info_t*, size_t,
                             char* data, size_t size, pmix_modex_cbfunc_t done, void* context) {
    if (!IsOfAll(g_server->world_, procs, count)) {
      static_cast<void>(
          Post(PmixNotServed{"a fence of some ranks on several nodes"}, nullptr, nullptr));
      return PMIX_ERR_NOT_SUPPORTED;
    }
    PmixUpCall call;
    call.tell = PmixFence{std::string(data == nullptr ? "" : data, data == nullptr ? 0 : size)};
    free(data);  // it is the host's from here on, though the header says that all data stay theirs
    call.then = [done, context] {
      g_server->leave_fence_ = [done, context](bool ok, std::string bytes) {
        GiveBytes(ok, std::move(bytes), done, context);
      };
    };
    return g_server->up_calls_.Post(std::move(call)) ? PMIX_SUCCESS : PMIX_ERR_OUT_OF_RESOURCE;
  }

  static pmix_status_t DirectModex(const pmix_proc_t* proc, const pmix_info_t*, size_t,
                                   pmix_modex_cbfunc_t done, void* context) {
    const PmixWorld& world = g_server->world_;
    const pmix_rank_t rank = proc->rank;
    if (!PMIX_CHECK_NSPACE(proc->nspace, world.name.c_str()) || !world.OtherNodeOf(rank)) {
      return PMIX_ERR_NOT_FOUND;
    }
    const auto then = [rank, done, context] {
      g_server->wanting_.emplace(rank, [done, context](bool ok, std::string bytes) {
        GiveBytes(ok, std::move(bytes), done, context);
      });
    };
    return g_server->up_calls_.Post({PmixWant{rank}, then}) ? PMIX_SUCCESS
                                                            : PMIX_ERR_OUT_OF_RESOURCE;
  }

  // Answers Show(); `client` is the one.
  static void Shown(pmix_status_t status, char* data, size_t size, void* client) {
    PmixShown shown;
    shown.client = *static_cast<const LocalRank*>(client);
    shown.ok = status == PMIX_SUCCESS;
    // One more than is told further: the agent refuses it.
    shown.bytes.assign(data == nullptr ? "" : data,
                       data == nullptr ? 0 : std::min(size, kModexBytesMax + 1));
    static_cast<void>(Post(std::move(shown), nullptr, nullptr));
  }

  static pmix_status_t Spawn(const pmix_proc_t*, const pmix_info_t*, size_t, const pmix_app_t*,
                             size_t, pmix_spawn_cbfunc_t, void*) {
    return NotServed("MPI_Comm_spawn");
  }

  static pmix_status_t Publish(const pmix_proc_t*, const pmix_info_t*, size_t, pmix_op_cbfunc_t,
                               void*) {
    return NotServed("MPI_Publish_name");
  }

  static pmix_status_t Lookup(const pmix_proc_t*, char**, const pmix_info_t*, size_t,
                              pmix_lookup_cbfunc_t, void*) {
    return NotServed("MPI_Lookup_name");
  }

 private:
  static pmix_status_t NotServed(const char* what) {
    static_cast<void>(Post(PmixNotServed{what}, nullptr, nullptr));
    return PMIX_ERR_NOT_SUPPORTED;
  }
};

PmixServer::PmixServer(PmixWorld world, std::function<void()> wake)
    : world_(std::move(world)),
      // Of each client its init, end, abort, place in a fence, and what it shows; of each other
      // rank that it is wanted; spawns are few.
      up_calls_(4 * world_.ranks[world_.node].size() + world_.size() + 64, std::move(wake)) {
  CHECK(g_server == nullptr);
  g_server = this;
  for (uint32_t i = 0; i < world_.ranks[world_.node].size(); ++i) {
    clients_.push_back(LocalRank{i});
  }
}

absl::StatusOr<PmixReady> PmixServer::Start() {
  static pmix_server_module_t module = {};
  module.client_connected2 = PmixUpCalls::Connected;
  module.client_finalized = PmixUpCalls::Finalized;
  module.abort = PmixUpCalls::Abort;
  module.fence_nb = PmixUpCalls::Fence;
  module.direct_modex = PmixUpCalls::DirectModex;
  module.spawn = PmixUpCalls::Spawn;
  module.publish = PmixUpCalls::Publish;
  module.lookup = PmixUpCalls::Lookup;
  InfoList options(4);
  options.Text(PMIX_SERVER_TMPDIR, world_.folder);
  options.Text(PMIX_SYSTEM_TMPDIR, world_.folder);
  options.Text(PMIX_SERVER_NSPACE, absl::StrCat("muster-pmix-", getpid()));
  options.Rank(PMIX_SERVER_RANK, world_.node);
  RETURN_IF_ERROR(
      Check(PMIx_server_init(&module, options.get(), options.size()), "PMIx_server_init"));
  RETURN_IF_ERROR(RegisterWorld());
  PmixReady ready;
  for (const uint32_t rank : world_.ranks[world_.node]) {
    ASSIGN_OR_RETURN(std::vector<std::string> variables, RegisterClient(rank));
    ready.variables.push_back(std::move(variables));
  }
  return ready;
}

absl::Status PmixServer::RegisterWorld() {
  char* nodes = nullptr;
  char* procs = nullptr;
  RETURN_IF_ERROR(
      Check(PMIx_generate_regex(PmixNodeMap(world_).c_str(), &nodes), "PMIx_generate_regex"));
  RETURN_IF_ERROR(
      Check(PMIx_generate_ppn(PmixProcMap(world_).c_str(), &procs), "PMIx_generate_ppn"));
  const std::vector<uint32_t>& ranks = world_.ranks[world_.node];
  const auto here = static_cast<uint32_t>(ranks.size());
  InfoList list(kKeysOfWorld + world_.size());
  list.Regex(PMIX_NODE_MAP, nodes);
  list.Regex(PMIX_PROC_MAP, procs);
  free(nodes);
  free(procs);
  list.Text(PMIX_JOBID, world_.name);
  list.Text(PMIX_HOSTNAME, world_.hosts[world_.node]);
  list.Text(PMIX_LOCAL_PEERS, PmixLocalPeers(world_));
  list.Rank(PMIX_LOCALLDR, *std::min_element(ranks.begin(), ranks.end()));
  list.Number(PMIX_NODEID, world_.node);
  list.Number(PMIX_UNIV_SIZE, world_.size());
  list.Number(PMIX_JOB_SIZE, world_.size());
  list.Number(PMIX_MAX_PROCS, world_.size());
  list.Number(PMIX_APP_SIZE, world_.size());
  list.Number(PMIX_JOB_NUM_APPS, world_.apps.back() + 1);
  list.Number(PMIX_NUM_NODES, static_cast<uint32_t>(world_.hosts.size()));
  list.Number(PMIX_LOCAL_SIZE, here);
  list.Number(PMIX_NODE_SIZE, here);
  for (uint32_t node = 0; node < world_.ranks.size(); ++node) {
    for (uint32_t local = 0; local < world_.ranks[node].size(); ++local) {
      InfoList of_rank(kKeysOfRank);
      LoadRank(world_, node, local, of_rank);
      list.Array(PMIX_PROC_DATA, of_rank);
    }
  }
  // Without a function to call back it returns when all is done.
  const pmix_proc_t all = ProcOf(world_, PMIX_RANK_WILDCARD);
  return Check(PMIx_server_register_nspace(all.nspace, static_cast<int>(here), list.get(),
                                           list.size(), nullptr, nullptr),
               "PMIx_server_register_nspace");
}

absl::StatusOr<std::vector<std::string>> PmixServer::RegisterClient(uint32_t rank) {
  const pmix_proc_t proc = ProcOf(world_, rank);
  RETURN_IF_ERROR(
      Check(PMIx_server_register_client(&proc, geteuid(), getegid(), nullptr, nullptr, nullptr),
            "PMIx_server_register_client"));
  char** entries = nullptr;
  RETURN_IF_ERROR(Check(PMIx_server_setup_fork(&proc, &entries), "PMIx_server_setup_fork"));
  std::vector<std::string> variables;
  for (char** entry = entries; entry != nullptr && *entry != nullptr; ++entry) {
    variables.emplace_back(*entry);
    free(*entry);
  }
  free(entries);
  return variables;
}

void PmixServer::Fenced(PmixFenced result) {
  if (const auto leave = std::exchange(leave_fence_, nullptr)) {
    leave(result.ok, std::move(result.bytes));
  }
}

void PmixServer::Found(const PmixFound& found) {
  const auto [begin, end] = wanting_.equal_range(found.rank);
  for (auto one = begin; one != end; ++one) {
    one->second(found.ok, found.bytes);
  }
  wanting_.erase(begin, end);
}

void PmixServer::Show(LocalRank client) {
  if (client.value >= clients_.size()) {
    return;
  }
  const pmix_proc_t proc = ProcOf(world_, world_.ranks[world_.node][client.value]);
  const pmix_status_t asked =
      PMIx_server_dmodex_request(&proc, PmixUpCalls::Shown, &clients_[client.value]);
  if (asked != PMIX_SUCCESS) {
    PmixUpCalls::Shown(asked, nullptr, 0, &clients_[client.value]);
  }
}

}  // namespace muster
