"""Workers that fail because of another one, and whose reports come first: the one that ended first is named all the same."""

import json
import os
import re
import signal

import pytest

from harness import BIN, PYTHON, open_files, wait_for

PACKAGE = {"PYTHONPATH": str(BIN.parent / "python")}

# Rank 2, on the other node, ends while rank 0 waits for it in a call; rank 1 waits for the stop, or its file.
SCRIPT = """
import os, pathlib, signal, sys, time
import muster, numpy
scratch, call, end = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]

def wait_for(name):
    while not (scratch / name).exists():
        time.sleep(0.01)

def stopped(*_):
    (scratch / "stopped").touch()
    os._exit(0)

signal.signal(signal.SIGTERM, stopped)
one = numpy.ones(1)
with muster.init() as comm:
    group = comm.split(None if comm.rank == 1 else 0)
    if comm.rank == 1:
        wait_for("end")
        sys.exit(0)
    group.all_reduce(one)
    if comm.rank == 2:
        comm.send(one, 0)
        comm.recv(one, 0)  # a small message is sent as soon as it is buffered: this shows that they are connected
        (scratch / "met").touch()
        wait_for("go")
        (os._exit if end == "exit" else sys.exit)(int(sys.argv[4]))
    comm.recv(one, 2)
    comm.send(one, 2)
    if call == "recv":
        comm.recv(one, 2)
    else:
        group.all_reduce(one)
"""


def sockets(pid):
    return {name for name in open_files(pid) if name.startswith("socket:")}


def run(shells, scratch, policy, call, end, code):
    """Rank 2 ends with `code` while its agent stands still, which goes on when the master has heard of rank 0, and is
    not lost meanwhile."""
    job = shells[0].start(
        "--hosts", "node0:2,node1:1", "--lease", "2m", "--on-failure", policy, "--no-prefix", "--report", scratch / "report.json",
        PYTHON, "-c", SCRIPT, scratch, call, end, code, env=PACKAGE,
    )
    wait_for((scratch / "met").exists, 60, what="ranks 0 and 2 have met")
    # Of the agent's processes the one that speaks with the master: it has threads, the others have none.
    threads = {pid: len(os.listdir(f"/proc/{pid}/task")) for pid in shells[1].ours()}
    speaker = max(threads, key=threads.get)
    worker = next(pid for pid, line in shells[1].host.processes().items() if line.startswith(PYTHON))
    # Standing still it keeps open what it holds: the connection that it has just handed to the worker, too.
    wait_for(lambda: not sockets(speaker) & sockets(worker), what="the agent has let go of the worker's connections")
    os.kill(speaker, signal.SIGSTOP)
    try:
        (scratch / "go").touch()
        wait_for(lambda: not os.path.exists(f"/proc/{worker}"), 30, what="rank 2 has ended")
        if policy == "stop":
            wait_for((scratch / "stopped").exists, 30, what="the master has heard of rank 0 and stops rank 1")
        else:
            job.expect(r"rank 0 on node0 .* exit code 1 .*; the others go on", stream="err")
    finally:
        os.kill(speaker, signal.SIGCONT)
    (scratch / "end").touch()
    return job.finish(), json.loads((scratch / "report.json").read_text())


@pytest.mark.parametrize("policy", ["stop", "continue"])
@pytest.mark.parametrize("call, end", [("all_reduce", "exit"), ("recv", "exit"), ("all_reduce", "close"), ("recv", "close")])
def test_the_rank_that_ended_first_is_named(shells, scratch, policy, call, end):
    result, report = run(shells, scratch, policy, call, end, 3)
    assert result.code == 3 and "rank 2 on node1" in report["headline"], result
    assert "failed as well: rank 0 (exit code 1, after rank 2)\n" in result.errors, result
    assert report["first"]["rank"] == 2 and [e["because_of"] for e in report["exits"] if e["rank"] == 0] == [2], report


@pytest.mark.parametrize("policy", ["stop", "continue"])
def test_one_that_ended_well_is_no_cause(shells, scratch, policy):
    result, report = run(shells, scratch, policy, "all_reduce", "exit", 0)
    assert result.code == 1 and report["first"]["rank"] == 0 and report["first"]["because_of"] == 2, result


FAILS = """
import sys
import numpy, muster
how, comm, x = sys.argv[1], muster.init(), numpy.ones(10)

def work():
    if comm.rank == 1:
        if "async" in how:
            under_way = comm.all_reduce(x, async_op=True)
        sys.exit(3) if "exit" in how else print(1 / 0)
    comm.recv(x, 1) if "async" in how else comm.all_reduce(x)

if "with" in how:
    with comm:
        work()
work()
"""


@pytest.mark.parametrize("hosts", ["node0:2", "node0:1,node1:1"])
@pytest.mark.parametrize("how", ["raise", "exit", "raise async", "exit async", "raise async with", "exit async with"])
def test_a_rank_that_fails_waits_for_nobody_and_is_named(shells, hosts, how):
    result = shells[0].run("--hosts", hosts, "--no-prefix", "--timeout", "40", PYTHON, "-c", FAILS, how, env=PACKAGE)
    code = 3 if "exit" in how else 1
    assert ("ZeroDivisionError" in result.errors) == ("raise" in how), result
    if "with" in how:  # it leaves before the interpreter has come to its end, and somebody else may be faster
        assert result.code in (1, code) and re.search("rank [01] on .* ended with exit code", result.errors), result
    else:
        assert result.code == code and re.search(rf"rank 1 on \w+ .* ended with exit code {code}", result.errors), result
