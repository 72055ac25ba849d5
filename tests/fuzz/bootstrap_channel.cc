// What comes to the starter from a login shell and the agent behind it.
#include "launcher/schedule/bootstrap_channel.h"

#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/build_info.h"
#include "proto/base/check.h"
#include "proto/wire/bootstrap.h"
#include "tests/fuzz/fuzz_target.h"

namespace muster::fuzz {
namespace {

std::string Wanted(absl::string_view end = "") {
  utsname name{};
  CHECK(uname(&name) == 0);
  return absl::StrCat(kAgentWantedLine, name.machine, end, "\n");
}

const std::string kGivesWithNul =
    absl::StrCat(kAgentGivesLine, absl::string_view("7 10.0.0.1\0;{touch,x};#\n", 24));

std::string Fetches() { return Wanted(kAgentFetches); }

}  // namespace

std::vector<std::string> Seeds() {
  const std::string ready = absl::StrCat(kAgentReadyLine, BuildName(), "\n");
  return {ready,
          "Welcome!\n\n" + ready,
          Wanted(),
          Wanted() + ready,
          "Last login\n" + Wanted() + "\n" + ready,
          absl::StrCat(kAgentReadyLine, "another\n"),
          absl::StrCat(kAgentWantedLine, "another\n"),
          Wanted() + Wanted(),
          Fetches() + Fetches() + ready + absl::StrCat(kAgentGivesLine, "29500 10.0.0.1\n"),
          Fetches() + ready + absl::StrCat(kAgentGivesLine, "0 \n"),
          Fetches() + ready + absl::StrCat(kAgentGivesLine, "7 $(true)\n"),
          Fetches() + ready + kGivesWithNul,
          "Permission denied.\n",
          std::string(3000, '\n'),
          "no line"};
}

void Run(absl::string_view bytes) {
  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
  UniqueFd far(ends[1]);
  uv_loop_t loop;
  CHECK(uv_loop_init(&loop) == 0);
  // A short file stands for the program; with one input in two there is none.
  AgentProgram program(bytes.size() % 2 == 0 ? "/proc/self/comm" : "/nowhere");
  std::unique_ptr<BootstrapChannel> channel;
  int answers = 0;
  BootstrapChannel::Callbacks on;
  on.on_ready = [&](UniqueFd socket) {
    CHECK(socket.valid());
    ++answers;
    channel.reset();  // as the starter may
  };
  on.on_failed = [&](const std::string& why, bool) {
    CHECK(!why.empty());
    ++answers;
    channel.reset();
  };
  on.on_progress = [&] { CHECK(channel != nullptr); };
  on.on_wanted = [&](bool fetches) {
    if (fetches) {
      channel->Refer(1, program.Digest().value_or("none"), "token", {"::1", 1});
    } else {
      channel->Send(program.Bytes().value_or("none"));
    }
  };
  on.on_gives = [&](const std::optional<ProgramGiverAddress>& gives) {
    CHECK(channel != nullptr);
    // They go into a shell's words.
    CHECK(!gives.has_value() ||
          (gives->port != 0 &&
           gives->address.find_first_not_of("0123456789abcdefABCDEF.:") == std::string::npos));
  };
  if (bytes.empty()) {
    on.on_wanted = nullptr;
  }
  channel = std::make_unique<BootstrapChannel>(&loop, UniqueFd(ends[0]), "frame", std::move(on));
  // The first lines come each when what was there before has been read, and answered.
  for (int lines = 0; channel != nullptr && !bytes.empty(); ++lines) {
    const size_t end = lines < 8 ? bytes.find('\n') : bytes.npos;
    const absl::string_view line = bytes.substr(0, end == bytes.npos ? end : end + 1);
    CHECK(send(far.get(), line.data(), line.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(line.size()));
    bytes.remove_prefix(line.size());
    for (int turn = 0; turn < 3; ++turn) {
      uv_run(&loop, UV_RUN_NOWAIT);
    }
  }
  CHECK(shutdown(far.get(), SHUT_WR) == 0);
  uv_run(&loop, UV_RUN_DEFAULT);
  CHECK(answers == 1);
  CHECK(uv_loop_close(&loop) == 0);
}

}  // namespace muster::fuzz
