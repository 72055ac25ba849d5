#!/usr/bin/env python3
"""DistributedDataParallel with a DistributedSampler and a checkpoint written by rank 0, on data made here. Started
again with the same --checkpoint it goes on where it stopped, also when launch does that with another number of nodes.

    launch --standalone --nnodes 2 --nproc-per-node 2 examples/ddp.py --checkpoint /tmp/ddp.pt
    launch --hosts node0,node1 --nproc-per-node 16 examples/ddp.py --epochs 8
    launch --hosts node0,node1 --nnodes 1:2 --nproc-per-node 16 examples/ddp.py --checkpoint /shared/ddp.pt --epochs 800
"""

import argparse
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def make_dataset():
    g = torch.Generator().manual_seed(11)
    x = torch.rand(512, 8, generator=g) * 2 - 1
    y = torch.sin(3 * x[:, :1]) + x[:, 1:2] * x[:, 2:3]
    return TensorDataset(x, y)


def load(path, model, optimizer):
    """The first epoch to do. Every rank reads the same file, or none does: rank 0 decides."""
    there = torch.tensor([int(dist.get_rank() == 0 and bool(path) and os.path.exists(path))])
    dist.broadcast(there, 0)
    if not there.item():
        return 0
    state = [torch.load(path) if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(state, 0)
    model.load_state_dict(state[0]["model"])
    optimizer.load_state_dict(state[0]["optimizer"])
    return state[0]["epoch"] + 1


def save(path, epoch, model, optimizer):
    """Written beside and renamed: a job that dies here leaves the old checkpoint whole."""
    if path and dist.get_rank() == 0:
        torch.save({"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, path + ".new")
        os.replace(path + ".new", path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--checkpoint", default="")
    options = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)  # DDP broadcasts rank 0's weights, so replicas need not begin equal
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    first = load(options.checkpoint, model, optimizer)
    replica = DistributedDataParallel(model)
    data = make_dataset()
    sampler = DistributedSampler(data, shuffle=True, seed=3)
    loader = DataLoader(data, batch_size=16, sampler=sampler)
    for epoch in range(first, options.epochs):
        sampler.set_epoch(epoch)
        total = torch.zeros(2)
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(replica(x), y)
            loss.backward()
            optimizer.step()
            total += torch.tensor([loss.item(), 1.0])
        dist.all_reduce(total)
        if rank == 0:
            print(f"epoch {epoch}: loss {total[0] / total[1]:.4f} over {dist.get_world_size()} ranks", flush=True)
        save(options.checkpoint, epoch, model, optimizer)
    if rank == 0:
        print(f"done: epochs {first}..{options.epochs - 1}, world {dist.get_world_size()}", flush=True)
    dist.barrier()
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
