"""--restart=one with DistributedDataParallel: examples/ddp_elastic.py loses ranks at any time, and its losses stay."""

import re

import pytest

from elastic_sgd_test import losses, workers
from harness import BIN, EXAMPLES, PATIENCE, PYTHON, kill_all, wait_for

PACKAGE = {"PYTHONPATH": str(BIN.parent / "python")}
STEPS = 450
VICTIMS = [1, 0]
LAYOUTS = {"one node": ("-n", "3"), "two hosts": ("--hosts", "node0:2,node1:1")}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_survivors_live_and_the_losses_are_those_of_an_undisturbed_job(shells, layout):
    program = [PYTHON, EXAMPLES / "ddp_elastic.py", str(STEPS)]
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
