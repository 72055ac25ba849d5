"""README's table "Your program, and what to type": each row with its program, or, where Debian has none, with what that
framework reads, by its own rules."""

import json
import re
import subprocess

import pytest

from framework_rules import accelerate_place, deepspeed_place, jax_cluster, lightning_place
from harness import BIN, EXAMPLES, LAUNCH, PYTHON, ROOT, WORKERS

TESTED = {
    "a script of torch": "test_torch",
    "a module of torch": "test_torch",
    "DistributedDataParallel": "test_torch",
    "an MPI program in C": "test_mpi_in_c",
    "mpi4py": "test_mpi4py",
    "XGBoost": "test_xgboost",
    "JAX": "test_jax",
    "Lightning": "test_lightning",
    "accelerate, transformers": "test_accelerate",
    "DeepSpeed": "test_deepspeed",
    "Horovod": "test_horovod",
    "TensorFlow": "test_tensorflow",
    "C++ with libmuster": "test_libmuster",
    "bash": "test_bash",
}


def test_every_row_is_tested():
    table = (ROOT / "README.md").read_text().split("## Your program, and what to type")[1].split("\n## ")[0]
    rows = [row[0] for row in re.findall(r"^\| ([^|]+?) \| `([^|]*) \|", table, re.M)]
    assert rows == list(TESTED) and set(TESTED.values()) <= set(globals()), rows


@pytest.mark.parametrize("words, says", [([EXAMPLES / "sgd.py"], "replicas are bit-equal"), (["-m", "sgd"], "replicas are bit-equal"),
                                         ([EXAMPLES / "ddp.py", "--epochs", "1"], "done: epochs 0..0, world 2")], ids=["script", "module", "ddp"])
def test_torch(node0, words, says):
    result = node0.run("--nproc-per-node", "2", *words, env={"PYTHONPATH": str(EXAMPLES)}, seconds=180)
    assert result.code == 0 and says in result.text, result


@pytest.mark.parametrize("compiler", ["mpicc.mpich", "mpicc.openmpi"])
def test_mpi_in_c(node0, scratch, compiler):
    subprocess.run([compiler, "-o", scratch / "prog", WORKERS / "mpi.c"], check=True)
    result = node0.run("-n", "4", scratch / "prog")
    assert result.code == 0 and sorted(re.findall(r"rank (\d) of 4", result.text)) == list("0123"), result


def test_mpi4py_of_mpich(node0):
    result = node0.run("-n", "3", "--mpi", "pmi1", "--no-prefix", WORKERS / "mpi_by_dlopen.py")
    assert result.code == 0 and sorted(result.text.splitlines()) == [f"rank {r} of 3 sum 6" for r in range(3)], result


MPI4PY = """
from mpi4py import MPI
comm = MPI.COMM_WORLD
print(f"rank {comm.rank} of {comm.size} sum", comm.allreduce(comm.rank + 1), flush=True)
"""


@pytest.mark.parametrize("where", [["-n", "3"], ["--hosts", "node0:1,node1:2"]], ids=["one", "hosts"])
def test_mpi4py(node0, scratch, where):
    (scratch / "script.py").write_text(MPI4PY)
    result = node0.run(*where, "--no-prefix", scratch / "script.py")
    assert result.code == 0 and sorted(result.text.splitlines()) == [f"rank {r} of 3 sum 6" for r in range(3)], result


ON = pytest.mark.parametrize("where", [["-n", "3"], ["--hosts", "node0:1,node1:2"]], ids=["one", "hosts"])
ALL_MET = [f"rank {rank} met [0, 1, 2]" for rank in range(3)]


@ON
def test_xgboost(node0, where):
    """Each rank has a third of the rows, and all end with one model."""
    script = [PYTHON, EXAMPLES / "xgboost_train.py"]
    env = {"PYTHONPATH": str(BIN.parent / "python")}
    result = node0.run(*where, "--no-prefix", *script, env=env, seconds=120)
    told = re.findall(r"^rank (\d) of 3: (0\.\d+) wrong, model (\w+)$", result.text, re.M)
    assert result.code == 0 and sorted(rank for rank, _, _ in told) == list("012"), result
    assert len({model for _, _, model in told}) == 1 and float(told[0][1]) < 0.2, told
    alone = node0.run("-n", "1", "--no-prefix", *script, env=env, seconds=120)
    assert alone.code == 0 and "rank 0 of 1" in alone.text, alone


