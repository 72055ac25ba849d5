// Workers that lose each other and go on: real processes with the SDK, the doors of their nodes,
// and this fixture as agents and master. Two workers a node, ranks 2n and 2n + 1 on node n.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "agent/io/torch_store_port.h"
#include "agent/io/worker_door.h"
#include "muster/communicator.h"
#include "proto/base/env_names.h"
#include "tests/agent/io/loop_test.h"
#include "tests/agent/io/peers_test.h"

namespace muster {

constexpr int kFailed = 3;  // a worker that said why

class ReformTest : public TickingLoopTest {
 protected:
  // What a worker does; its word goes to Said().
  using Program = std::function<int()>;

  ~ReformTest() override { Clear(); }
  // All are gone, as before Start().
  void Clear() {
    for (const auto& [rank, worker] : workers_) {
      if (!worker.ended) {
        kill(worker.pid, SIGKILL);
        waitpid(worker.pid, nullptr, 0);
      }
    }
    workers_.clear();
    said_.clear();
    lives_.clear();
    nodes_.clear();
  }

  void Start(uint32_t nodes, Program program) {
    program_ = std::move(program);
    for (uint32_t i = 0; i < nodes; ++i) {
      int ends[2];
      ASSERT_EQ(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends), 0);
      Node& node = nodes_.emplace_back();
      node.outside.Reset(ends[1]);
      node.door = std::make_unique<WorkerDoor>(
          &loop_, UniqueFd(ends[0]), 4, PeerOptions{"geheim", "job", {}},
          [this, i](NodeRank sought) {
            nodes_[i].door->Found({sought, "127.0.0.1", nodes_[sought.value].port});
          });
      node.door->LetFollow(may_follow_);
      absl::StatusOr<BoundPort> bound = BindStorePort("127.0.0.1", 0);
      ASSERT_TRUE(bound.ok());
      node.port = bound->port;
      node.door->BeginRound(TwoEach(i, nodes, round_), std::move(bound->fd));
    }
    for (uint32_t rank = 0; rank < 2 * nodes; ++rank) {
      Spawn(rank);
    }
  }

  // In its environment: how many had this rank before it.
  void Spawn(uint32_t rank) {
    TestPipe pipe = MakePipe();
    const auto nodes = static_cast<uint32_t>(nodes_.size());
    const std::vector<std::pair<const char*, uint64_t>> variables = {
        {kEnvRank, rank},
        {kEnvWorldSize, 2 * nodes},
        {kEnvLocalRank, rank % 2},
        {kEnvLocalSize, 2},
        {kEnvNodeRank, rank / 2},
        {kEnvNodes, nodes},
        {kEnvAgentFd, kWorkerDoorFd},
        {kEnvRound, RoundId{1, round_}.Token()},
        {"LIFE", lives_[rank]++}};
    const pid_t pid = fork();
    if (pid == 0) {
      dup2(nodes_[rank / 2].outside.get(), kWorkerDoorFd);
      dup2(pipe.writer.get(), STDOUT_FILENO);
      close_range(STDERR_FILENO + 1, kWorkerDoorFd - 1, 0);
      close_range(kWorkerDoorFd + 1, ~0U, 0);
      for (const auto& [name, value] : variables) {
        setenv(name, std::to_string(value).c_str(), 1);
      }
      _exit(program_());
    }
    Worker& worker = workers_[rank];
    worker.pid = pid;
    worker.ended = false;
    worker.out = std::move(pipe.reader);
    fcntl(worker.out.get(), F_SETFL, O_NONBLOCK);
    fcntl(worker.out.get(), F_SETPIPE_SZ, 4096);  // who says much is never far ahead of us
  }

