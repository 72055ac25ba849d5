#include "agent/io/program_facts.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "agent/io/elf_file.h"
#include "agent/io/python_facts.h"
#include "agent/io/small_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/agent/io/small_elf.h"

namespace muster {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::IsEmpty;

class ProgramTest : public testing::Test {
 protected:
  ProgramTest() {
    std::string path = testing::TempDir() + "program_facts_XXXXXX";
    root_ = std::filesystem::canonical(mkdtemp(path.data()));
    Set({"PATH=" + root_ + "/bin:" + root_ + "/usr/bin", "HOME=" + root_ + "/home"});
  }
  ~ProgramTest() override { std::filesystem::remove_all(root_); }

  std::string Write(const std::string& path, const std::string& text, mode_t mode = 0644) {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
    chmod(file.c_str(), mode);
    return file;
  }
  std::string Program(const std::string& path, const std::string& text) {
    return Write(path, text, 0755);
  }
  void Link(const std::string& target, const std::string& path) {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::filesystem::create_symlink(target, file);
  }
  void Torch(const std::string& folder, const std::string& version) {
    Write(folder + "/torch/version.py", "__version__ = '" + version + "'\ncuda = None\n");
  }
  void Set(const std::vector<std::string>& environment) {
    environment_ = environment;
    env_ = FilterEnvironment(environment, {});
  }
  void Also(const std::string& entry) {
    environment_.push_back(entry);
    Set(std::vector<std::string>(environment_));
  }
  // usr/bin/python3 -> python3.11, as on Debian.
  void SystemPython() {
    Program("/usr/bin/python3.11", MakeElf({"libc.so.6"}));
    Link("python3.11", "/usr/bin/python3");
  }
  ProgramFacts Look(const std::vector<std::string>& argv) {
    return LookAtProgram(argv, root_, env_);
  }