@ON
def test_jax(node0, where):
    """Process 0 opens the coordinator, a gRPC server, at [::] and the port of coordinator_address; all connect to that address
    (jax/_src/distributed.py). So MASTER_PORT must be free for rank 0, also under an interpreter that has torch."""
    result = node0.run(*where, "--store", "worker", "--no-prefix", WORKERS / "meet_rank0.py")
    assert result.code == 0 and sorted(result.text.splitlines()) == ALL_MET, result


DUMP = "import json, os; json.dump(dict(os.environ), open(os.environ['RANK'] + '.json', 'w'))"


def environments(folder):
    """{rank: environment} of the workers of a job that has run DUMP there."""
    return {int(path.stem): json.loads(path.read_text()) for path in folder.glob("*.json")}


def dump(node0, scratch, *words, env=None):
    result = node0.run(*words, "--wdir", scratch, PYTHON, "-c", DUMP, env=env)
    assert result.code == 0, result
    return environments(scratch)


SLURM = {"SLURM_JOB_ID": "4711", "SLURM_JOBID": "4711", "SLURM_JOB_NAME": "train", "SLURM_NTASKS": "1", "SLURM_PROCID": "0", "SLURM_LOCALID": "0",
         "SLURM_NODEID": "0", "SLURM_JOB_NODELIST": "node0", "SLURM_NODELIST": "node0", "SLURM_NNODES": "1"}
# Of an mpirun that has started launch, as the last of seven.
MPIRUN = {"OMPI_MCA_orte_hnp_uri": "1;tcp://10.0.0.1:1", "PRTE_LAUNCHED": "1",
          **{f"OMPI_COMM_WORLD_{name}": number for name, number in (("SIZE", "7"), ("RANK", "6"), ("LOCAL_RANK", "6"), ("LOCAL_SIZE", "7"))},
          **{name: "7" for name in ("PMI_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE")},
          **{name: "6" for name in ("PMI_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_RANK")}}


def test_jax_in_a_slurm_job(node0, scratch):
    found = dump(node0, scratch, "--standalone", "-n", "3", env=SLURM)
    assert {rank: jax_cluster(env) for rank, env in found.items()} == {
        rank: ("slurm", f"node0:{61440 + 4711 % 4096}", 3, rank, rank) for rank in range(3)}


