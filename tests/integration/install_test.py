"""What is installed: the Debian package, man pages, the wheel, completion."""

import base64
import csv
import hashlib
import io
import os
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from harness import BIN, LAUNCH, PYTHON, ROOT, WORKERS, sh

COMPLETION = Path(__file__).resolve().parents[2] / "deploy/completion/launch"


def output(*argv, **kw):
    return subprocess.run([str(a) for a in argv], capture_output=True, text=True, check=True, **kw).stdout


@pytest.fixture(scope="module")
def tree(lab):
    """The package's files, as they would lie under /."""
    folder = lab.state / "package"
    folder.mkdir()
    output("cpack", "-G", "DEB", "--config", BIN.parent / "CPackConfig.cmake", "-B", folder)
    (package,) = folder.glob("muster_*.deb")
    assert "libc6" in output("dpkg", "-f", package, "Depends")
    assert "muster-pmix" in output("dpkg", "-f", package, "Suggests")
    output("dpkg-deb", "-x", package, folder / "root")
    return folder / "root/usr"


def test_the_package_runs_from_where_it_lies(node0, tree):
    result = node0.run("--standalone", "--nnodes", "2", "--nproc-per-node", "2", *sh('echo "rank $RANK of $WORLD_SIZE"'), program=tree / "bin/launch")
    assert result.code == 0 and sorted(re.findall(r"rank (\d) of 4", result.text)) == list("0123"), result


def test_python_finds_the_library_of_the_tree(node0, tree):
    script = "import array, muster; comm = muster.init(); print('sum', comm.all_reduce(array.array('f', [1.0]))[0], muster.__file__)"
    packages = tree / "lib/python3/dist-packages"
    result = node0.run("-n", "2", "--no-prefix", PYTHON, "-c", script, program=tree / "bin/launch", env={"PYTHONPATH": packages})
    assert result.code == 0 and result.text.count(f"sum 2.0 {packages}/muster/") == 2, result


def test_who_imports_muster_in_vain_is_told_what_to_type(node0, tree):
    program = [PYTHON, "-c", "import muster; print(muster.__file__)"]
    bare = {"PYTHONPATH": ""}
    failed = node0.run("-n", "1", *program, program=tree / "bin/launch", env=bare)
    assert failed.code == 1, failed
    typed = re.search(r"PYTHONPATH=(\S+) launch", failed.err.decode())
    assert typed, failed
    result = node0.run("-n", "1", "--no-prefix", *program, program=tree / "bin/launch", env={"PYTHONPATH": typed[1]})
    assert result.code == 0 and result.text.strip() == f"{tree}/lib/python3/dist-packages/muster/__init__.py", result


def test_the_man_page_has_every_option(tree):
    page = (tree / "share/man/man1/launch.1").read_text().replace("\\-", "-").replace("\\fB", "").replace("\\fR", "")
    options = re.findall(r"^  (-[^ =\[]+)", output(LAUNCH, "--help-all"), re.M)
    assert len(options) > 60 and [o for o in options if o.rstrip(",") not in page] == []
    daemon = (tree / "share/man/man1/muster-rendezvous.1").read_text().replace("\\-", "-")
    assert ".TH MUSTER-RENDEZVOUS " in daemon and re.search("^muster-rendezvous - where nodes ", daemon, re.M), daemon
    unit = (tree / "lib/systemd/system/muster-rendezvous.service").read_text()
    assert "ExecStart=/usr/bin/muster-rendezvous " in unit and "cp /usr/share/muster/" in unit and "@CMAKE" not in unit
    assert (tree / "lib/sysusers.d/muster.conf").exists() and (tree / "share/muster/rendezvous.yaml").exists()
    assert (tree / "share/bash-completion/completions/launch").read_text() == COMPLETION.read_text()


@pytest.mark.parametrize("program", ["launch", "muster-rendezvous", "muster-agent"])
def test_a_program_names_itself_and_its_build(program):
    build = output(BIN / "muster-agent", "--build").strip()
    assert output(BIN / program, "--version") == f"{program} {build}\n"


def test_the_batch_scripts_are_there(tree):
    deploy = COMPLETION.parents[1]
    for script in ("slurm/torch.sbatch", "pbs/torch.pbs"):
        assert (tree / "share/muster" / script).read_text() == (deploy / script).read_text()


