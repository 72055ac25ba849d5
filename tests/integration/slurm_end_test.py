"""How jobs of a real Slurm end, and what it sends them meanwhile."""

import pytest

from harness import HERE, LAUNCH, PATIENCE, PYTHON, wait_for

TOLD = f"{PYTHON} {HERE}/workers/told.py ."
RUN = f"{LAUNCH} --nproc-per-node 2 {TOLD}"


def told(slurm):
    """What each worker has been sent, by rank."""
    return {int(p.suffix[1:]): p.read_text().split() for p in slurm.folder.glob("told.*")}


def all_told(slurm, *signals):
    """Waits until all four workers have been sent this, and no more."""
    want = {rank: list(signals) for rank in range(4)}
    wait_for(lambda: told(slurm) == want, PATIENCE, 0.05, lambda: told(slurm))


HOW = {"steps": [], "script": ["-b"], "all": ["-f"]}


@pytest.mark.parametrize("how", HOW)
def test_a_signal_of_scancel_reaches_each_worker_once_and_the_job_goes_on(slurm, how):
    job = slurm.submit(f"exec {RUN}", "-N2")
    slurm.expect(job, "runs", 4)
    slurm.cancel(job, "-s", "USR1", *HOW[how])
    all_told(slurm, "SIGUSR1")
    slurm.cancel(job, "-s", "USR2", *HOW[how])
    all_told(slurm, "SIGUSR1", "SIGUSR2")
    slurm.cancel(job, "-s", "USR1", *HOW[how])
    all_told(slurm, "SIGUSR1", "SIGUSR2", "SIGUSR1")
    assert slurm.show(job)["JobState"] == "RUNNING"
    slurm.cancel(job)
    slurm.wait(job)
    all_told(slurm, "SIGUSR1", "SIGUSR2", "SIGUSR1", "SIGTERM", "saved")


@pytest.mark.parametrize("how", HOW)
def test_sigterm_of_scancel_stops_the_job_and_its_workers_save(slurm, how):
    job = slurm.submit(f"exec {RUN}", "-N2")
    slurm.expect(job, "runs", 4)
    slurm.cancel(job, "-s", "TERM", *HOW[how])
    assert slurm.wait(job)["ExitCode"] == "143:0"
    all_told(slurm, "SIGTERM", "saved")
    assert "stopped by the user (SIGTERM)" in slurm.output(job) and "stopping 4 workers" in slurm.output(job), slurm.output(job)
