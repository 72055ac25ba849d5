"""Runs `launch` in an emulated host as a user would, and looks at it from outside."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "lab"))
from lab import Host, Lab, cmdline, is_alive, kill_all, open_files, parent_of, stat_of, wait_for  # noqa: E402,F401

ROOT = HERE.parent.parent
WORKERS = HERE / "workers"
EXAMPLES = ROOT / "examples"
PYTHON = "/usr/bin/python3"  # Debian's torch belongs to it
TORCH_PYTHON = os.environ.get("MUSTER_TORCH_PYTHON", PYTHON)  # where a test is about torch; lab/torch2 makes others
BIN = Path(os.environ.get("MUSTER_BIN", ROOT / "build/release/bin"))
LAUNCH = BIN / "launch"
TORCH_PACKAGE = os.environ.get("MUSTER_TORCH_PACKAGE", str(BIN.parent / "python"))  # for it; lab/torch_backend makes others
# Deadlines are for a loaded machine of two cores; a green run needs a fraction of them.
PATIENCE = float(os.environ.get("MUSTER_PATIENCE", "60"))

# Words for Python: what follows runs as the child of a parent that has these signals blocked.
DEAF = ("-c", "import os, signal as s, sys; s.pthread_sigmask(s.SIG_BLOCK, {s.SIGTERM, s.SIGINT, s.SIGHUP, s.SIGCHLD}); os.execv(sys.argv[1], sys.argv[1:])")

ANOTHER_PRESS = 0.2  # of Ctrl-C: two within 0.1 s are one that came twice

# What must not leak from the machine that tests into the jobs.
CLEAN = re.compile(r"^(RANK|WORLD_SIZE|LOCAL_|MASTER_|GROUP_|ROLE_|TORCHELASTIC|PET_|PMI|OMPI|SLURM|KUBERNETES_|MUSTER_|OMP_|PYENV|PYTHONUNBUFFERED)")


def clean_env(extra=None):
    env = {k: v for k, v in os.environ.items() if k != "HOME" and not CLEAN.match(k)}
    env["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    env["PYTHON_EXEC"] = PYTHON
    env.update(extra or {})
    return env


def name_of(pid):
    """"" for a process that has just gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


class Stream:
    """Collects a pipe's bytes as they come."""

    def __init__(self, pipe):
        self._pieces, self._joined, self.pipe = [], b"", pipe
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        while piece := os.read(self.pipe.fileno(), 1 << 20):
            self._pieces.append(piece)

    @property
    def data(self):
        """All bytes so far; joined here and not as they come, which would take the square of the time."""
        if count := len(self._pieces):
            self._joined = b"".join([self._joined, *self._pieces[:count]])
            del self._pieces[:count]
        return self._joined


class Result:
    def __init__(self, code, out, err, seconds):
        self.code, self.out, self.err, self.seconds = code, out, err, seconds

    @property
    def text(self):
        return self.out.decode(errors="replace")

    @property
    def errors(self):
        return self.err.decode(errors="replace")

    def __repr__(self):
        return f"exit {self.code} after {self.seconds:.2f} s\n--- stdout\n{self.text[-4000:]}\n--- stderr\n{self.errors[-4000:]}"


