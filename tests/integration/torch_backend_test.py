"""import muster.torch: torch.distributed's back end `muster`."""

import re

import pytest

from harness import BIN, EXAMPLES, HERE, PYTHON, ROOT, WORKERS

BENCH = ROOT / "tests/bench"
PACKAGE = {"PYTHONPATH": str(BIN.parent / "python"), "OMP_NUM_THREADS": "1"}


@pytest.mark.parametrize("n", [2, 3, 4])
def test_every_operation_is_gloos(node0, n):
    result = node0.run("-n", n, "--no-prefix", WORKERS / "torch_ops.py", env=PACKAGE)
    assert result.code == 0 and result.text.count("all right") == n, result


@pytest.mark.parametrize("part", ["reductions", "messages", "groups"])
def test_between_hosts(shells, part):
    result = shells[0].run("--hosts", "node0:1,node1:2", "--no-prefix", WORKERS / "torch_ops.py", part, env=PACKAGE)
    assert result.code == 0 and result.text.count("all right") == 3, result


@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_replicas_have_equal_bits(node0, n):
    result = node0.run("-n", n, "--no-prefix", WORKERS / "torch_ddp.py", 200, env=PACKAGE)
    bits = re.findall(r"^bits (\w+)", result.text, re.M)
    assert result.code == 0 and len(bits) == n and len(set(bits)) == 1, result


def test_an_unmodified_program_but_for_the_name(shells, scratch):
    program = scratch / "ddp.py"
    program.write_text((EXAMPLES / "ddp.py").read_text().replace("import torch\n", "import muster.torch\nimport torch\n", 1).replace('"gloo"', '"muster"'))
    job = ["--hosts", "node0:2,node1:1", "--no-prefix"]
    ours = shells[0].run(*job, program, env=PACKAGE)
    gloos = shells[0].run(*job, EXAMPLES / "ddp.py", env=PACKAGE)
    losses = [re.findall(r"loss (\S+) over 3 ranks", result.text) for result in (ours, gloos)]
    assert ours.code == gloos.code == 0 and len(losses[0]) == 4 and losses[0] == losses[1], (ours, gloos)


def test_a_rank_that_dies_is_named_within_a_second(node0):
    script = """
import os, signal, time
import muster.torch, torch, torch.distributed as dist
signal.signal(signal.SIGTERM, signal.SIG_IGN)
dist.init_process_group("muster")
group = dist.new_group([1, 2])
x = torch.ones(4)
dist.all_reduce(x)
dist.barrier()
if dist.get_rank() == 2:
    print("dies at", time.monotonic(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
try:
    dist.all_reduce(x, group=group if dist.get_rank() == 1 else None)
except RuntimeError as error:
    print("told at", time.monotonic(), error, flush=True)
os._exit(0)
"""
    result = node0.run("-n", "3", "--no-prefix", PYTHON, "-c", script, env=PACKAGE)
    died = float(*re.findall(r"dies at (\S+)", result.text))
    told = re.findall(r"told at (\S+) (.*)", result.text)
    assert result.code == 137 and len(told) == 2, result
    assert all(float(at) - died < 1 and "has died" in why for at, why in told), result
    assert sorted(re.findall(r"rank \d(?: \(\d of the job\))? has died", result.text))[0] == "rank 1 (2 of the job) has died", result


def test_ranks_that_disagree_are_told(node0):
    script = """
import signal
import muster.torch, torch, torch.distributed as dist
signal.signal(signal.SIGTERM, signal.SIG_IGN)
dist.init_process_group("muster")
try:
    dist.all_reduce(torch.ones(4 + dist.get_rank()))
except RuntimeError as error:
    print("told:", error, flush=True)
"""
    result = node0.run("-n", "2", "--no-prefix", PYTHON, "-c", script, env=PACKAGE)
    assert len(re.findall(r"told: muster: .*all_reduce\(4 x float32.*all_reduce\(5 x float32|told: muster: .*all_reduce\(5 x float32.*all_reduce\(4 x float32", result.text)) == 2, result


