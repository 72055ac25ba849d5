"""Jobs on NVIDIA GPUs, with the torch of MUSTER_TORCH_PYTHON: run by `deploy/test --only gpu` on a machine that has some,
and by nothing else. Emulated hosts all see the machine's GPUs."""

import json
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from harness import PATIENCE, TORCH_PACKAGE, TORCH_PYTHON, WORKERS, clean_env, kill_all, wait_for

ENV = {"PYTHONPATH": TORCH_PACKAGE, "PYTHON_EXEC": TORCH_PYTHON, "OMP_NUM_THREADS": "1"}
DDP = WORKERS / "gpu_ddp.py"


def nvidia_smi(query):
    words = ["nvidia-smi", f"--query-{query}", "--format=csv,noheader"]
    said = subprocess.run(words, env=clean_env(), stdout=subprocess.PIPE, text=True, check=True, timeout=PATIENCE).stdout
    return said.split("\n")[:-1]


@pytest.fixture(scope="module")
def uuids():
    return nvidia_smi("gpu=uuid")


@pytest.fixture
def idle_gpus():
    """Nobody is on them before a test, and after it."""
    wait_for(lambda: not nvidia_smi("compute-apps=pid"), PATIENCE)
    yield
    wait_for(lambda: not nvidia_smi("compute-apps=pid"), 5, what=lambda: f"the GPUs are given back: {nvidia_smi('compute-apps=pid')}")


SHOW = """
import os, torch
seen = [str(torch.cuda.get_device_properties(i).uuid) for i in range(torch.cuda.device_count())]
print("rank", os.environ["RANK"], "sees", *seen, "as", os.environ.get("CUDA_VISIBLE_DEVICES"), flush=True)
"""


@pytest.mark.parametrize("mode", ["all", "one", "uuid"])
def test_a_worker_for_each_gpu(node0, scratch, uuids, mode):
    (scratch / "show.py").write_text(SHOW)
    result = node0.run("--nproc-per-node", "gpu", "--gpu-mode", mode, "--no-prefix", scratch / "show.py", env=ENV)
    assert result.code == 0, result
    found = {int(rank): (seen.split(), shown) for rank, seen, shown in re.findall(r"^rank (\d+) sees (.*) as (\S+)$", result.text, re.M)}
    plain = [uuid.removeprefix("GPU-") for uuid in uuids]
    for rank, uuid in enumerate(plain):
        shown = {"all": "None", "one": str(rank), "uuid": f"GPU-{uuid}"}[mode]
        assert found.pop(rank) == (plain if mode == "all" else [uuid], shown), result
    assert not found, result


def bits_of(result, ranks):
    found = re.findall(r"^bits (\w+) learnt True of (\d+)$", result.text, re.M)
    assert result.code == 0 and len(found) == ranks and set(size for _, size in found) == {str(ranks)}, result
    assert len(set(bits for bits, _ in found)) == 1, result


@pytest.mark.parametrize("backend", ["nccl", "cpu:muster,cuda:nccl", "cpu:gloo,cuda:nccl"])
def test_ddp(idle_gpus, node0, uuids, backend):
    bits_of(node0.run("--nproc-per-node", "gpu", "--no-prefix", DDP, 200, backend, env=ENV, seconds=180), len(uuids))


@pytest.mark.parametrize("backend", ["nccl", "cpu:muster,cuda:nccl"])
def test_ddp_between_hosts(idle_gpus, node0, uuids, backend):
    job = ["--hosts", "node0,node1", "--nproc-per-node", "gpu", "--no-prefix"]
    result = node0.run(*job, "-x", "NCCL_DEBUG=INFO", DDP, 200, backend, env=ENV, seconds=180)
    bits_of(result, 2 * len(uuids))
    used = set(re.findall(r"NET/Socket : Using \[0\](\w+):(10\.77\.0\.\d)", result.text + result.errors))
    assert used == {("eth0", "10.77.0.1"), ("eth0", "10.77.0.2")}, result  # by NCCL_SOCKET_IFNAME of each host