PROGRAM = """
#include <muster/communicator.h>
#include <muster/muster.h>
int main() {
  muster::StatusOr<muster::Communicator> comm = muster::Communicator::FromEnvironment();
  if (!comm.ok()) return 1;
  float sum = 1;
  return comm->AllReduce(&sum, 1).ok() && sum == static_cast<float>(comm->size()) ? 0 : 1;
}
"""
PROJECT = """
cmake_minimum_required(VERSION 3.20)
project(user CXX)
find_package(Muster 0.1 REQUIRED)
add_executable(user user.cc)
target_link_libraries(user Muster::muster)
"""


def test_a_program_is_built_with_what_is_installed(node0, tree, scratch):
    (scratch / "user.cc").write_text(PROGRAM)
    (scratch / "CMakeLists.txt").write_text(PROJECT)
    output("cmake", "-S", scratch, "-B", scratch / "build", f"-DCMAKE_PREFIX_PATH={tree}")
    output("cmake", "--build", scratch / "build")
    flags = output("pkg-config", "--cflags", "--libs", "muster", env={**os.environ, "PKG_CONFIG_PATH": str(tree / "lib/pkgconfig")}).split()
    output("g++", "-std=c++20", scratch / "user.cc", "-o", scratch / "by-pkg-config", *flags, f"-Wl,-rpath,{tree}/lib")
    for program in (scratch / "build/user", scratch / "by-pkg-config"):
        result = node0.run("-n", "3", program, program=tree / "bin/launch")
        assert result.code == 0, result


