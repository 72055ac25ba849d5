"""Jobs of one torch, Debian 12's or another (MUSTER_TORCH_PYTHON, see lab/torch2): training, what --store=auto chooses,
process groups one after the other, and the environment that this torch's own torchrun makes."""

import json
import subprocess

import pytest

from harness import EXAMPLES, HERE, PATIENCE, TORCH_PYTHON, clean_env

TESTED = ("1.13.", "2.6.", "2.11.")  # agent/core/facts.cc has the table
# Differ between launchers by nature; which store, also between torchruns (1.13 keeps its own to itself on one machine).
MAY_DIFFER = {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_ERROR_FILE", "OMP_NUM_THREADS",
              "TORCHELASTIC_USE_AGENT_STORE"}


@pytest.fixture(scope="module")
def version():
    words = [TORCH_PYTHON, "-c", "import torch; print(torch.__version__)"]
    return subprocess.run(words, env=clean_env(), stdout=subprocess.PIPE, text=True, check=True, timeout=PATIENCE).stdout.strip()


@pytest.fixture(scope="module")
def lacks_libuv(version):
    """Debian's torch 2.x is no client of a store that it does not know to be without libuv."""
    return version.endswith("+debian")


@pytest.mark.parametrize("store", ["agent", "worker", "auto"])
def test_sgd(node0, lacks_libuv, store):
    result = node0.run("-n", "4", f"--store={store}", TORCH_PYTHON, EXAMPLES / "sgd.py", seconds=180)
    if lacks_libuv and store == "agent":
        assert result.code == 1 and "libuv" in result.errors, result
    else:
        assert result.code == 0 and "replicas are bit-equal" in result.text, result


def test_sgd_by_python_exec(node0):
    result = node0.run("-n", "2", EXAMPLES / "sgd.py", env={"PYTHON_EXEC": TORCH_PYTHON}, seconds=180)
    assert result.code == 0 and "replicas are bit-equal" in result.text, result


def test_auto_serves_the_store_where_this_torch_was_tested_with_it(node0, version, lacks_libuv):
    names = ("TORCHELASTIC_USE_AGENT_STORE", "USE_LIBUV")
    result = node0.run("-n", "1", TORCH_PYTHON, "-c", f"import os; print(*[os.environ.get(n) for n in {names}])")
    assert result.code == 0, result
    served = version.startswith(TESTED) and not lacks_libuv
    assert result.text.split() == [str(served), "0" if lacks_libuv and not served else "None"], (version, result)


OWN_PLACE = """
import os, torch, torch.distributed as dist
PLACE
dist.init_process_group("gloo", init_method=url, rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
t = torch.ones(1)
dist.all_reduce(t)
print("sum", t.item(), flush=True)
"""


@pytest.mark.parametrize("place", ["os.environ['MASTER_PORT'] = '29511'; url = 'env://'", "url = 'tcp://127.0.0.1:29577'"], ids=["environment", "url"])
def test_a_script_that_says_itself_where_its_ranks_meet(node0, scratch, version, lacks_libuv, place):
    """Tutorials do: rank 0 has to listen there, whoever serves the store otherwise."""
    script = scratch / "own_place.py"
    script.write_text(OWN_PLACE.replace("PLACE", place))
    result = node0.run("-n", "2", TORCH_PYTHON, script)
    assert result.code == 0 and result.text.count("sum 2.0") == 2, result
    served = version.startswith(TESTED) and not lacks_libuv
    assert ("own_place.py chooses where its ranks meet (line 3: " in result.errors) == served, result


SPAWNS = """
import os, torch, torch.distributed as dist, torch.multiprocessing as mp

def main(rank, n):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "29533"
    dist.init_process_group("gloo", rank=rank, world_size=n)
    t = torch.ones(1)
    dist.all_reduce(t)
    os.write(1, f"sum {t.item()}\\n".encode())

if __name__ == "__main__":
    mp.spawn(main, args=(2,), nprocs=2)
"""


def test_a_script_that_spawns_its_ranks(node0, scratch):
    """torch's own tutorial: one program, which is no rank of ours."""
    script = scratch / "spawns.py"
    script.write_text(SPAWNS)
    once = node0.run(TORCH_PYTHON, script)
    assert once.code == 0 and once.text.count("sum 2.0") == 2 and once.errors == "", once
    twice = node0.run("-n", "2", "--timeout", "60", TORCH_PYTHON, script, seconds=90)
    assert "spawns.py starts its ranks itself (mp.spawn), and launch starts 2 of it" in twice.errors, twice


GROUPS = """
import datetime, os, torch, torch.distributed as dist
kept = []  # see store_torch_test.py
for attempt in range(3):
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=40))
    kept.append(torch.ones(1))
    dist.all_reduce(kept[-1])
    print("sum", kept[-1].item(), flush=True)
    dist.destroy_process_group()
"""


@pytest.mark.parametrize("hosts", [("-n", "4"), ("--hosts", "node0,node1", "--nproc-per-node", "2")], ids=["one", "two"])
def test_process_groups_one_after_the_other(node0, scratch, hosts):
    (scratch / "groups.py").write_text(GROUPS)
    result = node0.run(*hosts, "--store=agent", TORCH_PYTHON, scratch / "groups.py", seconds=180)
    assert result.code == 0 and result.text.count("sum 4.0") == 12, result


DUMP = """
import json, os, sys
with open(f"{sys.argv[1]}/{os.environ['RANK']}.json", "w") as out:
    json.dump(dict(os.environ), out)
"""


def dumped(folder):
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


def test_environment_has_all_that_this_torchs_torchrun_sets(node0, scratch, version):
    (scratch / "dump.py").write_text(DUMP)
    ours, theirs = scratch / "ours", scratch / "theirs"
    ours.mkdir()
    theirs.mkdir()
    result = node0.run("-n", "2", TORCH_PYTHON, scratch / "dump.py", ours)
    assert result.code == 0, result
    torchrun = [HERE / "torchrun.py"] if version.startswith("1.") else ["-m", "torch.distributed.run"]
    job = node0.start(*torchrun, "--standalone", "--nproc_per_node", "2", scratch / "dump.py", theirs, program=TORCH_PYTHON)
    result = job.finish(120)
    assert result.code == 0, result
    inherited = set(clean_env()) | {"HOME", "_", "SHLVL", "PWD", "OLDPWD"}
    for mine, other in zip(dumped(ours), dumped(theirs)):
        by_torchrun = set(other) - inherited
        assert by_torchrun >= {"RANK", "WORLD_SIZE", "MASTER_ADDR", "TORCHELASTIC_RESTART_COUNT"}
        assert by_torchrun <= set(mine), by_torchrun - set(mine)
        differ = {k: (other[k], mine[k]) for k in by_torchrun - MAY_DIFFER if other[k] != mine[k]}
        assert not differ, differ
