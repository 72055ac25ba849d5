"""Every operation of the back end muster, held against gloo in the same process, or against what it must be where gloo
has no such operation. Each check says its name; `all right` is the last line."""

import functools
import math
import os
import sys
import time

import muster.torch
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("muster")
RANK, SIZE = dist.get_rank(), dist.get_world_size()
ALL = list(range(SIZE))
ours = dist.group.WORLD
theirs = dist.new_group(ALL, backend="gloo")
assert dist.get_backend() == "muster"

# By torch itself, before each call.
CHECKED = os.environ.get("TORCH_DISTRIBUTED_DEBUG") == "DETAIL"

TORCH = tuple(int(number) for number in torch.__version__.split(".")[:2])
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]
GLOO = [torch.float32, torch.float64, torch.float16, torch.int8, torch.uint8, torch.int32, torch.int64]
UNSIGNED = [getattr(torch, name) for name in ("uint16", "uint32", "uint64") if hasattr(torch, name)]  # since 2.3, and torch itself adds none of them
COUNTS = [0, 1, 7, 40_001]
OPS = {"sum": dist.ReduceOp.SUM, "product": dist.ReduceOp.PRODUCT, "min": dist.ReduceOp.MIN, "max": dist.ReduceOp.MAX}
BY_HAND = {"sum": torch.add, "product": torch.mul, "min": torch.minimum, "max": torch.maximum}


def numbers(count, dtype, rank=RANK, shift=0):
    """Small whole numbers, so that every type has its sums exactly."""
    return ((torch.arange(count) * (rank + 2) + rank + shift) % 4 + 1).to(dtype)


def reduced(name, count, dtype, shift=0):
    """`name` of all ranks' numbers, in whole numbers first."""
    return functools.reduce(BY_HAND[name], [numbers(count, torch.int64, rank, shift) for rank in ALL]).to(dtype)


def same(ours, theirs, what):
    assert torch.equal(ours, theirs), f"{what}: {ours} is not {theirs}"


def by_both(run, *make, what):
    """What `run` makes of the same numbers on both back ends, and whether it is the same."""
    results = []
    for group in (ours, theirs):
        tensors = [one() for one in make]
        run(*tensors, group=group)
        results.append(tensors)
    for mine, other in zip(*results):
        for a, b in zip(mine, other) if isinstance(mine, list) else [(mine, other)]:
            same(a, b, what)