def test_jax_and_lightning_in_a_job_of_slurm_s_own(slurm):
    """Whose nodes Slurm writes as node[0-1]."""
    job = slurm.submit(f"exec {LAUNCH} --nproc-per-node 2 --wdir {slurm.folder} {PYTHON} -c '{DUMP.replace(chr(39), chr(34))}'", "-N2", "-w", "node0,node1")
    assert slurm.wait(job)["ExitCode"] == "0:0", slurm.output(job)
    found = environments(slurm.folder)
    assert {env["SLURM_STEP_NODELIST"] for env in found.values()} == {"node[0-1]"}
    assert {rank: jax_cluster(env) for rank, env in found.items()} == {
        rank: ("slurm", f"node0:{61440 + int(job) % 4096}", 4, rank, rank % 2) for rank in range(4)}
    assert {rank: lightning_place(env) for rank, env in found.items()} == {rank: ("torchelastic", 4, rank, rank % 2, rank // 2) for rank in range(4)}


@pytest.mark.parametrize("outer", [{}, MPIRUN], ids=["plain", "mpirun"])
def test_jax_elsewhere_detects_nobody(node0, scratch, outer):
    """Or it would not ask its arguments."""
    found = dump(node0, scratch, "-n", "2", env=outer)
    assert sorted(found) == [0, 1]
    for env in found.values():
        assert jax_cluster(env) is None and "JAX_COORDINATOR_ADDRESS" not in env, env


@pytest.mark.parametrize("slurm_s", [{}, SLURM], ids=["plain", "slurm"])
def test_lightning(node0, scratch, slurm_s):
    """devices x num_nodes must be WORLD_SIZE."""
    found = dump(node0, scratch, "--standalone", "--nnodes", "2", "--nproc-per-node", "2", env=slurm_s)
    assert {rank: lightning_place(env) for rank, env in found.items()} == {rank: ("torchelastic", 4, rank, rank % 2, rank // 2) for rank in range(4)}
    assert all(env["MASTER_ADDR"] and int(env["MASTER_PORT"]) > 0 for env in found.values()), found


@pytest.mark.parametrize("words", [[], ["--mpi", "pmi1"], ["--mpi", "pmix"], ["--dialect", "ompi,pmi,mpich,mvapich"]], ids=["torch", "pmi1", "pmix", "all"])
def test_accelerate(node0, scratch, words):
    """No two dialects may differ, nor may what an outer launcher has left."""
    found = dump(node0, scratch, "--standalone", "--nnodes", "2", "--nproc-per-node", "2", *words, env=MPIRUN)
    assert sorted(found) == [0, 1, 2, 3]
    for rank, env in found.items():
        *place, local_size = accelerate_place(env)
        assert place == [4, rank, rank % 2] and local_size in (None, 2) and env["MASTER_ADDR"], env


@pytest.mark.parametrize("outer", [{}, MPIRUN], ids=["plain", "mpirun"])
def test_deepspeed(node0, scratch, outer):
    """Its launcher also says --local_rank=N to the script (deepspeed/launcher/launch.py)."""
    check = "import os, sys; assert sys.argv[1:] == ['--deepspeed', '--local_rank=' + os.environ['LOCAL_RANK']], sys.argv; "
    words = ["-n", "2", "--dialect", "deepspeed", "--fill", "--wdir", scratch, PYTHON, "-c", check + DUMP, "--deepspeed", "--local_rank={local_rank}"]
    result = node0.run(*words, env=outer)
    assert result.code == 0, result
    found = environments(scratch)
    assert {rank: deepspeed_place(env) for rank, env in found.items()} == {rank: (2, rank, rank) for rank in range(2)}
    for env in found.values():
        assert [env[name] for name in ("LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE")] == ["2", "0", "1"], env


def test_horovod(node0):
    result = node0.run("--hosts", "node0:2,node1:1", "--dialect", "horovod", "--no-prefix", PYTHON, WORKERS / "horovod_gloo.py", seconds=60)
    groups = {0: "local [0, 1] cross [0, 2]", 1: "local [0, 1] cross [1]", 2: "local [2] cross [0, 2]"}
    met = [f"rank {rank} of [0, 1, 2] {groups[rank]}" for rank in range(3)]
    assert result.code == 0 and sorted(result.text.splitlines()) == sorted(2 * met), result


def test_horovod_on_nodes_of_one_name(node0):
    """Its scopes are named after hosts; "hvd.init()" of two nodes of one machine would mix their ranks."""
    result = node0.run("--standalone", "--nnodes", "2", "--nproc-per-node", "2", "--dialect", "horovod", "--no-prefix", PYTHON, WORKERS / "horovod_gloo.py")
    assert result.code == 0 and result.text.count("rank 3 of [0, 1, 2, 3] local [2, 3] cross [1, 3]") == 2, result


def met_at(text):
    """{rank: (whom it met, where)} for each life."""
    return [(int(rank), met, where) for rank, met, where in re.findall(r"^rank (\d) met (.*) at (.*)$", text, re.M)]


@ON
def test_tensorflow(node0, where):
    result = node0.run(*where, "--dialect", "tf", "--no-prefix", PYTHON, WORKERS / "tf_cluster.py")
    lives = met_at(result.text)
    assert result.code == 0 and sorted(rank for rank, _, _ in lives) == [0, 1, 2], result
    assert {met for _, met, _ in lives} == {"[0, 1, 2]"} and len({where for _, _, where in lives}) == 1, lives


def test_tensorflow_s_ports_stay_with_the_job(node0):
    """The one that fails is started again at the port it had, which nobody could take in between."""
    result = node0.run("-n", "3", "--max-restarts", "1", "--dialect", "tf", "--no-prefix", PYTHON, WORKERS / "tf_cluster.py", "fail")
    lives = met_at(result.text)
    assert result.code == 0 and len(lives) == 6 and len({where for _, _, where in lives}) == 1, result


def test_libmuster(node0):
    result = node0.run("-n", "4", "--no-prefix", BIN.parent / "examples/allreduce_sgd")
    losses = [float(loss) for loss in re.findall(r"^step \d+: loss (\S+)", result.text, re.M)]
    assert result.code == 0 and len(losses) > 1 and losses == sorted(losses, reverse=True), result  # of one world of four, not of four


def test_bash(node0):
    result = node0.run("-n", "4", EXAMPLES / "hello")
    assert result.code == 0 and sorted(re.findall(r"from rank (\d) of 4", result.text)) == list("0123"), result
