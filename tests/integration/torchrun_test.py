"""The same words to torchrun and to launch under its name: by a link, and as `python -m muster.run`."""

import json
import os
import re
import shutil

import pytest

from harness import BIN, EXAMPLES, HERE, LAUNCH, PYTHON

PACKAGE = BIN.parent / "python"
TELL = """
import os, sys
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "ROLE_NAME", "ROLE_RANK", "TORCHELASTIC_MAX_RESTARTS")
os.write(1, (" ".join([*map(os.environ.get, names), sys.argv[0], repr(sys.argv[1:])]) + "\\n").encode())
"""


@pytest.fixture
def here(scratch):
    """A folder with the same program under names that torchrun treats differently; none of them says what runs it."""
    for name in ("tell.py", "tell", "telling/__init__.py", "telling/__main__.py"):
        (scratch / name).parent.mkdir(exist_ok=True)
        (scratch / name).write_text("" if "__init__" in name else TELL)
    (scratch / "tell.sh").write_text("#!/bin/sh\necho $RANK $LOCAL_RANK $WORLD_SIZE $1\n")
    (scratch / "tell.sh").chmod(0o755)
    return scratch


def by_muster(shell, *words, env=None, start=False):
    env = {"PYTHON_EXEC": "", "PYTHONPATH": str(PACKAGE), **(env or {})}
    return (shell.start if start else shell.run)("-m", "muster.run", *words, program=PYTHON, env=env)


def by_torchrun(shell, *words, env=None):
    return shell.run(HERE / "torchrun.py", *words, program=PYTHON, env=env)


SWAPS = {
    "script": (["--nproc_per_node", "3", "--monitor_interval", "0.1", "{here}/tell.py", "a b", "--nproc_per_node"], {}),
    "local rank": (["--nproc_per_node", "2", "--monitor_interval", "0.1", "{here}/tell.py", "--at=${{local_rank}}", "$local_rank$$", "${{rank}} {{local_rank}} $x $local_rank2"], {}),
    "without .py": (["--nproc_per_node=2", "--monitor_interval=0.1", "{here}/tell", "a", "-x"], {}),
    "cut short": (["--nproc", "2", "--monitor_i", "0.1", "--max_r", "3", "{here}/tell.py"], {}),
    "default": (["{here}/tell.py"], {}),
    "module": (["--nproc_per_node", "2", "--monitor_interval", "0.1", "-m", "telling", "-m"], {"PYTHONPATH": "{here}"}),
    "no python": (["--nproc_per_node", "2", "--monitor_interval", "0.1", "--no_python", "{here}/tell.sh", "hi"], {}),
    "run path": (["--nproc_per_node", "2", "--monitor_interval", "0.1", "--run_path", "--no_python", "{here}/tell"], {}),
    "standalone": (["--standalone", "--nnodes=1:1", "--nproc_per_node", "2", "--monitor_interval", "0.1", "--role", "trainer", "{here}/tell.py"], {}),
    "c10d": (["--nnodes=1", "--rdzv_backend=c10d", "--rdzv_endpoint=localhost:0", "--rdzv_id=7", "--node_rank=0", "--monitor_interval", "0.1", "{here}/tell.py"], {}),
    "variables": (["{here}/tell.py"], {"PET_NPROC_PER_NODE": "2", "PET_MONITOR_INTERVAL": "0.1", "PET_MAX_RESTARTS": "4"}),
    "tee": (["--nproc_per_node", "2", "--monitor_interval", "0.1", "-t", "1", "--log_dir", "{here}/logs-of-tee", "{here}/tell.py"], {}),
}


@pytest.mark.parametrize("name", SWAPS)
def test_the_command_is_swapped_and_nothing_else(node0, here, name):
    words, variables = SWAPS[name]
    words = [word.format(here=here) for word in words]
    variables = {k: v.format(here=here) for k, v in variables.items()}
    theirs = by_torchrun(node0, *words, env=variables)
    path = {"PYTHONPATH": ":".join([variables.pop("PYTHONPATH", ""), str(PACKAGE)])}
    ours = by_muster(node0, *words, env={**variables, **path})
    assert theirs.code == ours.code == 0, (theirs, ours)
    assert sorted(ours.out.splitlines()) == sorted(theirs.out.splitlines()) and ours.out, (theirs, ours)


