#!/usr/bin/env python3
"""DistributedDataParallel in a job that loses ranks and goes on, on data made here.

    launch -n 4 --restart=one --max-restarts 10 examples/ddp_elastic.py

Kill any of its processes, at any time: another one takes its place, the others stay, and the loss that rank 0 prints is
the same as if nothing had happened. A line may come twice, as rank 0 may have died before or after it had printed it.
"""

import hashlib
import sys

import muster.torch
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 200


def batch(step, rank):
    g = torch.Generator().manual_seed(1000 * step + rank)
    x = torch.rand(16, 8, generator=g) * 2 - 1
    return x, torch.sin(3 * x[:, :1]) + x[:, 1:2] * x[:, 2:3]


def main():
    torch.set_num_threads(1)
    torch.manual_seed(11)
    net = nn.Sequential(nn.Linear(8, 64), nn.BatchNorm1d(64), nn.Tanh(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    elastic = muster.torch.ElasticGroup(net, optimizer)

    def train():
        replica = DistributedDataParallel(net)
        for step in elastic.steps(STEPS):
            x, y = batch(step, dist.get_rank())
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(replica(x), y)
            if dist.get_rank() == 0 and step % 10 == 9:  # before the others can end this step without us
                print(f"step {step + 1}: loss {loss.item():.6f}", flush=True)
            loss.backward()
            optimizer.step()

    elastic.run(train)
    bits = hashlib.sha256(b"".join(x.detach().numpy().tobytes() for x in net.parameters())).hexdigest()
    print(f"done: {bits[:16]}", flush=True)


if __name__ == "__main__":
    main()
