"""import muster.torch: torch.distributed's back end `muster`, with Debian 12's torch or another (MUSTER_TORCH_PYTHON)."""

import functools
import re
import subprocess

import pytest

from harness import EXAMPLES, HERE, ROOT, TORCH_PACKAGE, TORCH_PYTHON, WORKERS, kill_all, wait_for

BENCH = ROOT / "tests/bench"
PACKAGE = {"PYTHONPATH": TORCH_PACKAGE, "PYTHON_EXEC": TORCH_PYTHON, "OMP_NUM_THREADS": "1"}


@pytest.mark.parametrize("n", [2, 3, 4])
def test_every_operation_is_gloos(node0, n):
    result = node0.run("-n", n, "--no-prefix", WORKERS / "torch_ops.py", env=PACKAGE)
    assert result.code == 0 and result.text.count("all right") == n, result


def test_every_operation_with_torchs_own_checks(node0):
    """It compares the calls of all ranks then, by their numbers among others."""
    env = {**PACKAGE, "TORCH_DISTRIBUTED_DEBUG": "DETAIL"}
    result = node0.run("-n", 2, "--no-prefix", WORKERS / "torch_ops.py", env=env)
    assert result.code == 0 and result.text.count("all right") == 2, result


def test_groups_end_with_calls_under_way(node0):
    """Also where a call's end wants Python's lock, which destroy_process_group has."""
    result = node0.run("-n", 2, "--no-prefix", "--timeout", "100s", WORKERS / "torch_group_ends.py", env=PACKAGE)
    assert result.code == 0 and result.text.count("all right") == 2, result


def test_threads_that_flush_denormal_numbers(node0):
    result = node0.run("-n", 2, "--no-prefix", WORKERS / "torch_denormals.py", env=PACKAGE)
    assert result.code == 0 and result.text.count("all right") == 2, result


def test_between_hosts(shells):
    parts = ["reductions", "messages", "any_source", "sparse", "groups"]
    result = shells[0].run("--hosts", "node0:1,node1:2", "--no-prefix", WORKERS / "torch_ops.py", *parts, env=PACKAGE)
    assert result.code == 0 and result.text.count("all right") == 3, result


def expect_equal_bits(result, n):
    """And of numbers. torchrun's processes share one pipe, and a line's end is a write of its own."""
    bits = re.findall(r"bits (\w+) loss \d+\.\d", result.text)
    assert result.code == 0 and len(bits) == n and len(set(bits)) == 1, result


@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_replicas_have_equal_bits(node0, n):
    expect_equal_bits(node0.run("-n", n, "--no-prefix", WORKERS / "torch_ddp.py", 200, env=PACKAGE), n)


def test_replicas_on_two_hosts_have_equal_bits(node0):
    expect_equal_bits(node0.run("--hosts", "node0:2,node1:2", "--no-prefix", WORKERS / "torch_ddp.py", 200, env=PACKAGE), 4)


def test_an_unmodified_program_but_for_the_name(shells, scratch):
    program = scratch / "ddp.py"
    program.write_text((EXAMPLES / "ddp.py").read_text().replace("import torch\n", "import muster.torch\nimport torch\n", 1).replace('"gloo"', '"muster"'))
    job = ["--hosts", "node0:2,node1:1", "--no-prefix"]
    ours = shells[0].run(*job, program, env=PACKAGE)
    gloos = shells[0].run(*job, EXAMPLES / "ddp.py", env=PACKAGE)
    losses = [re.findall(r"loss (\S+) over 3 ranks", result.text) for result in (ours, gloos)]
    assert ours.code == gloos.code == 0 and len(losses[0]) == 4 and losses[0] == losses[1], (ours, gloos)


