// An agent that only takes its bootstrap, says so on the channel, and sends back what comes.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/io/dial.h"
#include "agent/io/program_giver.h"
#include "agent/io/torch_store_port.h"
#include "proto/base/build_info.h"
#include "proto/base/clock.h"
#include "proto/wire/bootstrap.h"

namespace {

// Stdin and stdout are then the connection; the secret of the ticket. `words`: it, behind the
// node's name, where it does not come on stdin.
std::string Call(const std::vector<std::string>& words, muster::Dialed* dialed) {
  const absl::Time deadline = muster::BootNow() + absl::Seconds(60);
  const auto ticket = words.empty() ? muster::ReadTicket(0, deadline)
                                    : muster::TicketOfWords({words.begin() + 1, words.end()},
                                                            std::getenv("PBS_JOBCOOKIE"));
  const char* node = words.empty() ? std::getenv("SLURMD_NODENAME") : words[0].c_str();
  auto socket = ticket.ok() && node != nullptr
                    ? muster::Dial(*ticket, node, deadline,
                                   [node](const std::string& why) {
                                     const std::string line = muster::UnreachableLine({node, why});
                                     (void)!write(1, line.data(), line.size());
                                   })
                    : ticket.status();
  if (!socket.ok()) {
    std::fprintf(stderr, "%s\n", std::string(socket.status().message()).c_str());
    std::exit(1);
  }
  dup2(socket->socket.get(), 0);
  dup2(socket->socket.get(), 1);
  dialed->tls = std::move(socket->tls);
  return ticket->secret;
}

// Each that gets it is a byte in the file "given" of the folder above the temporary one; where
// there is a file "closed", nobody listens, and where there is "damaged", it is another program.
void Give(const std::string& token, absl::Time deadline) {
  const std::string folder = absl::StrCat(std::getenv("TMPDIR"), "/..");
  absl::StatusOr<muster::BoundPort> bound = muster::BindStorePort("127.0.0.1", 0);
  const uint16_t port = bound.ok() ? bound->port : 0;
  const bool closed = access(absl::StrCat(folder, "/closed").c_str(), F_OK) == 0;
  if (!closed) {
    const bool damaged = access(absl::StrCat(folder, "/damaged").c_str(), F_OK) == 0;
    muster::UniqueFd program(open(damaged ? "/bin/sh" : "/proc/self/exe", O_RDONLY));
    (void)muster::GiveBeside(std::move(bound->fd), std::move(program), token, [folder] {
      const muster::UniqueFd file(
          open(absl::StrCat(folder, "/given").c_str(), O_WRONLY | O_APPEND | O_CREAT, 0600));
      (void)!write(file.get(), "x", 1);
    });
  }
  (void)muster::AnnounceGiving(1, port, "127.0.0.1", deadline);
}

int Run(int argc, char** argv, muster::Dialed* dialed) {
  if (argc == 2 && std::strcmp(argv[1], "--build") == 0) {
    std::puts(std::string(muster::BuildName()).c_str());
    std::fflush(stdout);
    return 0;
  }
  const bool dials = argc >= 2 && std::strcmp(argv[1], "--dial") == 0;
  if (!dials && ((argc != 2 && argc != 4) || std::strcmp(argv[1], "--stdio") != 0)) {
    return 2;
  }
  if (!dials && argc == 4 && argv[2] != muster::BuildName()) {
    execl("/bin/sh", "sh", "-c", argv[3], nullptr);
    return 127;
  }
  const std::string secret = dials ? Call({argv + 2, argv + argc}, dialed) : "";
  const absl::Time deadline = muster::BootNow() + absl::Seconds(60);
  const bool pushed = muster::IsPushedAgent();
  if (!muster::AnnounceAgent(1, deadline).ok()) {
    return 1;
  }
  const auto bootstrap = muster::ReadBootstrap(0, deadline);
  if (!bootstrap.ok()) {
    std::fprintf(stderr, "%s\n", std::string(bootstrap.status().message()).c_str());
    return 1;
  }
  if (pushed && !bootstrap->program_token.empty()) {
    Give(bootstrap->program_token, deadline);
  }
  const std::string text = absl::StrCat("job ", bootstrap->job_id, " secret ", bootstrap->secret,
                                        secret, " node ", bootstrap->join.node_rank, "\n");
  if (write(1, text.data(), text.size()) < 0) {
    return 1;
  }
  fcntl(0, F_SETFL, 0);  // a dialed connection does not block
  char bytes[256];
  ssize_t n = 0;
  while ((n = read(0, bytes, sizeof(bytes))) > 0) {
    if (bytes[0] == 'q') {
      std::fprintf(stderr, "last words\n");
      return 7;
    }
    if (write(1, bytes, static_cast<size_t>(n)) < 0) {
      return 1;
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  muster::Dialed dialed;
  const int code = Run(argc, argv, &dialed);
  close(0);  // what was written goes out when these are closed
  close(1);
  return code;
}