  std::string root_;
  std::vector<std::string> environment_;
  EnvBase env_;
};

TEST(ElfTest, ReadsThisProgram) {
  const UniqueFd fd = OpenRegular("/proc/self/exe");
  ASSERT_TRUE(fd.valid());
  EXPECT_THAT(ElfNeeded(fd.get()), Contains("libc.so.6"));
}

std::vector<std::string> Needed(const std::string& bytes) {
  const UniqueFd fd(memfd_create("elf", MFD_CLOEXEC));
  EXPECT_EQ(write(fd.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  return ElfNeeded(fd.get());
}

TEST(ElfBytesTest, ReadsNamesInTheirOrder) {
  EXPECT_THAT(Needed(MakeElf({"libm.so.6", "libmpi.so.40", "libc.so.6"})),
              ElementsAre("libm.so.6", "libmpi.so.40", "libc.so.6"));
  EXPECT_THAT(Needed(MakeElf({})), IsEmpty());
  EXPECT_THAT(Needed(""), IsEmpty());
  EXPECT_THAT(Needed("#!/bin/sh\n"), IsEmpty());
}

TEST(ElfBytesTest, OtherMachinesFilesAreNotRead) {
  std::string other = MakeElf({"libmpi.so.40"});
  other[EI_CLASS] = ELFCLASS32;
  EXPECT_THAT(Needed(other), IsEmpty());
  other = MakeElf({"libmpi.so.40"});
  other[EI_DATA] = ELFDATA2MSB;
  EXPECT_THAT(Needed(other), IsEmpty());
}

TEST(ElfBytesTest, BrokenFilesAreHarmless) {
  const std::string good = MakeElf({"libm.so.6", "libmpi.so.40"});
  for (size_t length = 0; length < good.size(); ++length) {
    (void)Needed(good.substr(0, length));
  }
}

TEST(MpiOfLibrariesTest, KnowsBothFamilies) {
  for (const char* library : {"libmpi.so.40", "libmpi.so.20", "libmpi.so.1", "libmpi_cxx.so.40",
                              "libmpi_mpifh.so.40", "libmpi_usempif08.so.40"}) {
    EXPECT_EQ(MpiOfLibraries({"libm.so.6", library}), "Open MPI") << library;
  }
  for (const char* library : {"libmpich.so.12", "libmpi.so.12", "libmpichcxx.so.12",
                              "libmpifort.so.12", "libmpi_cray.so.12"}) {
    EXPECT_EQ(MpiOfLibraries({library, "libc.so.6"}), "MPICH") << library;
  }
  EXPECT_EQ(MpiOfLibraries({"libc.so.6", "libmpi4py.so", "libmpir.so.3", "libmpi.so"}), "");
}

TEST_F(ProgramTest, CompiledPrograms) {
  Program("/bin/plain", MakeElf({"libc.so.6"}));
  Program("/bin/solver", MakeElf({"libmpi.so.40", "libc.so.6"}));
  Program("/solvers/cpi", MakeElf({"libmpich.so.12"}));
  EXPECT_EQ(Look({"plain"}).mpi, "");
  EXPECT_FALSE(Look({"plain"}).is_python);
  EXPECT_EQ(Look({"solver", "-x"}).mpi, "Open MPI");
  EXPECT_EQ(Look({"solver"}).program, "solver");
  EXPECT_EQ(Look({"solvers/cpi"}).mpi, "MPICH");
  EXPECT_EQ(Look({root_ + "/solvers/cpi"}).mpi, "MPICH");
}

TEST_F(ProgramTest, BehindAnotherThatRunsIt) {
  Program("/bin/openmpi", MakeElf({"libmpi.so.40"}));
  Program("/bin/nice", MakeElf({}));
  Program("/usr/bin/env", MakeElf({}));
  Program("/usr/bin/wrapper", MakeElf({}));
  EXPECT_EQ(Look({"nice", "openmpi"}).mpi, "Open MPI");
  EXPECT_EQ(Look({"nice", "openmpi"}).program, "openmpi");
  EXPECT_EQ(Look({root_ + "/bin/nice", "-n", "5", "env", "A=1", "-u", "B", "openmpi", "nice"}).mpi,
            "Open MPI");
  EXPECT_EQ(Look({"timeout", "30", "openmpi"}).mpi, "Open MPI");  // also where this has none
  EXPECT_EQ(Look({"wrapper", "openmpi"}).mpi, "");
  EXPECT_EQ(Look({"nice", "-n", "5"}).program, "nice");
  EXPECT_FALSE(Look({"timeout", "30"}).found);
  SystemPython();
  Write("/a.py", "import mpi4py\n");
  EXPECT_EQ(Look({"env", "-i", "python3", "a.py"}).program, "a.py");
  EXPECT_TRUE(Look({"env", "-i", "python3", "a.py"}).is_python);
}

TEST_F(ProgramTest, BehindAShellScript) {
  Program("/bin/mpich", MakeElf({"libmpich.so.12"}));
  Program("/bin/plain", MakeElf({}));
  Program("/bin/bash", MakeElf({}));
  Program("/run.sh", "#!/bin/bash\nexport A=1\nplain\nexec mpich \"$2\"\n");
  Program("/wrap.sh", "#!/usr/bin/env bash\nGPU=$LOCAL_RANK exec \"$@\"\n");
  Program("/far/far.sh", "#!/bin/sh\ncd solvers\n./cpi\n");
  Program("/far/solvers/cpi", MakeElf({"libmpich.so.12"}));
  Program("/outer.sh", "#!/bin/sh\nbash " + root_ + "/wrap.sh plain\nnice bash -e ./run.sh\n");
  Program("/round.sh", "#!/bin/sh\n./round.sh\nmpich\n");
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"./run.sh", "a"},
           {"bash", "-x", "-o", "pipefail", "run.sh"},
           {"./wrap.sh", "mpich", "a"},
           {"nice", "./wrap.sh", "nice", "mpich"},
           {"bash", "-c", "mpich; echo ended"},
           {"bash", "-ec", "\"$@\"", "name", "mpich"},
           {"./outer.sh"},
       }) {
    EXPECT_EQ(Look(words).mpi, "MPICH") << words[0];
    EXPECT_EQ(Look(words).program, "mpich") << words[0];
  }
  EXPECT_EQ(Look({"far/far.sh"}).mpi, "");  // not in its own folder
  EXPECT_EQ(LookAtProgram({"./far.sh"}, root_ + "/far", env_).mpi, "MPICH");
  EXPECT_EQ(Look({"./wrap.sh", "plain"}).mpi, "");
  EXPECT_EQ(Look({"./wrap.sh"}).program, "wrap.sh");
  EXPECT_EQ(Look({"bash"}).mpi + Look({"bash", "-c"}).mpi + Look({"bash", "/no/such"}).mpi, "");
  for (const char* text : {"mpich; mpich", "for i in 1 2; do mpich; done", "./round.sh",
                           "if [ $1 = a ]; then mpich a; else mpich b; fi"}) {
    EXPECT_EQ(Look({"bash", "-c", text}).mpi, "MPICH") << text;
  }
  EXPECT_EQ(Look({"bash", "-c", "mpirun -n 2 mpich; mpich"}).mpi, "");
  Program("/bin/openmpi", MakeElf({"libmpi.so.40"}));
  EXPECT_EQ(Look({"bash", "-c", "mpich || openmpi"}).mpi, "MPI") << "which one is for the run";
}

