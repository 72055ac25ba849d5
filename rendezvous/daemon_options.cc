#include "rendezvous/daemon_options.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

using Settings = std::map<std::string, std::string>;  // by name without dashes; flags "true"

constexpr const char* kWithValue[] = {"config",      "journal", "listen", "rdzv-store",
                                      "secret-file", "tls-key", "users"};
constexpr const char* kFlags[] = {"insecure", "help", "version"};

template <size_t n>
bool Has(const char* const (&names)[n], absl::string_view name) {
  for (const char* one : names) {
    if (name == one) {
      return true;
    }
  }
  return false;
}

absl::StatusOr<Settings> ParseWords(const std::vector<std::string>& words) {
  Settings out;
  for (size_t i = 0; i < words.size(); ++i) {
    absl::string_view name = words[i];
    const size_t equals = name.find('=');
    const bool has_value = equals != absl::string_view::npos;
    const std::string value = has_value ? words[i].substr(equals + 1) : "";
    name = name == "-h" ? "--help" : name.substr(0, equals);
    const bool dashes = absl::ConsumePrefix(&name, "--");
    if (dashes && Has(kFlags, name) && !has_value) {
      out[std::string(name)] = "true";
    } else if (dashes && Has(kWithValue, name)) {
      if (!has_value && i + 1 >= words.size()) {
        return absl::InvalidArgumentError(absl::StrCat("--", name, ": want a value"));
      }
      out[std::string(name)] = has_value ? value : words[++i];
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown option '", words[i], "': see muster-rendezvous --help"));
    }
  }
  return out;
}

absl::Status BadFile(const std::string& path, const YAML::Mark& mark, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ":", mark.line + 1, ": ", what));
}

