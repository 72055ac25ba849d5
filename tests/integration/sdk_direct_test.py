"""Ranks of a node that read straight from each other's memory, and those that may not."""

import os

import pytest

from harness import BIN, PYTHON

PACKAGE = {"PYTHONPATH": str(BIN.parent / "python")}
MOVES = """
import ctypes, os, sys
import numpy
libc = ctypes.CDLL(None, use_errno=True)
if "sealed" in sys.argv:
    libc.prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE: nobody may read our memory
if "mixed" in sys.argv and os.environ["RANK"] == "1":
    os.environ["MUSTER_DIRECT"] = "off"
if "half" in sys.argv and os.environ["RANK"] == "1":
    os.environ["MUSTER_DIRECT"] = "auto"
import muster
comm = muster.init()
rank, size = comm.rank, comm.size

class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]
word, got = ctypes.c_int64(rank), ctypes.c_int64()
whose = comm.all_gather(numpy.array([os.getpid(), ctypes.addressof(word)])).tolist()[(rank + 1) % size]
here, there = Vector(ctypes.addressof(got), 8), Vector(whose[1], 8)
can = libc.process_vm_readv(whose[0], ctypes.byref(here), 1, ctypes.byref(there), 1, 0) == 8
comm.barrier()

count = 300_001
mine = numpy.arange(count) * (rank + 1)
all_of_them = numpy.array([numpy.arange(count) * (r + 1) for r in range(size)])
assert (comm.all_gather(mine) == all_of_them).all()
back = comm.all_to_all(all_of_them)
assert (back == [numpy.arange(count) * (rank + 1)] * size).all()
for root in range(size):
    assert (comm.broadcast(mine.copy(), root=root) == all_of_them[root]).all()
    gathered = comm.gather(mine, root=root)
    assert rank != root or (gathered == all_of_them).all()
    part = numpy.zeros(count, dtype=int)
    assert (comm.scatter(all_of_them if rank == root else None, root=root, out=part) == mine).all()
sent = comm.send(mine, (rank + 1) % size, async_op=True)
before = comm.recv(numpy.zeros(count, dtype=int), (rank - 1) % size)
assert (before == all_of_them[rank - 1]).all()
sent.wait()
comm.close()
print("moved:", "readable" if can else "sealed")
"""


@pytest.mark.parametrize("n", [2, 5])
@pytest.mark.parametrize("how", ["auto", "on", "off", "half", "mixed", "sealed"])
def test_parts_arrive_whether_memory_can_be_read_or_not(node0, n, how):
    # A superuser reads everything, unless he gives that up.
    enter = ["setpriv", "--bounding-set=-sys_ptrace"] if how == "sealed" and os.geteuid() == 0 else []
    direct = how if how in ("auto", "off") else "on"
    result = node0.run("-n", n, "--no-prefix", "-x", f"MUSTER_DIRECT={direct}", *enter, PYTHON, "-c", MOVES, how, env=PACKAGE)
    seen = "sealed" if how == "sealed" else "readable"
    assert result.code == 0 and result.text == f"moved: {seen}\n" * n, result


LATE = """
import ctypes, numpy, muster
comm = muster.init()
if comm.rank == 1:
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE: from now on
comm.barrier()
rows = numpy.arange(comm.size)[:, None] + numpy.full((1, 300_001), 10 * comm.rank)
assert (comm.all_to_all(rows) == 10 * numpy.arange(comm.size)[:, None] + comm.rank).all()
sent = comm.send(rows, (comm.rank + 1) % comm.size, async_op=True)
assert comm.recv(rows.copy(), (comm.rank - 1) % comm.size)[0, 0] == 10 * ((comm.rank - 1) % comm.size)
sent.wait()
comm.close()
print("moved")
"""


@pytest.mark.parametrize("n,direct", [(4, "auto"), (2, "on")])
def test_a_rank_that_lets_nobody_read_it_any_more_uses_the_slots(node0, n, direct):
    enter = ["setpriv", "--bounding-set=-sys_ptrace"] if os.geteuid() == 0 else []
    result = node0.run("-n", n, "--no-prefix", "-x", f"MUSTER_DIRECT={direct}", *enter, PYTHON, "-c", LATE, env=PACKAGE)
    assert result.code == 0 and result.text == "moved\n" * n, result


DROPS = """
import ctypes, os, sys, numpy, muster
comm = muster.init()
rank, size = comm.rank, comm.size
if rank == size - 1:
    os.setgid(65534)
    os.setuid(65534)
    if "again" in sys.argv:
        ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: ours may be read, we may read no other's
comm.barrier()
mine = numpy.arange(300_001) + rank
rows = numpy.arange(300_001) + numpy.arange(size)[:, None]
assert (comm.all_gather(mine) == rows).all()
assert (comm.all_to_all(rows) == mine).all()
for root in range(size):
    assert (comm.broadcast(mine.copy(), root=root) == rows[root]).all()
    gathered = comm.gather(mine, root=root)
    assert rank != root or (gathered == rows).all()
    assert (comm.scatter(rows if rank == root else None, root=root, out=mine.copy()) == mine).all()
sent = comm.send(mine, (rank + 1) % size, async_op=True)
assert (comm.recv(mine.copy(), (rank - 1) % size) == rows[rank - 1]).all()
sent.wait()
comm.close()
print("moved")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may change its user")
@pytest.mark.parametrize("how", ["once", "again"])
@pytest.mark.parametrize("n,direct", [(4, "auto"), (4, "on"), (2, "on")])
def test_a_rank_that_drops_its_privileges_uses_the_slots(node0, n, direct, how):
    result = node0.run("-n", n, "--no-prefix", "-x", f"MUSTER_DIRECT={direct}", PYTHON, "-c", DROPS, how, env=PACKAGE)
    assert result.code == 0 and result.text == "moved\n" * n, result


def test_a_setting_that_is_none(node0):
    result = node0.run("-n", "2", "--no-prefix", "-x", "MUSTER_DIRECT=yes", PYTHON, "-c", MOVES, "auto", env=PACKAGE)
    assert result.code == 1 and "MUSTER_DIRECT: want auto, on or off, got 'yes'" in result.errors, result


DIES = """
import os, signal, threading
import numpy
import muster
signal.signal(signal.SIGTERM, signal.SIG_IGN)
comm = muster.init()
data = numpy.zeros(2_000_000)  # 16 MB: as large as is read
for number in range(100_000):
    if comm.rank == 1 and number == 1:
        comm.recv(numpy.zeros(1), 0)  # rank 0 has the first message, however slow it is
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGKILL)).start()
    if comm.rank == 0 and number == 1:
        comm.send(numpy.zeros(1), 1)
    try:
        if comm.rank == 1:
            comm.send(data + number, 0)
        else:
            assert (comm.recv(data, 1) == number).all()
    except muster.Unavailable as why:
        print(f"{min(number, 1)}: {why}")
        break
"""


@pytest.mark.parametrize("direct", ["on", "off"])
def test_a_sender_that_dies_while_it_is_read_from(node0, direct):
    result = node0.run("-n", 2, "--no-prefix", "--grace", "30", "-x", f"MUSTER_DIRECT={direct}", PYTHON, "-c", DIES, env=PACKAGE)
    assert result.text == "1: recv(2000000 x float64 from rank 1, tag 0) on rank 0: rank 1 has died\n", result
