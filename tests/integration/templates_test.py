"""The batch scripts of deploy/, handed in as they are, beside a train.py."""

import re

import pytest

from harness import BIN, EXAMPLES, ROOT

DEPLOY = ROOT / "deploy"
NAMES = "RANK SLURM_PROCID OMPI_COMM_WORLD_RANK PMI_RANK".split()
PLACE = f"""
import os
print("I am", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], "threads", os.environ["OMP_NUM_THREADS"], flush=True)
print("same", *sorted({{os.environ.get(name, "-") for name in {NAMES}}}), flush=True)
"""
SAVES = """
import os, signal, sys, time
path = sys.argv[sys.argv.index("--checkpoint") + 1] + os.environ["RANK"]
def save(signo, _):
    open(path, "w").write(signal.Signals(signo).name)
    print("saved", flush=True)
    if signo == signal.SIGTERM:
        sys.exit()
for signo in signal.SIGUSR1, signal.SIGTERM:
    signal.signal(signo, save)
print("up", flush=True)
time.sleep(1000)
"""


def hand_in(jobs, script, program, *options):
    """With launch on the PATH, as it is where it is installed."""
    (jobs.folder / "train.py").write_text(program)
    (jobs.folder / "path").write_text(f"PATH={BIN}:$PATH\n")
    return jobs.command(*options, DEPLOY / script)


def sbatch(slurm, script, program):
    options = ["-o", f"{slurm.folder}/%j.out", f"--export=ALL,BASH_ENV={slurm.folder}/path"]
    return hand_in(slurm, script, program, "sbatch", "--parsable", *options)


def qsub(pbs, script, program):
    python = "PYTHON_EXEC=/usr/bin/python3"
    return hand_in(pbs, script, program, "qsub", "-N", "job", "-v", f"BASH_ENV={pbs.folder}/path,{python}")


def finished(jobs, job):
    done = jobs.wait(job)
    assert done["JobState"] == "COMPLETED", (done, jobs.output(job))
    return jobs.output(job)


@pytest.mark.parametrize("script", ["slurm/torch.sbatch", "slurm/cpu.sbatch", "slurm/mpi-style.sbatch"])
def test_slurm(slurm, script):
    sgd = script == "slurm/torch.sbatch"
    text = finished(slurm, sbatch(slurm, script, (EXAMPLES / "sgd.py").read_text() if sgd else PLACE))
    if sgd:
        assert "over 8 ranks" in text and "replicas are bit-equal" in text, text
        return
    world = 32 if script == "slurm/cpu.sbatch" else 4
    ranks = {int(rank) for rank in re.findall(rf"I am (\d+) of {world} threads [1-4]$", text, re.M)}
    assert ranks == set(range(world)), text
    if world == 4:
        assert sorted(re.findall(r"same (.*)$", text, re.M)) == ["0", "1", "2", "3"], text
    else:
        assert re.search(r"^  RANK +0 ", text, re.M), text


def checkpoints(jobs):
    return [(jobs.folder / f"checkpoint{rank}").read_text() for rank in range(4)]


def test_slurm_checkpoint(slurm):
    job = sbatch(slurm, "slurm/checkpoint.sbatch", SAVES)
    slurm.expect(job, "up", 4)
    slurm.cancel(job, "-b", "-s", "USR1")  # what --signal=B:USR1 sends
    slurm.expect(job, "saved", 4)
    assert checkpoints(slurm) == ["SIGUSR1"] * 4
    slurm.cancel(job)
    slurm.wait(job)
    assert checkpoints(slurm) == ["SIGTERM"] * 4, slurm.output(job)


def test_pbs(pbs):
    text = finished(pbs, qsub(pbs, "pbs/torch.pbs", (EXAMPLES / "sgd.py").read_text()))
    assert "over 8 ranks" in text and "replicas are bit-equal" in text, text


def test_pbs_checkpoint(pbs):
    job = qsub(pbs, "pbs/checkpoint.pbs", SAVES)
    pbs.expect(job, "up", 4)
    pbs.cancel(job)
    pbs.wait(job)
    assert checkpoints(pbs) == ["SIGTERM"] * 4, pbs.output(job)