class Job:
    """A command under way in `host`; its output is read all the time."""

    def __init__(self, host, argv, env=None, cwd=None, stdin=subprocess.DEVNULL, read=True, stdout=subprocess.PIPE):
        self.host, self.argv, self.began = host, [str(a) for a in argv], time.monotonic()
        # nsenter forks into the PID namespace; a session of its own keeps the tests' terminal out of it.
        self.proc = host.popen(
            self.argv, cwd=cwd or ROOT, env=clean_env(env), stdin=stdin,
            stdout=stdout, stderr=subprocess.PIPE, start_new_session=True,
        )
        self.out = Stream(self.proc.stdout) if read and stdout == subprocess.PIPE else None
        self.err = Stream(self.proc.stderr)

    @property
    def pid(self):
        """The command's pid, seen from here; ProcessLookupError when it has ended."""
        children = Path(f"/proc/{self.proc.pid}/task/{self.proc.pid}/children")
        ended = lambda: self.proc.poll() is not None
        found = wait_for(lambda: ended() or children.read_text().split(), PATIENCE, what="nsenter starts the command")
        if found is True:
            raise ProcessLookupError(f"{self.argv} has ended: {self._so_far()}")
        return int(found[0])

    def signal(self, signo):
        os.kill(self.pid, signo)
        if signo == signal.SIGCONT and self.proc.poll() is None:
            os.kill(self.proc.pid, signo)  # the lab's nsenter stops with its child

    def end(self):
        """SIGTERM, where it has not ended by itself before."""
        try:
            self.signal(signal.SIGTERM)
        except ProcessLookupError:
            pass
        return self.finish()

    def expect(self, pattern, count=1, seconds=PATIENCE, stream="out"):
        """Waits until `pattern` was printed `count` times; the matches."""
        data = getattr(self, stream)
        found = lambda: re.findall(pattern.encode(), data.data)
        ready = lambda: len(found()) >= count or self.proc.poll() is not None
        wait_for(ready, seconds, what=lambda: f"{count} x {pattern!r} of {self.argv}: {self._so_far()}")
        if len(found()) < count:
            self._join()
        assert len(found()) >= count, f"{count} x {pattern!r} of {self.argv}: {self._so_far()}"
        return [m.decode(errors="replace") if isinstance(m, bytes) else tuple(p.decode() for p in m) for m in found()]

    def _so_far(self):
        out = self.out.data if self.out else b""
        return Result(self.proc.poll(), out, self.err.data, time.monotonic() - self.began)

    def _join(self):
        for stream in (self.out, self.err):
            if stream:
                stream.thread.join(10)

    def finish(self, seconds=PATIENCE):
        try:
            self.proc.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running: {self.argv}: {self._so_far()}") from None
        ended = time.monotonic()
        self._join()
        code = self.proc.returncode
        out = self.out.data if self.out else b""
        return Result(128 - code if code < 0 else code, out, self.err.data, ended - self.began)

    def abandon(self):
        if self.proc.poll() is None:
            try:
                kill_all([self.pid])
            except (AssertionError, ProcessLookupError):
                pass
            self.proc.kill()
            self.proc.wait()


class Shell:
    """A host with `launch` at hand; remembers what it started, so that a failed test leaves nothing."""

    def __init__(self, host):
        self.host, self.jobs = host, []

    def start(self, *args, program=LAUNCH, **kw):
        job = Job(self.host, [program, *args], **kw)
        self.jobs.append(job)
        return job

    def run(self, *args, seconds=PATIENCE, **kw):
        return self.start(*args, **kw).finish(seconds)

    def ours(self):
        """{pid: command line} of Muster's own processes in this host (by their executable)."""
        found = {}
        for pid in self.host.processes():
            try:
                name = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
            except OSError:
                continue
            if name.removesuffix(" (deleted)") in ("launch", "muster-agent", "muster-pmix", "muster-rendezvous"):
                found[pid] = cmdline(pid)
        return found

    def acting(self):
        """Those of ours() whose end changes something: all but the reapers, which wait for the end of others."""
        return [pid for pid in self.ours() if name_of(pid) not in ("muster-reaper", "")]

    def called(self, word):
        """pids of processes whose command line is `word`."""
        return [p for p, line in self.host.processes().items() if line == word]

    def abandon(self):
        for job in self.jobs:
            job.abandon()


def leave_nothing(lab, shells):
    """After a test: ends what it started; what is left then on any host fails it."""
    for shell in shells:
        shell.abandon()
    try:
        lab.expect_quiet()
    finally:
        lab.kill_leftovers()


PREFIX = re.compile(rb"^\[(\d+)@([^\]]+)\] ")


def by_rank(out):
    """{rank: [lines without prefix]}; AssertionError where a line has no prefix."""
    ranks = {}
    for line in out.split(b"\n")[:-1]:
        match = PREFIX.match(line)
        assert match, f"no prefix: {line[:200]!r}"
        ranks.setdefault(int(match[1]), []).append(line[match.end():])
    return ranks


def sh(script):
    """Arguments that run a bash script as the program."""
    return ["bash", "-c", script]


SIGNALS = {n: getattr(signal, "SIG" + n) for n in ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2")}
