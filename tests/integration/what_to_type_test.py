"""README's table "Your program, and what to type": each row with its program, or, where Debian has none, with what that
framework reads, by its own rules."""

import json
import re
import subprocess

import pytest

from harness import BIN, EXAMPLES, PYTHON, ROOT, WORKERS

TESTED = {
    "a script of torch": "test_torch",
    "a module of torch": "test_torch",
    "DistributedDataParallel": "test_torch",
    "an MPI program in C": "test_mpi_in_c",
    "mpi4py": "test_mpi4py",
    "XGBoost": "test_xgboost",
    "JAX": "test_jax",
    "Lightning": "test_lightning",
    "DeepSpeed": "test_deepspeed",
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
    """RabitTracker binds host_ip in one process and takes any port, whatever it is told (src/collective/tracker.cc,
    include/xgboost/collective/socket.h); all connect to dmlc_tracker_uri and dmlc_tracker_port."""
    result = node0.run(*where, "--no-prefix", WORKERS / "meet_rank0.py", "xgboost", env={"PYTHONPATH": str(BIN.parent / "python")})
    assert result.code == 0 and sorted(result.text.splitlines()) == ALL_MET, result


@ON
def test_jax(node0, where):
    """Process 0 opens the coordinator, a gRPC server, at [::] and the port of coordinator_address; all connect to that address
    (jax/_src/distributed.py). So MASTER_PORT must be free for rank 0, also under an interpreter that has torch."""
    result = node0.run(*where, "--store", "worker", "--no-prefix", WORKERS / "meet_rank0.py", "jax")
    assert result.code == 0 and sorted(result.text.splitlines()) == ALL_MET, result


def environments(node0, scratch, *words, env=None):
    """{rank: environment} of a job's workers."""
    program = "import json, os; json.dump(dict(os.environ), open(os.environ['RANK'] + '.json', 'w'))"
    result = node0.run(*words, "--wdir", scratch, PYTHON, "-c", program, env=env)
    assert result.code == 0, result
    return {int(path.stem): json.loads(path.read_text()) for path in scratch.glob("*.json")}


SLURM = {"SLURM_JOB_ID": "4711", "SLURM_JOBID": "4711", "SLURM_JOB_NAME": "train", "SLURM_NTASKS": "1", "SLURM_PROCID": "0", "SLURM_LOCALID": "0",
         "SLURM_NODEID": "0", "SLURM_JOB_NODELIST": "node0", "SLURM_NODELIST": "node0", "SLURM_NNODES": "1"}


def test_jax_in_a_slurm_job(node0, scratch):
    """Without arguments JAX takes the first host of SLURM_STEP_NODELIST, and SLURM_NTASKS, SLURM_PROCID, SLURM_LOCALID, where
    SLURM_JOB_ID is set (jax/_src/clusters/slurm_cluster.py)."""
    found = environments(node0, scratch, "--standalone", "-n", "3", env=SLURM)
    assert sorted(found) == [0, 1, 2]
    for rank, env in found.items():
        told = [env.get(name) for name in ("SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID")]
        assert told == ["4711", "node0", "3", str(rank), str(rank)], told


def test_jax_elsewhere_detects_nobody(node0, scratch):
    """Outside Slurm nothing may look like a cluster that JAX detects (jax/_src/clusters), or it would not ask its arguments."""
    for env in environments(node0, scratch, "-n", "2").values():
        assert not {"SLURM_JOB_ID", "OMPI_MCA_orte_hnp_uri", "PRTE_LAUNCHED", "KUBERNETES_SERVICE_HOST", "JAX_COORDINATOR_ADDRESS"} & set(env), env


@pytest.mark.parametrize("slurm", [{}, SLURM], ids=["plain", "slurm"])
def test_lightning(node0, scratch, slurm):
    """It is torchelastic that started it, also in a Slurm job, where TORCHELASTIC_RUN_ID is set; then RANK, LOCAL_RANK, WORLD_SIZE,
    GROUP_RANK, MASTER_ADDR and MASTER_PORT count, and devices x num_nodes must be WORLD_SIZE
    (lightning/fabric/plugins/environments/torchelastic.py)."""
    found = environments(node0, scratch, "--standalone", "--nnodes", "2", "--nproc-per-node", "2", env=slurm)
    assert sorted(found) == [0, 1, 2, 3]
    for rank, env in found.items():
        assert env["TORCHELASTIC_RUN_ID"] and env["MASTER_ADDR"] and int(env["MASTER_PORT"]) > 0, env
        assert [int(env[name]) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "GROUP_RANK")] == [rank, rank % 2, 2 * 2, rank // 2], env


def test_deepspeed(node0, scratch):
    """init_distributed asks MPI unless all of these are set (deepspeed/comm/comm.py), and nothing may say that this is AzureML,
    SageMaker or DLTS, where it derives them from MPI's (the same file)."""
    for rank, env in environments(node0, scratch, "-n", "2").items():
        told = [env.get(name, "") for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE")]
        assert told == [str(rank), str(rank), "2"] and env["MASTER_ADDR"] and env["MASTER_PORT"].isdigit(), env
        assert not {"AZUREML_EXPERIMENT_ID", "SM_TRAINING_ENV", "DLTS_JOB_ID", "OMPI_COMM_WORLD_RANK"} & set(env), env


def test_libmuster(node0):
    result = node0.run("-n", "4", BIN.parent / "examples/allreduce_sgd")
    assert result.code == 0 and "loss" in result.text, result


def test_bash(node0):
    result = node0.run("-n", "4", EXAMPLES / "hello")
    assert result.code == 0 and sorted(re.findall(r"from rank (\d) of 4", result.text)) == list("0123"), result