def check_reductions():
    for dtype in GLOO:
        for count in COUNTS:
            for name, op in OPS.items():
                what = f"{name} of {count} x {dtype}"
                by_both(lambda x, group: dist.all_reduce(x, op, group), lambda: numbers(count, dtype), what=what)
            for root in ALL:
                x, y = numbers(count, dtype), numbers(count, dtype)
                dist.reduce(x, root)
                dist.reduce(y, root, group=theirs)
                if RANK == root:
                    same(x, y, f"reduce of {count} x {dtype}")
                else:
                    same(x, numbers(count, dtype), "what other ranks have stays")
    for name, op in OPS.items():
        for dtype in (torch.bfloat16, torch.int16):  # gloo has none of them
            x = numbers(1000, dtype)
            dist.all_reduce(x, op)
            same(x, reduced(name, 1000, dtype), f"{name} of {dtype}")
        for dtype in UNSIGNED:
            x = numbers(1000, dtype)
            dist.all_reduce(x, op)
            same(x.to(torch.int64), reduced(name, 1000, torch.int64), f"{name} of {dtype}")
        for dtype in [*FLOATS, *INTEGERS]:
            x = numbers(1000, dtype)
            dist.reduce(x, SIZE - 1, op)
            same(x, reduced(name, 1000, dtype) if RANK == SIZE - 1 else numbers(1000, dtype), f"{name} of {dtype} for one rank")
    for dtype in FLOATS:
        want = sum(numbers(1000, torch.float64, rank) for rank in ALL) / SIZE
        x, y, part = (numbers(1000, dtype) for _ in range(3))
        dist.all_reduce(x, dist.ReduceOp.AVG)
        dist.reduce(y, 0, dist.ReduceOp.AVG)
        dist.reduce_scatter(part, [numbers(1000, dtype) for _ in ALL], dist.ReduceOp.AVG)
        for result in (x, part, *([y] if RANK == 0 else [])):
            torch.testing.assert_close(result, want.to(dtype))
    for op, both in ((dist.ReduceOp.BAND, torch.bitwise_and), (dist.ReduceOp.BOR, torch.bitwise_or), (dist.ReduceOp.BXOR, torch.bitwise_xor)):
        for dtype in (torch.int32, torch.uint8, torch.bool):
            x, want = numbers(99, dtype), numbers(99, dtype, 0)
            for rank in ALL[1:]:
                want = both(want, numbers(99, dtype, rank))
            dist.all_reduce(x, op)
            same(x, want, f"{op} of {dtype}")
        for dtype in UNSIGNED:
            x, want = numbers(99, dtype), functools.reduce(both, [numbers(99, torch.int64, rank) for rank in ALL])
            dist.all_reduce(x, op)
            same(x.to(torch.int64), want, f"{op} of {dtype}")
    for dtype in UNSIGNED:  # the upper half of its range, which a signed type has as negative
        x = torch.tensor([torch.iinfo(dtype).max - RANK, RANK], dtype=dtype)
        dist.all_reduce(x, dist.ReduceOp.MAX)
        assert x.tolist() == [torch.iinfo(dtype).max, SIZE - 1], (x, dtype)
    for op, want in ((dist.ReduceOp.SUM, True), (dist.ReduceOp.MAX, True), (dist.ReduceOp.MIN, False), (dist.ReduceOp.PRODUCT, False)):
        x = torch.tensor([RANK == 0, True, False])
        dist.all_reduce(x, op)
        assert x.tolist() == [want or SIZE == 1, True, False], (op, x)
    x = torch.complex(numbers(9, torch.float32), numbers(9, torch.float32, shift=1))
    y = x.clone()
    dist.all_reduce(x)
    dist.all_reduce(y, group=theirs)
    same(x, y, "a sum of complex numbers")


def check_moves():
    for dtype in [*GLOO, torch.bfloat16, torch.int16, torch.bool, torch.complex64]:
        for count in COUNTS:
            for root in (0, SIZE - 1):
                x = numbers(count, dtype)
                dist.broadcast(x, root)
                same(x, numbers(count, dtype, root), f"broadcast of {count} x {dtype}")
                out = torch.empty(count, dtype=dtype)
                dist.scatter(out, [numbers(count, dtype, root, r) for r in ALL] if RANK == root else None, root)
                same(out, numbers(count, dtype, root, RANK), f"scatter of {count} x {dtype}")
                outs = [torch.empty(count, dtype=dtype) for _ in ALL] if RANK == root else None
                dist.gather(numbers(count, dtype), outs, root)
                for rank, out in enumerate(outs or []):
                    same(out, numbers(count, dtype, rank), f"gather of {count} x {dtype}")
            outs = [torch.empty(count, dtype=dtype) for _ in ALL]
            dist.all_gather(outs, numbers(count, dtype))
            whole = torch.empty(count * SIZE, dtype=dtype)
            dist._all_gather_base(whole, numbers(count, dtype))
            slices = list(torch.empty(count * SIZE, dtype=dtype).chunk(SIZE)) if count else outs
            dist.all_gather(slices, numbers(count, dtype))
            for rank in ALL:
                want = numbers(count, dtype, rank)
                same(outs[rank], want, f"all_gather of {count} x {dtype}")
                same(slices[rank], want, f"all_gather into one tensor of {count} x {dtype}")
                same(whole[rank * count : (rank + 1) * count], want, f"all_gather_into_tensor of {count} x {dtype}")
    for dtype in GLOO:  # against gloo itself
        by_both(lambda x, group: dist.broadcast(x, SIZE - 1, group), lambda: numbers(77, dtype), what=f"broadcast of {dtype}")
        by_both(lambda x, out, group: dist.all_gather(out, x, group), lambda: numbers(77, dtype), lambda: [torch.empty(77, dtype=dtype) for _ in ALL], what=f"all_gather of {dtype}")