  // As agents and master: whoever is killed is replaced in a round that keeps the others. Whether
  // all have ended.
  bool Tend() {
    bool died = false;
    bool all = true;
    for (auto& [rank, worker] : workers_) {
      char text[4096];
      for (ssize_t n = 0; (n = read(worker.out.get(), text, sizeof(text))) > 0;) {
        said_[rank].append(text, static_cast<size_t>(n));
      }
      int status = 0;
      if (!worker.ended && waitpid(worker.pid, &status, WNOHANG) == worker.pid) {
        worker.ended = true;
        worker.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
        nodes_[rank / 2].door->WorkerEnded(LocalRank{rank % 2});
        for (Node& node : nodes_) {
          node.door->PeerGone(Rank{rank});
        }
        died |= WIFSIGNALED(status);
      }
      all &= worker.ended;
    }
    if (died && may_follow_) {
      NextRound();
      return false;
    }
    return all;
  }
  void NextRound() {
    ++round_;
    for (uint32_t i = 0; i < nodes_.size(); ++i) {
      nodes_[i].door->KeepRound(TwoEach(i, static_cast<uint32_t>(nodes_.size()), round_));
    }
    for (auto& [rank, worker] : workers_) {
      if (worker.ended && worker.code < 0) {
        Spawn(rank);
      } else if (worker.ended) {
        nodes_[rank / 2].door->WorkerEnded(LocalRank{rank % 2});
      }
    }
  }
  void RunToEnd() {
    ASSERT_TRUE(RunUntil([&] { return Tend(); })) << Everything();
    for (const auto& [rank, worker] : workers_) {
      EXPECT_EQ(worker.code, may_follow_ ? 0 : worker.code) << Everything();
    }
  }
  std::string Everything() {
    return absl::StrJoin(said_, "\n", [](std::string* out, const auto& one) {
      absl::StrAppend(out, "rank ", one.first, ": ", one.second);
    });
  }

  struct Node {
    UniqueFd outside;  // what workers inherit
    std::unique_ptr<WorkerDoor> door;
    uint16_t port = 0;
  };
  struct Worker {
    pid_t pid = -1;
    bool ended = false;
    int code = 0;  // below 0: a signal
    UniqueFd out;
  };
  std::vector<Node> nodes_;
  std::map<uint32_t, Worker> workers_;  // by rank
  std::map<uint32_t, std::string> said_;
  std::map<uint32_t, uint64_t> lives_;
  Program program_;
  bool may_follow_ = true;
  uint32_t round_ = 7;
};

// --- what workers do ---

inline void Say(const std::string& word) {
  [[maybe_unused]] const ssize_t n = write(STDOUT_FILENO, word.data(), word.size());
}
inline int Fail(const Status& status) {
  Say(status.ToString() + ";");
  return kFailed;
}
inline void Die() { kill(getpid(), SIGKILL); }

inline std::string Text(const Agreed& agreed) {
  return absl::StrCat("completed ", agreed.completed, " started ", agreed.started, " committed ",
                      agreed.committed, "..", agreed.committed_last, " holder ", agreed.holder);
}
inline bool IsSum(const Communicator& comm, const std::vector<int64_t>& data) {
  const int64_t want = int64_t{comm.size()} * (comm.size() + 1) / 2;
  return std::all_of(data.begin(), data.end(), [&](int64_t value) { return value == want; });
}
inline Status Reduce(Communicator& comm, size_t count = 100'000) {
  std::vector<int64_t> data(count, comm.rank() + 1);
  Status status = comm.AllReduce(data.data(), static_cast<int64_t>(count));
  return status.ok() && !IsSum(comm, data) ? Status(StatusCode::kInternal, "a wrong sum") : status;
}
// The communicator of the next round, once `status` says that a rank has died.
inline StatusOr<Communicator> Next(Communicator& comm, const Status& status) {
  if (status.code() != StatusCode::kUnavailable) {
    return status.ok() ? Status(StatusCode::kInternal, "it did not fail") : status;
  }
  return comm.Reform();
}
// All that are here can work together.
inline int End(Communicator& comm) {
  if (Status status = Reduce(comm); !status.ok()) {
    return Fail(status);
  }
  Say(absl::StrCat(Text(comm.agreed()), " last ", comm.last_call(),
                   comm.is_replacement() ? " new" : "", ";"));
  const Status status = comm.Barrier();
  return status.ok() ? 0 : Fail(status);
}

}  // namespace muster