TEST_F(ProgramTest, OneThatStartsRanksOfItsOwn) {
  SystemPython();
  Program("/bin/bash", MakeElf({}));
  Program("/bin/make", MakeElf({}));
  Program("/bin/torchrun", "#!/usr/bin/env python3\n");
  Write("/a.py", "pass\n");
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"torchrun", "a.py"},
           {"env", "A=1", "torchrun", "a.py"},
           {"bash", "-c", "cd x; torchrun a.py"},
           {"python3", "-m", "torch.distributed.run", "a.py"},
           {"bash", "-c", "python3 -m torch.distributed.launch a.py"},
       }) {
    EXPECT_TRUE(Look(words).runs_launcher) << words.back();
  }
  EXPECT_FALSE(Look({"python3", "a.py", "torchrun"}).runs_launcher);
  EXPECT_FALSE(Look({"make", "torchrun"}).runs_launcher);
  EXPECT_FALSE(Look({"bash", "-c", "mpirun -n 2 a"}).runs_launcher);
}

// Of a system's programs nodes may have unlike ones, and all is well.
TEST_F(ProgramTest, TheFileThatIsTheUsers) {
  SystemPython();
  Program("/solver", MakeElf({}));
  Program("/run.sh", "#!/bin/bash\n");
  Write("/a.py", "pass\n");
  Write("/pkg/one.py", "pass\n");
  Write("/pkg/two/__main__.py", "pass\n");
  EXPECT_EQ(Look({"./solver", "a.py"}).file, root_ + "/./solver");
  EXPECT_EQ(Look({"./run.sh"}).file, root_ + "/./run.sh");
  EXPECT_EQ(Look({"/bin/bash", "-x", "run.sh"}).file, root_ + "/run.sh");
  EXPECT_EQ(Look({"python3", "-u", "a.py"}).file, root_ + "/a.py");
  EXPECT_EQ(Look({"python3", "-u", root_ + "/a.py"}).file, root_ + "/a.py");
  EXPECT_EQ(Look({"python3", "-m", "pkg.one"}).file, root_ + "/pkg/one.py");
  EXPECT_EQ(Look({"python3", "-m", "pkg.two"}).file, root_ + "/pkg/two/__main__.py");
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"/bin/sh", "-c", "true"},
                                             {"python3", "-c", "pass"},
                                             {"python3", "-m", "json.tool"},
                                             {"python3", "/usr/lib/python3/a.py"},
                                             {"nosuch"}}) {
    EXPECT_EQ(Look(words).file, "") << words.back();
  }
}

TEST_F(ProgramTest, WhatIsNotThereIsUnknown) {
  EXPECT_EQ(Look({"nosuch"}).program, "nosuch");
  EXPECT_EQ(Look({"/no/such"}).program, "such");
  EXPECT_EQ(Look({}).program, "");
  mkfifo((root_ + "/pipe").c_str(), 0755);
  EXPECT_EQ(Look({root_ + "/pipe"}).mpi, "") << "opening it must not wait for a writer";
  std::filesystem::create_directories(root_ + "/bin/folder");
  EXPECT_EQ(Look({"folder"}).program, "folder");
}

TEST_F(ProgramTest, PathSkipsWhatCannotRun) {
  Write("/bin/tool", MakeElf({"libmpi.so.40"}), 0644);
  Program("/usr/bin/tool", MakeElf({"libmpich.so.12"}));
  EXPECT_EQ(Look({"tool"}).mpi, "MPICH");
}

