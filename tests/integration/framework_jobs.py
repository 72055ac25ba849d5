"""Frameworks that Debian does not have, really run: with the Python of MUSTER_TORCH_PYTHON, by `deploy/test --only gpu`. They find their
places as framework_rules.py restates them, and train over hosts."""

import re
import subprocess

import pytest

from gpu_jobs import idle_gpus  # noqa: F401
from harness import HERE, TORCH_PACKAGE, TORCH_PYTHON
from what_to_type_test import MPIRUN, SLURM

ENV = {"PYTHONPATH": f"{TORCH_PACKAGE}:{HERE}", "PYTHON_EXEC": TORCH_PYTHON, "OMP_NUM_THREADS": "1"}
HOSTS = ["--hosts", "node0,node1", "--nproc-per-node", "2"]


def run(node0, scratch, words, script, *args, env=None, seconds=180):
    """Skips what that Python does not have."""
    for name in re.findall("^(?:import|from) (lightning|accelerate|transformers|jax)", script, re.M):
        if subprocess.run([TORCH_PYTHON, "-c", f"import {name}"], stderr=subprocess.DEVNULL).returncode != 0:
            pytest.skip(f"{TORCH_PYTHON} has no {name}")
    (scratch / "script.py").write_text(script)
    result = node0.run(*words, "--no-prefix", scratch / "script.py", *args, env={**ENV, **(env or {})}, seconds=seconds)
    assert result.code == 0, result
    return result


def bits_of(result, ranks):
    """Each rank has printed the line, and all the same bits."""
    found = re.findall(rf"^rank (\d+) of {ranks} bits (\w+)$", result.text, re.M)
    assert sorted(int(rank) for rank, _ in found) == list(range(ranks)) and len({bits for _, bits in found}) == 1, result


DIGEST = """
import hashlib
def digest(model):
    return hashlib.sha256(b"".join(x.detach().cpu().numpy().tobytes() for x in model.parameters())).hexdigest()[:16]
"""

LIGHTNING = DIGEST + """
import os, sys, torch
if sys.argv[3] == "muster":
    import muster.torch
import lightning
from framework_rules import lightning_place
from lightning.pytorch.strategies import DDPStrategy
where, devices, backend = sys.argv[1], int(sys.argv[2]), sys.argv[3]
if where == "gpu":  # emulated hosts share the machine's
    import socket
    os.environ["NCCL_HOSTID"] = socket.gethostname()

class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    def training_step(self, batch, _):
        return torch.nn.functional.mse_loss(self.net(batch[0]), batch[0].sum(1, keepdim=True))
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)

torch.manual_seed(os.getpid())
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(512, 8)), batch_size=16)
trainer = lightning.Trainer(accelerator=where, devices=devices, num_nodes=int(os.environ["GROUP_WORLD_SIZE"]), strategy=DDPStrategy(process_group_backend=backend),
                            max_epochs=2, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
model = Model()
trainer.fit(model, data)
found = trainer.strategy.cluster_environment
place = ("torchelastic", found.world_size(), found.global_rank(), found.local_rank(), found.node_rank())
assert type(found).__name__ == "TorchElasticEnvironment" and place == lightning_place(os.environ), (found, place)
assert trainer.num_training_batches == 512 // 16 // trainer.world_size
print("rank", trainer.global_rank, "of", trainer.world_size, "bits", digest(model), flush=True)
"""


@pytest.mark.parametrize("slurm_s", [{}, SLURM], ids=["plain", "slurm"])
@pytest.mark.parametrize("backend", ["gloo", "muster"])
def test_lightning(node0, scratch, backend, slurm_s):
    words = ["--standalone", "-n", "4"] if slurm_s else HOSTS
    bits_of(run(node0, scratch, words, LIGHTNING, "cpu", 4 if slurm_s else 2, backend, env=slurm_s), 4)


def test_lightning_on_gpus(idle_gpus, node0, scratch):  # noqa: F811
    bits_of(run(node0, scratch, ["--hosts", "node0,node1", "--nproc-per-node", "1"], LIGHTNING, "gpu", 1, "nccl"), 2)