def test_who_started_it_learns_the_first_cause(node0, here):
    """From the error file that it gave launch itself, which says the same as torchrun's."""
    (here / "fails.py").write_text("""
import os, time
from torch.distributed.elastic.multiprocessing.errors import record
@record
def main():
    if os.environ["RANK"] == "0":
        time.sleep(1000)
    raise ValueError("no such layer")
main()
""")
    said = []
    for by in (by_torchrun, by_muster):
        file = here / f"{by.__name__}.json"
        env = {"TORCHELASTIC_ERROR_FILE": str(file), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(PACKAGE)}
        assert by(node0, "--nproc_per_node", "2", "--monitor_interval", "0.1", here / "fails.py", env=env).code == 1
        message = json.loads(file.read_text())["message"]
        said.append((message["message"], message["errorCode"], message["extraInfo"]["timestamp"].isdigit()))
    assert said == [("ValueError: no such layer", 1, True)] * 2
    full = by_muster(node0, "--nproc_per_node", "2", here / "fails.py", env={"TORCHELASTIC_ERROR_FILE": "/dev/full", "PYTHONPATH": str(PACKAGE)})
    assert full.code == 1 and "TORCHELASTIC_ERROR_FILE=/dev/full: No space left on device" in full.errors, full


def test_by_a_link(node0, here):
    link = here / "torchrun"
    link.symlink_to(LAUNCH)
    result = node0.run("--nproc_per_node", "2", here / "tell", "x", program=link)
    assert result.code == 0 and len(result.out.splitlines()) == 2 and result.errors == "", result
    refused = node0.run(here / "tell", "a", ":", "b", program=link)
    assert refused.code == 2 and "a word ':'" in refused.errors and refused.out == b"", refused


def test_options_that_mean_nothing_here_are_said_once(node0, here):
    result = by_muster(node0, "--nproc_per_node", "4", "--monitor_interval", "5", "--start_method", "fork", here / "tell.py")
    assert result.code == 0 and len(result.out.splitlines()) == 4, result
    assert [result.errors.count(f"{name} has no effect") for name in ("--monitor_interval", "--start_method")] == [1, 1], result
    refused = by_muster(node0, "--rdzv_backend", "etcd", here / "tell.py")
    assert refused.code == 2 and "no etcd is needed" in refused.errors, refused


def test_options_of_launch_may_be_said_too(node0, here):
    result = by_muster(node0, "--hosts", "node0:1,node1:1", "--label", here / "tell")
    assert result.code == 0 and sorted(re.findall(rb"\[(\d)@(node\d)\] \1 0 2 1 \1 ", result.out)) == [(b"0", b"node0"), (b"1", b"node1")], result


@pytest.mark.parametrize("words", [["--master_addr", "node0", "--master_port", "29517"], ["--rdzv_endpoint", "node0:29517"],
                                   ["--rdzv_backend", "static", "--rdzv_endpoint", "node0:29517"]], ids=["address", "endpoint", "backend"])
def test_the_static_form(shells, here, words):
    """The port is both where the nodes meet and MASTER_PORT, and ranks follow from --node_rank."""
    (here / "told.py").write_text("import os, socket\nprint(*map(os.environ.get, ('RANK', 'MASTER_PORT')), socket.gethostname(), socket.gethostbyname(os.environ['MASTER_ADDR']))\n")
    jobs = [by_muster(s, "--nnodes=2", "--nproc_per_node=2", f"--node_rank={1 - i}", *[w.replace("node0", "node1") for w in words], here / "told.py", start=True)
            for i, s in enumerate(shells[:2])]
    results = [job.finish() for job in jobs]
    assert [r.code for r in results] == [0, 0], results
    assert sorted(line for r in results for line in r.text.splitlines()) == [f"{rank} 29517 node{1 - rank // 2} 10.77.0.2" for rank in range(4)], results