TEST_F(ProgramTest, DebiansTorch) {
  SystemPython();
  Torch("/usr/lib/python3/dist-packages", "1.13.0a0");
  const ProgramFacts facts = Look({"python3", "-u", "train.py", "--lr", "1"});
  EXPECT_TRUE(facts.is_python);
  EXPECT_EQ(facts.program, "train.py");
  EXPECT_EQ(facts.interpreter, root_ + "/usr/bin/python3");
  EXPECT_EQ(facts.torch_version, "1.13.0a0");
  EXPECT_EQ(facts.torch_cuda, "");
}

TEST_F(ProgramTest, TheFirstOfSysPathCounts) {
  SystemPython();
  Torch("/usr/lib/python3/dist-packages", "1.13.0a0");
  Torch("/usr/local/lib/python3.11/dist-packages", "2.0.1");
  EXPECT_EQ(Look({"python3", "a.py"}).torch_version, "2.0.1") << "pip's, as root";
  Torch("/home/.local/lib/python3.11/site-packages", "2.2.0");
  EXPECT_EQ(Look({"python3", "a.py"}).torch_version, "2.2.0") << "pip's, as user";
  Torch("/elsewhere", "2.3.0");
  Also("PYTHONPATH=/nosuch:" + root_ + "/elsewhere");
  EXPECT_EQ(Look({"python3", "a.py"}).torch_version, "2.3.0");
}

TEST_F(ProgramTest, UserSiteMayBeOff) {
  SystemPython();
  Torch("/home/.local/lib/python3.11/site-packages", "2.2.0");
  Also("PYTHONNOUSERSITE=1");
  EXPECT_EQ(Look({"python3", "a.py"}).torch_version, "");
}

TEST_F(ProgramTest, AVirtualEnvironment) {
  SystemPython();
  Torch("/usr/lib/python3/dist-packages", "1.13.0a0");
  Link(root_ + "/usr/bin/python3", "/venv/bin/python3");
  Write("/venv/pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = false\n");
  Write("/venv/lib/python3.11/site-packages/six.py", "");
  EXPECT_EQ(Look({root_ + "/venv/bin/python3", "a.py"}).torch_version, "")
      << "the system's is hidden";
  Torch("/venv/lib/python3.11/site-packages", "2.5.1+cpu");
  EXPECT_EQ(Look({"venv/bin/python3", "a.py"}).torch_version, "2.5.1+cpu");
  std::filesystem::remove_all(root_ + "/venv/lib/python3.11/site-packages/torch");
  Write("/venv/pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = true\n");
  EXPECT_EQ(Look({root_ + "/venv/bin/python3", "a.py"}).torch_version, "1.13.0a0");
}

TEST_F(ProgramTest, ACondaPrefix) {
  Program("/conda/bin/python3.10", MakeElf({}));
  Link("python3.10", "/conda/bin/python");
  Torch("/conda/lib/python3.10/site-packages", "2.1.0");
  EXPECT_EQ(Look({root_ + "/conda/bin/python", "a.py"}).torch_version, "2.1.0");
}

TEST_F(ProgramTest, PyenvsShimIsFollowed) {
  Program("/pyenv/shims/python3", "#!/usr/bin/env bash\nexec pyenv exec python3 \"$@\"\n");
  Program("/pyenv/versions/3.12.1/bin/python3.12", MakeElf({}));
  Link("python3.12", "/pyenv/versions/3.12.1/bin/python3");
  Program("/pyenv/versions/3.9.1/bin/python3.9", MakeElf({}));
  Link("python3.9", "/pyenv/versions/3.9.1/bin/python3");
  Torch("/pyenv/versions/3.12.1/lib/python3.12/site-packages", "2.4.0");
  Torch("/pyenv/versions/3.9.1/lib/python3.9/site-packages", "2.0.0");
  SystemPython();
  Torch("/usr/lib/python3/dist-packages", "1.13.0a0");
  Set({"PATH=" + root_ + "/pyenv/shims:" + root_ + "/usr/bin"});
  EXPECT_EQ(Look({"python3", "a.py"}).interpreter, "") << "no version is chosen";
  Write("/pyenv/version", "3.12.1\n");
  EXPECT_EQ(Look({"python3", "a.py"}).torch_version, "2.4.0");
  Write("/.python-version", "3.9.1\n");
  EXPECT_EQ(Look({"python3", "a.py"}).torch_version, "2.0.0");
  Also("PYENV_VERSION=system");
  EXPECT_EQ(Look({"python3", "a.py"}).torch_version, "1.13.0a0");
}

