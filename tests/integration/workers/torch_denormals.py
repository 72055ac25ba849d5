"""Sums of numbers that are denormal, dense and sparse, where rank 0's thread flushes such numbers to zero."""

import torch
import torch.distributed as dist

import muster.torch

dist.init_process_group("muster")
rank, size = dist.get_rank(), dist.get_world_size()
tiny = 2.0**-140  # float32's normal numbers end at 2^-126
for x in (torch.tensor([tiny]), torch.sparse_coo_tensor([[0]], [tiny], (1,))):
    torch.set_flush_denormal(rank == 0)
    dist.all_reduce(x)
    torch.set_flush_denormal(False)
    assert torch.equal(x.to_dense(), torch.tensor([size * tiny])), x
print("all right")
