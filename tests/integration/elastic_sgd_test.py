"""--restart=one with libmuster: examples/elastic_sgd loses ranks at any time, and its loss lines keep their bits.

With MUSTER_LONG=1 each job loses 50 ranks, rank 0 and those in the middle of a call among them."""

import itertools
import os
import random
from pathlib import Path

import pytest

from harness import BIN, EXAMPLES, PATIENCE, PYTHON, kill_all, wait_for

KILLS = 50 if os.environ.get("MUSTER_LONG") == "1" else 5
STEPS_EACH = {"C++": 8000, "Python": 3000}  # a second, about: time for a kill and what follows it, on a busy machine
LINES_EACH = (50, 250)  # that a job says before it loses another rank: it has recovered by then
ALL_STEPS = 4 * PATIENCE * max(1, KILLS // 5)  # seconds for a whole job
LAYOUTS = {"one node": ("-n", "4"), "two nodes": ("--standalone", "--nnodes", "2", "-n", "4"), "two hosts": ("--hosts", "node0:2,node1:2")}
PROGRAMS = {"C++": [BIN.parent / "examples/elastic_sgd"], "Python": [PYTHON, EXAMPLES / "elastic_sgd.py"]}


def rank_of(pid):
    """Of a worker that has begun; None: of anything else."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    ranks = [int(one.partition(b"=")[2]) for one in variables if one.startswith(b"MUSTER_RANK=")]
    return ranks[0] if ranks else None


def workers(shells, program):
    """{rank: pid} of those that live."""
    word = " ".join(str(part) for part in program[-2:])  # another system's python3 has another name in here
    found = (pid for shell in shells[:2] for pid, line in shell.host.processes().items() if line.endswith(word))
    return {rank: pid for pid in found if (rank := rank_of(pid)) is not None}


def losses(result):
    """The lines of a job; one may come twice, where rank 0 died as it said it."""
    return [line for line, _ in itertools.groupby(result.text.splitlines()) if line.startswith("step ")]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_losses_keep_their_bits_whoever_is_killed(shells, layout, program):
    steps = STEPS_EACH[program] * (KILLS + 2)
    words = [*PROGRAMS[program], str(steps)]
    env = {"PYTHONPATH": str(BIN.parent / "python")}
    undisturbed = shells[0].run(*LAYOUTS[layout], "--no-prefix", *words, env=env, seconds=ALL_STEPS)
    assert undisturbed.code == 0 and len(losses(undisturbed)) == steps // 10, undisturbed

    chance = random.Random(f"{layout} {program}")
    job = shells[0].start(*LAYOUTS[layout], "--no-prefix", "--restart=one", "--max-restarts", KILLS, *words, env=env)
    killed = None
    for kill in range(KILLS):
        enough = job.out.data.count(b"step ") + chance.randrange(*LINES_EACH)
        victim = chance.randrange(4) if kill else 0
        ready = lambda: job.out.data.count(b"step ") >= enough and workers(shells, words).get(victim) not in (None, killed)
        wait_for(lambda: ready() or job.proc.poll() is not None, PATIENCE, what=lambda: f"kill {kill + 1}: {job._so_far()}")
        assert job.proc.poll() is None, f"the job was over before kill {kill + 1} of {KILLS}: {job._so_far()}"
        killed = workers(shells, words)[victim]
        kill_all([killed])
    result = job.finish(ALL_STEPS)
    assert result.code == 0, result
    assert losses(result) == losses(undisturbed), result
