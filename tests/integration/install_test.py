"""What is installed: the Debian package, man pages, completion."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from harness import BIN, LAUNCH, sh

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
    output("dpkg-deb", "-x", package, folder / "root")
    return folder / "root/usr"


def test_the_package_runs_from_where_it_lies(node0, tree):
    result = node0.run("--standalone", "--nnodes", "2", "--nproc-per-node", "2", *sh('echo "rank $RANK of $WORLD_SIZE"'), program=tree / "bin/launch")
    assert result.code == 0 and sorted(re.findall(r"rank (\d) of 4", result.text)) == list("0123"), result


def test_the_man_page_has_every_option(tree):
    page = (tree / "share/man/man1/launch.1").read_text().replace("\\-", "-").replace("\\fB", "").replace("\\fR", "")
    options = re.findall(r"^  (-[^ =\[]+)", output(LAUNCH, "--help-all"), re.M)
    assert len(options) > 60 and [o for o in options if o.rstrip(",") not in page] == []
    assert (tree / "share/man/man1/muster-rendezvous.1").exists()
    assert (tree / "share/bash-completion/completions/launch").read_text() == COMPLETION.read_text()


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


def test_commands_about_detached_jobs_are_completed():
    assert "attach" in complete("att")
    assert complete("stop", "--no") == ["--now"]
    assert complete("logs", "no-such-job") == [""]
