// What muster-rendezvous is told, on its command line and in its file.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

struct DaemonOptions {
  std::string listen = "[::]:29400";
  std::string secret_file;  // "" = the user's own
  std::string users;        // a folder with a secret for each user; "" = one secret for all
  std::string tls_key;      // a file, of `users`; "" = see TlsKeyPath
  std::string journal;      // a folder; "" = jobs end with the daemon, if `store` is "" too
  std::string store;        // as ParseEtcdPlace takes it; "" = none
  bool insecure = false;
  bool help = false;
  bool version = false;
};

const char* DaemonHelp();

// `arguments` without the program's name; `read` gives a file's text. What is typed wins over the
// file of --config. InvalidArgument: names the option or the file's line, and what is wanted.
absl::StatusOr<DaemonOptions> ParseDaemonOptions(
    const std::vector<std::string>& arguments,
    const std::function<absl::StatusOr<std::string>(const std::string& path)>& read);

// Where the key lies by which users know this daemon: --tls-key, else the file tls-key in the
// folder of --journal, else in that of systemd's STATE_DIRECTORY (folders with colons between; the
// first).
// "" = none of them is there: the user's own folder (UserConfigPath).
std::string TlsKeyPath(const DaemonOptions& options, absl::string_view state_directory);

}  // namespace muster
