#include "agent/io/program_facts.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "agent/core/programs.h"
#include "agent/core/script_text.h"
#include "agent/core/shell_commands.h"
#include "agent/io/elf_file.h"
#include "agent/io/node_facts.h"
#include "agent/io/python_facts.h"
#include "agent/io/small_file.h"

namespace muster {
namespace {

constexpr size_t kShebangBytesMax = 256;       // BINPRM_BUF_SIZE of the kernel
constexpr size_t kScriptBytesMax = 64u << 10;  // imports are at the beginning
constexpr size_t kVersionFileBytesMax = 4096;

absl::string_view BaseOf(absl::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == absl::string_view::npos ? path : path.substr(slash + 1);
}

std::string Absolute(absl::string_view path, const std::string& wdir) {
  return absl::StartsWith(path, "/") ? std::string(path)
                                     : absl::StrCat(wdir.empty() ? "." : wdir, "/", path);
}

// Of a distribution's or a site's packages, which nodes may have in unlike versions.
bool IsOfSystem(absl::string_view path) {
  constexpr absl::string_view kSystem[] = {"/usr/",   "/bin/", "/sbin/", "/lib/",
                                           "/lib64/", "/opt/", "/nix/"};
  return std::any_of(std::begin(kSystem), std::end(kSystem),
                     [&](absl::string_view folder) { return absl::StartsWith(path, folder); });
}

std::string OwnFile(std::string path) { return IsOfSystem(path) ? "" : std::move(path); }

// Of a module in the folder that Python looks through first; "" = it is elsewhere.
std::string FileOfModule(const std::string& module, const std::string& wdir) {
  const std::string path = Absolute(absl::StrReplaceAll(module, {{".", "/"}}), wdir);
  for (const char* end : {".py", "/__main__.py"}) {
    if (OpenRegular(path + end).valid()) {
      return OwnFile(path + end);
    }
  }
  return "";
}

bool IsProgram(const std::string& path) {
  struct stat st {};
  return stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode) && access(path.c_str(), X_OK) == 0;
}

// The program a "#!" line names; "" when it is none. `env` is looked through.
std::string ShebangProgram(absl::string_view head, const std::string& wdir, const EnvBase& env) {
  absl::string_view line = head.substr(0, head.find('\n'));
  if (!absl::ConsumePrefix(&line, "#!")) {
    return "";
  }
  const std::vector<absl::string_view> words =
      absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
  if (words.empty()) {
    return "";
  }
  if (BaseOf(words[0]) != "env") {
    return Absolute(words[0], wdir);
  }
  for (size_t i = 1; i < words.size(); ++i) {
    if (!absl::StartsWith(words[i], "-") && !absl::StrContains(words[i], '=')) {
      return FindProgram(words[i], wdir, env);
    }
  }
  return "";
}

template <size_t kSize>
bool IsAmong(const absl::string_view (&names)[kSize], absl::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// Programs that run the one that is named among their words.
constexpr absl::string_view kRunsAnother[] = {
    "chrt",    "env",     "gdb",      "heaptrack", "ionice",  "likwid-perfctr", "likwid-pin",
    "ltrace",  "ncu",     "nice",     "nohup",     "nsys",    "numactl",        "perf",
    "prlimit", "rr",      "setarch",  "setsid",    "stdbuf",  "strace",         "taskset",
    "time",    "timeout", "valgrind", "vtune",     "xvfb-run"};

// Where among the words the program begins that they are about: 0, or behind `nice`, `env A=1` and
// their like; then it is the first word that is a program, which values of options seldom are.
size_t BeginOf(const std::vector<std::string>& argv, const std::string& wdir, const EnvBase& env) {
  size_t begin = 0;
  for (size_t i = 1; i < argv.size(); ++i) {
    if (!IsAmong(kRunsAnother, BaseOf(argv[begin]))) {
      break;
    }
    const bool is_option = absl::StartsWith(argv[i], "-") || absl::StrContains(argv[i], '=');
    if (!is_option && IsProgram(FindProgram(argv[i], wdir, env))) {
      begin = i;
    }
  }
  return begin;
}

// A statement that begins with "import mpi4py" or "from mpi4py".
bool ImportsMpi4py(const std::string& text) {
  for (size_t at = text.find("mpi4py"); at != std::string::npos; at = text.find("mpi4py", at + 1)) {
    const size_t begin = at == 0 ? 0 : text.find_last_of("\n;", at - 1) + 1;  // npos + 1 == 0
    const absl::string_view before =
        absl::StripAsciiWhitespace(absl::string_view(text).substr(begin, at - begin));
    if (before == "import" || before == "from") {
      return true;
    }
  }
  return false;
}

// As a script with this text, as `python -c TEXT`, or as `python -m mpi4py.bench`.
bool UsesMpi4py(const std::vector<std::string>& argv, const std::string& text) {
  if (ImportsMpi4py(text)) {
    return true;
  }
  for (size_t i = 1; i + 1 < argv.size(); ++i) {
    if (argv[i] == "-c") {
      return ImportsMpi4py(argv[i + 1]);
    }
    if (argv[i] == "-m") {
      return argv[i + 1] == "mpi4py" || absl::StartsWith(argv[i + 1], "mpi4py.");
    }
  }
  return false;
}

// The MPI that mpi4py in one of `folders` was built for; "MPI" when that cannot be seen.
std::string MpiOfMpi4py(const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    const std::string package = folder + "/mpi4py";
    const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(package.c_str()), &closedir);
    while (const dirent* entry = dir == nullptr ? nullptr : readdir(dir.get())) {
      if (absl::StartsWith(entry->d_name, "MPI.") && absl::EndsWith(entry->d_name, ".so")) {
        const UniqueFd fd = OpenRegular(absl::StrCat(package, "/", entry->d_name));
        std::string mpi = fd.valid() ? MpiOfLibraries(ElfNeeded(fd.get())) : "";
        if (!mpi.empty()) {
          return mpi;
        }
      }
    }
  }
  return "MPI";
}