# As in the batch scripts of clusters with GPUs, where mpirun or srun only starts processes: a helper of the program's
# finds its rank in whatever variables there are, and the script knows the leader and a port.
HELPED = """
import os, socket, sys, torch, torch.distributed as dist
def first(*names):
    return next(int(os.environ[name]) for name in names if name in os.environ)
os.environ["NCCL_HOSTID"] = socket.gethostname()
rank = first("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "RANK")
size = first("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", "WORLD_SIZE")
local = first("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID", "LOCAL_RANK")
torch.cuda.set_device(local)
where = f"tcp://{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
dist.init_process_group("nccl", init_method=where if sys.argv[1] == "tcp" else "env://", rank=rank, world_size=size)
x = torch.full((1 << 20,), rank + 1.0, device="cuda")
dist.all_reduce(x)
print("sum", x[-1].item(), flush=True)
dist.destroy_process_group()
"""


@pytest.mark.parametrize("init", ["env", "tcp"])
def test_a_program_whose_helper_finds_its_rank(node0, scratch, uuids, init):
    (scratch / "helped.py").write_text(HELPED)
    job = ["--hosts", "node0,node1", "--nproc-per-node", "gpu", "--no-prefix"]
    if init == "tcp":  # rank 0 opens the port then
        job.append("--store=worker")
    result = node0.run(*job, scratch / "helped.py", init, env=ENV, seconds=120)
    size = 2 * len(uuids)
    assert result.code == 0 and result.text.count(f"sum {size * (size + 1) / 2}") == size, result


def rank_of(shell, rank):
    """The process of this rank, on whichever host."""
    for host in shell.host.lab:
        for pid, line in host.processes().items():
            if str(DDP) in line and f"\0RANK={rank}\0".encode() in b"\0" + Path(f"/proc/{pid}/environ").read_bytes():
                return pid
    raise AssertionError(f"no rank {rank}: {shell.host.lab.processes()}")


def ddp_under_way(node0, ranks, *options):
    """Many steps of a job between hosts, in which all ranks have begun."""
    job = node0.start("--hosts", "node0,node1", "--nproc-per-node", "gpu", "--no-prefix", *options, DDP, 1000000, env=ENV)
    job.expect(r"begun \S+ pid \d+ restarts 0", ranks, seconds=120)
    return job


def test_a_killed_rank_does_not_hold_up_those_in_nccl(idle_gpus, node0, uuids):
    """Who waits for it in an all-reduce on the GPU would wait until NCCL's own watchdog, ten minutes."""
    ranks = 2 * len(uuids)
    job = ddp_under_way(node0, ranks, "--max-restarts", "1", "--restart", "all")
    victim = rank_of(node0, ranks - 1)
    killed = time.monotonic()
    kill_all([victim])
    begun = job.expect(r"begun (\S+) pid \d+ restarts 1", ranks, seconds=120)
    print("steps again after", max(map(float, begun)) - killed, "s")
    job.signal(signal.SIGINT)
    job.finish()


def test_a_job_that_fails_is_over_at_once(idle_gpus, node0, uuids):
    ranks = 2 * len(uuids)
    job = ddp_under_way(node0, ranks)
    victim = rank_of(node0, 0)
    killed = time.monotonic()
    kill_all([victim])
    result = job.finish(60)
    print("over after", time.monotonic() - killed, "s")
    assert result.code == 137 and "rank 0" in result.errors, result


def test_no_process_keeps_a_gpu_when_launch_is_killed(idle_gpus, node0, uuids):
    job = ddp_under_way(node0, 2 * len(uuids))
    assert nvidia_smi("compute-apps=pid")
    kill_all([job.pid])
    job.finish()


def test_doctor_names_who_is_on_a_gpu(idle_gpus, node0):
    clean = json.loads(node0.run("doctor", "--hosts", "node0,node1", "--json", seconds=120, env=ENV).text)
    assert "no process on them" in str(clean), clean
    job = ddp_under_way(node0, 2)
    told = node0.run("doctor", "--hosts", "node0,node1", seconds=120, env=ENV)
    assert re.search(r"process \d+ \(.*python.*\) holds \d+ MiB of NVIDIA", told.text), told
    job.signal(signal.SIGINT)
    job.finish()