def test_two_nodes_of_the_static_form_on_one_machine_need_no_address(node0, here):
    jobs = [by_muster(node0, "--nnodes", "2", "--node_rank", i, "--master_port", "29518", EXAMPLES / "sgd.py", start=True) for i in (1, 0)]
    results = [job.finish(180) for job in jobs]
    assert [r.code for r in results] == [0, 0] and "replicas are bit-equal" in results[1].text, results


def test_a_rank_that_c10d_ignores_is_ignored(shells, here):
    """Scripts for c10d often say the same --node_rank everywhere."""
    words = ("--nnodes", "2", "--node_rank", "0", "--rdzv_backend", "c10d", "--rdzv_endpoint", "node0:29519", here / "tell.py")
    results = [job.finish() for job in [by_muster(s, *words, start=True) for s in shells[:2]]]
    assert [r.code for r in results] == [0, 0] and all("--node-rank is not used" in r.errors for r in results), results
    assert sorted(line.split()[0] for r in results for line in r.text.splitlines()) == ["0", "1"], results


def files_of(folder):
    """The files of --log_dir with their contents, by name within the folder of the run, whose name is random."""
    (run,) = folder.iterdir()
    assert re.fullmatch(r"j_\w+", run.name), run
    return {str(p.relative_to(run)): p.read_text() for p in run.rglob("*") if p.is_file()}


def test_files_lie_where_torchruns_do(node0, here):
    (here / "fail.py").write_text(
        "import os, signal, sys\nfrom torch.distributed.elastic.multiprocessing.errors import record\n"
        "@record\ndef main():\n"
        "    os.write(1, b'out\\n'); os.write(2, b'err\\n')\n"
        "    if os.environ['TORCHELASTIC_RESTART_COUNT'] == '1':\n        return\n"
        "    if os.environ['RANK'] == '1':\n        os.read(os.open(sys.argv[1], os.O_RDONLY), 1)\n        raise ValueError('boom')\n"
        "    os.close(os.open(sys.argv[1], os.O_WRONLY))\n    signal.pause()\n"
        "main()\n")
    os.mkfifo(here / "has_written")
    found = []
    for folder, run in (("theirs", by_torchrun), ("ours", by_muster)):
        words = ("--nproc_per_node", "2", "--max_restarts", "1", "--monitor_interval", "0.1", "--rdzv_id", "j", "-r", "3", "--log_dir", here / folder)
        result = run(node0, *words, here / "fail.py", here / "has_written")
        assert result.code == 0 and result.out == b"", result
        found.append(files_of(here / folder))
    theirs, ours = found
    assert sorted(theirs) == sorted(ours) and "attempt_0/1/error.json" in ours, found
    for name in ours:
        if name.endswith("error.json"):
            assert all("ValueError: boom" in files[name] for files in found), found
        elif not name.startswith("attempt_0/1/"):  # the traceback of Python has different lines around it
            assert ours[name].splitlines()[0] == theirs[name].splitlines()[0], (name, found)


@pytest.mark.parametrize("streams", [["-r", "3"], ["-r", "1:2", "-t", "0:1"]], ids=["all", "some"])
def test_who_prints_nothing_has_files_too(node0, here, streams):
    (here / "silent.py").write_text("")
    for folder, run in (("theirs", by_torchrun), ("ours", by_muster)):
        words = ("--nproc_per_node", "2", "--monitor_interval", "0.1", "--rdzv_id", "j", *streams, "--log_dir", here / folder)
        result = run(node0, *words, here / "silent.py")
        assert result.code == 0, result
    theirs, ours = files_of(here / "theirs"), files_of(here / "ours")
    assert ours == theirs and len(ours) == (4 if streams[1] == "3" else 2), (theirs, ours)


def test_local_ranks_on_the_console(node0, here):
    """Of each node only these; files have all of them."""
    words = ("--hosts", "node0,node1", "--nproc_per_node", "3", "--local_ranks_filter", "0,2", "--log_dir", here / "logs")
    result = by_muster(node0, *words, here / "tell.py")
    assert result.code == 0 and sorted(int(line.split()[0]) for line in result.text.splitlines()) == [0, 2, 3, 5], result
    assert len([p for p in (here / "logs").rglob("stdout.log") if p.read_text()]) == 6