def check_scatters():
    for dtype in [*FLOATS, *INTEGERS]:
        for count in (0, 1, 1000):
            inputs = [numbers(count, dtype, RANK, part) for part in ALL]
            want = sum(numbers(count, torch.int64, rank, RANK) for rank in ALL).to(dtype)
            out = torch.empty(count, dtype=dtype)
            dist.reduce_scatter(out, inputs)
            same(out, want, f"reduce_scatter of {count} x {dtype}")
            out = torch.empty(count, dtype=dtype)
            dist._reduce_scatter_base(out, torch.cat(inputs))
            same(out, want, f"reduce_scatter_tensor of {count} x {dtype}")
            for name, op in OPS.items():
                dist.reduce_scatter(out, inputs, op)
                same(out, reduced(name, count, dtype, RANK), f"reduce_scatter by {name} of {count} x {dtype}")


def check_exchanges():
    for dtype in [*FLOATS, *INTEGERS, torch.bool]:
        out = torch.empty(3 * SIZE, 2, dtype=dtype)
        sent = torch.cat([numbers(6, dtype, RANK, to).view(3, 2) for to in ALL])
        dist.all_to_all_single(out, sent)
        same(out, torch.cat([numbers(6, dtype, rank, RANK).view(3, 2) for rank in ALL]), f"all_to_all_single of {dtype}")
        # Rank r sends r + to rows to rank `to`.
        rows = [RANK + to for to in ALL]
        sent = torch.cat([numbers(2 * n, dtype, RANK, to).view(n, 2) for to, n in enumerate(rows)])
        out = torch.empty(sum(rows), 2, dtype=dtype)
        dist.all_to_all_single(out, sent, rows, rows)
        same(out, torch.cat([numbers(2 * n, dtype, rank, RANK).view(n, 2) for rank, n in enumerate(rows)]), f"all_to_all_single with splits of {dtype}")
        outs = [torch.empty(n, dtype=dtype) for n in rows]
        dist.all_to_all(outs, [numbers(n, dtype, RANK, to) for to, n in enumerate(rows)])
        for rank, n in enumerate(rows):
            same(outs[rank], numbers(n, dtype, rank, RANK), f"all_to_all of {dtype}")


def check_shapes():
    """What does not lie in order is treated as if it did."""
    x, y = numbers(60, torch.float32).view(6, 10).t(), numbers(60, torch.float32).view(6, 10).t()
    dist.all_reduce(x)
    dist.all_reduce(y.contiguous(), group=theirs)
    want = sum(numbers(60, torch.float32, rank) for rank in ALL).view(6, 10).t()
    same(x, want, "a sum of a transposed tensor")
    x = numbers(60, torch.float32)
    dist.all_reduce(x[::3])
    same(x[::3], sum(numbers(60, torch.float32, rank) for rank in ALL)[::3], "a sum of every third element")
    same(x[1::3], numbers(60, torch.float32)[1::3], "what lies between stays")
    outs = [torch.zeros(10, 6).t() for _ in ALL]
    dist.all_gather(outs, numbers(60, torch.float32).view(10, 6).t())
    for rank in ALL:
        same(outs[rank], numbers(60, torch.float32, rank).view(10, 6).t(), "all_gather of transposed tensors")
    # What conjugate and negative views show, which is not what lies in memory: torch gives us copies of them.
    negative = [torch.complex(torch.zeros(5), torch.arange(5.0) + rank).conj().imag for rank in ALL]
    assert negative[RANK].is_neg()
    outs = [torch.zeros(5) for _ in ALL]
    dist.all_gather(outs, negative[RANK])
    for rank in ALL:
        same(outs[rank], negative[rank], "all_gather of a negative view")
    if SIZE > 1:  # torch itself refuses conjugate ones in most collectives, newer versions in messages, too
        conjugate = [torch.complex(torch.arange(5.0), torch.arange(5.0) + rank).conj() for rank in ALL]
        try:
            sent = dist.isend(conjugate[RANK], (RANK + 1) % SIZE)
        except RuntimeError as error:
            assert "resolve_conj" in str(error) and TORCH > (2, 6), error
        else:
            x = torch.zeros(5, dtype=torch.complex64)
            dist.recv(x, (RANK - 1) % SIZE)
            sent.wait()
            same(x, conjugate[RANK - 1], "a conjugate view")
    x = torch.full((1,), 7.0).expand(5) if RANK == 0 else torch.zeros(5)
    dist.broadcast(x, 0)
    same(x, torch.full((5,), 7.0), "a broadcast of an expanded tensor, which the root only reads")
    x = numbers(8, torch.float32).requires_grad_()
    dist.broadcast(x, 0)
    same(x.detach(), numbers(8, torch.float32, 0), "a leaf that wants a gradient")


