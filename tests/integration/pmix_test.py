"""Programs of Debian's Open MPI as they are, without mpirun: muster-pmix serves them PMIx."""

import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from harness import BIN, PYTHON, WORKERS, kill_all, name_of, sh, wait_for
from mpi import told


@pytest.fixture
def openmpi(scratch):
    """workers/mpi.c, as Open MPI's users build it."""
    made = scratch / "mpi"
    subprocess.run(["mpicc.openmpi", "-o", made, WORKERS / "mpi.c"], check=True)
    return made


def files(shell):
    """Of agents and their servers, and of Open MPI: segments in /dev/shm, folders in TMPDIR."""
    listed = shell.host.popen(["sh", "-c", "ls -d /dev/shm/* /tmp/ompi* /tmp/pmix* 2>/dev/null"], stdout=subprocess.PIPE)
    return set(listed.communicate()[0].decode().split())


def remove_sessions(shell):
    """Of singletons, which are theirs to remove."""
    shell.run("-rf", *(f"/tmp/ompi.node{i}.0" for i in range(3)), program="rm")


@pytest.fixture(autouse=True)
def no_files(shells):
    """Nothing stays behind. (What is there before is of a test that killed an agent and its shepherd at one moment.)"""
    before = [files(shell) for shell in shells[:2]]
    yield
    assert [files(shell) - then for shell, then in zip(shells, before)] == [set(), set()]


@pytest.mark.parametrize("ranks", (4, 24))
def test_one_world_on_one_machine(node0, openmpi, ranks):
    result = node0.run("-n", ranks, openmpi)
    assert result.code == 0 and result.errors == "", result
    assert told(result) == {r: (ranks, ranks, 0) for r in range(ranks)}


@pytest.mark.parametrize("here, there", ((2, 2), (1, 3)))
def test_a_world_over_two_hosts(node0, openmpi, here, there):
    result = node0.run("--hosts", f"node0:{here},node1:{there}", openmpi)
    assert result.code == 0, result
    assert told(result) == {r: (4, here if r < here else there, 0) for r in range(4)}


def test_two_nodes_on_one_machine(node0, openmpi):
    result = node0.run("--standalone", "--nnodes", "2", "--nproc-per-node", "2", openmpi)
    assert result.code == 0, result
    assert told(result) == {r: (4, 2, 0) for r in range(4)}


def test_several_programs_are_one_world(node0, openmpi):
    result = node0.run("-n", "1", openmpi, ":", "-n", "2", openmpi)
    assert result.code == 0, result
    assert told(result) == {0: (3, 3, 0), 1: (3, 3, 1), 2: (3, 3, 1)}


def test_ranks_that_do_not_ascend_with_the_nodes(node0, openmpi, scratch):
    file = scratch / "ranks"
    file.write_text("rank 0=node1\nrank 1=node0\nrank 2=node1\n")
    result = node0.run("--rankfile", file, openmpi)
    assert result.code == 0, result
    assert told(result) == {0: (3, 2, 0), 1: (3, 1, 0), 2: (3, 2, 0)}


def test_behind_programs_that_run_it(node0, openmpi):
    result = node0.run("-n", "2", "nice", "-n", "1", "env", "A=1", "timeout", "50", openmpi)
    assert result.code == 0 and result.errors == "" and set(told(result)) == {0, 1}, result


@pytest.mark.parametrize("how", ("{0}; {0}", "{0}; {0}; true", "{0} & {0} & wait"), ids=("its own code", "success", "beside"))
def test_a_second_mpi_program_of_a_worker_fails(node0, openmpi, how):
    result = node0.run("-n", "2", *sh(how.format(openmpi)))
    assert result.code not in (0, None) and "a second MPI_Init in one worker" in result.errors, result


def test_behind_a_shell_script(node0, openmpi):
    result = node0.run("-n", "2", "--mpi", "pmix", *sh(f"{openmpi}; echo ended"))
    assert result.code == 0 and set(told(result)) == {0, 1}, result


@pytest.mark.parametrize("where", (("-n", "3"), ("--hosts", "node0:1,node1:2")), ids=("one host", "two hosts"))
def test_abort_ends_the_job_with_its_code(node0, openmpi, where):
    result = node0.run(*where, openmpi, "abort")
    assert result.code == 3, result
    assert re.search(r"rank 2 on node\d .*ended with exit code 3 after .*: MPI_Abort\(3\)\n", result.errors), result