// `script` is the path of its script; "" = it has none.
void LookAtPython(const std::string& interpreter, const std::vector<std::string>& argv,
                  const std::string& script, const std::string& wdir, const EnvBase& env,
                  ProgramFacts& facts) {
  const std::string text = script.empty() ? "" : ReadHead(script, kScriptBytesMax);
  facts.is_python = true;
  facts.own_meeting_place = OwnMeetingPlace(text, argv);
  facts.starts_ranks = StartsRanks(text);
  facts.interpreter = ThroughPyenv(interpreter, wdir, env);
  std::vector<std::string> folders;
  if (!facts.interpreter.empty()) {
    folders = ModuleFolders(facts.interpreter, env);
  }
  for (const std::string& folder : folders) {
    const std::string version =
        ReadHead(Absolute(folder, wdir) + "/torch/version.py", kVersionFileBytesMax);
    if (!version.empty()) {
      const TorchVersion torch = ParseTorchVersion(version);
      facts.torch_version = torch.version;
      facts.torch_cuda = torch.cuda;
      break;
    }
  }
  if (UsesMpi4py(argv, text)) {
    facts.mpi = MpiOfMpi4py(folders);
  }
}

}  // namespace

std::string FindProgram(absl::string_view name, const std::string& wdir, const EnvBase& env) {
  if (absl::StrContains(name, '/')) {
    return Absolute(name, wdir);
  }
  const char* path = env.Find("PATH");
  for (const absl::string_view folder :
       absl::StrSplit(path == nullptr ? kDefaultPath : path, ':')) {
    std::string candidate = Absolute(absl::StrCat(folder.empty() ? "." : folder, "/", name), wdir);
    if (IsProgram(candidate)) {
      return candidate;
    }
  }
  return "";
}