def check_coalesced():
    tensors = [numbers(n, torch.float32).view(-1, 1) for n in (3, 0, 1000)]
    dist.all_reduce_coalesced(tensors)
    for n, x in zip((3, 0, 1000), tensors):
        same(x, sum(numbers(n, torch.float32, rank) for rank in ALL).view(-1, 1), "all_reduce_coalesced")
    outs = [[torch.empty(2), torch.empty(5)] for _ in ALL]
    dist.all_gather_coalesced(outs, [numbers(2, torch.float32), numbers(5, torch.float32)])
    for rank in ALL:
        for n, x in zip((2, 5), outs[rank]):
            same(x, numbers(n, torch.float32, rank), "all_gather_coalesced")


def sparse_of(rank, indices, shape, dtype):
    """Of `rank`: every (rank + 1)th of these entries, one of them twice; rank 1 has none."""
    chosen = [] if rank == 1 else indices[:: rank + 1] + indices[:1]
    values = numbers(len(chosen) * math.prod(shape[len(indices[0]) :]), dtype, rank).view(len(chosen), *shape[len(indices[0]) :])
    return torch.sparse_coo_tensor(torch.tensor(chosen, dtype=torch.int64).view(-1, len(indices[0])).t(), values, shape)


def check_sparse():
    """Sums of COO tensors, which gradients of sparse embeddings are."""
    for indices, shape in (
        ([(3,), (0,), (7,)], (9,)),
        ([(0, 5), (3, 1), (3, 2), (1, 0)], (4, 6)),
        ([(2,), (4,)], (5, 3, 2)),
        ([(i % 500,) for i in range(0, 20_000, 7)], (500, 64)),
    ):
        for dtype in (torch.float32, torch.float64, torch.int64, torch.int8):
            x = sparse_of(RANK, indices, shape, dtype)
            dist.all_reduce(x)
            same(x.to_dense(), sum(sparse_of(rank, indices, shape, dtype).to_dense() for rank in ALL), f"the sum of sparse {dtype} {shape}")
    x = torch.sparse_coo_tensor([[RANK, SIZE]], [1.0, 2.0], (SIZE + 1,))
    dist.all_reduce(x, dist.ReduceOp.AVG)
    same(x.to_dense(), torch.tensor([1 / SIZE] * SIZE + [2.0]), "the average of sparse tensors")
    grown = []
    for sparse in (False, True):
        torch.manual_seed(0)
        model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Embedding(20, 4, sparse=sparse), torch.nn.Linear(4, 2)))
        step = torch.optim.SGD(model.parameters(), lr=0.5)
        for i in range(3):
            step.zero_grad()
            model(torch.tensor([RANK, i, 19])).square().sum().backward()
            step.step()
        grown.append(torch.cat([p.detach().reshape(-1) for p in model.parameters()]))
    assert torch.allclose(*grown), "an embedding with sparse gradients grows as one with dense ones"
    everybodys = [torch.empty_like(grown[1]) for _ in ALL]
    dist.all_gather(everybodys, grown[1])
    for theirs_grown in everybodys:
        same(theirs_grown, grown[1], "replicas with sparse gradients")