@pytest.mark.parametrize("where, node", ((("-n", "2"), 0), (("--hosts", "node0:1,node1:1"), 1)), ids=("one host", "two hosts"))
def test_leaving_without_finalize_is_a_failure(node0, openmpi, where, node):
    result = node0.run(*where, openmpi, "leave")
    assert result.code == 1, result
    assert re.search(rf"rank 1 on node{node} .*: it exited with status 0 after MPI_Init, without MPI_Finalize", result.errors), result


@pytest.mark.parametrize("where", (("-n", "3"), ("--hosts", "node0:1,node1:2")), ids=("one host", "two hosts"))
def test_a_killed_rank_starts_all_again(node0, openmpi, where):
    result = node0.run(*where, "--max-restarts", "1", openmpi, "die")
    assert result.code == 0 and "SIGKILL" in result.errors, result
    assert set(told(result)) == {0, 1, 2}, result


def test_a_killed_server_ends_what_needs_it(node0, openmpi):
    job = node0.start("-n", "2", openmpi, "wait")
    job.expect("rank . waits", 2)
    server = [pid for pid, line in node0.ours().items() if line.startswith(str(BIN / "muster-pmix"))]
    assert len(server) == 1
    os.kill(server[0], signal.SIGKILL)
    result = job.finish()
    assert result.code == 137, result
    assert "the PMIx server of this node is lost" in result.errors, result


def test_signals_to_all_processes_of_a_job_leave_the_server_alone(node0, openmpi):
    """As PBS sends them: they are for the workers, which need it while they save."""
    job = node0.start("-n", "2", openmpi, "wait")
    job.expect("rank . waits", 2)
    (server,) = [pid for pid, line in node0.ours().items() if line.startswith(str(BIN / "muster-pmix"))]
    for signo in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        os.kill(server, signo)
    ignored = int(re.search(r"SigIgn:\s*(\w+)", Path(f"/proc/{server}/status").read_text())[1], 16)
    assert all(ignored >> (signo - 1) & 1 for signo in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2))
    job.signal(signal.SIGTERM)
    result = job.finish()
    assert result.code == 143 and "is lost" not in result.errors, result


@pytest.mark.parametrize("name", ("launch", "muster-shepherd"))
def test_whoever_dies_no_server_is_left(node0, openmpi, name):
    job = node0.start("-n", "2", openmpi, "wait")
    job.expect("rank . waits", 2)
    launch = job.pid
    kill_all([launch] if name == "launch" else [pid for pid in node0.ours() if name_of(pid) == name])
    job.finish()
    wait_for(lambda: not node0.ours(), 20, what=lambda: f"left: {node0.ours()}")


@pytest.mark.parametrize("half", (0, 1), ids=("agent", "shepherd"))
def test_a_killed_agent_of_another_host_leaves_none(shells, openmpi, half):
    job = shells[0].start("--hosts", "node0:1,node1:1", openmpi, "wait")
    job.expect("rank . waits", 2)
    agent = sorted(pid for pid in shells[1].acting() if name_of(pid) != "muster-pmix")
    kill_all([agent[half]])
    assert job.finish().code != 0
    wait_for(lambda: not shells[1].ours(), 20, what=lambda: f"left: {shells[1].ours()}")


def test_ctrl_c_stops_it(node0, openmpi):
    job = node0.start("-n", "2", openmpi, "wait")
    job.expect("rank . waits", 2)
    job.signal(signal.SIGINT)
    assert job.finish().code == 130


def test_a_signal_while_the_server_starts(node0, openmpi, scratch):
    """It waits for the workers, which get it as their first."""
    shutil.copy(BIN / "launch", scratch / "launch")
    slow = scratch / "muster-pmix"
    slow.write_text(f'#!/bin/sh\ntouch {scratch}/starts\nuntil test -e {scratch}/go; do sleep 0.05; done\nexec {BIN / "muster-pmix"} "$@"\n')
    slow.chmod(0o755)
    job = node0.start("-n", "2", openmpi, "wait", program=scratch / "launch")
    wait_for((scratch / "starts").exists, 20, what="the server starts")
    job.signal(signal.SIGINT)
    job.expect("stopping", stream="err")
    (scratch / "go").touch()
    assert job.finish().code == 130


def test_silent_singletons_are_told(node0, openmpi):
    result = node0.run("-n", "2", "--mpi", "pmix", "env", "-u", "JSM_JSRUN_PORT", openmpi)
    assert result.code == 0 and result.text.count("rank 0 of 1") == 2, result
    assert "none of the 2 workers of this node came to the PMIx server" in result.errors, result