def told_within_a_second(node0, n, script, why):
    """Of the best of three runs: others may meet a busy machine."""
    late = []
    while len(late) < 3 and not any(seconds < 1 for seconds in late):
        result = node0.run("-n", n, "--no-prefix", TORCH_PYTHON, "-c", script, env=PACKAGE)
        died = float(*re.findall(r"dies at (\S+)", result.text))
        told = re.findall(rf"told at (\S+) .*{why}", result.text)
        assert result.code == 137 and len(told) == 2, result
        late.append(max(float(at) - died for at in told))
    assert min(late) < 1, late
    return result


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
    result = told_within_a_second(node0, 3, script, "has died")
    assert sorted(re.findall(r"rank \d(?: \(\d of the job\))? has died", result.text))[0] == "rank 1 (2 of the job) has died", result


def test_a_death_ends_what_is_only_asked_for(node0):
    script = """
import os, signal, time
import muster.torch, torch, torch.distributed as dist
signal.signal(signal.SIGTERM, signal.SIG_IGN)
dist.init_process_group("muster")
asked, heard = [dist.irecv(torch.ones(4), 1 - dist.get_rank(), tag=tag) for tag in (1, 2)]
future = heard.get_future()
dist.barrier()
if dist.get_rank() == 1:
    print("dies at", time.monotonic(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
while not asked.is_completed() or not future.done():
    time.sleep(0.001)
for one in (asked, future):
    try:
        one.wait()
    except RuntimeError as error:
        print("told at", time.monotonic(), error, flush=True)
os._exit(0)
"""
    told_within_a_second(node0, 2, script, "rank 1 has died")


def test_whoever_has_pythons_lock_may_ask_and_wait(node0):
    script = """
import faulthandler, time
import muster.torch, torch, torch.distributed as dist
faulthandler.dump_traceback_later(30, exit=True)
dist.init_process_group("muster")
for _ in range(3):  # a message that takes long to be put where it belongs, and then a listener of Python's
    if dist.get_rank() == 0:
        dist.send(torch.ones(4000, 4000), 1)
    else:
        across = torch.zeros(4000, 4000).t()
        work = dist.irecv(across, 0)
        heard = work.get_future().then(lambda _: "heard")
        while not work.is_completed():
            time.sleep(0.01)
        assert heard.wait() == "heard" and across.min() == 1
for _ in range(5):  # inputs that nobody holds but the call, on the group's thread
    work = dist.reduce_scatter(torch.zeros(1_000_000), [torch.ones(1_000_000) for _ in range(2)], async_op=True)
    work.synchronize()
print("all right", flush=True)
"""
    result = node0.run("-n", "2", "--no-prefix", TORCH_PYTHON, "-c", script, env=PACKAGE)
    assert result.code == 0 and result.text.count("all right") == 2, result


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
    result = node0.run("-n", "2", "--no-prefix", TORCH_PYTHON, "-c", script, env=PACKAGE)
    assert len(re.findall(r"told: muster: .*all_reduce\(4 x float32.*all_reduce\(5 x float32|told: muster: .*all_reduce\(5 x float32.*all_reduce\(4 x float32", result.text)) == 2, result


def test_the_groups_timeout_and_that_of_one_wait(node0):
    script = """
import datetime, signal
import muster.torch, torch, torch.distributed as dist
signal.signal(signal.SIGTERM, signal.SIG_IGN)
dist.init_process_group("muster")
gloo = dist.new_group([0, 1], backend="gloo")
brief = dist.new_group([0, 1], timeout=datetime.timedelta(seconds=5))
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
    result = node0.run("-n", "2", "--no-prefix", TORCH_PYTHON, "-c", script, env=PACKAGE)
    assert result.code == 0, result
    assert re.search(r"wait: muster: the call has not ended within 50 ms", result.text), result
    assert re.search(r"group: muster: .*rank 1 did not come within 5000 ms", result.text), result


@pytest.mark.parametrize("late", ["no card", "a card"])
def test_the_groups_timeout_is_that_of_its_meeting_too(node0, late):
    script = f"""