def check_into_tensors():
    """What DTensor and torch's functional collectives call, of torch 2; what checks calls for it has none of them."""
    if torch.__version__ < "2" or CHECKED:
        return
    import torch.distributed._functional_collectives as functional
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    world = dist.group.WORLD
    ins = [numbers(n, dtype).view(-1, 1) for n, dtype in ((3, torch.float32), (0, torch.int64), (1000, torch.float64))]
    for out, x in zip(functional.all_gather_into_tensor_coalesced(ins, world), ins):
        same(out + 0, torch.cat([numbers(len(x), x.dtype, rank).view(-1, 1) for rank in ALL]), "all_gather_into_tensor_coalesced")
    ins = [numbers(n * SIZE, dtype) for n, dtype in ((3, torch.float32), (1000, torch.float64))]
    for out, x in zip(functional.reduce_scatter_tensor_coalesced(ins, "sum", [0, 0], world), ins):
        n = len(x) // SIZE
        same(out + 0, sum(numbers(len(x), x.dtype, rank)[RANK * n : (RANK + 1) * n] for rank in ALL), "reduce_scatter_tensor_coalesced")
    whole = torch.arange(12.0 * SIZE).reshape(4 * SIZE, 3)
    rows = distribute_tensor(whole, init_device_mesh("cpu", (SIZE,)), [Shard(0)])
    same(rows.redistribute(placements=[Replicate()]).to_local(), whole, "a DTensor's rows")
    same(rows.redistribute(placements=[Shard(1)]).full_tensor(), whole, "a DTensor's columns")


def check_messages():
    # A small one comes though its sender, who may not be connected yet, waits for something else.
    store = dist.distributed_c10d._get_default_store()
    if RANK == 0 < SIZE - 1:
        dist.send(numbers(3, torch.float32), SIZE - 1)
        store.wait(["the first message has come"])
    if RANK == SIZE - 1 > 0:
        got = torch.empty(3)
        dist.recv(got, 0)
        same(got, numbers(3, torch.float32, 0), "the first message")
        store.set("the first message has come", "yes")
    after, before = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    for count in (0, 1, 5000, 1_000_000):
        got = torch.empty(count)
        works = [dist.isend(numbers(count, torch.float32), after), dist.irecv(got, before)]
        for work in works:
            work.wait()
        same(got, numbers(count, torch.float32, before), f"a message of {count}")
    first, second = torch.empty(3), torch.empty(3)
    works = [dist.isend(numbers(3, torch.float32, shift=tag), after, tag=tag) for tag in (1, 2)]
    dist.recv(second, before, tag=2)
    dist.recv(first, before, tag=1)
    same(first, numbers(3, torch.float32, before, 1), "the message of tag 1")
    same(second, numbers(3, torch.float32, before, 2), "the message of tag 2")
    for work in works:
        work.wait()
    # A large message moves while its sender is in a call of another back end: nobody waits for it.
    work = dist.isend(numbers(1_000_000, torch.float32), after)
    got = torch.empty(1_000_000)
    if RANK % 2 == 0 and SIZE % 2 == 0:
        dist.barrier(theirs)
        dist.recv(got, before)
    else:
        dist.recv(got, before)
        dist.barrier(theirs)
    work.wait()
    same(got, numbers(1_000_000, torch.float32, before), "a message that moves by itself")
    if RANK == 0:
        work = dist.isend(torch.arange(10)[::2], after)  # as torch 2 has no send to oneself
    if RANK == 1 % SIZE:
        x = torch.zeros(10, dtype=torch.int64)
        dist.recv(x[::2], before)
        assert x.tolist() == [0, 0, 2, 0, 4, 0, 6, 0, 8, 0], x
    if RANK == 0:
        work.wait()


