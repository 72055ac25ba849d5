"""torch_ddp.py STEPS [BACKEND]: DistributedDataParallel over several buckets; every replica must end with equal bits."""

import hashlib
import sys

import muster.torch
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
dist.init_process_group(sys.argv[2] if len(sys.argv) > 2 else "muster")
torch.manual_seed(dist.get_rank())  # DDP makes replicas equal
model = nn.Sequential(nn.Linear(40, 300), nn.BatchNorm1d(300), nn.Tanh(), nn.Linear(300, 300), nn.Tanh(), nn.Linear(300, 1))
replica = DistributedDataParallel(model, bucket_cap_mb=0.2)
optimizer = torch.optim.SGD(replica.parameters(), lr=0.001, momentum=0.9)  # more makes numbers NaN, whose bits are equal anyhow
for _ in range(int(sys.argv[1])):
    x = torch.randn(8, 40)
    loss = nn.functional.mse_loss(replica(x), x.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
digest = hashlib.sha256()
for x in model.parameters():
    digest.update(x.detach().numpy().tobytes())
print(f"bits {digest.hexdigest()[:16]} loss {loss.item():.3f}", flush=True)
dist.barrier()
dist.destroy_process_group()