import datetime, os, signal
import muster.torch, torch, torch.distributed as dist
signal.signal(signal.SIGTERM, signal.SIG_IGN)
dist.init_process_group("gloo")
store = dist.distributed_c10d._get_default_store()

class Late(dist.Store):
    def set(self, key, value):
        if "{late}" == "a card":
            store.set(key, value)
    def wait(self, keys, timeout=None):
        dist.recv(torch.zeros(1), 0)
        os._exit(0)

try:
    muster._torch.create(store if dist.get_rank() == 0 else Late(), dist.get_rank(), 2, datetime.timedelta(milliseconds=300))
except RuntimeError as error:
    print("told:", error, flush=True)
dist.send(torch.zeros(1), 1)
"""
    result = node0.run("-n", "2", "--no-prefix", TORCH_PYTHON, "-c", script, env=PACKAGE)
    assert result.code == 0 and re.search("told: .*rank 1 did not come within 300 ms|told: Socket Timeout|told: wait timeout after 300ms", result.text), result


def test_without_the_import_torch_says_that_it_knows_no_such_back_end(node0):
    result = node0.run("-n", "1", TORCH_PYTHON, "-c", "import torch.distributed as dist; dist.init_process_group('muster')", env=PACKAGE)
    assert result.code == 1 and re.search("(?i)muster", result.errors) and "backend" in result.errors.lower(), result


def test_the_benchmark_runs(shells):
    result = shells[0].run("--hosts", "node0:1,node1:1", "--no-prefix", BENCH / "torch_backend.py", "--smoke", env=PACKAGE)
    rows = [line.split(",") for line in result.text.splitlines()[1:]]
    assert result.code == 0 and [row[0] for row in rows] == ["all_reduce"] * 3 + ["ddp", "ddp_alone"], result
    assert all(row[1:3] == ["2", "2"] and float(row[4]) > 0 and float(row[5]) > 0 for row in rows), result


@pytest.mark.parametrize("how, workers, children", [("spawn", 1, 3), ("fork", 1, 3), ("spawn", 2, 1)])
def test_processes_that_workers_start_meet_through_torchs_store(node0, scratch, how, workers, children):
    program = scratch / "starts.py"
    program.write_text(f"""
import os
import torch, torch.distributed as dist, torch.multiprocessing as processes

def run(number, first):
    import muster.torch
    dist.init_process_group("muster", rank=first + number, world_size={workers * children})
    x = torch.full((4,), 10 ** dist.get_rank())
    dist.all_reduce(x)
    os.write(1, f"sum {{x[0]}}\\n".encode())  # at once: children of one worker share its pipe

if __name__ == "__main__":
    processes.start_processes(run, [int(os.environ["RANK"]) * {children}], nprocs={children}, start_method="{how}")