def test_the_groups_timeout_and_that_of_one_wait(node0):
    script = """
import datetime, signal
import muster.torch, torch, torch.distributed as dist
signal.signal(signal.SIGTERM, signal.SIG_IGN)
dist.init_process_group("muster")
gloo = dist.new_group([0, 1], backend="gloo")
brief = dist.new_group([0, 1], timeout=datetime.timedelta(milliseconds=300))
if dist.get_rank() == 0:
    work = dist.all_reduce(torch.ones(4), async_op=True)
    try:
        work.wait(datetime.timedelta(milliseconds=50))
    except RuntimeError as error:
        print("wait:", error, flush=True)
    try:
        dist.all_reduce(torch.ones(4), group=brief)
    except RuntimeError as error:
        print("group:", error, flush=True)
    dist.barrier(gloo)
    work.wait()
else:
    dist.barrier(gloo)
    dist.all_reduce(torch.ones(4))
"""
    result = node0.run("-n", "2", "--no-prefix", PYTHON, "-c", script, env=PACKAGE)
    assert result.code == 0, result
    assert re.search(r"wait: muster: the call has not ended within 50 ms", result.text), result
    assert re.search(r"group: muster: .*rank 1 did not come within 300 ms", result.text), result


def test_without_the_import_torch_says_that_it_knows_no_such_back_end(node0):
    result = node0.run("-n", "1", PYTHON, "-c", "import torch.distributed as dist; dist.init_process_group('muster')", env=PACKAGE)
    assert result.code == 1 and re.search("(?i)muster", result.errors) and "backend" in result.errors.lower(), result


def test_the_benchmark_runs(shells):
    result = shells[0].run("--hosts", "node0:1,node1:1", "--no-prefix", BENCH / "torch_backend.py", "--smoke", env=PACKAGE)
    rows = [line.split(",") for line in result.text.splitlines()[1:]]
    assert result.code == 0 and [row[0] for row in rows] == ["all_reduce"] * 3 + ["ddp"], result
    assert all(row[1:3] == ["2", "2"] and float(row[4]) > 0 and float(row[5]) > 0 for row in rows), result


def torchrun(host, n, *program):
    return host.run(HERE / "torchrun.py", "--standalone", "--nproc_per_node", n, "--monitor_interval", "0.1", *program, program=PYTHON, env=PACKAGE)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_without_launch_processes_of_one_host_meet_through_torchs_store(node0, n):
    result = torchrun(node0, n, WORKERS / "torch_ops.py")
    assert result.code == 0 and result.text.count("all right") == n, result


def test_without_launch_a_rank_that_dies_is_named(node0, scratch):
    program = scratch / "dies.py"
    program.write_text("""
import os, signal, time
import muster.torch, torch, torch.distributed as dist
signal.signal(signal.SIGTERM, signal.SIG_IGN)
dist.init_process_group("muster")
x = torch.ones(4)
dist.all_reduce(x)
if dist.get_rank() == 2:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    dist.all_reduce(x)
except RuntimeError as error:
    os.write(1, f"told: {error}\\n".encode())  # at once: torchrun's processes share one pipe
store = dist.distributed_c10d._get_default_store()
store.set(f"told {dist.get_rank()}", "")
store.wait(["told 0", "told 1"])
os._exit(0)
""")
    result = torchrun(node0, 3, program)
    assert len(re.findall(r"told: muster: .*rank 2 has died", result.text)) == 2, result


def test_without_launch_several_hosts_are_refused(shells, scratch):
    program = scratch / "meets.py"
    program.write_text(f"""
import sys
import torch.distributed as dist
sys.path.insert(0, "{PACKAGE['PYTHONPATH']}")
import os
for name in [name for name in os.environ if name.startswith("MUSTER_")]:
    del os.environ[name]
import muster.torch
try:
    dist.init_process_group("muster")
except RuntimeError as error:
    print("told:", error, flush=True)
dist.init_process_group("gloo")
dist.barrier()
""")
    result = shells[0].run("--hosts", "node0:1,node1:1", "--no-prefix", program)
    assert result.code == 0 and result.text.count("told: muster: these processes are on 2 hosts") == 2, result
