"""--restart=one with DistributedDataParallel: examples/ddp_elastic.py loses ranks at any time, and its losses stay."""

import re
import subprocess
from xml.etree import ElementTree

import pytest

from elastic_sgd_test import losses, workers
from harness import BIN, EXAMPLES, PATIENCE, PYTHON, ROOT, TORCH_PACKAGE, TORCH_PYTHON, WORKERS, kill_all, wait_for

PACKAGE = {"PYTHONPATH": TORCH_PACKAGE, "TORCH_DIST_INIT_BARRIER": "1"}  # the latter as torch 1.13 does in any case
STEPS = 600
VICTIMS = [1, 0]
LAYOUTS = {"one node": ("-n", "3"), "two hosts": ("--hosts", "node0:2,node1:1")}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_survivors_live_and_the_losses_are_those_of_an_undisturbed_job(shells, layout):
    program = [TORCH_PYTHON, EXAMPLES / "ddp_elastic.py", str(STEPS)]
    undisturbed = shells[0].run(*LAYOUTS[layout], "--no-prefix", *program, env=PACKAGE)
    assert undisturbed.code == 0 and len(losses(undisturbed)) == STEPS // 10, undisturbed

    job = shells[0].start(*LAYOUTS[layout], "--no-prefix", "--restart=one", "--max-restarts", len(VICTIMS), *program, env=PACKAGE)
    for kill, victim in enumerate(VICTIMS):
        job.expect(rf"step {(kill + 1) * STEPS // 10 // 4 * 10}: loss")
        found = wait_for(lambda: workers(shells, program), PATIENCE, what=lambda: f"rank {victim}: {job._so_far()}")
        kill_all([found[victim]])
        others = {rank: pid for rank, pid in found.items() if rank != victim}
        anew = wait_for(lambda: (now := workers(shells, program)).get(victim) and now, PATIENCE, what=lambda: f"rank {victim} anew: {job._so_far()}")
        assert {rank: anew[rank] for rank in others} == others, "survivors keep their processes"
    result = job.finish(PATIENCE)
    assert result.code == 0, result
    assert losses(result) == losses(undisturbed), result
    bits = re.findall(r"^done: (\w+)", result.text + undisturbed.text, re.M)
    assert len(bits) == 6 and len(set(bits)) == 1, bits


def test_the_recording_of_the_guide_can_be_made(tmp_path):
    recorded = tmp_path / "ddp_elastic.svg"
    made = subprocess.run([PYTHON, ROOT / "tests/bench/recording.py", recorded, BIN / "launch"], capture_output=True, text=True, timeout=2 * PATIENCE)
    assert made.returncode == 0, made
    for svg in (recorded, ROOT / "tests/bench/ddp_elastic.svg"):
        lines = [text.text for text in ElementTree.parse(svg).iter("{http://www.w3.org/2000/svg}text")]
        killed = next(i for i, line in enumerate(lines) if line.startswith("$ kill -9"))
        assert "rank 2" in lines[killed + 1] and "replaced: restart 1 of 10" in lines[killed + 1], lines
        assert len({line.split("done:")[1] for line in lines if "done:" in line}) == 1, lines


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("where", ["card", "barrier", "group"])
def test_a_death_while_ranks_meet_is_no_wait_for_the_stores_timeout(shells, scratch, layout, where):
    result = shells[0].run(*LAYOUTS[layout], "--no-prefix", "--restart=one", "--max-restarts", 1, TORCH_PYTHON, WORKERS / "elastic_dies.py", where, scratch / "once", env=PACKAGE)
    assert result.code == 0 and result.text.count("done") == 3 and result.text.count("dies") == 1, result


RAISES = """
import os, sys
import muster.torch, torch, torch.distributed as dist
elastic = muster.torch.ElasticGroup(torch.nn.Linear(2, 1))
def train():
    for step in elastic.steps(6):
        dist.all_reduce(torch.ones(4))
        if step == 3 and dist.get_rank() == 1 and os.environ.get("MUSTER_REPLACEMENT") != "1":
            {how}
print("begins", os.environ["RANK"], os.getpid(), flush=True)
elastic.run(train)
print("done", os.environ["RANK"], os.getpid(), flush=True)
"""


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("how", ["raise ValueError('bug')", "raise RuntimeError('bug')", "sys.exit(3)", "os._exit(3)"])
def test_survivors_live_however_a_rank_ends(shells, scratch, layout, how):
    """Python destroys torch's groups in good order while it ends, whatever the reason."""
    (scratch / "raises.py").write_text(RAISES.format(how=how))
    result = shells[0].run(*LAYOUTS[layout], "--no-prefix", "--restart=one", "--max-restarts", 1, TORCH_PYTHON, scratch / "raises.py", env=PACKAGE)
    begun, done = (dict(re.findall(rf"{word} (\d) (\d+)", result.text)) for word in ("begins", "done"))
    assert result.code == 0 and result.text.count("begins") == 4 and done == begun, result
