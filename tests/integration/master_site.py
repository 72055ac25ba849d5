"""A muster-rendezvous with a journal, and a job that meets there."""

import re

from harness import BIN, sh

DAEMON = BIN / "muster-rendezvous"
SECRET = "a secret of the tests, long enough\n"
ENDPOINT = "10.77.0.1:29400"
# Counts as long as it may; each step says who counts, and when.
STEPS = """
  trap 'exit 9' TERM; n=0
  until [ -e {go} ]; do n=$((n + 1)); echo "step $n of $$ at $EPOCHREALTIME"; sleep 0.05; done"""


class Site:
    """The daemon on node0, and a job on the two others. `keep`: the daemon's words about where jobs are kept; None: in
    a folder."""

    def __init__(self, shells, folder, keep=None):
        self.shells, self.folder, self.journal, self.go = shells, folder, folder / "journal", folder / "go"
        self.keep = ["--journal", self.journal] if keep is None else keep
        self.secret = folder / "secret"
        self.secret.write_text(SECRET)
        self.secret.chmod(0o600)

    def words(self, endpoint=ENDPOINT):
        return ["--listen", endpoint, "--secret-file", self.secret, *self.keep]

    def meeting(self, endpoint=ENDPOINT, rdzv_id="job"):
        """launch's words for a job of two nodes that meet there."""
        return ["--nnodes", "2", "--rdzv-endpoint", endpoint, "--rdzv-id", rdzv_id, "--secret-file", self.secret]

    def serve(self, host=0, endpoint=ENDPOINT, env=None):
        daemon = self.shells[host].start(*self.words(endpoint), program=DAEMON, env=env)
        daemon.expect(f"listens on {endpoint}")
        return daemon

    def refused(self):
        result = self.shells[0].run(*self.words(), program=DAEMON)
        assert result.code == 1 and result.text == "", result
        return result.errors

    def job(self, script, *more, **named):
        return [self.node(i, script, *more, **named) for i in range(2)]

    def node(self, rank, script, *more, host=None, endpoint=ENDPOINT, rdzv_id="job", env=None):
        """One of the two, on the host behind the daemon's."""
        script = script.replace("{go}", str(self.go))
        shell = self.shells[rank + 1 if host is None else host]
        return shell.start(*self.meeting(endpoint, rdzv_id), "--node-rank", str(rank), *more, *sh(script), env=env)

    def file(self):
        """The journal of the only job."""
        (path,) = self.journal.glob("job-*")
        return path


def undisturbed(jobs):
    """Each has counted without a gap, in one process, and has ended well."""
    for job in jobs:
        result = job.finish()
        assert result.code == 0, result
        counted = steps(result)
        assert [n for n, _, _ in counted] == list(range(1, len(counted) + 1))
        assert len({pid for _, pid, _ in counted}) == 1


def steps(result):
    """(number, pid, time) of each step that a worker has counted."""
    return [(int(n), int(pid), float(at)) for n, pid, at in re.findall(r"step (\d+) of (\d+) at ([\d.]+)", result.text)]
