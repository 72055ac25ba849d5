"""All processes of a job stand still for longer than its lease, and go on: so does the job."""

import os
import re
import signal
import time

import pytest

from harness import LAUNCH, by_rank

LEASE = "5s"  # Slurm stops processes 2 s after it has asked them to (SIGTSTP), which launch obeys
STANDS_S = 9  # longer than the lease and what the master waits beyond it
TICKS = 40  # of 0.1 s
WORKER = f"for i in $(seq {TICKS}); do echo $$ $i; sleep 0.1; done"
EACH = ("--lease", LEASE, "--nproc-per-node", "2", "bash", "-c", WORKER)


def check(ranks):
    """All have ended well, each in the process that it began in."""
    assert sorted(ranks) == [0, 1, 2, 3], ranks
    for rank, lines in ranks.items():
        pid = lines[0].split()[0]
        assert lines == [f"{pid} {i}" for i in range(1, TICKS + 1)], (rank, lines)


# With srun, each node's launch is a task of its own, and the first of them has the master.
HOW = {
    "exec": f"exec {LAUNCH} ",
    "srun": f"exec srun --ntasks-per-node=1 {LAUNCH} ",
}


@pytest.mark.parametrize("how", HOW)
def test_scontrol_suspend_and_resume(slurm, how):
    words = " ".join(EACH[:-1]) + f" '{WORKER}'"
    job = slurm.submit(HOW[how] + words, "-N2", "-w", "node0,node1")
    slurm.expect(job, " 3\n", 4)
    slurm.command("scontrol", "suspend", job)
    time.sleep(STANDS_S)  # it is the time that is tested
    slurm.command("scontrol", "resume", job)
    assert slurm.wait(job)["ExitCode"] == "0:0", slurm.output(job)
    found = re.findall(r"^\[(\d+)@[^]]*\] (\d+ \d+)$", slurm.output(job), re.M)
    check({int(rank): [line for of, line in found if of == rank] for rank in {rank for rank, _ in found}})


def everything(shells):
    """Of the job, on both hosts: launch first, as it is stopped first."""
    return [pid for shell in shells for pid, line in shell.host.processes().items() if "bash -c" in line or pid in shell.ours()]


@pytest.mark.parametrize("order", [1, -1], ids=["launch_first", "workers_first"])
def test_every_process_is_stopped_and_continued(shells, order):
    job = shells[0].start("--hosts", "node0,node1", *EACH)
    job.expect(" 3\n", 4)
    stopped = everything(shells[:2])[::order]
    assert len(stopped) >= 4 + 2 + 1, stopped
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(STANDS_S)
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.01)  # whoever does so on a big machine takes longer
    for pid in stopped:  # the lab's nsenter has stopped itself once more, as its child had
        if os.path.exists(f"/proc/{pid}"):
            os.kill(pid, signal.SIGCONT)
    result = job.finish()
    assert result.code == 0, result
    check({rank: [line.decode() for line in lines] for rank, lines in by_rank(result.out).items()})