def test_the_library_shows_its_own_names_only_and_needs_no_other(tree):
    library = tree / "lib/libmuster.so"
    shown = [line.split(maxsplit=2)[2] for line in output("nm", "-D", "-C", "--defined-only", library).splitlines()]
    assert "muster_all_reduce" in shown and any(name.startswith("muster::Communicator::AllReduce(") for name in shown)
    assert [name for name in shown if not re.match(r"muster(_|::(Communicator|Status|Work)::|::Name\()", name)] == []
    needed = re.findall(r"NEEDED\s+Shared library: \[(.*)\]|NEEDED\s+(\S+)", output("objdump", "-p", library))
    assert {a or b for a, b in needed} <= {"libstdc++.so.6", "libgcc_s.so.1", "libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}


IN_PYTHON = """
import array, importlib.metadata, muster
with muster.init() as comm:
    data = comm.all_reduce(array.array("f", [comm.rank + 1.0] * 1000))
    assert set(data) == {comm.size * (comm.size + 1) / 2}, data
    print("muster", importlib.metadata.version("muster"), "from", muster.__file__)
"""


@pytest.fixture(scope="module")
def wheel(tree):
    (made,) = (tree / "share/muster").glob("muster-*.whl")
    return made


def test_the_wheel_records_what_it_holds(wheel):
    with zipfile.ZipFile(wheel) as held:
        (record,) = [name for name in held.namelist() if name.endswith(".dist-info/RECORD")]
        rows = list(csv.reader(io.StringIO(held.read(record).decode())))
        assert sorted(row[0] for row in rows) == sorted(held.namelist()) and "muster/libmuster.so" in held.namelist()
        for name, digest, size in rows:
            data = held.read(name)
            want = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert (digest, size) == (("", "") if name == record else (f"sha256={want}", str(len(data)))), name


def test_a_virtual_environment_takes_the_wheel(node0, wheel, scratch):
    place = scratch / "venv"
    output(PYTHON, "-m", "venv", place)
    said = output(place / "bin/pip", "install", "--no-index", wheel)
    version = wheel.name.split("-")[1]
    assert f"Successfully installed muster-{version}" in said
    result = node0.run("-n", "2", "--no-prefix", place / "bin/python", "-c", IN_PYTHON)
    assert result.code == 0 and result.text.count(f"muster {version} from {place}/lib/") == 2, result


def test_pip_builds_the_back_end_for_the_torch_that_is_there(node0, wheel, scratch):
    """Beside the wheel, and from a copy of the sources it needs, as of a tarball."""
    place = scratch / "venv"
    output(PYTHON, "-m", "venv", "--system-site-packages", place)
    output(place / "bin/pip", "install", "--no-index", wheel)
    (package,) = place.glob("lib/python3*/site-packages/muster")
    for module in package.glob("_torch*.so"):  # Debian's, which the wheel has
        module.unlink()
    for folder in ("worker_sdk", "proto"):
        shutil.copytree(ROOT / folder, scratch / folder, ignore=shutil.ignore_patterns("build", "*.egg-info"))
    output(place / "bin/pip", "install", "--no-index", "--no-build-isolation", scratch / "worker_sdk/torch", env={**os.environ, "MAX_JOBS": "2"})
    result = node0.run("-n", "2", "--no-prefix", place / "bin/python", WORKERS / "torch_ops.py", "messages", seconds=120)
    assert result.code == 0 and result.text == "all right\n" * 2 and list(package.glob("_torch*.so")), result


def complete(*words, folder="/"):
    """What bash offers for the last word."""
    script = f"""
    . {COMPLETION}
    _command_offset() {{ COMPREPLY=("the program at $1"); }}
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _muster_launch "$1" "${{@: -1}}" "${{@: -2:1}}"
    printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    return output("bash", "-c", script, "-", LAUNCH, *words, cwd=folder).split("\n")[:-1]


def test_options_are_completed():
    assert complete("--nno") == ["--nnodes"]
    assert {"--rdzv-endpoint", "--rdzv-id", "--rdzv-backend", "--rdzv-conf"} <= set(complete("--nnodes", "2", "--rdzv"))
    assert len(complete("-")) > 60
    assert complete("--no-such") == [""]


def test_values_are_files_and_words_behind_the_program_are_the_programs(tmp_path):
    (tmp_path / "job.yaml").touch()
    os.mkdir(tmp_path / "job.d")
    assert sorted(complete("--config", "job", folder=tmp_path)) == ["job.d", "job.yaml"]
    assert "job.yaml" in complete("--json", "job", folder=tmp_path)
    assert complete("--nnodes", "2", "bash", "job", folder=tmp_path) == ["the program at 3"]
    assert complete("--nnodes=2", "--", "bash", "--nno") == ["the program at 3"]
    assert complete("--nproc_per_node", "4", "bash", "--nno") == ["the program at 3"]
    # As bash cuts words.
    assert complete("--nnodes", "=", "1", ":", "2", "--nproc-per") == ["--nproc-per-node"]
    assert complete("--hosts", "a", ":", "2", "bash", "--nno") == ["the program at 5"]
    assert complete("--config", "=", "job", folder=tmp_path) == complete("--config", "job", folder=tmp_path)
    assert "job.yaml" in complete("--config", "=", "", folder=tmp_path)
    assert complete("-mca", "btl", "tcp", "--nnodes") == ["--nnodes"]
    assert complete("--mca", "btl", "tcp", "bash", "x") == ["the program at 4"]


WORDS = ("--bind-to", "--dialect", "--map-by", "--membind", "--mpi", "--nproc-per-node", "--numa-binding", "--rank-by", "--rdzv-backend", "--store",
         "--restart", "--on-failure", "--gpu-mode", "--stdin", "--store-from", "--output-overflow", "--log-layout", "--propagate")


@pytest.mark.parametrize("option", WORDS)
def test_words_that_an_option_takes_are_completed(option):
    words = complete(option, "")
    assert len(words) >= 2, words
    with_what_it_needs = {"--log-layout": ("--log-dir", "logs"), "--output-overflow": ("--output-spool", "1M"), "--rank-by": ("--nnodes", "1"),
                          "--rdzv-backend": ("--rdzv-endpoint", "127.0.0.1:29400")}.get(option, ())
    for word in words:
        said = subprocess.run([LAUNCH, "--plan", *with_what_it_needs, option, word, "true"], capture_output=True, text=True, timeout=60)
        assert said.returncode == 0 or re.search("this node has 0|has no GPU", said.stderr), (word, said.stderr)
    assert complete(option, words[0][:2])[0].startswith(words[0][:2])
    assert complete(option, "=", words[-1]) == [words[-1]]


def test_commands_about_detached_jobs_are_completed():
    assert "attach" in complete("att")
    assert complete("stop", "--no") == ["--now"]
    assert complete("logs", "no-such-job") == [""]
    assert complete("chaos", "fr") == ["freeze"] and complete("chaos", "--fo") == ["--for"]


def test_commands_before_options_of_a_job_are_completed():
    assert "sweep" in complete("swe")
    assert complete("sweep", "--nno") == complete("doctor", "--nno") == ["--nnodes"]
