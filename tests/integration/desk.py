"""A user who starts detached jobs, with a folder for jobs that no other test sees."""

import json
import re

from harness import wait_for


class Desk:
    """Such a user, at a host."""

    def __init__(self, shell, folder):
        self.shell, self.folder = shell, folder
        self.env = {"XDG_RUNTIME_DIR": str(folder)}

    def run(self, *args, **kw):
        return self.shell.run(*args, env={**self.env, **kw.pop("env", {})}, **kw)

    def start(self, *args, **kw):
        return self.shell.start(*args, env=self.env, **kw)

    def detach(self, *args):
        result = self.run("--detach", *args)
        match = re.fullmatch(r"(job-[0-9a-f]{8}) runs \d+ workers? on \d+ nodes?; see it: \S+ attach \1; stop it: \S+ stop \1\n", result.text)
        assert result.code == 0 and match, result
        return match[1]

    def jobs(self):
        """{id: record} as `launch ps` has them."""
        result = self.run("ps", "-a", "--json")
        assert result.code == 0, result
        return {job["id"]: job for job in json.loads(result.text)}

    def ended(self, job):
        """The record once the job runs no more."""
        states = ("ended", "lost")
        return wait_for(lambda: (r := self.jobs().get(job)) and r["state"] in states and r, 60, step=0.1, what=f"{job} ends")

    def outer_pid(self, inner):
        """A pid of the host's, as seen from here."""
        for pid in self.shell.host.processes():
            with open(f"/proc/{pid}/status") as f:
                line = next(l for l in f if l.startswith("NSpid:"))
            if line.split()[-1] == str(inner):
                return pid
        raise AssertionError(f"no process {inner}")