def test_an_open_mpi_that_is_served_as_an_mpich_is_told(node0, openmpi):
    result = node0.run("-n", "2", "--mpi", "pmi1", openmpi)
    remove_sessions(node0)
    assert result.code == 0 and result.text.count("rank 0 of 1") == 2, result
    assert "none of the 2 workers of this node came to the PMI server" in result.errors and "--mpi pmix" in result.errors, result


HIDDEN = """
import os, sys, time
sys.path.append(sys.argv[1])
import helper
sys.stdout.write(f"rank {helper.MPI.COMM_WORLD.rank} of {helper.MPI.COMM_WORLD.size}\\n")  # one write: an mpirun's ranks share its pipe
sys.stdout.flush()
while not os.path.exists(sys.argv[2]):
    time.sleep(0.02)
"""


@pytest.mark.parametrize("by", ["python", "bash"])
def test_an_mpi_that_only_a_module_imports_is_no_world_of_one(node0, scratch, by):
    (scratch / "helper.py").write_text("from mpi4py import MPI\n")
    (scratch / "script.py").write_text(HIDDEN)
    (scratch / "told").touch()
    script = [PYTHON, scratch / "script.py", scratch, scratch / "told"]
    words = ["bash", "-c", " ".join(map(str, script))] if by == "bash" else script
    result = node0.run("-n", "2", "--no-prefix", *words)
    assert result.code != 0 and "of 1" not in result.text and "--mpi pmix serves it" in result.errors, result
    result = node0.run("-n", "2", "--no-prefix", "--mpi", "pmix", *words)
    assert result.code == 0 and "rank 1 of 2" in result.text, result
    result = node0.run("-n", "2", "--no-prefix", "--mpi", "none", *words)
    assert result.code == 0 and result.text.count("rank 0 of 1") == 2, result
    remove_sessions(node0)


def test_a_program_behind_what_does_not_show_it_is_no_world_of_one(node0, openmpi):
    """However short: where it finds no server it fails."""
    for words in (sh(f"P={openmpi}; $P"), [PYTHON, "-c", "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1]))", openmpi]):
        result = node0.run("-n", "2", *words)
        assert result.code != 0 and "rank 0 of 1" not in result.text and "--mpi pmix serves it" in result.errors, result
        result = node0.run("-n", "1", *words)
        assert result.code == 0 and "rank 0 of 1" in result.text, result
    result = node0.run("-n", "2", *sh(f"if false; then {openmpi} a; else {openmpi}; fi"))
    assert result.code == 0 and set(told(result)) == {0, 1}, result
    remove_sessions(node0)


LOADED = """
import ctypes, os, sys, time
ctypes.CDLL("libmpi.so.40")
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
"""


@pytest.mark.parametrize("by", ["python", "bash"])
def test_an_mpi_that_is_loaded_is_told(node0, scratch, by):
    (scratch / "script.py").write_text(LOADED)
    script = [PYTHON, scratch / "script.py", scratch / "told"]
    job = node0.start("-n", "2", "--no-prefix", *(["bash", "-c", " ".join(map(str, script)) + "; true"] if by == "bash" else script))
    job.expect(r"rank 0 has loaded Open MPI \(/\S+/libmpi\.so\.40\S*\), .* each of the 2 workers is a world of its own .* Say --mpi pmix;", stream="err")
    (scratch / "told").touch()
    result = job.finish()
    assert result.code == 0 and result.errors.count("has loaded") == 1, result


def test_an_mpi_that_an_mpirun_serves_is_not_told(node0, scratch):
    (scratch / "helper.py").write_text("from mpi4py import MPI\n")
    (scratch / "script.py").write_text(HIDDEN)
    mpirun = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", "2", PYTHON, scratch / "script.py", scratch, scratch / "told"]
    job = node0.start("-n", "2", "--no-prefix", *mpirun)
    job.expect(r"rank 1 of 2", 2)
    time.sleep(2)  # in which there are looks
    (scratch / "told").touch()
    result = job.finish()
    assert result.code == 0 and "has loaded" not in result.errors, result
    remove_sessions(node0)


def test_with_none_every_rank_is_a_world_of_its_own(node0, openmpi):
    result = node0.run("-n", "2", "--mpi", "none", openmpi)
    assert result.code == 0 and result.text.count("rank 0 of 1") == 2, result
    remove_sessions(node0)


def test_one_new_rank_among_living_ones_is_refused(node0, openmpi):
    result = node0.run("-n", "2", "--restart", "one", "--max-restarts", "1", openmpi)
    assert result.code != 0 and "--restart=one puts a new worker among living ones" in result.errors, result


