"""MPI programs as they are, without mpirun and mpiexec: Debian's MPICH, which speaks PMI-1. Open MPI: pmix_test.py."""

import re
import signal
import subprocess
import time

import pytest
from harness import BIN, PYTHON, WORKERS, sh
from mpi import told


@pytest.fixture
def mpich(scratch):
    """workers/mpi.c, as MPICH's users build it."""
    made = scratch / "mpi"
    subprocess.run(["mpicc.mpich", "-o", made, WORKERS / "mpi.c"], check=True)
    return made


def test_one_world_on_one_machine(node0, mpich):
    result = node0.run("-n", "4", mpich)
    assert result.code == 0 and result.errors == "", result
    assert told(result) == {r: (4, 4, 0) for r in range(4)}


# Between hosts MPI_Finalize of Debian's MPICH 4.0.2 hangs now and then, under its own mpiexec as well: a rank waits in UCX for one that
# waits in PMI's barrier. So these worlds end by MPI_Abort; barriers up to the end are tested by workers/pmi.py.
@pytest.mark.parametrize("here, there", ((2, 2), (1, 3)))
def test_a_world_over_two_hosts(node0, mpich, here, there):
    result = node0.run("--hosts", f"node0:{here},node1:{there}", mpich, "abort")
    assert result.code == 3 and "MPI_Abort(3)" in result.errors, result
    assert told(result) == {r: (4, here if r < here else there, 0) for r in range(4)}


def test_sixteen_ranks_on_each_of_two_hosts(node0):
    result = node0.run("--hosts", "node0:16,node1:16", "--mpi", "pmi1", PYTHON, WORKERS / "pmi.py")
    assert result.code == 0, result
    assert set(re.findall(r"rank (\d+) knows 32, mapping \(vector,\(0,2,16\)\), app 0", result.text)) == {str(r) for r in range(32)}, result


def test_what_is_said_in_a_barrier_may_be_long(node0):
    result = node0.run("--hosts", "node0:1,node1:2", "--mpi", "pmi1", PYTHON, WORKERS / "pmi.py", "300")
    assert result.code == 0 and result.text.count("knows 900,") == 3, result


def test_whoever_is_told_to_end_may_finalize(node0):
    job = node0.start("--hosts", "node0:1,node1:2", "--mpi", "pmi1", "--grace", "60", PYTHON, WORKERS / "pmi.py", "1", "stop")
    job.expect("rank . works", 3)
    began = time.monotonic()
    job.signal(signal.SIGTERM)
    result = job.finish()
    assert result.text.count("knows 3,") == 3 and "SIGKILL" not in result.errors and time.monotonic() - began < 30, result


def test_a_program_that_no_mpi_is_served_to_is_in_no_world(node0, mpich):
    result = node0.run("-n", "1", mpich, ":", "-n", "1", "sleep", "100")
    assert result.code != 0 and "sleep is served no PMI-1" in result.errors and "two jobs" in result.errors, result


def test_a_child_that_goes_on_speaking_holds_nobody_up(node0, lab):
    result = node0.run("-n", "1", "--mpi", "pmi1", *sh('yes "cmd=get_appnum" >&$PMI_FD & sleep 0.3'))
    assert result.code == 0, result
    lab.expect_quiet()


def test_several_programs_are_one_world(node0, mpich):
    result = node0.run("-n", "1", mpich, ":", "-n", "2", mpich)
    assert result.code == 0, result
    assert told(result) == {0: (3, 3, 0), 1: (3, 3, 1), 2: (3, 3, 1)}


def test_behind_programs_that_run_it(node0, mpich):
    result = node0.run("-n", "2", "nice", "-n", "1", "env", "A=1", "timeout", "50", mpich)
    assert result.code == 0 and result.errors == "" and set(told(result)) == {0, 1}, result


def test_behind_a_shell_script_that_runs_it(node0, scratch, mpich):
    """Also where it has ended before anybody could look at what it has loaded."""
    for name, text in {"by_name": f"{mpich}\n", "by_argument": 'shift\nA=1 exec "$@"\n'}.items():
        script = scratch / name
        script.write_text(f"#!/bin/bash\n{text}")
        script.chmod(0o755)
        result = node0.run("-n", "2", script, "x", mpich)
        assert result.code == 0 and result.errors == "" and set(told(result)) == {0, 1}, (name, result)
    result = node0.run("-n", "2", *sh(f"if [ a = b ]; then {mpich} a; else {mpich}; fi"))
    assert result.code == 0 and result.errors == "" and set(told(result)) == {0, 1}, result


