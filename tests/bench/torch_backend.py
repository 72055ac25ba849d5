#!/usr/bin/python3
"""torch.distributed's back ends muster and gloo in the same processes, in turns: CSV of medians and ratios.

    launch -n 2 tests/bench/torch_backend.py            # one host, two ranks
    launch -n 4 tests/bench/torch_backend.py            # ranks outnumber the cores of a machine of two
    launch --hosts a,b -n 2 tests/bench/torch_backend.py

Rows: what, ranks, nodes, bytes, microseconds with muster, with gloo, gloo / muster. `what` is all_reduce (float32, in
place, one after the other; a call's time is that of its slowest rank), ddp (a step of a model of a million parameters)
or ddp_alone (the same with nothing exchanged: what torch itself takes, so that no back end can be faster). --smoke: a
moment of each, to see that it runs."""

import argparse
import os
import statistics
import sys
import time

import muster.torch
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

SIZES = [8, 1 << 10, 64 << 10, 1 << 20, 16 << 20]
ROUND_S = 0.15  # of calls in a row; the two back ends take turns
ROUNDS = 7


def seconds_each(run, group, seconds):
    """Of a call among many in a row, on the slowest rank."""
    run()
    dist.barrier(group)
    begin = time.perf_counter()
    run()
    calls = torch.tensor([max(1, int(seconds / max(time.perf_counter() - begin, 1e-6)))])
    dist.all_reduce(calls, dist.ReduceOp.MIN, group)
    dist.barrier(group)
    begin = time.perf_counter()
    for _ in range(calls.item()):
        run()
    took = torch.tensor([(time.perf_counter() - begin) / calls.item()], dtype=torch.float64)
    dist.all_reduce(took, dist.ReduceOp.MAX, group)
    return took.item()


def in_turns(runs, groups, options):
    """Medians by back end."""
    took = {name: [] for name in runs}
    for turn in range(1 if options.smoke else ROUNDS):
        for name in sorted(runs, reverse=turn % 2 == 1):
            took[name].append(seconds_each(runs[name], groups[name], 0.001 if options.smoke else ROUND_S))
    return {name: statistics.median(values) for name, values in took.items()}


def all_reduce_of(data, group):
    return lambda: dist.all_reduce(data, group=group)


def nothing_exchanged(_, bucket):
    done = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


def ddp_step(group, exchange=True):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 440), nn.ReLU(), nn.Linear(440, 10))
    replica = DistributedDataParallel(model, process_group=group)
    if not exchange:
        replica.register_comm_hook(None, nothing_exchanged)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = torch.randn(8, 512), torch.randn(8, 10)

    def step():
        optimizer.zero_grad()
        nn.functional.mse_loss(replica(x), y).backward()
        optimizer.step()

    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("muster")
    groups = {"muster": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}
    size, nodes = dist.get_world_size(), int(os.environ.get("MUSTER_NODES", "1"))

    def say(what, n_bytes, took):
        if dist.get_rank() == 0:
            us = {name: seconds * 1e6 for name, seconds in took.items()}
            print(f"{what},{size},{nodes},{n_bytes},{us['muster']:.1f},{us['gloo']:.1f},{us['gloo'] / us['muster']:.2f}", flush=True)

    if dist.get_rank() == 0:
        print("what,ranks,nodes,bytes,muster_us,gloo_us,ratio", flush=True)
    for n_bytes in SIZES[:3] if options.smoke else SIZES:
        data = {name: torch.zeros(n_bytes // 4) for name in groups}
        say("all_reduce", n_bytes, in_turns({name: all_reduce_of(data[name], group) for name, group in groups.items()}, groups, options))
    steps = {name: ddp_step(group) for name, group in groups.items()}
    say("ddp", 4 * 981_000, in_turns(steps, groups, options))
    alone = {name: ddp_step(group, exchange=False) for name, group in groups.items()}
    say("ddp_alone", 0, in_turns(alone, groups, options))
    dist.barrier()
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
