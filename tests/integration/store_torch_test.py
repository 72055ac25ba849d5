"""The torch store of the agent against the real torch: unmodified clients, gloo, DDP."""

import signal
import subprocess
import textwrap
import threading

import pytest

from harness import BIN, PATIENCE, TORCH_PYTHON, clean_env

TOOL = BIN.parent / "tests" / "store-tool"


class Store:
    """store-tool and what it says."""

    def __init__(self, *options):
        self.process = subprocess.Popen([TOOL, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.said = []
        self.changed = threading.Condition()
        self.port = int(self.process.stdout.readline().split()[1])
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            with self.changed:
                self.said.append(line.strip())
                self.changed.notify_all()

    def wait_for(self, text):
        with self.changed:
            assert self.changed.wait_for(lambda: any(text in line for line in self.said), PATIENCE), self.said
            return next(line for line in self.said if text in line)

    def close(self):
        if self.process.stdin.closed:
            return
        self.process.stdin.close()
        assert self.process.wait(PATIENCE) == 0
        self.reader.join()
        self.process.stdout.close()


@pytest.fixture
def store_of():
    made = []

    def make(*options):
        made.append(Store(*options))
        return made[-1]

    yield make
    for store in made:
        store.close()


def start(program, port, rank, world, agent_store=True):
    env = clean_env({
        "RANK": str(rank), "WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
        "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "HOME": "/nonexistent",
    })
    if agent_store:
        env.update(TORCHELASTIC_USE_AGENT_STORE="True", TORCHELASTIC_RESTART_COUNT="0")
    head = "import os, sys, datetime, torch, torch.distributed as dist\nrank = int(os.environ['RANK'])\n"
    return subprocess.Popen([TORCH_PYTHON, "-c", head + textwrap.dedent(program)], env=env, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish(workers):
    """Outputs by rank; every worker must succeed."""
    out = []
    try:
        for rank, worker in enumerate(workers):
            text, _ = worker.communicate(timeout=PATIENCE)
            assert worker.returncode == 0, f"rank {rank}: exit {worker.returncode}\n{text}"
            out.append(text)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    return out


def run(program, port, world=4, agent_store=True):
    return finish([start(program, port, rank, world, agent_store) for rank in range(world)])


ALL_REDUCE = """
kept = []  # torch 2.6 hangs in destroy_process_group, which has the GIL, when the group's thread drops the last tensor
def all_reduce():
    t = torch.full((1000,), float(rank + 1))
    kept.append(t)
    dist.all_reduce(t)
    world = dist.get_world_size()
    assert t.eq(world * (world + 1) / 2).all(), t[0]
"""


def test_all_reduce_and_groups(store_of):
    store = store_of("--world", "4")
    run(ALL_REDUCE + """
dist.init_process_group("gloo")
all_reduce()
group = dist.new_group([1, 3])
if rank in (1, 3):
    t = torch.ones(1)
    dist.all_reduce(t, group=group)
    assert t.item() == 2
got = [None] * 4
dist.all_gather_object(got, {"rank": rank})
assert [g["rank"] for g in got] == [0, 1, 2, 3]
dist.barrier()
""", store.port)
    store.close()
    assert [line for line in store.said if not line.startswith("stopped in ")] == []


def test_a_second_and_third_process_group_in_the_same_processes(store_of):
    store = store_of("--world", "4")
    run(ALL_REDUCE + """
for attempt in range(3):
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=40))
    all_reduce()
    dist.destroy_process_group()
""", store.port)


def test_a_programs_own_connections_beside_its_process_group(store_of):
    """What one puts there the next one finds, and the group keeps its keys."""
    store = store_of("--world", "2")
    run("""
dist.init_process_group("gloo")
def side(waits):
    return dist.TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]), 2, False, datetime.timedelta(seconds=20), waits)
for turn in range(3):
    for waits in (True, False):
        if rank == turn % 2:
            store = side(waits)
            store.set(f"port{turn}{waits}", str(turn))
            store.get(f"port{turn}{waits}")  # it has arrived
            del store
        dist.barrier()
        assert side(waits).get(f"port{turn}{waits}") == str(turn).encode()
        dist.barrier()
dist.barrier(dist.new_group([0, 1]))
""", store.port, world=2)


def test_process_group_beside_rpc(store_of):
    # Two stores of one process at the same time, one after the other and not in step with other ranks.
    store = store_of("--world", "3")
    run(ALL_REDUCE + """
import torch.distributed.rpc as rpc
dist.init_process_group("gloo")
rpc.init_rpc(f"worker{rank}", rank=rank, world_size=3, rpc_backend_options=rpc.TensorPipeRpcBackendOptions(
    init_method="env://", _transports=["uv"]))
assert rpc.rpc_sync(f"worker{(rank + 1) % 3}", torch.add, args=(torch.ones(1), 1)).item() == 2
all_reduce()
rpc.shutdown()
""", store.port, world=3)


def test_data_parallel_training_keeps_replicas_equal(store_of):
    store = store_of("--world", "2")
    sums = run("""
import hashlib
dist.init_process_group("gloo")
torch.manual_seed(rank)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(20, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    optimizer.zero_grad()
    model(torch.randn(8, 20)).square().mean().backward()
    optimizer.step()
digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters()))
print("weights", digest.hexdigest())
""", store.port, world=2)
    weights = [line for text in sums for line in text.splitlines() if line.startswith("weights")]
    assert len(weights) == 2 and weights[0] == weights[1]


def test_every_call_of_the_store(store_of):
    store = store_of("--world", "2")
    run("""
store = next(dist.rendezvous("env://"))[0]
if rank == 0:
    store.set("key", b"\\0binary\\xff")
    assert store.get("key") == b"\\0binary\\xff"
    assert store.add("count", 5) == 5
    assert store.compare_set("cas", "no", "x") == b"no"
    assert store.compare_set("cas", "", "first") == b"first"
    store.set("ready", "")
    store.wait(["done"], datetime.timedelta(seconds=40))
    assert store.get("count") == b"7"
else:
    store.wait(["ready", "key"])
    assert store.add("count", 2) == 7
    assert store.compare_set("cas", "first", "second") == b"second"
    assert store.get("cas") == b"second"
    store.set("big", b"x" * (4 << 20))
    assert store.get("big") == b"x" * (4 << 20)
    keys = store.num_keys()
    assert store.delete_key("big") and not store.delete_key("big")
    assert store.num_keys() == keys - 1
    store.set("done", "")
""", store.port, world=2)


def test_a_wait_that_times_out_leaves_the_connection_usable(store_of):
    store = store_of("--world", "2")
    run("""
store = next(dist.rendezvous("env://"))[0]
if rank == 0:
    try:
        store.wait(["late"], datetime.timedelta(milliseconds=300))
        sys.exit("no time-out")
    except RuntimeError:
        pass
    store.set("timed out", "")
    store.wait(["late"], datetime.timedelta(seconds=40))
    assert store.get("late") == b"here"
    assert store.add("n", 1) == 1
else:
    store.wait(["timed out"], datetime.timedelta(seconds=40))
    store.set("late", "here")
""", store.port, world=2)


def test_says_which_rank_is_missing(store_of):
    store = store_of("--world", "4", "--progress-ms", "200")
    program = ALL_REDUCE + "dist.init_process_group('gloo')\nall_reduce()\n"
    workers = {rank: start(program, store.port, rank, 4) for rank in (0, 1, 3)}
    line = store.wait_for("missing: rank 2")
    assert line.startswith("3 of 4 workers have connected to the store (3 from 127.0.0.1) after "), line
    workers[2] = start(program, store.port, 2, 4)
    finish([workers[rank] for rank in range(4)])
    store.wait_for("all 4 workers have connected to the store")


def test_the_death_of_a_rank_does_not_harm_the_store(store_of):
    store = store_of("--world", "3")
    workers = [start("""
store = next(dist.rendezvous("env://"))[0]
store.add("alive", 1)
if rank < 2:
    store.wait(["alive"])
    print("waiting", flush=True)
    store.wait(["never"])
while store.add("alive", 0) < 3:
    pass
print("all here", flush=True)
sys.stdin.readline()
store.set("never", "but now")
assert store.get("never") == b"but now"
assert store.add("alive", 10) == 13
""", store.port, rank, 3) for rank in range(3)]
    assert workers[2].stdout.readline() == "all here\n"
    for worker in workers[:2]:
        assert worker.stdout.readline() == "waiting\n"
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        worker.stdout.close()
    workers[2].stdin.write("go\n")
    workers[2].stdin.flush()
    finish(workers[2:])


def test_a_reserved_port_is_rank_0s(store_of):
    store = store_of("--reserve")
    run(ALL_REDUCE + """
dist.init_process_group("gloo")
all_reduce()
dist.destroy_process_group()  # torch 2.11 now and then aborts as it ends without
""", store.port, agent_store=False)


def test_a_port_in_use_is_named(store_of):
    store = store_of("--world", "1")
    second = subprocess.run([TOOL, "--port", str(store.port)], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert second.returncode == 1
    assert f"*:{store.port}" in second.stderr and f"pid {store.process.pid} (" in second.stderr, second.stderr