OVER_TWO = ("--hosts", "node0:1,node1:1")
WRAPPERS = {  # which program they run does not show before they do; $0 is the program's path
    "variable": ["sh", "-c", 'P=${0%i}; "${P}i" $A'],
    "pipe": ["bash", "-c", 'set -o pipefail; exe=$0; $exe $A | cat'],
    "folder": ["bash", "-c", 'D=$(cd $(dirname $0); pwd); $D/mpi $A'],
    "make": ["make", "-s", "-f", "Makefile", "runit"],
    "binary": ["./starts"],
    "exec of Python": [PYTHON, "-c", "import os, sys; os.execv(sys.argv[1], [sys.argv[1], *os.environ.get('A', '').split()])"],
    "Python that leaves descriptors open": [PYTHON, "-c", "import os, subprocess, sys; sys.exit(subprocess.call([sys.argv[1], *os.environ.get('A', '').split()], close_fds=False))"],
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_behind_what_does_not_show_what_it_runs(node0, scratch, mpich, name):
    (scratch / "Makefile").write_text(f"runit:\n\t{mpich} $(A)\n")
    (scratch / "starts.c").write_text('#include <unistd.h>\nint main(int c, char** v) { (void)c; execl(v[1], v[1], getenv("A"), (char*)0); return 1; }\n'.replace("#include", "#include <stdlib.h>\n#include", 1))
    subprocess.run(["cc", "-o", scratch / "starts", scratch / "starts.c"], check=True)
    typed = WRAPPERS[name] + ([] if name == "make" else [mpich])
    result = node0.run("-n", "2", "--wdir", scratch, *typed)
    assert result.code == 0 and result.errors == "" and told(result) == {r: (2, 2, 0) for r in range(2)}, result
    if name == "variable":
        result = node0.run(*OVER_TWO, "-x", "A=abort", "--wdir", scratch, *typed)
        assert result.code == 3 and told(result) == {r: (2, 1, 0) for r in range(2)}, result


@pytest.mark.parametrize("how, said", ((";", "SIGPIPE after MPI_Finalize, as of a second MPI_Init in one worker"), ("&", "ended with exit code 1 after .*: a second MPI_Init in one worker")), ids=("behind", "beside"))
@pytest.mark.parametrize("shows", (True, False), ids=("shows", "does not show"))
def test_a_second_mpi_program_of_a_worker_fails(node0, mpich, how, said, shows):
    program = mpich if shows else "$P"
    result = node0.run("-n", "2", "-x", f"P={mpich}", *sh(f"{program}; {program}" if how == ";" else f"{program} wait & {program} wait & wait"))
    assert result.code not in (0, None) and re.search(said, result.errors) and "rank 0 of 1" not in result.text, result


def test_a_program_that_cannot_reach_its_server_fails(node0, mpich):
    """As Python's subprocess closes what it does not know."""
    result = node0.run("-n", "2", PYTHON, "-c", "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1]))", mpich)
    assert result.code != 0 and "rank 0 of 1" not in result.text and "close_fds=False" in result.errors, result
    result = node0.run("-n", "2", "--mpi", "none", PYTHON, "-c", "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1]))", mpich)
    assert result.code == 0 and result.text.count("rank 0 of 1") == 2, result


def test_what_is_offered_does_not_concern_who_does_not_want_it(node0):
    closes = "import os; os.closerange(3, 1024); print('closed', os.environ['PMI_SIZE'])"
    for words, said in (
        ([PYTHON, "-c", closes], "closed 2"),
        (["bash", "-c", f"for i in $(seq 100); do /bin/true; done; {PYTHON} -c 'import subprocess; subprocess.run([\"echo\", \"below\"], check=True)'"], "below"),
        (["bash", "-c", "(sleep 0.2; echo later) & exit 0"], "later"),
    ):
        result = node0.run("-n", "2", "--no-prefix", *words)
        assert result.code == 0 and result.text.count(said) == 2, result
        assert "PMI" not in result.errors and "MPI" not in result.errors, result
    result = node0.run("-c", "ulimit -n 90; exec \"$0\" -n 2 --no-prefix echo few", BIN / "launch", program="bash")
    assert result.code == 0 and result.text.count("few") == 2, result
    result = node0.run("-n", "2", *sh("exit 4"))
    assert result.code == 4 and "MPI" not in result.errors, result


def test_ranks_of_another_launcher_find_no_number_of_ours(node0):
    """accelerate takes PMI_SIZE before WORLD_SIZE, which torchrun has set for its own."""
    result = node0.run("-n", "2", "--no-prefix", *sh("true || torchrun a.py; echo size ${PMI_SIZE:-none}"))
    assert result.code == 0 and result.text.count("size none") == 2, result


def test_behind_a_shell_script(node0, mpich):
    result = node0.run("-n", "2", "--mpi", "pmi1", *sh(f"{mpich}; echo ended"))
    assert result.code == 0 and set(told(result)) == {0, 1}, result


def test_abort_ends_the_job_with_its_code(node0, mpich):
    result = node0.run("-n", "3", mpich, "abort")
    assert result.code == 3, result
    assert re.search(r"rank 2 on node0 .*ended with exit code 3 after .*: MPI_Abort\(3\)", result.errors), result


def test_an_abort_among_sixteen_ranks_on_each_of_two_hosts_ends_all(node0, lab, mpich):
    result = node0.run("--hosts", "node0:16,node1:16", mpich, "abort", seconds=120)
    assert result.code == 3, result
    assert re.search(r"rank 31 on node1 .*ended with exit code 3 after .*: MPI_Abort\(3\)", result.errors), result
    assert told(result) == {rank: (32, 16, 0) for rank in range(32)}
    lab.expect_quiet()


@pytest.mark.parametrize("where, node", ((("-n", "2"), 0), (("--hosts", "node0:1,node1:1"), 1)), ids=("one host", "two hosts"))
def test_leaving_without_finalize_is_a_failure(node0, mpich, where, node):
    result = node0.run(*where, mpich, "leave")
    assert result.code == 1, result
    assert re.search(rf"rank 1 on node{node} .*: it exited with status 0 after MPI_Init, without MPI_Finalize", result.errors), result


@pytest.mark.parametrize("where, word, code", ((("-n", "3"), "die", 0), (("--hosts", "node0:1,node1:2"), "die, abort", 3)), ids=("one host", "two hosts"))
def test_a_killed_rank_starts_all_again(node0, mpich, where, word, code):
    result = node0.run(*where, "--max-restarts", "1", mpich, word)
    assert result.code == code and "SIGKILL" in result.errors, result
    assert set(told(result)) == {0, 1, 2}, result


def test_a_program_that_never_calls_mpi_is_a_plain_one(node0):
    result = node0.run("-n", "2", "--no-prefix", "--mpi", "pmi1", *sh("test -S /proc/self/fd/$PMI_FD && echo rank $PMI_RANK of $PMI_SIZE"))
    assert result.code == 0 and sorted(result.text.split("\n")) == ["", "rank 0 of 2", "rank 1 of 2"], result
    assert "none of the 2 workers of this node came to the PMI server" in result.errors, result  # it was asked for
    assert node0.run("-n", "2", "true").errors == ""


def test_with_none_every_rank_is_a_world_of_its_own(node0, mpich):
    result = node0.run("-n", "2", "--mpi", "none", mpich)
    assert result.code == 0 and result.text.count("rank 0 of 1") == 2, result


def test_without_launch_it_is_a_world_of_one(node0, mpich):
    result = node0.run(program=mpich)
    assert result.code == 0 and told(result) == {0: (1, 1, -1)}, result


def test_one_rank_of_launch_is_a_world_of_one(node0, mpich):
    result = node0.run("-n", "1", mpich)
    assert result.code == 0 and told(result) == {0: (1, 1, 0)}, result


def test_one_new_rank_among_living_ones_is_refused(node0, mpich):
    for program in ([mpich], sh(f"P={mpich}; $P")):
        result = node0.run("-n", "2", "--restart", "one", "--max-restarts", "1", *program)
        assert result.code != 0 and "--restart=one puts a new worker among living ones" in result.errors, result
        assert "rank 0 of 1" not in result.text, result


HYDRAS_WORDS = (
    ("-hosts", "node0,node1", "-n", "4"),
    ("-hosts", "node0:2,node1:1", "-n", "5"),
    ("-hosts", "node0,node1", "-ppn", "2", "-n", "6"),
    ("-ppn", "1", "-hosts", "node0:4,node1:4", "-n", "3"),
)


@pytest.mark.parametrize("words", HYDRAS_WORDS)
def test_ranks_are_where_hydra_puts_them(node0, words):
    said = ["sh", "-c", "echo ${PMI_RANK:-$RANK} $(hostname)"]
    peer = node0.host.run(["mpiexec.hydra", "-launcher", "ssh", *words, *said])
    result = node0.run("--no-prefix", *words, *said)
    assert peer.returncode == 0 and result.code == 0, (peer, result)
    assert sorted(result.text.splitlines()) == sorted(peer.stdout.decode().splitlines()), (peer, result)


def test_by_node_ranks_are_dealt_out_to_the_hosts(node0, mpich):
    result = node0.run("--hosts", "node0:3,node1:1", "--map-by", "node", "--no-prefix", "sh", "-c", "echo $RANK $LOCAL_RANK $(hostname)")
    assert sorted(result.text.splitlines()) == ["0 0 node0", "1 0 node1", "2 1 node0", "3 2 node0"], result
    world = node0.run("--hosts", "node0:2,node1:2", "--map-by", "node", mpich, "abort")
    assert world.code == 3 and "MPI_Abort(3)" in world.errors, world
    assert told(world) == {r: (4, 2, 0) for r in range(4)}, world
