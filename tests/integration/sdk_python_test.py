"""The Python package, on the build tree's library."""

import re

import pytest

from harness import BIN, EXAMPLES, PYTHON, WORKERS

PACKAGE = {"PYTHONPATH": str(BIN.parent / "python")}


@pytest.mark.parametrize("n", [1, 3])
def test_every_call(node0, n):
    result = node0.run("-n", n, "--no-prefix", WORKERS / "sdk_calls.py", env=PACKAGE)
    assert result.code == 0 and result.text.count("all right") == n, result


@pytest.mark.parametrize("nodes,n", [(1, 1), (1, 3), (2, 2), (2, 5)])
def test_every_call_with_parts_that_differ(node0, nodes, n):
    result = node0.run("--standalone", "--nnodes", nodes, "-n", n, "--no-prefix", WORKERS / "sdk_parts.py", env=PACKAGE)
    assert result.code == 0 and result.text.count("all right") == n, result


def test_rows_that_do_not_fit_each_other_are_named(node0):
    script = """
import muster, numpy, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
comm = muster.init()
try:
    comm.all_gather_v(numpy.ones((2, 3 + comm.rank)))
except muster.FailedPrecondition as error:
    print("told:", error)
"""
    result = node0.run("-n", "2", "--no-prefix", PYTHON, "-c", script, env=PACKAGE)
    assert result.code == 0 and len(re.findall(r"told: all_gather_v .*all_gather_v\(\d+ x float64 in parts .*all_gather_v\(\d+ x float64", result.text)) == 2, result


def test_the_example(node0):
    runs = [node0.run("-n", "4", "--no-prefix", EXAMPLES / "allreduce_sgd.py", env=PACKAGE) for _ in range(2)]
    losses = [float(loss) for loss in re.findall(r"loss (\S+)", runs[0].text)]
    assert len(losses) == 5 and losses == sorted(losses, reverse=True), runs[0]
    assert runs[0].code == 0 and runs[0].text == runs[1].text, runs


@pytest.mark.parametrize("nodes", [1, 2])
def test_groups(node0, nodes):
    script = """
import muster, numpy
with muster.init() as comm:
    group = comm.split(comm.rank % 2, key=-comm.rank)
    assert comm.split(None) is None and comm.split(-1) is None
    rank, size = comm.rank, comm.size
ranks = [r for r in reversed(range(size)) if r % 2 == rank % 2]
assert group.size == len(ranks) and ranks[group.rank] == rank and group.round == comm.round
assert group.all_gather(numpy.array([rank])).ravel().tolist() == ranks
assert group.all_reduce(numpy.full(9, rank)).tolist() == [sum(ranks)] * 9
with group.split(0) as again:
    assert again.rank == group.rank and again.all_reduce(numpy.ones(1))[0] == again.size
print("groups are right")
"""
    result = node0.run("--standalone", "--nnodes", nodes, "-n", "5", "--no-prefix", PYTHON, "-c", script, env=PACKAGE)
    assert result.code == 0 and result.text.count("groups are right") == 5, result


@pytest.mark.parametrize("nodes", [1, 2])
def test_who_is_late_can_be_asked_while_it_is(node0, nodes, scratch):
    script = """
import os, sys, threading, muster, numpy
comm = muster.init()
comm.set_timeout(10)
other = 1 - comm.rank
def look():
    calls, before = comm.counters().calls, comm.waited_for(other)
    while not comm.waited_for(other) > before:
        pass
    assert comm.counters().calls == calls and comm.last_call() == 1
if comm.rank == 0:
    work = comm.all_reduce(numpy.ones(1), async_op=True)
    look()
    child = os.fork()
    if child == 0:
        look = comm.counters(), comm.waited_for(other), comm.last_call()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    comm.send(numpy.ones(1), dst=1)
    work.wait()
    assert comm.counters().calls > 0 and comm.last_call() == 1
    while not os.path.exists(sys.argv[1]):
        pass
    comm.barrier()
else:
    comm.recv(numpy.ones(1), src=0)
    comm.all_reduce(numpy.ones(1))
    def late():
        while comm.last_call() != 2:
            pass
        before = comm.waited_for(other)
        while not comm.waited_for(other) > before:
            pass
        open(sys.argv[1], "w").close()
    monitor = threading.Thread(target=late)
    monitor.start()
    comm.barrier()
    monitor.join()
comm.close()
print("asked")
"""
    result = node0.run("--standalone", "--nnodes", nodes, "-n", "2", "--no-prefix", PYTHON, "-c", script, scratch / "seen", env=PACKAGE)
    assert result.code == 0 and result.text.count("asked") == 2, result


def test_a_peer_that_dies_is_an_exception_with_its_name(node0):
    script = """
import os, signal, muster, numpy
signal.signal(signal.SIGTERM, signal.SIG_IGN)
comm = muster.init()
comm.barrier()
if comm.rank == 2:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    comm.all_reduce(numpy.ones(4))
except muster.Unavailable as error:
    print("told:", error)
"""
    result = node0.run("-n", "3", "--no-prefix", PYTHON, "-c", script, env=PACKAGE)
    assert result.code == 137 and result.text.count("told:") == 2 and result.text.count("rank 2 has died") == 2, result


BEGINS = """
import muster
try:
    muster.init()
except muster.Error as why:
    print(why)
"""


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_limit_of_file_sizes_is_named(node0, ranks):
    """Shared memory is a file to the kernel: it ended a program beyond the limit by SIGXFSZ."""
    start = ["env", "-u", "MUSTER_AGENT_FD", PYTHON] if ranks == 1 else [BIN / "launch", "-n", 2, "--no-prefix", PYTHON]
    result = node0.run("-c", 'ulimit -f 64; exec "$0" "$@"', *start, "-c", BEGINS, program="bash", env=PACKAGE)
    lines = result.text.splitlines()
    assert result.code == 0 and len(lines) == ranks, result
    for line in lines:
        assert "the limit of file sizes is 65536 bytes (ulimit -f 64): raise it (ulimit -f unlimited)" in line, result


FAILS_SLOWLY = """
import sys, time, muster
try:
    with muster.init() as comm:
        comm.barrier()
        if comm.rank == 1:
            raise ValueError("mine")
        comm.barrier()
except ValueError:
    time.sleep(0.5)
    sys.exit(3)
"""


@pytest.mark.parametrize("nodes", [1, 2])
def test_who_fails_is_named_though_it_ends_after_those_whom_it_has_failed(node0, nodes):
    """As with 32 ranks of torch, whose end takes some time: SIGTERM would come before that."""
    result = node0.run("--standalone", "--nnodes", nodes, "-n", "4", PYTHON, "-c", FAILS_SLOWLY, env=PACKAGE)
    assert result.code == 3 and re.search(r"job \S+: rank 1 on \S+ \(pid \d+\) ended with exit code 3", result.errors), result
    assert result.seconds < 10, result
