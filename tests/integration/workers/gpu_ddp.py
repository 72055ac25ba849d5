"""gpu_ddp.py STEPS [BACKEND]: DistributedDataParallel as programs for clusters with GPUs are written: each rank takes the
GPU of its local rank, names it to its process group, and trains. Every replica must end with equal bits. With a BACKEND
that has one for host memory, too (cpu:muster,cuda:nccl), losses are averaged by that."""

import hashlib
import os
import socket
import sys
import time

if "muster" in "".join(sys.argv[2:]):
    import muster.torch
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

# NCCL refuses two ranks on one GPU of a host; emulated hosts share the machine's, and differ by name.
os.environ["NCCL_HOSTID"] = socket.gethostname()


def main():
    backend = sys.argv[2] if len(sys.argv) > 2 else "nccl"
    gpu = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    torch.cuda.set_device(gpu)
    dist.init_process_group(backend, device_id=gpu)
    torch.manual_seed(dist.get_rank())  # DDP makes replicas equal
    model = nn.Sequential(nn.Linear(64, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1)).to(gpu)
    replica = DistributedDataParallel(model, device_ids=[gpu], bucket_cap_mb=0.5)
    optimizer = torch.optim.SGD(replica.parameters(), lr=0.01, momentum=0.9)
    first = None
    for step in range(int(sys.argv[1])):
        x = torch.randn(256, 64, device=gpu)
        loss = nn.functional.mse_loss(replica(x), x.sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if first is None:
            first = loss.item()
            print(f"begun {time.monotonic()} pid {os.getpid()} restarts {os.environ['TORCHELASTIC_RESTART_COUNT']}", flush=True)
    mean = loss.detach().cpu() if "cpu:" in backend else loss.detach().clone()
    dist.all_reduce(mean)
    digest = hashlib.sha256()
    for x in model.parameters():
        digest.update(x.detach().cpu().numpy().tobytes())
    print(f"bits {digest.hexdigest()[:16]} learnt {mean.item() / dist.get_world_size() < first / 4} of {dist.get_world_size()}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


main()
