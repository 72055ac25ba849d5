"""Calls of libmuster back to back, each checked: paces.py CALLS OP[:BYTES]...

Rank 0 prints "begun", then a line for each OP: how long a call takes, and the slowest, in milliseconds. Ranks whose
clocks a delay has set apart take turns in waiting longer: over some calls together that cancels out.
"""

import statistics
import sys
import time

import muster
import numpy as np

TOGETHER = 6  # calls: turns of two and of three ranks


def all_reduce(comm, data, _):
    data[:] = comm.rank + 1
    comm.all_reduce(data)
    return comm.size * (comm.size + 1) / 2


def broadcast(comm, data, number):
    root = number % comm.size  # in turns: each sends when it has what the last one sent
    data[:] = number if comm.rank == root else -1
    comm.broadcast(data, root=root)
    return number


def all_to_all(comm, data, number):
    out = comm.all_to_all(np.tile(np.arange(comm.size, dtype=data.dtype) + number, (data.size, 1)).T.copy())
    data[:] = out.reshape(-1)[: data.size]
    return comm.rank + number


def barrier(comm, data, number):
    comm.barrier()
    data[:] = number
    return number


def measure(comm, op, calls):
    name, _, size = op.partition(":")
    data = np.empty(max(int(size or 0) // 4, 1), np.float32)
    times = [time.perf_counter()]
    for number in range(calls):
        want = globals()[name](comm, data, number)
        times.append(time.perf_counter())
        assert (data == want).all(), f"{op}, call {number}: {data} is not {want}"
    paces = [(b - a) / TOGETHER for a, b in zip(times, times[TOGETHER:])]
    slowest = max(b - a for a, b in zip(times, times[1:]))
    return comm.all_reduce(np.array([statistics.median(paces), slowest]), op="max") * 1e3


with muster.init() as comm:
    calls, *ops = sys.argv[1:]
    comm.barrier()
    if comm.rank == 0:
        print("begun", flush=True)
    for op in ops:
        pace, slowest = measure(comm, op, int(calls))
        if comm.rank == 0:
            print(f"{op} {pace:.3f} {slowest:.3f}", flush=True)