""")
    result = node0.run("-n", workers, "--no-prefix", TORCH_PYTHON, program, env=PACKAGE)
    assert result.code == 0 and result.text.count("sum " + "1" * workers * children + "\n") == workers * children, result


@functools.cache
def under_torchrun():
    """What TORCH_PYTHON starts may see the files of a system of its own, where that has another name."""
    own_name = [TORCH_PYTHON, "-c", "import sys; print(sys.executable)"]
    return {**PACKAGE, "PYTHON_EXEC": subprocess.run(own_name, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()}


def torchrun(host, n, *program):
    return host.run(HERE / "torchrun.py", "--standalone", "--nproc_per_node", n, "--monitor_interval", "0.1", *program, program=TORCH_PYTHON, env=under_torchrun())


@pytest.mark.parametrize("n", [1, 2, 3])
def test_without_launch_processes_of_one_host_meet_through_torchs_store(node0, n):
    result = torchrun(node0, n, WORKERS / "torch_ops.py")
    assert result.code == 0 and result.text.count("all right") == n, result


def test_without_launch_replicas_have_equal_bits(node0):
    expect_equal_bits(torchrun(node0, 4, WORKERS / "torch_ddp.py", 200), 4)


SUMS = """
import muster.torch, torch, torch.distributed as dist
dist.init_process_group("muster")
rank, size = dist.get_rank(), dist.get_world_size()
x = torch.arange(100_000.0) * (rank + 1)
dist.all_reduce(x)
print("rank", rank, "of", size, "right", torch.equal(x, torch.arange(100_000.0) * (size * (size + 1) // 2)), flush=True)
dist.barrier()
"""


@pytest.mark.parametrize("n, hosts", [(2, 1), (4, 1), (2, 2), (4, 2)])
def test_processes_that_are_started_by_hand_meet_by_the_four_variables(shells, n, hosts):
    """Those of env://, and none else that a launcher sets: ranks take turns on the hosts."""
    meet = {**PACKAGE, "WORLD_SIZE": str(n), "MASTER_ADDR": "node0", "MASTER_PORT": "29512"}
    jobs = [shells[rank % hosts].start("-c", SUMS, program=TORCH_PYTHON, env={**meet, "RANK": str(rank)}) for rank in range(n)]
    results = [job.finish() for job in jobs]
    assert [(r.code, r.text) for r in results] == [(0, f"rank {rank} of {n} right True\n") for rank in range(n)], results


DIES = """
import os, signal, time
import muster.torch, torch, torch.distributed as dist
signal.signal(signal.SIGTERM, signal.SIG_IGN)
dist.init_process_group("muster")
x = torch.ones(4)
dist.all_reduce(x)
if dist.get_rank() == %d:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    dist.all_reduce(x)
except RuntimeError as error:
    os.write(1, f"told: {error}\\n".encode())  # at once: torchrun's processes share one pipe
store = dist.distributed_c10d._get_default_store()
store.add("told", 1)
ends = time.monotonic() + 3  # torch 2's torchrun may have ended one that has said it, and not counted
while store.add("told", 0) < dist.get_world_size() - 1 and time.monotonic() < ends: time.sleep(0.02)
os._exit(0)
"""


def test_without_launch_a_rank_that_dies_is_named(node0, scratch):
    (scratch / "dies.py").write_text(DIES % 2)
    result = torchrun(node0, 3, scratch / "dies.py")
    assert len(re.findall(r"told: muster: .*rank 2 has died", result.text)) == 2, result


@pytest.mark.parametrize("sender", [0, 1])
def test_without_launch_what_was_sent_comes_though_its_sender_ends(node0, scratch, sender):
    program = scratch / "sends.py"
    program.write_text(f"""
import os, time
import muster.torch, torch, torch.distributed as dist
dist.init_process_group("muster")
store = dist.distributed_c10d._get_default_store()
x = torch.arange(100.0)
if dist.get_rank() == {sender}:
    dist.isend(x, {1 - sender})
    store.set("sent by", str(os.getpid()))
else:
    process = f"/proc/{{int(store.get('sent by'))}}/exe"
    ends = time.monotonic() + 1  # it may wait for us as it ends
    while os.path.exists(process) and time.monotonic() < ends:
        time.sleep(0.01)
    y = torch.zeros(100)
    dist.recv(y, {sender})
    print("it came", torch.equal(x, y), flush=True)
""")
    result = torchrun(node0, 2, program)
    assert result.code == 0 and "it came True" in result.text, result


@pytest.mark.parametrize("end", ["dist.destroy_process_group()", "pass"], ids=["destroyed", "left"])
@pytest.mark.parametrize("hosts", [("-n", "2"), ("--hosts", "node0:1,node1:1")], ids=["one", "two"])
def test_what_nobody_holds_is_sent_though_its_group_ends(shells, scratch, hosts, end):
    """The tensor is gone but for what the group holds of it, until the last byte has left."""
    program = scratch / "sends.py"
    program.write_text(f"""
import time
import muster.torch, torch, torch.distributed as dist
dist.init_process_group("muster")
if dist.get_rank() == 0:
    for tag in range(3):
        dist.isend(torch.full((8 << 20,), 7.0 + tag), 1, tag=tag)
    {end}
else:
    time.sleep(0.5)
    for tag in range(3):
        y = torch.zeros(8 << 20)
        dist.recv(y, 0, tag=tag)
        print("it came", bool((y == 7 + tag).all()), flush=True)
""")
    result = shells[0].run(*hosts, "--no-prefix", program, env=PACKAGE)
    assert result.code == 0 and result.text.count("it came True") == 3, result


def test_a_child_by_fork_ends_nothing_of_its_parents(node0, scratch):
    program = scratch / "forks.py"
    program.write_text("""
import os
import muster.torch, torch, torch.distributed as dist
dist.init_process_group("muster")
x = torch.ones(4)
work = dist.irecv(torch.zeros(4), 1 - dist.get_rank())  # the group's thread looks at it
dist.all_reduce(x)
child = os.fork()
if child == 0:
    try:
        dist.all_reduce(x)
    except RuntimeError as why:
        assert "a child of that by fork() is no rank" in str(why), why
    else:
        raise SystemExit("a child by fork() takes part")
    dist.destroy_process_group()
    raise SystemExit(7)  # with all that a program does as it ends
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
dist.send(x, 1 - dist.get_rank())
work.wait()
print("the parent goes on", flush=True)
""")
    result = node0.run("-n", "2", "--no-prefix", program, env=PACKAGE)
    assert result.code == 0 and result.text.count("the parent goes on") == 2, result


def test_a_group_may_end_on_its_own_thread(node0, scratch):
    """Whoever hears of a call's end there has the last hold of the group."""
    program = scratch / "ends.py"
    program.write_text("""
import gc, time
import muster.torch, torch, torch.distributed as dist
dist.init_process_group("muster")
ended = []
for i in range(20):
    held = [dist.new_group([0, 1])]
    work = dist.all_reduce(torch.ones(1 << 20), group=held[0], async_op=True)
    def end(future, held=held):
        dist.destroy_process_group(held.pop())
        gc.collect()
        ended.append(i)
    future = work.get_future().then(end)
    held = work = None
    future.wait()
dist.barrier()
print("all ended", len(ended), flush=True)
""")
    result = node0.run("-n", "2", "--no-prefix", program, env=PACKAGE)
    assert result.code == 0 and result.text.count("all ended 20") == 2, result


def torchrun_on(shells, n, *program):
    """On two hosts, `n` workers each."""
    static = ["--nnodes", "2", "--nproc_per_node", n, "--master_addr", "node0", "--master_port", "29511", "--monitor_interval", "0.1"]
    return [shell.start(HERE / "torchrun.py", *static, "--node_rank", rank, *program, program=TORCH_PYTHON, env=under_torchrun())
            for rank, shell in enumerate(shells[:2])]


@pytest.mark.parametrize("n", [1, 2])
def test_without_launch_processes_of_several_hosts_meet_through_torchs_store(shells, n):
    results = [job.finish() for job in torchrun_on(shells, n, WORKERS / "torch_ops.py")]
    assert all(r.code == 0 and r.text.count("all right") == n for r in results), results


@pytest.mark.parametrize("dies", [1, 2])
def test_without_launch_a_rank_of_another_host_that_dies_is_named(shells, scratch, dies):
    (scratch / "dies.py").write_text(DIES % dies)
    jobs = torchrun_on(shells, 2, scratch / "dies.py")
    for node, job in enumerate(jobs):
        job.expect(rf"told: muster: .*rank {dies} has died", 1 if dies // 2 == node else 2)
    workers = lambda: [line for shell in shells[:2] for line in shell.host.processes().values() if line.endswith("dies.py") and "torchrun" not in line]
    wait_for(lambda: not workers(), what="all workers end")
    # torch 2's waits for minutes for one on another host that has failed.
    kill_all([pid for shell in shells[:2] for pid, line in shell.host.processes().items() if "torchrun.py" in line])
    for job in jobs:
        job.finish()