def test_a_node_without_the_server(node0, openmpi, scratch):
    for name in ("launch", "muster-agent"):
        shutil.copy(BIN / name, scratch / name)
    result = node0.run("-n", "2", openmpi, program=scratch / "launch")
    assert result.code != 0 and f"no muster-pmix in {scratch} nor on PATH" in result.errors, result
    result = node0.run("-n", "1", "--mpi", "pmix", openmpi, program=scratch / "launch")
    assert result.code != 0 and "no muster-pmix in" in result.errors, result
    result = node0.run("-n", "1", openmpi, program=scratch / "launch")
    assert result.code == 0 and told(result) == {0: (1, 1, 0)}, result
    assert result.errors.count("\n") == 1 and "starts without it, as a world of its own" in result.errors, result
    remove_sessions(node0)


def test_a_server_of_another_build(node0, openmpi, scratch):
    shutil.copy(BIN / "launch", scratch / "launch")
    other = scratch / "muster-pmix"
    other.write_text(f'#!/bin/sh\nexec {BIN / "muster-pmix"} 0.0.0-other\n')
    other.chmod(0o755)
    result = node0.run("-n", "2", openmpi, program=scratch / "launch")
    assert result.code != 0 and "started by an agent of build 0.0.0-other" in result.errors, result
    assert "no PMIx server: its process, muster-pmix, has ended" in result.errors, result


def test_two_mpis_are_no_world(node0, openmpi, scratch):
    other = scratch / "mpich"
    subprocess.run(["mpicc.mpich", "-o", other, WORKERS / "mpi.c"], check=True)
    result = node0.run("-n", "1", openmpi, ":", "-n", "1", other)
    assert result.code != 0 and "they cannot be one world" in result.errors, result


def test_a_program_that_no_mpi_is_served_to_is_in_no_world(node0, openmpi):
    result = node0.run("-n", "1", openmpi, ":", "-n", "1", "sleep", "100")
    assert result.code != 0 and "sleep is served no PMIx" in result.errors and "two jobs" in result.errors, result


@pytest.fixture
def client(scratch):
    """workers/pmix_client.c."""
    made = scratch / "pmix_client"
    flags = subprocess.check_output(["pkg-config", "--cflags", "--libs", "pmix"], text=True).split()
    folder = next(flag[2:] for flag in flags if flag.startswith("-L"))
    subprocess.run(["gcc", "-o", made, WORKERS / "pmix_client.c", *flags, f"-Wl,-rpath,{folder}"], check=True)
    return made


def test_a_server_keeps_nothing_of_a_fence(node0, client):
    """Of one with a megabyte of each node libpmix 4.2 keeps three itself; what it gives to us would be the fourth."""
    job = node0.start("--standalone", "--nnodes", "2", "--nproc-per-node", "1", "--mpi", "pmix", client, "fences", "100")
    job.expect("rank . has left all fences", 2)
    for pid in [pid for pid, line in node0.ours().items() if "muster-pmix" in line]:
        resident = int(re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())[1])
        assert resident < 390_000
    job.signal(signal.SIGINT)
    job.finish()


@pytest.mark.parametrize("when", ("modex", "modex late"))
def test_what_a_rank_of_another_host_has_put_is_found_without_a_fence(node0, client, when):
    result = node0.run("--hosts", "node0:2,node1:2", "--mpi", "pmix", client, when)
    assert result.code == 0 and result.errors == "", result
    assert "rank 0 found hello" in result.text, result


def test_without_a_fence_so_much_is_told_and_not_more(node0, client):
    result = node0.run("--hosts", "node0:1,node1:1", "--mpi", "pmix", client, "modex large")
    assert result.code == 1 and "rank 0: PMIx_Get: " in result.errors, result
    assert re.search(r"what rank 1 has put was asked for here, and not found: rank 1 has put more than the 65536 bytes", result.errors), result


def test_that_names_are_not_published_is_said(node0, openmpi):
    result = node0.run("-n", "2", openmpi, "publish")
    assert result.code == 0 and "published: 0\n" in result.text, result
    assert "--mpi pmix: a program asked for MPI_Publish_name, which is not served" in result.errors, result


def test_open_mpi_may_leave_the_fence_of_its_start_out(node0, openmpi):
    """It asks for the addresses of ranks as it comes to them."""
    settings = ("-x", "OMPI_MCA_pmix_base_async_modex=1", "-x", "OMPI_MCA_pmix_base_collect_data=0")
    result = node0.run("--hosts", "node0:2,node1:2", *settings, openmpi)
    assert result.code == 0, result
    assert told(result) == {r: (4, 2, 0) for r in range(4)}
