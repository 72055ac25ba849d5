"""Every call of the Python package, with what each kind of buffer gives."""

import array
import sys

import muster
import numpy as np
import torch

with muster.init() as comm:
    rank, size = comm.rank, comm.size
    ranks = np.arange(size)

    for make in (lambda n: np.full(n, rank + 1.0), lambda n: torch.full((n,), rank + 1.0), lambda n: array.array("d", [rank + 1.0] * n)):
        for count in (1, 1000, 300000):
            data = make(count)
            assert comm.all_reduce(data) is data and data[0] == data[count - 1] == size * (size + 1) / 2
    half = torch.full((5,), rank + 1, dtype=torch.bfloat16)
    assert comm.all_reduce(half, op="max").tolist() == [size] * 5
    assert (comm.all_reduce(np.full(3, rank, np.int64), op="sum") == ranks.sum()).all()
    assert (comm.all_reduce(np.full(3, float(rank)), op="avg") == ranks.mean()).all()

    data = np.full(4, rank)
    assert (comm.broadcast(data, root=size - 1) == size - 1).all()
    assert (comm.all_gather(np.full(2, rank)).reshape(size, 2) == ranks[:, None]).all()
    total = comm.reduce(np.full(2, rank), root=0)
    assert rank != 0 or (total == ranks.sum()).all()
    gathered = comm.gather(np.full(2, rank), root=0)
    assert rank != 0 or (gathered.reshape(size, 2) == ranks[:, None]).all()
    part = np.empty(2, np.int64)
    comm.scatter(np.repeat(ranks, 2) if rank == 0 else None, out=part, root=0)
    assert (part == rank).all()
    assert (comm.reduce_scatter(np.arange(size * 2.0)) == size * np.arange(rank * 2.0, rank * 2 + 2)).all()
    assert (comm.all_to_all(ranks + 100 * rank) == 100 * ranks + rank).all()
    started = [comm.all_reduce(np.full(1000 * i, rank + 1.0), async_op=True) for i in range(30)]
    everyone = comm.all_gather(torch.tensor([rank]), async_op=True)
    comm.barrier()
    assert everyone.test() and everyone.wait().flatten().tolist() == list(range(size))
    assert all((work.wait() == size * (size + 1) / 2).all() for work in reversed(started))
    token = torch.full((50000,), rank)
    sent = comm.send(token, dst=(rank + 1) % size, tag=3, async_op=True)
    got = torch.empty_like(token)
    assert comm.recv(got, src=(rank - 1) % size, tag=3) is got and (got == (rank - 1) % size).all()
    sent.wait()
    assert (comm.all_reduce(np.full(4, rank, dtype="float32"), wire="bf16") == ranks.sum()).all()
    before = comm.counters()
    comm.barrier()
    after = comm.counters()
    assert after.calls == before.calls + 1 and after.bytes == before.bytes, (before, after)
    waits = sum(comm.waited_for(other) for other in range(size))
    assert abs(waits - after.waited_on_node - after.waited_between_nodes) < 1e-6, (waits, after)
    try:
        comm.all_reduce(np.ones((4, 4))[:, 1])
    except ValueError as error:
        assert "contiguous" in str(error), error
    else:
        sys.exit("a strided array was taken")
    print(f"rank {rank} of {size} on node {comm.node_rank}: all right")