absl::Status AddLine(const std::string& path, const YAML::Node& key, const YAML::Node& value,
                     Settings& out) {
  const std::string name = key.IsScalar() ? key.Scalar() : "";
  const bool flag = name == "insecure";
  if (!flag && (name == "config" || !Has(kWithValue, name))) {
    return BadFile(
        path, key.Mark(),
        absl::StrCat("unknown key '", name,
                     "': want journal, listen, rdzv-store, secret-file, tls-key, users or "
                     "insecure"));
  }
  if (!value.IsScalar() || value.Scalar().empty() ||
      (flag && value.Scalar() != "true" && value.Scalar() != "false")) {
    return BadFile(path, key.Mark(),
                   absl::StrCat(name, ": want ", flag ? "true or false" : "one text"));
  }
  if (!out.emplace(name, value.Scalar()).second) {
    return BadFile(path, key.Mark(), absl::StrCat(name, " is given twice"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Settings> ParseFile(const std::string& path, const std::string& text) {
  Settings out;
  try {
    const YAML::Node file = YAML::Load(text);
    if (!file.IsNull() && !file.IsMap()) {
      return BadFile(path, file.Mark(), "want lines `key: value`");
    }
    for (const auto& line : file) {
      RETURN_IF_ERROR(AddLine(path, line.first, line.second, out));
    }
  } catch (const YAML::Exception& error) {
    const bool bare = absl::StrContains(text, ": [");  // listen: [::]:29400
    return BadFile(path, error.mark,
                   absl::StrCat(error.msg, bare ? ": put what begins with '[' in quotes" : ""));
  }
  return out;
}

template <size_t n>
bool HasOneOf(const char* const (&names)[n], const Settings& settings) {
  return std::any_of(std::begin(names), std::end(names),
                     [&settings](const char* name) { return settings.count(name) != 0; });
}

// Where the file has one of those that exclude each other, what is typed of them displaces it.
void TakeFile(const Settings& file, Settings& typed) {
  constexpr const char* kSecrets[] = {"secret-file", "users", "insecure"};
  constexpr const char* kKept[] = {"journal", "rdzv-store"};
  const bool typed_secret = HasOneOf(kSecrets, typed);
  const bool typed_kept = HasOneOf(kKept, typed);
  const bool no_users = typed_secret && typed.count("users") == 0;
  for (const auto& [name, value] : file) {
    const bool displaced = (typed_secret && Has(kSecrets, name)) ||
                           (typed_kept && Has(kKept, name)) || (no_users && name == "tls-key");
    if (!displaced) {
      typed.emplace(name, value);
    }
  }
}

}  // namespace

const char* DaemonHelp() {
  return "usage: muster-rendezvous [options]\n"
         "\n"
         "Serves jobs that are started by the same `launch --rdzv-endpoint HOST:PORT` on every "
         "node.\n"
         "\n"
         "  --listen ADDR:PORT   where nodes find it (default [::]:29400, every address of this "
         "machine)\n"
         "  --secret-file FILE   the secret that nodes have to know (default "
         "~/.config/muster/secret,\n"
         "                       made on first use)\n"
         "  --users FOLDER       many users: in FOLDER/NAME the secret of each (a copy of the "
         "user's "
         "own\n"
         "                       ~/.config/muster/secret), whose jobs no other user sees, joins "
         "or\n"
         "                       displaces; read again at SIGHUP.\n"
         "                       A file that is wrong is left out, and named\n"
         "  --tls-key FILE       with --users: the key by which users know this daemon, 64 hex "
         "digits, mode\n"
         "                       0600, made on first use (default tls-key in the folder of "
         "--journal, else in\n"
         "                       that of systemd's StateDirectory, else in ~/.config/muster). Its "
         "fingerprint is\n"
         "                       said at the start, and can be typed: launch --rdzv-fingerprint. "
         "Daemons that\n"
         "                       share a store may share it: copy the file\n"
         "  --journal FOLDER     jobs outlive this daemon: what they need is kept in FOLDER (made "
         "if "
         "not\n"
         "                       there). Killed and started again with it, it goes on with them; "
         "workers\n"
         "                       do not notice while that takes less than 30 s. A node that is "
         "lost\n"
         "                       without a word is waited for as long\n"
         "  --rdzv-store etcd://HOST:PORT[,HOST:PORT...][/NAME]\n"
         "                       the same, and several daemons share it: one leads, and another "
         "takes its\n"
         "                       place within 10 s of its death; launch is given all of them "
         "(--rdzv-endpoint\n"
         "                       a:29400,b:29400). NAME (default) is theirs among other users of "
         "that etcd: keys\n"
         "                       begin with /muster/NAME/. Name all members of etcd: a daemon that "
         "names one\n"
         "                       has no etcd while that one is down, and another daemon takes the "
         "lead\n"
         "  --insecure           no secret: everybody who reaches the port may run jobs\n"
         "  --config FILE        lines `listen: ...`, `users: ...` and so on; what is typed wins\n"
         "  --version, --help\n"
         "\n"
         "SIGHUP: --users is read again. SIGUSR1: says where each job stands, a line for each. "
         "SIGTERM: ends;\n"
         "with --journal or --rdzv-store jobs go on when it is started again.\n";
}

absl::StatusOr<DaemonOptions> ParseDaemonOptions(
    const std::vector<std::string>& arguments,
    const std::function<absl::StatusOr<std::string>(const std::string& path)>& read) {
  ASSIGN_OR_RETURN(Settings settings, ParseWords(arguments));
  if (const auto config = settings.find("config"); config != settings.end()) {
    const std::string path = config->second;
    const absl::StatusOr<std::string> text = read(path);
    if (!text.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--config ", path, ": ", text.status().message()));
    }
    ASSIGN_OR_RETURN(const Settings file, ParseFile(path, *text));
    TakeFile(file, settings);
  }
  DaemonOptions out;
  if (const auto listen = settings.find("listen"); listen != settings.end()) {
    out.listen = listen->second;
  }
  out.secret_file = settings["secret-file"];
  out.users = settings["users"];
  if (const auto journal = settings.find("journal"); journal != settings.end()) {
    out.journal = journal->second;
    if (out.journal.empty()) {
      return absl::InvalidArgumentError("--journal: want a folder, got ''");
    }
  }
  if (const auto store = settings.find("rdzv-store"); store != settings.end()) {
    out.store = store->second;
    if (out.store.empty()) {
      return absl::InvalidArgumentError(
          "--rdzv-store: want etcd://HOST:PORT[,HOST:PORT...][/NAME], got ''");
    }
  }
  if (!out.journal.empty() && !out.store.empty()) {
    return absl::InvalidArgumentError(
        "--journal and --rdzv-store: give one of them; jobs are kept in a folder or in etcd");
  }
  out.insecure = settings["insecure"] == "true";
  out.help = settings.count("help") != 0;
  out.version = settings.count("version") != 0;
  if (int{out.insecure} + int{!out.secret_file.empty()} + int{!out.users.empty()} > 1) {
    return absl::InvalidArgumentError("--insecure, --secret-file and --users: give one of them");
  }
  if (const auto key = settings.find("tls-key"); key != settings.end()) {
    out.tls_key = key->second;
    if (out.tls_key.empty()) {
      return absl::InvalidArgumentError("--tls-key: want a file, got ''");
    }
    if (out.users.empty()) {
      return absl::InvalidArgumentError(
          "--tls-key: want --users, too: where there is one secret, the key follows from it");
    }
  }
  return out;
}

std::string TlsKeyPath(const DaemonOptions& options, absl::string_view state_directory) {
  constexpr absl::string_view kFile = "/tls-key";
  if (!options.tls_key.empty()) {
    return options.tls_key;
  }
  if (!options.journal.empty()) {
    return absl::StrCat(options.journal, kFile);
  }
  const absl::string_view state = state_directory.substr(0, state_directory.find(':'));
  return state.empty() ? "" : absl::StrCat(state, kFile);
}

}  // namespace muster
