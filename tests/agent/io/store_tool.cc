// store-tool [--world N] [--progress-ms N] [--port N] [--reserve]: serves (or only reserves) a
// torch store for tests of other languages. Prints "port N", then every line the server says; ends
// when stdin does, and says how long stopping took.
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/numbers.h"
#include "agent/io/torch_store_server.h"

namespace {

int Main(int argc, char** argv) {
  muster::TorchStoreServer::Options options;
  uint32_t port = 0;
  bool reserve = false;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    uint32_t number = 0;
    if (flag == "--reserve") {
      reserve = true;
      continue;
    }
    if (i + 1 >= argc || !absl::SimpleAtoi(argv[++i], &number)) {
      std::fprintf(stderr, "store-tool: %s wants a number\n", flag.c_str());
      return 2;
    }
    if (flag == "--world") {
      options.world_size = number;
    } else if (flag == "--progress-ms") {
      options.progress_after = absl::Milliseconds(number);
    } else if (flag == "--port") {
      port = number;
    } else {
      std::fprintf(stderr, "store-tool: unknown option %s\n", flag.c_str());
      return 2;
    }
  }
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);

  setvbuf(stdout, nullptr, _IOLBF, 0);
  options.say = [](const std::string& line) { std::printf("%s\n", line.c_str()); };
  auto bound = reserve ? muster::ReservePort("", static_cast<uint16_t>(port))
                       : muster::BindStorePort("", static_cast<uint16_t>(port));
  if (!bound.ok()) {
    std::fprintf(stderr, "store-tool: %s\n", std::string(bound.status().message()).c_str());
    return 1;
  }
  std::unique_ptr<muster::TorchStoreServer> server;
  if (!reserve) {
    auto started = muster::TorchStoreServer::Start(std::move(bound->fd), std::move(options));
    if (!started.ok()) {
      std::fprintf(stderr, "store-tool: %s\n", std::string(started.status().message()).c_str());
      return 1;
    }
    server = *std::move(started);
  }
  std::printf("port %u\n", unsigned{bound->port});
  char ignored[256];
  while (read(STDIN_FILENO, ignored, sizeof(ignored)) > 0) {
  }
  const auto began = std::chrono::steady_clock::now();
  server.reset();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - began;
  std::printf("stopped in %.1f ms\n", took.count());
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return Main(argc, argv); }