namespace {

constexpr int kScriptsDeep = 3;  // one that runs another one
constexpr absl::string_view kShells[] = {"ash", "bash", "dash", "ksh", "sh", "zsh"};
// What they run are ranks that they serve.
constexpr absl::string_view kStartRanks[] = {"launch", "mpiexec", "mpiexec.hydra",  "mpiexec.mpich",
                                             "mpirun", "orterun", "mpirun.openmpi", "prterun",
                                             "prun",   "srun"};
// The same, but for what other launchers have set, which stays.
constexpr absl::string_view kLaunchers[] = {"accelerate", "deepspeed", "horovodrun", "torchrun"};
constexpr absl::string_view kLauncherModules[] = {
    "accelerate.commands.launch", "torch.distributed.launch", "torch.distributed.run"};

struct ShellScript {
  std::string text;
  std::vector<std::string> arguments;  // $1, ...
  std::string path = "";               // "" = -c
};

// Of `bash SCRIPT ...` and `bash -c TEXT NAME ...`.
ShellScript ScriptOfShell(const std::vector<std::string>& argv, const std::string& wdir) {
  const auto behind = [&](size_t i) {
    return std::vector<std::string>(argv.begin() + static_cast<ptrdiff_t>(std::min(i, argv.size())),
                                    argv.end());
  };
  size_t i = 1;
  for (; i < argv.size() && argv[i].size() > 1 && (argv[i][0] == '-' || argv[i][0] == '+'); ++i) {
    const absl::string_view option = argv[i];
    if (option == "--") {
      ++i;
      break;
    }
    if (!absl::StartsWith(option, "--") && absl::StrContains(option, 'c')) {
      return i + 1 < argv.size() ? ShellScript{argv[i + 1], behind(i + 3)} : ShellScript();
    }
    i += absl::EndsWith(option, "o") ? 1 : 0;  // -o pipefail
  }
  return i < argv.size() ? ShellScript{ReadHead(Absolute(argv[i], wdir), kScriptBytesMax),
                                       behind(i + 1), Absolute(argv[i], wdir)}
                         : ShellScript();
}

ProgramFacts LookAt(const std::vector<std::string>& words, const std::string& wdir,
                    const EnvBase& env, int deep);

// Its MPI is that of the program that it runs.
void LookAtShell(const ShellScript& script, std::string wdir, const EnvBase& env, int deep,
                 ProgramFacts& facts) {
  ProgramFacts with_mpi;
  for (const ShellCommand& command : ShellCommands(script.text, script.arguments)) {
    const std::vector<std::string>& words = command.words;
    if (IsAmong(kStartRanks, BaseOf(words[0]))) {
      return;
    }
    if (words[0] == "cd" && words.size() == 2 && !absl::StrContains(words[1], '$')) {
      wdir = Absolute(words[1], wdir);
      continue;
    }
    ProgramFacts found = LookAt(words, wdir, env, deep - 1);
    facts.runs_launcher |= found.runs_launcher;
    if (!found.mpi.empty()) {
      found.mpi = with_mpi.mpi.empty() || with_mpi.mpi == found.mpi ? found.mpi : "MPI";
      with_mpi = std::move(found);
    }
  }
  if (!with_mpi.mpi.empty() && !facts.runs_launcher) {
    facts.program = with_mpi.program;
    facts.mpi = with_mpi.mpi;
  }
}

ProgramFacts LookAt(const std::vector<std::string>& words, const std::string& wdir,
                    const EnvBase& env, int deep) {
  ProgramFacts facts;
  const size_t begin = BeginOf(words, wdir, env);
  const std::vector<std::string> argv(words.begin() + static_cast<ptrdiff_t>(begin), words.end());
  facts.program = std::string(BaseOf(argv[0]));
  facts.runs_launcher = IsAmong(kLaunchers, facts.program);
  const std::string path = FindProgram(argv[0], wdir, env);
  if (path.empty()) {
    return facts;
  }
  facts.found = true;
  if (IsPythonName(path)) {
    const auto [script, module] = ParsePythonCommand(argv);
    facts.runs_launcher = IsAmong(kLauncherModules, module) || IsAmong(kLaunchers, BaseOf(script));
    if (!script.empty() || !module.empty()) {
      facts.program = module.empty() ? std::string(BaseOf(script)) : module;
    }
    const std::string file = script.empty() ? "" : Absolute(script, wdir);
    facts.file = module.empty() ? OwnFile(file) : FileOfModule(module, wdir);
    LookAtPython(path, argv, file, wdir, env, facts);
    return facts;
  }
  const UniqueFd fd = OpenRegular(path);
  if (!fd.valid()) {
    return facts;
  }
  facts.file = OwnFile(path);
  const std::string head = ReadAt(fd.get(), 0, kShebangBytesMax);
  if (IsElf(head)) {
    facts.mpi = MpiOfLibraries(ElfNeeded(fd.get()));
    if (deep > 0 && IsAmong(kShells, BaseOf(path))) {
      const ShellScript script = ScriptOfShell(argv, wdir);
      if (!script.path.empty()) {
        facts.program = std::string(BaseOf(script.path));
        facts.file = OwnFile(script.path);
      }
      LookAtShell(script, wdir, env, deep, facts);
    }
    return facts;
  }
  const std::string interpreter = ShebangProgram(head, wdir, env);
  if (IsPythonName(interpreter)) {
    LookAtPython(interpreter, argv, path, wdir, env, facts);
  } else if (deep > 0 && IsAmong(kShells, BaseOf(interpreter))) {
    LookAtShell({ReadHead(path, kScriptBytesMax), {argv.begin() + 1, argv.end()}}, wdir, env, deep,
                facts);
  }
  return facts;
}

}  // namespace

ProgramFacts LookAtProgram(const std::vector<std::string>& words, const std::string& wdir,
                           const EnvBase& env) {
  if (words.empty()) {
    return {};
  }
  const bool is_whole = absl::StartsWith(wdir, "/");
  return LookAt(words,
                is_whole       ? wdir
                : wdir.empty() ? OwnFolder()
                               : Absolute(wdir, OwnFolder()),
                env, kScriptsDeep);
}

std::vector<PreparedProgram> PreparePrograms(const WorkPlan& plan,
                                             const std::vector<std::string>& inherited) {
  std::vector<PreparedProgram> out;
  for (size_t i = 0; i < ProgramCount(plan); ++i) {
    PreparedProgram program;
    program.plan = PlanOfProgram(plan, i);
    program.environment = FilterEnvironment(inherited, program.plan);
    program.facts = LookAtProgram(program.plan.argv, program.plan.wdir, program.environment);
    out.push_back(std::move(program));
  }
  return out;
}

std::vector<std::string> ProgramNotices(const std::vector<PreparedProgram>& programs,
                                        uint32_t world_size, uint32_t workers) {
  std::vector<std::string> out;
  for (const PreparedProgram& program : programs) {
    for (std::string notice :
         {MpiNotice(program.plan.mpi, program.facts, world_size),
          MeetingPlaceNotice(program.plan.store, program.facts, world_size != 0),
          StartsRanksNotice(program.facts, workers)}) {
      if (!notice.empty() && std::find(out.begin(), out.end(), notice) == out.end()) {
        out.push_back(std::move(notice));
      }
    }
  }
  return out;
}

}  // namespace muster
