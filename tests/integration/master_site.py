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
    """The daemon on node0, and a job on the two others."""

    def __init__(self, shells, folder):
        self.shells, self.folder, self.journal, self.go = shells, folder, folder / "journal", folder / "go"
        self.secret = folder / "secret"
        self.secret.write_text(SECRET)
        self.secret.chmod(0o600)

    def words(self):
        return ["--listen", ENDPOINT, "--secret-file", self.secret, "--journal", self.journal]

    def serve(self):
        daemon = self.shells[0].start(*self.words(), program=DAEMON)
        daemon.expect(f"listens on {ENDPOINT}")
        return daemon

    def refused(self):
        result = self.shells[0].run(*self.words(), program=DAEMON)
        assert result.code == 1 and result.text == "", result
        return result.errors

    def job(self, script, *more):
        return [self.node(i, script.replace("{go}", str(self.go)), *more) for i in range(2)]

    def node(self, rank, script, *more):
        """One of the two, on the host behind the daemon's."""
        words = ["--nnodes", "2", "--rdzv-endpoint", ENDPOINT, "--rdzv-id", "job", "--secret-file", self.secret]
        return self.shells[rank + 1].start(*words, "--node-rank", str(rank), *more, *sh(script))

    def file(self):
        """The journal of the only job."""
        (path,) = self.journal.glob("job-*")
        return path


def steps(result):
    """(number, pid, time) of each step that a worker has counted."""
    return [(int(n), int(pid), float(at)) for n, pid, at in re.findall(r"step (\d+) of (\d+) at ([\d.]+)", result.text)]
