// What is read of a Python installation: texts of torch, of virtual environments and of pyenv.
#include "agent/io/python_facts.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "agent/core/script_text.h"
#include "proto/base/check.h"
#include "proto/base/unique_fd.h"
#include "tests/fuzz/fuzz_target.h"

namespace muster::fuzz {
namespace {

constexpr const char* kFolders[] = {"",       "/venv",        "/venv/bin",      "/lib",
                                    "/pyenv", "/pyenv/shims", "/lib/python3.11"};

// A virtual environment and a pyenv, in memory.
class Installation {
 public:
  Installation() {
    CHECK(mkdtemp(root_.data()) != nullptr);
    for (const char* folder : kFolders) {
      CHECK(mkdir(absl::StrCat(root_, folder).c_str(), 0700) == 0 || *folder == '\0');
    }
  }
  ~Installation() {
    for (const char* file :
         {"/venv/bin/python3", "/venv/pyvenv.cfg", "/pyenv/shims/python3", "/pyenv/version"}) {
      unlink(absl::StrCat(root_, file).c_str());
    }
    for (size_t i = std::size(kFolders); i > 0; --i) {
      CHECK(rmdir(absl::StrCat(root_, kFolders[i - 1]).c_str()) == 0);
    }
  }
  std::string Path(absl::string_view below) const { return absl::StrCat(root_, below); }
  void Write(absl::string_view below, absl::string_view bytes) const {
    const UniqueFd file(open(Path(below).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700));
    CHECK(write(file.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  }

 private:
  std::string root_ = "/dev/shm/python_XXXXXX";
};

const Installation& Here() {
  static const Installation here;
  return here;
}

EnvBase EnvironmentOf(uint8_t bits, absl::string_view path) {
  EnvBase env;
  const auto add = [&](int bit, const std::string& entry) {
    if ((bits >> bit & 1) != 0) {
      env.entries.push_back(entry);
    }
  };
  add(0, "HOME=/home/somebody");
  add(1, absl::StrCat("PATH=", Here().Path("/venv/bin"), ":/nowhere"));
  add(2, "PYENV_ROOT=" + Here().Path("/pyenv"));
  add(3, "PYENV_VERSION=3.11.4:system");
  add(4, "PYTHONNOUSERSITE=1");
  add(5, absl::StrCat("PYTHONPATH=", path));
  add(6, "PYTHONUSERBASE=/base");
  return env;
}

void CheckVersion(absl::string_view text) {
  const std::string exact(text);
  const std::vector<char> alone(exact.begin(), exact.end());  // no byte behind it: ASan sees
  const TorchVersion torch = ParseTorchVersion({alone.data(), alone.size()});
  for (const std::string& found : {torch.version, torch.cuda}) {
    CHECK(absl::StrContains(text, found) && !absl::StrContains(found, '\n'));
  }
}

}  // namespace

std::vector<std::string> Seeds() {
  const std::string versions =
      "__version__ = '2.3.0+cu121'\ndebug = False\ncuda: Optional[str] = \"12.1\"\nhip = None\n";
  const std::string config = "home = /usr/bin\ninclude-system-site-packages = true\n";
  const std::string shim = "#!/usr/bin/env bash\nexec pyenv exec\n";
  std::vector<std::string> out;
  for (const char bits : {'\x00', '\x07', '\x0f', '\x23', '\x41', '\x57', '\x06'}) {
    std::string one(1, bits);
    absl::StrAppend(&one, versions, absl::string_view("\0", 1), config, absl::string_view("\0", 1),
                    shim, absl::string_view("\0", 1), "3.12.0 system\n", absl::string_view("\0", 1),
                    "/a:/b");
    out.push_back(one);
  }
  out.push_back(
      absl::StrCat("\7", "__version__ = None\n", absl::string_view("\0", 1), "home = /\n"));
  out.emplace_back("\7");
  out.emplace_back(
      "\7os.environ[\"MASTER_PORT\"] == 1\ninit_process_group('tcp://[::1:', 'tcp://a-b.c:12')\n"
      "if 'MASTER_ADDR' not in x: os.putenv('MASTER_ADDR', y)\nmp.spawn(main)\n");
  return out;
}

void Run(absl::string_view bytes) {
  if (bytes.empty()) {
    return;
  }
  std::vector<absl::string_view> parts = absl::StrSplit(bytes.substr(1), absl::MaxSplits('\0', 4));
  parts.resize(5);
  const EnvBase env = EnvironmentOf(static_cast<uint8_t>(bytes[0]), parts[4]);
  CheckVersion(parts[0]);
  (void)IsPythonName(parts[0]);
  const std::vector<std::string> words(parts.begin(), parts.end());
  (void)ParsePythonCommand(words);
  (void)OwnMeetingPlace(parts[0], words);
  (void)StartsRanks(parts[0]);
  Here().Write("/venv/bin/python3", "");
  Here().Write("/venv/pyvenv.cfg", parts[1]);
  Here().Write("/pyenv/shims/python3", parts[2]);
  Here().Write("/pyenv/version", parts[3]);
  const std::string shim = Here().Path("/pyenv/shims/python3");
  const std::string behind = ThroughPyenv(shim, Here().Path("/lib"), env);
  CHECK(behind.empty() || access(behind.c_str(), X_OK) == 0);
  const std::vector<std::string> folders = ModuleFolders(Here().Path("/venv/bin/python3"), env);
  CHECK(!folders.empty() && folders.size() < 4096);
  for (const std::string& folder : folders) {
    CHECK(!folder.empty());
  }
  CHECK(!ModuleFolders(Here().Path("/lib/python3.11"), env).empty());
}

}  // namespace muster::fuzz