def check_any_source():
    """Without a named sender: from whoever sends first, and recv() says who that was."""
    if SIZE == 1:
        return
    for group, members in ((None, ALL), (dist.new_group(ALL[::-1]), ALL[::-1]), (dist.new_group(ALL[1:]), ALL[1:])):
        if RANK not in members or len(members) == 1:
            continue
        taker, others = members[0], members[1:]
        for tag, count in enumerate((0, 3, 5000, 300_000)):
            if RANK != taker:
                for _ in range(2):
                    dist.send(numbers(count, torch.float32), taker, group, tag)
                continue
            seen = []
            for turn in range(2 * len(others)):
                whole = torch.zeros(2 * count)
                got = whole[::2] if turn % 2 else whole[:count]
                seen.append(dist.recv(got, None, group, tag))
                same(got, numbers(count, torch.float32, seen[-1]), f"a message of {count} of any rank")
            assert sorted(seen) == sorted(others * 2), seen
    if RANK == 0:
        named, first = torch.empty(3), torch.empty(3)
        works = [dist.irecv(first, tag=4), dist.irecv(named, SIZE - 1, tag=5)]
        dist.barrier()
        for work in works[::-1]:
            work.wait()
        same(first, numbers(3, torch.float32, 1, 4), "a message of any rank that was asked for before")
        same(named, numbers(3, torch.float32, SIZE - 1, 5), "a named rank's message")
    else:
        dist.barrier()
        for tag, sender in ((4, 1), (5, SIZE - 1)):
            if RANK == sender:
                dist.send(numbers(3, torch.float32, shift=tag), 0, tag=tag)


def check_async():
    tensors = [numbers(n, torch.float32) for n in (1, 100, 500_000, 7)]
    works = [dist.all_reduce(x, async_op=True) for x in tensors]
    works.append(dist.barrier(async_op=True))
    for work in reversed(works):
        assert work.wait()
        assert work.is_completed() and work.is_success()
    for x in tensors:
        same(x, sum(numbers(len(x), torch.float32, rank) for rank in ALL), "a call that was started")
    x = numbers(100, torch.float32)
    doubled = dist.all_reduce(x, async_op=True).get_future().then(lambda future: future.value()[0] * 2)
    same(doubled.wait(), 2 * sum(numbers(100, torch.float32, rank) for rank in ALL), "what follows a future")
    # What follows may make a call of its own, and wait for it: the hooks of DistributedDataParallel do.
    x, y = numbers(100, torch.float32), numbers(50, torch.float32)
    inner = lambda: dist.all_reduce(y, async_op=True).get_future().wait()[0].sum()
    both = dist.all_reduce(x, async_op=True).get_future().then(lambda future: future.value()[0].sum() + inner())
    same(both.wait(), sum(numbers(100, torch.float32, rank) for rank in ALL).sum() + sum(numbers(50, torch.float32, rank) for rank in ALL).sum(), "a call within what follows")
    # Nobody waits for the call, and yet it goes on: rank 0 is elsewhere until the others have ended theirs.
    x = numbers(10, torch.float32)
    work = dist.all_reduce(x, async_op=True)
    if RANK == 0:
        dist.barrier(theirs)
        work.wait()
    else:
        work.wait()
        dist.barrier(theirs)
    same(x, sum(numbers(10, torch.float32, rank) for rank in ALL), "a call that nobody waits for")
    for _ in range(5000):  # more than may wait
        dist.all_reduce(x, dist.ReduceOp.MAX, async_op=True)
    dist.barrier()
    objects = [None] * SIZE
    dist.all_gather_object(objects, {"rank": RANK, "x": "y" * RANK})
    assert [one["rank"] for one in objects] == ALL
    objects = [RANK, "x"]
    dist.broadcast_object_list(objects, SIZE - 1)
    assert objects == [SIZE - 1, "x"]