TEST_F(ProgramTest, ScriptsByTheirFirstLine) {
  SystemPython();
  Torch("/usr/lib/python3/dist-packages", "1.13.0a0");
  Program("/bin/env_script", "#!/usr/bin/env python3\n");
  Program("/bin/split", "#!/usr/bin/env -S A=1 python3 -u\n");
  Program("/bin/direct", "#! " + root_ + "/usr/bin/python3.11 -E\r\nimport torch\n");
  Program("/bin/shell", "#!/bin/sh\necho import mpi4py\n");
  Program("/bin/nothing", "#!\n");
  Program("/bin/data", "hello");
  for (const char* name : {"env_script", "split", "direct"}) {
    EXPECT_TRUE(Look({name}).is_python) << name;
    EXPECT_EQ(Look({name}).torch_version, "1.13.0a0") << name;
    EXPECT_EQ(Look({name}).program, name);
  }
  for (const char* name : {"shell", "nothing", "data"}) {
    EXPECT_FALSE(Look({name}).is_python) << name;
    EXPECT_EQ(Look({name}).mpi, "") << name;
  }
}

TEST_F(ProgramTest, Mpi4pyCountsAsAnMpi) {
  SystemPython();
  const std::string pad(60000, '#');
  Write("/a.py", pad + "\n  from mpi4py import MPI\n");
  Write("/b.py", "import mpi4py.MPI as M\n");
  Write("/c.py", "# import mpi4py\nx = 'mpi4py'\nimport os, sys\n");
  Write("/d.py", std::string(70000, '#') + "\nimport mpi4py\n");
  EXPECT_EQ(Look({"python3", "a.py"}).mpi, "MPI");
  EXPECT_EQ(Look({"python3", "-u", "-W", "ignore", "b.py"}).mpi, "MPI");
  EXPECT_EQ(Look({"python3", "c.py"}).mpi, "");
  EXPECT_EQ(Look({"python3", "d.py"}).mpi, "") << "only the first 64 KiB are read";
  EXPECT_EQ(Look({"python3", "-c", "import sys; from mpi4py import MPI"}).mpi, "MPI");
  EXPECT_EQ(Look({"python3", "-c", "print('mpi4py')"}).mpi, "");
  EXPECT_EQ(Look({"python3", "-m", "mpi4py.bench", "-c"}).mpi, "MPI");
  EXPECT_EQ(Look({"python3", "-m", "mpi4pyx"}).mpi, "");
  EXPECT_EQ(Look({"python3", "-m", "b"}).program, "b");
  Write("/usr/lib/python3/dist-packages/mpi4py/MPI.cpython-311-x86_64-linux-gnu.so",
        MakeElf({"libmpi.so.40"}));
  EXPECT_EQ(Look({"python3", "a.py"}).mpi, "Open MPI");
}

TEST(TorchVersionTest, ReadsOldAndNewFiles) {
  const TorchVersion old = ParseTorchVersion(
      "__version__ = '1.13.0a0'\ndebug = False\ncuda = None\ngit_version = 'Unknown'\n");
  EXPECT_EQ(old.version, "1.13.0a0");
  EXPECT_EQ(old.cuda, "");
  const TorchVersion fresh = ParseTorchVersion(
      "from typing import Optional\n\n__all__ = ['__version__', 'cuda']\n"
      "__version__ = \"2.3.0+cu121\"\ndebug = False\ncuda: Optional[str] = '12.1'\n"
      "git_version = '97ff6c'\nhip: Optional[str] = None\n");
  EXPECT_EQ(fresh.version, "2.3.0+cu121");
  EXPECT_EQ(fresh.cuda, "12.1");
  EXPECT_EQ(ParseTorchVersion("").version, "");
  EXPECT_EQ(ParseTorchVersion("__version__\n__version__x = 'a'\n__version__ = '").version, "");
}

TEST(FindProgramTest, IsTheFileThatExecvpWouldRun) {
  EnvBase env;
  const auto find = [&](const char* name, const char* path) {
    env.entries = {std::string("PATH=") + path};
    return FindProgram(name, "/w", env);
  };
  EXPECT_EQ(find("/x/y", ""), "/x/y");
  EXPECT_EQ(find("./y", "/bin"), "/w/./y");
  EXPECT_EQ(find("sh", "/nowhere::/bin"), "/bin/sh");
  EXPECT_EQ(find("no-such-command", "/bin"), "");
}

}  // namespace
}  // namespace muster