ACCELERATE = DIGEST + """
import os, sys, torch
if sys.argv[1] == "muster":
    import muster.torch
    torch.distributed.init_process_group("muster")  # accelerate itself makes no group of a back end that it does not know, but takes one that is there
from accelerate import Accelerator
from framework_rules import accelerate_place
accelerator = Accelerator(cpu=True)
assert torch.distributed.get_backend() == sys.argv[1], torch.distributed.get_backend()
place = (accelerator.num_processes, accelerator.process_index, accelerator.local_process_index)
assert place == accelerate_place(os.environ)[:3], (place, accelerate_place(os.environ))
torch.manual_seed(os.getpid())
model = torch.nn.Linear(8, 1)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(256, 8)), batch_size=8)
model, optimizer, data = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.01), data)
for x, in data:
    optimizer.zero_grad()
    accelerator.backward(torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)))
    optimizer.step()
assert accelerator.gather(torch.tensor([place[1]])).tolist() == list(range(place[0]))
print("rank", place[1], "of", place[0], "bits", digest(model), flush=True)
accelerator.end_training()
"""


@pytest.mark.parametrize("words", [[], ["--dialect", "ompi,pmi,mpich,mvapich"]], ids=["torch", "all"])
@pytest.mark.parametrize("backend", ["gloo", "muster"])
def test_accelerate(node0, scratch, backend, words):
    bits_of(run(node0, scratch, [*HOSTS, *words], ACCELERATE, backend, env=MPIRUN), 4)


TRAINER = DIGEST + """
import sys, torch
from transformers import Trainer, TrainingArguments
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(8, 1)
    def forward(self, x, labels):
        return {"loss": torch.nn.functional.mse_loss(self.net(x), labels)}
arguments = TrainingArguments(output_dir=sys.argv[1], max_steps=5, per_device_train_batch_size=4, use_cpu=True, ddp_backend="gloo",
                              save_strategy="no", report_to=[], disable_tqdm=True)
x = torch.randn(256, 8)
model = Model()
Trainer(model, arguments, train_dataset=[{"x": row, "labels": row.sum(0, keepdim=True)} for row in x]).train()
print("rank", arguments.process_index, "of", arguments.world_size, "bits", digest(model), flush=True)
"""


def test_transformers_trainer(node0, scratch):
    bits_of(run(node0, scratch, HOSTS, TRAINER, scratch / "out"), 4)


JAX = """
import os, sys
os.environ["JAX_PLATFORMS"] = "cpu"
import jax
from jax.experimental import multihost_utils
if sys.argv[1:] == ["detect"]:
    jax.distributed.initialize()
else:
    jax.distributed.initialize(f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}", int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"]))
assert jax.process_index() == int(os.environ["RANK"])
met = multihost_utils.process_allgather(jax.numpy.array([jax.process_index()])).ravel().tolist()
print("rank", jax.process_index(), "met", met, flush=True)
"""


def all_met(result):
    assert sorted(re.findall("^rank .*$", result.text, re.M)) == [f"rank {rank} met [0, 1, 2]" for rank in range(3)], result


@pytest.mark.parametrize("where", [["-n", "3"], ["--hosts", "node0:1,node1:2"]], ids=["one", "hosts"])
def test_jax(node0, scratch, where):
    result = run(node0, scratch, [*where, "--store", "worker"], JAX)
    all_met(result)


def test_jax_in_a_slurm_job(node0, scratch):
    """It finds each process's place by itself."""
    result = run(node0, scratch, ["--standalone", "-n", "3"], JAX, "detect", env=SLURM)
    all_met(result)


DETECTED = """
import os
from framework_rules import jax_cluster
from jax._src.clusters.cluster import ClusterEnv
present = next((kind for kind in ClusterEnv._cluster_types if not kind.opt_in_only_method and kind.is_env_present()), None)
assert (present is None) == (jax_cluster(os.environ) is None), (present, jax_cluster(os.environ))
if present is not None:
    found = (present.get_coordinator_address(10, None), present.get_process_count(), present.get_process_id(), present.get_local_process_id())
    assert found == jax_cluster(os.environ)[1:], (found, jax_cluster(os.environ))
print("rank", os.environ["RANK"], "detects", present and present.name, flush=True)
"""


@pytest.mark.parametrize("outer, whom", [({}, None), (MPIRUN, None), (SLURM, "slurm")], ids=["plain", "mpirun", "slurm"])
def test_what_jax_detects(node0, scratch, outer, whom):
    result = run(node0, scratch, ["--standalone", "-n", "2"], DETECTED, env=outer)
    assert sorted(result.text.splitlines()) == [f"rank {rank} detects {whom}" for rank in range(2)], result
