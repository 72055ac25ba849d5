"""The scenes of matrix_test.py: a job is brought to a phase, struck there, healed, and let go to its end."""

import os
import re
import signal
from collections import Counter

from harness import PATIENCE, kill_all, sh, wait_for
from master_site import Site

# Workers make steps until they may go. Told to stop, they hold until they may; the last one fails when it should.
SCRIPT = """
told() { echo told; until [ -e {folder}/stopped ]; do sleep 0.05; done; exit 9; }
trap told TERM
echo "rank $RANK of $WORLD_SIZE, restarts $TORCHELASTIC_RESTART_COUNT"
until [ -e {folder}/go ]; do
  [ $RANK.$TORCHELASTIC_RESTART_COUNT != $((WORLD_SIZE - 1)).0 ] || [ ! -e {folder}/fail ] || exit 3
  echo step; sleep 0.05
done""".strip()
# Nobody is killed because a test lets it hold.
OPTIONS = ("--nproc-per-node", "1", "--max-restarts", "1", "--restart-grace", "100", "--grace", "100")
A_WHILE = 60  # steps: a good deal longer than a closed connection is waited for


class Scene:
    """What the two kinds have in common: `jobs` are the launches, whose output shows the workers."""

    def __init__(self, shells, folder):
        self.shells, self.folder, self.jobs = shells, folder, []
        self.script = SCRIPT.replace("{folder}", str(folder))

    def close(self):
        """Whatever has become of the test."""
        for shell in self.shells:
            if not (shell.host.dir / "pid").exists():
                shell.host.boot()
            shell.host.heal()
            shell.host.thaw()

    def let(self, name):
        (self.folder / name).touch()

    def count(self, text):
        return sum(job.out.data.decode().count(text) for job in self.jobs)

    def expect(self, text, count):
        wait_for(lambda: self.count(text) >= count, PATIENCE, what=lambda: f"{count} x {text!r}: {self.said()}")

    def said(self):
        return [job._so_far() for job in self.jobs]

    def rounds(self):
        """(world, restarts) as often as a worker has begun in such a round."""
        found = [re.findall(r"rank \d of (\d), restarts (\d)", job.out.data.decode()) for job in self.jobs]
        return Counter((int(world), int(restarts)) for one in found for world, restarts in one)

    def one_runs(self, rounds):
        runs = lambda: any(self.rounds()[one] >= one[0] for one in rounds)
        wait_for(runs, PATIENCE, what=lambda: f"one of the rounds {rounds}: {self.said()}")

    def reach(self, phase):
        if phase in ("before join", "running"):
            self.let("stopped")
        if phase == "before join":
            return self.first_comes()
        self.begin()
        self.one_runs([(self.world, 0)])
        if phase == "between rounds":
            self.let("fail")
            self.expect("told", self.world - 1)
        elif phase == "stopping":
            self.jobs[0].signal(signal.SIGTERM)
            self.expect("told", self.world)
        return None

    def go_on(self, phase):
        """What makes the next phase come, while the fault lasts."""
        if phase == "before join":
            self.others_come()
        elif phase != "running":
            self.let("stopped")

    def endure(self, until):
        """Until the fault has had its effect: some steps later, or no worker is left where it struck, or launch says so."""
        if until == "steps":
            self.expect("step", self.count("step") + A_WHILE)
        elif until == "gone":
            wait_for(lambda: not self.workers(1, 2), PATIENCE, what=lambda: f"workers end: {self.said()}")
        elif until:
            self.jobs[0].expect(until, stream="err")

    def finish(self):
        return [job.finish() for job in self.jobs]

    def workers(self, *where):
        return [pid for i in where for pid in self.shells[i].called(" ".join(sh(self.script)))]


class Launched(Scene):
    """Three hosts, two of which are enough, started and served by launch on the first; node1 is the one that is struck."""

    world = 3

    def begin(self):
        self.jobs = [self.shells[0].start("--hosts", "node0,node1,node2", "--nnodes", "2:3", "--rdzv-conf", "last_call_timeout=3", *OPTIONS, *sh(self.script))]

    def first_comes(self):
        self.shells[2].host.freeze()
        self.begin()
        wait_for(lambda: len(self.shells[1].acting()) == 2, PATIENCE, what="an agent on node1")

    def others_come(self):
        self.shells[2].host.thaw()

    def victims(self, target):
        return {"worker": lambda: self.workers(1), "agent": lambda: list(self.shells[1].ours()), "launch": lambda: [self.jobs[0].pid]}[target]()

    def strike(self, target, fault):
        host = self.shells[0 if target == "launch" else 1].host
        if fault.startswith("cut"):
            host.cut(fault.removeprefix("cut "))
        elif target == "node":
            {"kill -9": host.kill, "freeze": host.freeze}[fault]()
        elif fault == "kill -9":
            kill_all(self.victims(target))
        else:
            self.frozen = self.victims(target)
            self.send(target, signal.SIGSTOP)

    def send(self, target, signo):
        if target == "launch":
            return self.jobs[0].signal(signo)
        for pid in self.frozen:
            os.kill(pid, signo)

    def heal(self, target, fault):
        host = self.shells[0 if target == "launch" else 1].host
        if fault.startswith("cut"):
            host.heal()
        elif target == "node":
            {"kill -9": host.boot, "freeze": host.thaw}[fault]()
        elif fault == "freeze":
            self.send(target, signal.SIGCONT)


class Served(Scene):
    """Two hosts that meet at a daemon with a journal on a third, which is the one that is struck."""

    world = 2

    def __init__(self, shells, folder):
        super().__init__(shells, folder)
        self.site = Site(shells, folder)
        self.bash(f"mkdir {self.site.journal} && mount -t tmpfs -o size=256k,mode=700 none {self.site.journal}")
        self.daemon = self.site.serve()

    def bash(self, script):
        return self.shells[0].host.check(["bash", "-c", script])

    def close(self):
        super().close()
        self.bash(f"umount --lazy {self.site.journal}")

    def begin(self):
        self.first_comes()
        self.others_come()

    def first_comes(self):
        self.jobs.append(self.site.node(0, self.script, *OPTIONS))
        self.jobs[0].expect("waiting for 1 of 2 nodes", stream="err")

    def others_come(self):
        self.jobs.append(self.site.node(1, self.script, *OPTIONS))

    def strike(self, _, fault):
        if fault.startswith("cut"):
            self.shells[0].host.cut(fault.removeprefix("cut "))
        elif fault == "disk full":
            self.bash(f"head -c 9M /dev/zero > {self.site.journal}/filler || true")
        else:
            self.daemon.signal(signal.SIGKILL if fault == "kill -9" else signal.SIGSTOP)

    def cannot_survive(self):
        """How often it was said."""
        sentence = "this job can no longer survive a master restart"
        self.daemon.expect(sentence, stream="err")
        return self.daemon.err.data.decode().count(sentence)

    def finish(self):
        ends = super().finish()
        self.daemon.expect("job job ended with", stream="err")
        return ends

    def heal(self, _, fault):
        if fault.startswith("cut"):
            self.shells[0].host.heal()
        elif fault == "freeze":
            self.daemon.signal(signal.SIGCONT)
        elif fault == "kill -9":
            self.daemon.finish()
            self.daemon = self.site.serve()
