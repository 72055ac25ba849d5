// muster-rendezvous: the master as a daemon, for any number of jobs.
#include <uv.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/base/build_info.h"
#include "proto/base/log.h"
#include "proto/base/status_macros.h"
#include "proto/wire/secret.h"
#include "proto/wire/uv_handles.h"
#include "rendezvous/service/master_server.h"

namespace muster {
namespace {

constexpr char kHelp[] =
    "usage: muster-rendezvous [options]\n"
    "\n"
    "Serves jobs that are started by the same `launch --rdzv-endpoint HOST:PORT` on every node.\n"
    "\n"
    "  --listen ADDR:PORT   where nodes find it (default [::]:29400, every address of this "
    "machine)\n"
    "  --secret-file FILE   the secret that nodes have to know (default ~/.config/muster/secret,\n"
    "                       made on first use)\n"
    "  --insecure           no secret: everybody who reaches the port may run jobs\n"
    "  --version, --help\n";

struct Options {
  std::string listen = "[::]:29400";
  std::string secret_file;
  bool insecure = false;
  bool help = false;
  bool version = false;
};

absl::StatusOr<Options> ParseOptions(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const absl::string_view word = argv[i];
    const size_t equals = word.find('=');
    const absl::string_view name = word.substr(0, equals);
    if (name == "--listen" || name == "--secret-file") {
      if (equals == absl::string_view::npos && i + 1 >= argc) {
        return absl::InvalidArgumentError(absl::StrCat(name, ": want a value"));
      }
      std::string& value = name == "--listen" ? options.listen : options.secret_file;
      value = equals == absl::string_view::npos ? argv[++i] : std::string(word.substr(equals + 1));
    } else if (word == "--insecure") {
      options.insecure = true;
    } else if (word == "--help" || word == "-h") {
      options.help = true;
    } else if (word == "--version") {
      options.version = true;
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown option '", word, "': see muster-rendezvous --help"));
    }
  }
  if (options.insecure && !options.secret_file.empty()) {
    return absl::InvalidArgumentError("--insecure and --secret-file: give one of them");
  }
  return options;
}

// Grows from one life of this daemon to the next, so that rounds do: seconds since 2020 (by the
// wall clock, which decides nothing else).
uint32_t EpochNow() {
  constexpr int64_t kStartOf2020 = 1577836800;
  return static_cast<uint32_t>(std::max<int64_t>(1, std::time(nullptr) - kStartOf2020));
}

class Daemon {
 public:
  Daemon(uv_loop_t* loop, std::string secret) : master_(loop, OptionsFor(std::move(secret))) {
    for (const int signo : {SIGTERM, SIGINT}) {
      (signo == SIGTERM ? term_ : interrupt_) =
          std::make_unique<UvSignal>(loop, signo, [this] { Stop(); });
    }
  }
  absl::StatusOr<uint16_t> Listen(const std::string& address) { return master_.Listen(address); }

  // Serves until SIGTERM or SIGINT.
  void Run(uv_loop_t* loop) {
    UvRunUntil(loop, [this] { return stopped_; });
  }

 private:
  static MasterOptions OptionsFor(std::string secret) {
    MasterOptions options;
    options.secret = std::move(secret);
    options.many_jobs = true;
    options.epoch = EpochNow();
    options.on_tell = [](const std::string& job, const std::string& text) {
      LogInfo(absl::StrCat("job ", job, ": ", text));
    };
    options.on_round_started = [](const std::string& job, const RoundStarted& started) {
      LogInfo(absl::StrCat("job ", job, ": round ", started.round.ToString(), " with ",
                           started.world_size, " workers on ", started.nodes, " nodes"));
    };
    options.on_job_ended = [](const std::string& job, const JobReport& report) {
      LogInfo(absl::StrCat("job ", job, " ended with ", report.exit_code,
                           report.headline.empty() ? "" : ": ", report.headline));
    };
    return options;
  }

  void Stop() {
    if (!std::exchange(stopping_, true)) {
      master_.Shutdown([this] { stopped_ = true; });
    }
  }

  MasterServer master_;
  std::unique_ptr<UvSignal> term_;
  std::unique_ptr<UvSignal> interrupt_;
  bool stopping_ = false;
  bool stopped_ = false;
};

int Fail(const absl::Status& status, int code) {
  LogError(status.message());
  return code;
}

int Main(int argc, char** argv) {
  const absl::StatusOr<Options> options = ParseOptions(argc, argv);
  if (!options.ok()) {
    return Fail(options.status(), 2);
  }
  if (options->help || options->version) {
    std::fputs(options->help ? kHelp : absl::StrCat("muster ", BuildName(), "\n").c_str(), stdout);
    return 0;
  }
  absl::StatusOr<std::string> secret = SecretFor(options->insecure, options->secret_file);
  if (!secret.ok()) {
    return Fail(secret.status(), 1);
  }
  std::signal(SIGPIPE, SIG_IGN);
  uv_loop_t loop;
  uv_loop_init(&loop);
  Daemon daemon(&loop, *std::move(secret));
  const absl::StatusOr<uint16_t> port = daemon.Listen(options->listen);
  if (!port.ok()) {
    return Fail(
        absl::Status(port.status().code(), absl::StrCat("--listen: ", port.status().message())), 1);
  }
  const size_t colon = options->listen.rfind(':');
  std::printf("muster-rendezvous %s listens on %s:%u%s\n", std::string(Version()).c_str(),
              options->listen.substr(0, colon).c_str(), unsigned{*port},
              options->insecure ? " (insecure: everybody who reaches it may run jobs)" : "");
  std::fflush(stdout);
  daemon.Run(&loop);
  return 0;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) { return muster::Main(argc, argv); }
