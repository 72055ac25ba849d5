#!/usr/bin/env python3
"""A token goes round the ring of ranks with isend and recv; everyone adds its rank to it.

    launch --standalone --nnodes 2 --nproc-per-node 2 examples/ring.py
    launch --hosts node0,node1 --nproc-per-node 16 examples/ring.py
"""

import sys

import torch
import torch.distributed as dist

LAPS = 3


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % world, (rank - 1) % world
    token = torch.zeros(1)
    for _ in range(LAPS if world > 1 else 0):
        if rank == 0:
            request = dist.isend(token + 0, right)
            dist.recv(token, left)
            request.wait()
        else:
            dist.recv(token, left)
            token += rank
            dist.isend(token, right).wait()
    want = LAPS * world * (world - 1) / 2
    ok = rank != 0 or token.item() == want
    if rank == 0:
        print(f"ring of {world}: token {token.item():g} after {LAPS} laps, {want:g} expected", flush=True)
    dist.barrier()
    dist.destroy_process_group()
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
