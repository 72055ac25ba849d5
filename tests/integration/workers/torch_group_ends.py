"""A group ends while its calls are under way, or have just ended: whoever they hold things for ends them, Python's lock or not."""

import torch
import torch.distributed as dist

import muster.torch  # noqa: F401

dist.init_process_group("muster")

for _ in range(60):  # a call of 1.2 MB is run by the group's thread, which lets go of the tensor last
    group = dist.new_group()
    dist.all_reduce(torch.ones(300000), group=group)
    dist.destroy_process_group(group)
    del group

group = dist.new_group()
work = dist.all_reduce(torch.ones(2000000), group=group, async_op=True)
future = work.get_future().then(lambda done: done.value()[0].sum().item())
dist.destroy_process_group(group)
del group
assert future.wait() == 2000000 * dist.get_world_size()

group = dist.new_group()
for _ in range(20):  # forgotten, and tensors that Python knows more of
    x = torch.ones(300000, requires_grad=True) * 2
    x.register_hook(lambda gradient: gradient)
    dist.all_reduce(x.detach(), group=group, async_op=True)
    del x
dist.destroy_process_group(group)
del group

work = dist.all_reduce(torch.ones(2000000), async_op=True)
future = work.get_future().then(lambda done: done.value()[0].sum().item())
size = dist.get_world_size()
dist.destroy_process_group()
assert future.wait() == 2000000 * size
print("all right", flush=True)
