#!/usr/bin/env python3
"""Data-parallel SGD by hand: each rank takes its share of the data, the ranks average their gradients, and every
replica makes the same step. CPU only, data made here, a few seconds.

    launch --standalone --nnodes 2 --nproc-per-node 2 examples/sgd.py
    launch --hosts node0,node1 --nproc-per-node 16 examples/sgd.py

Plain torch.distributed: nothing in it knows Muster, and torchrun runs it, too.
"""

import hashlib
import os
import sys

import torch
import torch.distributed as dist
from torch import nn

SAMPLES, FEATURES, CLASSES, EPOCHS, BATCH = 1024, 16, 4, 5, 128


def make_data():
    """Points around one centre per class; the same on every rank, because the seed is."""
    g = torch.Generator().manual_seed(7)
    labels = torch.randint(CLASSES, (SAMPLES,), generator=g)
    centres = torch.randn(CLASSES, FEATURES, generator=g) * 2
    return centres[labels] + torch.randn(SAMPLES, FEATURES, generator=g), labels


def average_gradients(model):
    """One message for all gradients: a flat buffer costs one latency, not one a layer."""
    flat = torch.cat([p.grad.reshape(-1) for p in model.parameters()])
    dist.all_reduce(flat, op=dist.ReduceOp.SUM)
    flat /= dist.get_world_size()
    at = 0
    for p in model.parameters():
        p.grad.copy_(flat[at : at + p.numel()].view_as(p))
        at += p.numel()


def check_replicas(model):
    """True if all replicas hold the same bits, not only nearly the same numbers."""
    digest = hashlib.sha256()
    for p in model.parameters():
        digest.update(p.detach().numpy().tobytes())
    mine = torch.tensor(list(digest.digest()), dtype=torch.int64)
    low, high = mine.clone(), mine.clone()
    dist.all_reduce(low, op=dist.ReduceOp.MIN)
    dist.all_reduce(high, op=dist.ReduceOp.MAX)
    return torch.equal(low, high), digest.hexdigest()[:16]


def main():
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)  # equal replicas to begin with
    model = nn.Sequential(nn.Linear(FEATURES, 32), nn.ReLU(), nn.Linear(32, CLASSES))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.5)
    points, labels = make_data()
    share = slice(rank, None, world)
    points, labels = points[share], labels[share]
    batch = max(1, BATCH // world)
    for epoch in range(EPOCHS):
        total = torch.zeros(2)
        # Ranks may hold one sample more or less than others; all make the same number of steps.
        for step in range(SAMPLES // world // batch):
            piece = slice(step * batch, (step + 1) * batch)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(points[piece]), labels[piece])
            loss.backward()
            average_gradients(model)
            optimizer.step()
            total += torch.tensor([loss.item(), 1.0])
        dist.all_reduce(total)
        if rank == 0:
            print(f"epoch {epoch}: loss {total[0] / total[1]:.4f} over {world} ranks", flush=True)
    equal, digest = check_replicas(model)
    if rank == 0:
        print(f"replicas are {'bit-equal' if equal else 'DIFFERENT'}: {digest}", flush=True)
    dist.barrier()
    dist.destroy_process_group()
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
