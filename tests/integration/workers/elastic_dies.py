"""ElasticGroup in a job whose rank 1 dies once, as torch's groups are made: before it has left its card in the store,
with the default group almost there, or as a group of its program is made. `done` is the last line of each rank."""

import os
import signal
import sys

import muster.torch
import torch
import torch.distributed as dist

WHERE, FLAG = sys.argv[1:]
net = torch.nn.Linear(2, 1)
elastic = muster.torch.ElasticGroup(net)


def dies(*_, **__):
    print("dies", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def once():
    try:
        os.close(os.open(FLAG, os.O_CREAT | os.O_EXCL))
        return True
    except FileExistsError:
        return False


def train():
    pair = dist.new_group([0, 1])
    for _ in elastic.steps(3):
        dist.all_reduce(torch.ones(4))
        if dist.get_rank() < 2:
            dist.all_reduce(torch.ones(4), group=pair)


if os.environ["RANK"] == "1" and once():
    if WHERE == "card":
        make = dist.init_process_group
        dist.init_process_group = lambda *args, **kw: make(*args, **kw) if kw["world_size"] == 1 else dies()
    elif WHERE == "barrier":
        meet = dist.distributed_c10d._store_based_barrier
        dist.distributed_c10d._store_based_barrier = lambda *args: meet(*args) if dist.get_world_size() == 1 else dies()
    else:
        dist.new_group = dies
elastic.run(train)
print("done", flush=True)