def test_local_ranks_on_the_console_of_each_node(shells, here):
    words = ("--nnodes", "2", "--nproc_per_node", "2", "--rdzv_backend", "c10d", "--rdzv_endpoint", "node0:29520", "--local_ranks_filter", "1")
    results = [job.finish() for job in [by_muster(s, *words, here / "tell.py", start=True) for s in shells[:2]]]
    assert [r.code for r in results] == [0, 0] and sorted(r.text.split()[0] for r in results) == ["1", "3"], results
    assert all(len(r.text.splitlines()) == 1 for r in results), results


def test_where_launch_is_looked_for(node0, here):
    """Beside the package, then on PATH; what is called launch there must be ours."""
    alone = here / "alone"
    shutil.copytree(PACKAGE / "muster", alone / "muster")
    at = {"PYTHONPATH": str(alone)}
    none = by_muster(node0, here / "tell.py", env=at)
    assert none.code == 2 and "no launch beside the package" in none.errors, none
    on_path = by_muster(node0, here / "tell.py", env={**at, "PATH": f"{BIN}:/usr/bin:/bin"})
    assert on_path.code == 0 and on_path.out, on_path
    strange = here / "strange"
    strange.mkdir()
    shutil.copy("/bin/true", strange / "launch")
    other = by_muster(node0, here / "tell.py", env={**at, "PATH": f"{strange}:/usr/bin:/bin"})
    assert other.code == 2 and f"{strange}/launch is another program" in other.errors, other
    for prefix, package in (("tree", "lib/python3/dist-packages"), ("venv", "lib/python3.11/site-packages")):
        shutil.copytree(PACKAGE / "muster", here / prefix / package / "muster")
        (here / prefix / "bin").mkdir()
        for name in ("launch", "muster-agent"):
            shutil.copy(BIN / name, here / prefix / "bin" / name)
        beside = by_muster(node0, here / "tell.py", env={"PYTHONPATH": str(here / prefix / package)})
        assert beside.code == 0 and beside.out, beside


SAY = 'echo "$RANK of $WORLD_SIZE on $(hostname)"'


def said(text):
    return sorted(re.findall(r"^\d of \d on node\d$", text, re.M))


def test_in_an_allocation_it_is_the_node_where_it_was_typed(slurm):
    torchrun = slurm.folder / "torchrun"
    torchrun.symlink_to(LAUNCH)
    text = slurm.run(f"exec {torchrun} --nproc_per_node 2 --no_python bash -c '{SAY}'", "-N2", "--ntasks-per-node=2", "-w", "node0,node1")
    assert said(text) == ["0 of 2 on node0", "1 of 2 on node0"], text


def test_each_task_of_srun_is_a_job_of_its_own(slurm):
    """Unless --nnodes says more."""
    torchrun = slurm.folder / "torchrun"
    torchrun.symlink_to(LAUNCH)
    text = slurm.run(f"srun -n3 {torchrun} --nproc_per_node 2 --no_python bash -c '{SAY}'", "-N2", "-n3", "-w", "node0,node1")
    assert len(said(text)) == 6 and [line[:6] for line in said(text)] == ["0 of 2"] * 3 + ["1 of 2"] * 3 and "node0" in text and "node1" in text, text


def test_the_usual_lines_of_a_slurm_script(slurm):
    """srun starts it on every node; the script has found the first one."""
    torchrun = slurm.folder / "torchrun"
    torchrun.symlink_to(LAUNCH)
    text = slurm.run(f"""
        head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
        srun --ntasks-per-node=1 {torchrun} --nnodes $SLURM_NNODES --nproc_per_node 2 --rdzv_id $SLURM_JOB_ID --rdzv_backend c10d --rdzv_endpoint $head:29521 \\
            --no_python bash -c '{SAY}'""", "-N2", "--ntasks-per-node=1", "-w", "node1,node2")
    assert [line[:6] for line in said(text)] == [f"{rank} of 4" for rank in range(4)], text
    assert sorted(line[-5:] for line in said(text)) == ["node1", "node1", "node2", "node2"], text
