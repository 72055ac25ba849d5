"""Slurm, and the PBS look-alike, as a user has them: jobs are handed in on node0, and end with the test."""

import json
import subprocess

from harness import PATIENCE, PYTHON, Shell, clean_env, leave_nothing, wait_for

FINAL = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "OUT_OF_MEMORY")
# Writes a process's environment to a file: srun mixes the lines of tasks where they are longer than 1 KiB.
ENV = "import json, os; json.dump(dict(os.environ), open(os.environ.get('PBS_O_WORKDIR', '.') + '/' + f'{os.urandom(8).hex()}.env', 'w'))"
SHOW = f'{PYTHON} -c "{ENV}"'


def environments(jobs):
    """Of the processes that ran SHOW in this test, by rank; a script comes before its step's tasks."""
    found = [json.loads(path.read_text()) for path in jobs.folder.glob("*.env")]
    return sorted(found, key=lambda e: (e.get("SLURM_STEP_ID", ""), int(e.get("SLURM_PROCID", 0))))


def has(env, **want):
    assert {k: env.get(k) for k in want} == want


class Slurm:
    """Jobs on `lab` (with batch="slurm"), whose output goes to `folder`, which all hosts see."""

    LOOKS_EVERY_S = 0.25

    def __init__(self, lab, folder):
        self.lab, self.folder = lab, folder
        self.shells = [Shell(host) for host in lab]

    def command(self, *argv, text=None, code=0):
        """What a command of the batch system prints on node0; AssertionError where it ends otherwise than expected."""
        stdin = {"stdin": subprocess.DEVNULL} if text is None else {"input": text.encode(), "stdin": None}
        done = self.lab[0].run(argv, cwd=self.folder, env=self.env(), timeout=PATIENCE, **stdin)
        assert done.returncode == code, (argv, done)
        return done.stdout.decode().strip()

    def env(self):
        return clean_env()

    def submit(self, script, *options):
        """The id of a job that runs this bash script; its output and errors go to one file, see output()."""
        out = ["-o", f"{self.folder}/%j.out", "--open-mode=append"]
        return self.command("sbatch", "--parsable", *out, *options, text=f"#!/bin/bash\n{script}\n")

    def output(self, job):
        path = self.folder / f"{job}.out"
        return path.read_text(errors="replace") if path.exists() else ""

    def expect(self, job, text, count=1):
        """Waits until the job has printed `text` that often."""
        wait_for(lambda: self.output(job).count(text) >= count, PATIENCE, 0.05, lambda: f"{text!r}: {self.output(job)}")

    def show(self, job):
        """Slurm's fields of a job."""
        return dict(f.split("=", 1) for f in self.command("scontrol", "-o", "show", "job", job).split(" ") if "=" in f)

    def wait(self, job, *states):
        """The fields of the job once it is in one of `states` (by default: at its end)."""
        seen = {}

        def there():
            seen.update(self.show(job))
            return seen["JobState"] in (states or FINAL)

        wait_for(there, PATIENCE, self.LOOKS_EVERY_S, lambda: f"job {job} {states or 'ends'}: {seen}, {self.output(job)}")
        return seen

    def run(self, script, *options):
        """The whole output of a job that ends well."""
        job = self.submit(script, *options)
        done = self.wait(job)
        assert done["JobState"] == "COMPLETED", (done, self.output(job))
        return self.output(job)

    def alloc(self, script, *options):
        """The harness.Result of a bash script in an allocation, which comes sooner than a job does."""
        return self.start("salloc", "-Q", *options, "bash", "-c", script).finish()

    def start(self, *argv, **kw):
        """A command (srun, salloc, launch) of node0 under way: a harness.Job."""
        kw.setdefault("cwd", self.folder)
        return self.shells[0].start(*argv[1:], program=argv[0], **kw)

    def cancel(self, job, *options):
        self.command("scancel", *options, job)

    def close(self):
        for shell in self.shells:
            shell.abandon()
        for job in self.command("squeue", "-h", "-o", "%A").split():
            # At once, and none is asked twice: one that ended meanwhile is an error to scancel.
            for how in ([], ["-f", "-s", "KILL"]):
                self.lab[0].run(["scancel", *how, job], env=self.env())
        leave_nothing(self.lab, self.shells)


class Pbs(Slurm):
    """The same by qsub and qdel, on a lab with batch="pbs"; ids have the server's name in them."""

    LOOKS_EVERY_S = 0.6  # qstat is a program in Python

    def env(self):
        env = clean_env()
        return {**env, "PATH": f"{self.lab.state}/pbs/bin:{env['PATH']}"}

    def submit(self, script, *options):
        return self.command("qsub", "-N", "job", "-j", "oe", *options, text=script)

    def output(self, job):
        path = self.folder / f"job.o{job.partition('.')[0]}"
        return path.read_text(errors="replace") if path.exists() else ""

    def show(self, job):
        """Slurm's words for the state, PBS's for the rest."""
        has = dict(f.strip().split(" = ") for f in self.command("qstat", "-x", "-f", job).splitlines() if " = " in f)
        ended = "COMPLETED" if has.get("Exit_status") == "0" else "FAILED"
        return {**has, "JobState": {"Q": "PENDING", "R": "RUNNING", "E": "COMPLETING"}.get(has["job_state"], ended)}

    def start(self, *argv, **kw):
        return super().start(*argv, **{"env": self.env(), **kw})

    def cancel(self, job, *options):
        self.command("qdel", job)