def check_barrier():
    """Nobody leaves one before all have come."""
    store = dist.distributed_c10d._get_default_store()
    for late in ALL:
        if RANK == late:
            time.sleep(0.2)
            store.add(f"{late} has come", 1)
        dist.barrier()
        assert store.add(f"{late} has come", 0) == 1, late


def check_numbers():
    """Of collectives, which TORCH_DISTRIBUTED_DEBUG compares among ranks."""
    group = ours if torch.__version__ < "2" else ours._get_backend(torch.device("cpu"))
    before = group._get_sequence_number_for_group()
    for _ in range(3):
        dist.all_reduce(torch.ones(1))
    assert group._get_sequence_number_for_group() - before == 3


def check_groups():
    """Groups without a common member, and with one; in another order than the world's."""
    halves = [dist.new_group(ALL[i::2]) for i in range(2) if ALL[i::2]]
    pairs = {(a, b): dist.new_group([a, b]) for a in ALL for b in ALL[a + 1 :]}
    for _ in range(3):
        x = torch.tensor([RANK + 1])
        dist.all_reduce(x, group=halves[RANK % 2])
        assert x.item() == sum(rank + 1 for rank in ALL[RANK % 2 :: 2])
        for (a, b), group in pairs.items():
            if RANK in (a, b):
                outs = [torch.empty(1, dtype=torch.int64) for _ in range(2)]
                dist.all_gather(outs, torch.tensor([RANK]), group)
                assert torch.cat(outs).tolist() == [a, b]
                x = torch.tensor([RANK])
                dist.broadcast(x, b, group)
                assert x.item() == b
        dist.barrier()
    for group in pairs.values():
        if group != dist.GroupMember.NON_GROUP_MEMBER:
            dist.destroy_process_group(group)


def refused(run, *words):
    try:
        run()
    except (RuntimeError, ValueError) as error:
        text = str(error)
        assert all(word in text for word in words), f"{words} not in {text}"
        return
    raise AssertionError(f"{words}: nothing was refused")


def check_refusals():
    """Each of them before anything is sent: the group goes on."""
    x = torch.ones(2)
    sparse = torch.sparse_coo_tensor([[0]], [1.0], (2,))
    refused(lambda: dist.broadcast(sparse, 0), "to_dense()" if torch.__version__ < "2" else "SparseCPU")  # torch 2 asks nobody
    refused(lambda: dist.all_reduce(sparse, dist.ReduceOp.MAX), "the sum and the average")
    if SIZE > 1:
        words = ["Detected mismatch"] if CHECKED and torch.__version__ >= "2" else ["rank 0 has", f"rank {SIZE - 1} one of [3]"]
        refused(lambda: dist.all_reduce(torch.sparse_coo_tensor([[0]], [1.0], (2 + RANK // (SIZE - 1),))), *words)
    refused(lambda: dist.all_reduce(x, dist.ReduceOp.BAND), "for integers", "Float")
    refused(lambda: dist.all_reduce(torch.tensor([True]), dist.ReduceOp.AVG), "AVG of booleans")
    refused(lambda: dist._all_gather_base(torch.empty(3 * SIZE), x), f"want a tensor of {2 * SIZE}")
    if SIZE > 1:
        refused(lambda: dist.all_to_all_single(torch.empty(2 * SIZE + 1), torch.empty(2 * SIZE + 1)), "muster:")
    refused(lambda: dist.all_to_all_single(torch.empty(4), torch.empty(4), [1] * SIZE, [5] * SIZE), "split sizes whose sum is 4")
    refused(lambda: dist.all_gather([torch.empty(2, dtype=torch.float64) for _ in ALL], x), "")
    dist.barrier()


CHECKS = [check_reductions, check_moves, check_scatters, check_exchanges, check_shapes, check_coalesced, check_sparse, check_into_tensors, check_messages, check_any_source, check_async, check_barrier, check_numbers, check_groups, check_refusals]

for check in CHECKS:
    if len(sys.argv) == 1 or check.__name__.endswith(tuple(sys.argv[1:])):
        check()
dist.barrier()
dist.destroy_process_group()
print("all right", flush=True)
