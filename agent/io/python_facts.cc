#include "agent/io/python_facts.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>
#include <functional>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "agent/io/small_file.h"

namespace muster {
namespace {

constexpr size_t kConfigBytesMax = 4096;  // of pyvenv.cfg, version files and shims

std::string ParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos || slash == 0 ? "" : path.substr(0, slash);
}

absl::string_view BaseOf(absl::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == absl::string_view::npos ? path : path.substr(slash + 1);
}

std::string RealPath(const std::string& path) {
  std::array<char, PATH_MAX> resolved{};
  return realpath(path.c_str(), resolved.data()) == nullptr ? path : resolved.data();
}

// "3.11" of ".../python3.11", "" of ".../python3".
std::string VersionOfName(const std::string& path) {
  absl::string_view name = BaseOf(path);
  const bool python = absl::ConsumePrefix(&name, "python") || absl::ConsumePrefix(&name, "pypy");
  return python && absl::StrContains(name, '.') ? std::string(name) : "";
}

// "python3.11", "python3.9", ... below prefix/lib: those whose version is `version`, else all.
std::vector<std::string> LibraryFolders(const std::string& prefix, const std::string& version) {
  if (!version.empty()) {
    return {absl::StrCat("python", version)};
  }
  std::vector<std::string> out;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir((prefix + "/lib").c_str()), &closedir);
  while (const dirent* entry = dir == nullptr ? nullptr : readdir(dir.get())) {
    if (absl::StartsWith(entry->d_name, "python3.")) {
      out.emplace_back(entry->d_name);
    }
  }
  std::sort(out.begin(), out.end(), std::greater<>());
  return out;
}

void AppendPrefix(const std::string& prefix, const std::string& version,
                  std::vector<std::string>& out) {
  const std::vector<std::string> libraries = LibraryFolders(prefix, version);
  for (const std::string& library : libraries) {
    out.push_back(absl::StrCat(prefix, "/local/lib/", library, "/dist-packages"));  // Debian's pip
  }
  out.push_back(prefix + "/lib/python3/dist-packages");  // Debian
  for (const std::string& library : libraries) {
    out.push_back(absl::StrCat(prefix, "/lib/", library, "/site-packages"));
    out.push_back(absl::StrCat(prefix, "/lib64/", library, "/site-packages"));
  }
}

void AppendUserSite(const std::string& version, const EnvBase& env, std::vector<std::string>& out) {
  if (const char* off = env.Find("PYTHONNOUSERSITE");
      (off != nullptr && *off != '\0') || version.empty()) {
    return;
  }
  const char* base = env.Find("PYTHONUSERBASE");
  const char* home = env.Find("HOME");
  if (base != nullptr && *base != '\0') {
    out.push_back(absl::StrCat(base, "/lib/python", version, "/site-packages"));
  } else if (home != nullptr) {
    out.push_back(absl::StrCat(home, "/.local/lib/python", version, "/site-packages"));
  }
}

// "key = value" of pyvenv.cfg.
std::string ConfigValue(absl::string_view text, absl::string_view key) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits('=', 1));
    if (absl::StripAsciiWhitespace(parts.first) == key) {
      return std::string(absl::StripAsciiWhitespace(parts.second));
    }
  }
  return "";
}

// What pyenv's version files and PYENV_VERSION name, the nearest first.
std::string PyenvChoice(const std::string& pyenv_root, const std::string& wdir,
                        const EnvBase& env) {
  if (const char* chosen = env.Find("PYENV_VERSION"); chosen != nullptr && *chosen != '\0') {
    return chosen;
  }
  for (std::string folder = wdir; !folder.empty(); folder = ParentOf(folder)) {
    if (std::string text = ReadHead(folder + "/.python-version", kConfigBytesMax); !text.empty()) {
      return text;
    }
  }
  return ReadHead(pyenv_root + "/version", kConfigBytesMax);
}

std::string NextInPath(absl::string_view name, const std::string& not_in, const EnvBase& env) {
  const char* path = env.Find("PATH");
  for (const absl::string_view folder : absl::StrSplit(path == nullptr ? "" : path, ':')) {
    std::string candidate = absl::StrCat(folder, "/", name);
    if (folder != not_in && access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
  }
  return "";
}

// The quoted text of "name = 'text'" or "name: type = 'text'"; "" for None and the rest.
std::string Assigned(absl::string_view text, absl::string_view name) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::ConsumePrefix(&line, name) || line.empty() ||
        (line[0] != ' ' && line[0] != ':' && line[0] != '=')) {
      continue;
    }
    const size_t equals = line.find('=');
    if (equals == absl::string_view::npos) {
      continue;
    }
    const absl::string_view value = absl::StripAsciiWhitespace(line.substr(equals + 1));
    if (value.size() >= 2 && (value[0] == '\'' || value[0] == '"')) {
      const size_t end = value.find(value[0], 1);
      return std::string(value.substr(1, end == absl::string_view::npos ? end : end - 1));
    }
  }
  return "";
}

}  // namespace

std::string ThroughPyenv(const std::string& shim, const std::string& wdir, const EnvBase& env) {
  const std::string text = ReadHead(shim, kConfigBytesMax);
  if (!absl::StartsWith(text, "#!") || !absl::StrContains(text, "pyenv")) {
    return shim;
  }
  const std::string shims = ParentOf(shim);
  const char* root_given = env.Find("PYENV_ROOT");
  const std::string pyenv_root = root_given != nullptr ? root_given : ParentOf(shims);
  const std::string choice = PyenvChoice(pyenv_root, wdir, env);
  for (const absl::string_view word :
       absl::StrSplit(choice, absl::ByAnyChar(": \r\n"), absl::SkipEmpty())) {
    if (word == "system") {
      return NextInPath(BaseOf(shim), shims, env);
    }
    std::string candidate = absl::StrCat(pyenv_root, "/versions/", word, "/bin/", BaseOf(shim));
    if (access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
  }
  return "";
}

std::vector<std::string> ModuleFolders(const std::string& interpreter, const EnvBase& env) {
  std::vector<std::string> out;
  if (const char* path = env.Find("PYTHONPATH"); path != nullptr) {
    out = absl::StrSplit(path, ':', absl::SkipEmpty());
  }
  // A virtual environment is known by the path as called; the installation by the file behind it.
  const std::string real = RealPath(interpreter);
  const std::string version = VersionOfName(real);
  const std::string called_from = ParentOf(interpreter);
  for (const std::string& folder : {called_from, ParentOf(called_from)}) {
    const std::string config = ReadHead(folder + "/pyvenv.cfg", kConfigBytesMax);
    if (!config.empty()) {
      AppendPrefix(folder, "", out);
      if (ConfigValue(config, "include-system-site-packages") != "true") {
        return out;
      }
      break;
    }
  }
  AppendUserSite(version, env, out);
  AppendPrefix(ParentOf(ParentOf(real)), version, out);
  return out;
}

TorchVersion ParseTorchVersion(absl::string_view text) {
  return {Assigned(text, "__version__"), Assigned(text, "cuda")};
}

}  // namespace muster
