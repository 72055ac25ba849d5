"""Every call of the Python package whose parts differ from rank to rank."""

import array

import muster
import numpy as np
import torch


def rows(rank, count, wide=3):
    """What that rank has: each row tells whose it is, and which."""
    return np.arange(count * wide, dtype="f8").reshape(count, wide) + 1000 * rank


with muster.init() as comm:
    rank, size = comm.rank, comm.size
    for many in (1, 20000):
        counts = [(r * 7 + 2) % 5 * many for r in range(size)]
        begin = sum(counts[:rank])
        mine, everyones = rows(rank, counts[rank]), np.concatenate([rows(r, n) for r, n in enumerate(counts)])
        own = slice(begin, begin + counts[rank])

        for given in (None, counts):
            assert (comm.all_gather_v(mine, given) == everyones).all()
            got = comm.gather_v(mine, size - 1, given)
            assert (got == everyones).all() if rank == size - 1 else got is None
        out = np.zeros_like(everyones)
        out[own] = mine
        assert comm.all_gather_v(out[own], counts, out) is out and (out == everyones).all()
        assert (comm.all_gather_v(torch.from_numpy(mine)).numpy() == everyones).all()
        flat = comm.all_gather_v(array.array("d", mine.ravel()))
        assert type(flat) is array.array and flat.tolist() == everyones.ravel().tolist()

        part = comm.scatter_v(everyones if rank == 0 else np.empty((0, 3)), counts if rank == 0 else None)
        assert part.shape == mine.shape and (part == mine).all()
        out = np.empty(mine.size)
        comm.scatter_v(everyones if rank == 0 else None, counts if rank == 0 else None, out=out)
        assert (out == mine.ravel()).all()
        assert (comm.reduce_scatter_v(everyones, counts) == size * mine).all()
        halves = np.ones((sum(counts), 3), "f4")
        assert (comm.reduce_scatter_v(halves, counts, op="avg", wire="bf16") == 1).all()

        sends = [(rank + 2 * r) % 4 * many for r in range(size)]
        receives = [(r + 2 * rank) % 4 * many for r in range(size)]
        x = np.concatenate([rows(rank * size + r, n) for r, n in enumerate(sends)])
        want = np.concatenate([rows(r * size + rank, n) for r, n in enumerate(receives)])
        assert (comm.all_to_all_v(x, sends) == want).all()
        assert (comm.all_to_all_v(x, sends, receives) == want).all()

        started = (
            (comm.all_gather_v(mine, counts, async_op=True), everyones),
            (comm.gather_v(mine, 0, counts, async_op=True), everyones if rank == 0 else None),
            (comm.scatter_v(everyones if rank == 0 else mine[:0], counts, async_op=True), mine),
            (comm.reduce_scatter_v(everyones, counts, async_op=True), size * mine),
            (comm.all_to_all_v(x, sends, receives, async_op=True), want),
        )
        for work, result in started:
            got = work.wait()
            assert got is None if result is None else (got == result).all()
    whole = np.ones(size + 1)
    try:
        comm.reduce_scatter_v(whole[:size], [1] * size, out=whole[(rank + 1) % size : (rank + 1) % size + 1])
    except ValueError as error:
        assert f"want out at element {rank} of in" in str(error), error
    else:
        assert size == 1, "an overlap was taken"
    print(f"rank {rank} of {size}: all right")
