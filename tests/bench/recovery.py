#!/usr/bin/python3
"""What a job on emulated hosts takes to run again after a loss: until the others are told, and until the last worker of
the next round is exec'ed. Needs root.

worker  kill -9 of one of 2 x 2 workers; theirs end as soon as they are told
one     the same with --restart=one and the SDK (in Python): until all are in the first sum with the replacement
agent   kill -9 of an agent (with its shepherd) of three nodes, --nnodes 1:3: the two others go on after 250 ms in which
        it might have come back
back    the same of two nodes that are both needed: the agent is started again over ssh
cable   nothing goes to or from the third node, --nnodes 1:3: its lease ends first; `again` counts from when it is lost
master  kill -9 of a muster-rendezvous with a journal, and the next one at once: until all agents are back after it
        listens, and the longest step of a worker meanwhile (which sleeps for 50 ms)
etcd    kill -9 of the muster-rendezvous that leads, of two that share an etcd of three members: until the other one leads,
        which the etcd lease of 5 s holds up, and until all agents are back with it after that

Limits hold for the medians; with --smoke, twice them, and without cable and etcd, which take a lease's time.
"""

import statistics
import sys
import time
from pathlib import Path
from typing import Callable, NamedTuple

from pairs import LIMIT, ROOT, Bench

sys.path.insert(0, str(ROOT / "tests/integration"))
from harness import BIN, PYTHON, Lab, Shell, kill_all, leave_nothing, sh  # noqa: E402
from etcd_site import Masters  # noqa: E402
from master_site import STEPS, Site, steps  # noqa: E402

# Each worker says when it is there and when it is told to stop, by the clock that all hosts share.
WORKER = 'trap \'echo "told $EPOCHREALTIME"; exit\' TERM; echo "world $WORLD_SIZE at $EPOCHREALTIME"; sleep 1091 & wait'
CABLE_LOST_MS = 5000 + 2000 + 1000  # the lease, the master's slack, a beat


class Loss(NamedTuple):
    """A job of `world` workers, what befalls the second node, and how many are then told, and run in the end."""

    words: list[str]
    world: int
    happens: Callable
    told: int
    after: int
    program: list[str] = sh(WORKER)


def kill_worker(shell):
    kill_all((shell.called(" ".join(sh(WORKER))) + shell.called(" ".join(map(str, SUMS))))[:1])


def kill_agent(shell):
    kill_all(shell.acting())


def cut(shell):
    shell.host.cut()


SUMS = [PYTHON, "-u", ROOT / "tests/integration/workers/reforms.py"]
ALL, TWO = ["--hosts", "node0,node1,node2", "--nnodes", "1:3"], ["--hosts", "node0,node1", "--max-restarts", "1"]
LOSSES = {
    "worker": Loss([*TWO, "--nproc-per-node", "2"], 4, kill_worker, told=3, after=4),
    "one": Loss([*TWO, "--restart=one", "--nproc-per-node", "2"], 4, kill_worker, told=3, after=4, program=SUMS),
    "agent": Loss([*ALL, "--nproc-per-node", "1"], 3, kill_agent, told=2, after=2),
    "back": Loss([*TWO, "--nproc-per-node", "1"], 2, kill_agent, told=1, after=2),
    "cable": Loss([*ALL, "--nproc-per-node", "1"], 3, cut, told=2, after=2),
}
# Milliseconds; `told` of an agent includes the 250 that it has to come back.
LIMITS = {
    "worker": {"told": 100, "again": 250}, "one": {"told": 100, "again": 300}, "agent": {"told": 350, "again": 500},
    "cable": {"told": CABLE_LOST_MS, "again": 500}, "master": {"attached": 1000, "step": 150},
    "etcd": {"leads": 10000, "step": 150},
}  # fmt: skip


def last_ms(since, seen):
    return 1e3 * (max(map(float, seen)) - since)


def recover(name, shells):
    loss = LOSSES[name]
    job = shells[0].start(*loss.words, *loss.program, env={"PYTHONPATH": str(BIN.parent / "python")})
    job.expect(f"world {loss.world} at", loss.world)
    since = time.time()
    loss.happens(shells[1])
    told = last_ms(since, job.expect(r"told (\d+\.\d+)", loss.told))
    # Of as many as before, those that have begun now are the later ones.
    began = job.expect(rf"world {loss.after} at (\d+\.\d+)", loss.after + (loss.world if loss.world == loss.after else 0))
    again = last_ms(since, began) - (told if name == "cable" else 0)
    shells[1].host.heal()
    job.signal(15)  # a shell with job control off leaves us without SIGINT
    job.finish()
    return {"told": told, "again": again}


def replace_master(shells, folder):
    site = Site(shells, folder)
    daemon = site.serve()
    both = count_a_little(site)
    daemon.signal(9)
    daemon.finish()
    return agents_are_back(site, both, site.serve())


def take_over(shells, folder):
    site = Masters(shells, folder)
    leads, waits = site.pair()
    both = count_a_little(site)
    killed = time.time()
    leads.signal(9)
    waits.expect("leads, in epoch .*; 1 job goes on from etcd", stream="err")
    taken = last_ms(killed, [time.time()])
    leads.finish()
    return {"leads": taken, **agents_are_back(site, both, waits)}


def count_a_little(site):
    both = site.job(STEPS)
    for job in both:
        job.expect("step 5 ")
    return both


def agents_are_back(site, both, daemon):
    """With `daemon`, from now on; then the job and the daemon are ended."""
    since = time.time()
    daemon.expect("are back", stream="err")
    attached = last_ms(since, [time.time()])
    site.go.touch()
    at = [[time for _, _, time in steps(job.finish())] for job in both]
    daemon.signal(15)
    daemon.finish()
    return {"attached": attached, "step": 1e3 * max(b - a for times in at for a, b in zip(times, times[1:]))}


MASTERS = {"master": replace_master, "etcd": take_over}


def measure(name, lab, turn):
    shells = [Shell(host) for host in lab]
    if name in LOSSES:
        found = recover(name, shells)
    else:
        folder = lab.state / f"{name}{turn}"
        folder.mkdir(parents=True)
        found = MASTERS[name](shells, folder)
    leave_nothing(lab, shells)
    return found


def main():
    bench = Bench("recovery", "ms")
    faults = []
    with Lab(3) as lab:
        for name in (*LOSSES, *MASTERS):
            if not bench.wants(name) or (bench.smoke and name in ("cable", "etcd")):
                continue
            turns = bench.options.repeat or (1 if bench.smoke else 20)
            runs = [measure(name, lab, turn) for turn in range(turns)]
            bench.values(name, runs, units={})
            for what, limit in LIMITS.get(name, {}).items():
                median = statistics.median(run[what] for run in runs)
                if median > limit * (LIMIT if bench.smoke else 1):
                    faults.append(f"{name} {what}: {median:.0f} ms; the limit is {limit}")
    bench.finish(faults)


if __name__ == "__main__":
    main()
