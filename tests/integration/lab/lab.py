"""Emulated hosts for tests: a Python face of `nodes`, `ssh`, `slurm` and `pbs` beside this file.

    with Lab(2) as lab:
        lab[0].run(["ssh", "node1", "hostname"])

Every Lab has a name of its own, so that test runs never collide, and dies with its owner: the next Lab removes
those whose owner is gone. Needs root.
"""

import contextlib
import os
import re
import subprocess
import time
import uuid
from pathlib import Path

HERE = Path(__file__).resolve().parent
STATE = Path("/run/muster-lab")
# What a host runs without any job.
DAEMON = re.compile(r"sshd: /usr/sbin/sshd .*\[listener\]|munged |slurmctld|: slurmscriptd|slurmd -c")


def wait_for(condition, seconds=30.0, step=0.01, what=None):
    """The first true value of `condition()`; AssertionError naming `what` when there is none in time."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not in {seconds:g} s: {what() if callable(what) else what or condition}")
        time.sleep(step)


def _read(path):
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError):
        return b""


def _inode(path):
    try:
        return os.stat(path).st_ino
    except OSError:
        return None


def pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def cmdline(pid):
    return _read(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode(errors="replace").strip()


def stat_of(pid):
    """The words of /proc/PID/stat behind the name: state, parent, group, session, terminal, ...; [] for no process."""
    return _read(f"/proc/{pid}/stat").rpartition(b")")[2].decode().split()


def open_files(pid):
    """What its descriptors lead to, as `socket:[7]`, `pipe:[8]` or a path; what is closed meanwhile may be missing."""
    found = []
    for number in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(f"/proc/{pid}/fd/{number}"))
    return found


def parent_of(pid):
    return int(stat_of(pid)[1])


def is_alive(pid):
    """False for a zombie, too: it only waits for its parent. But not while threads of it end, which have its sockets."""
    stat = stat_of(pid)
    return bool(stat) and (stat[0] not in ("Z", "X") or int(stat[17]) > 1)


def marked(mark):
    """Living processes whose environment or command line carries `mark` (both outlive setsid, a double fork and a
    parent's death; the environment of a set-uid program can be read by root only)."""
    text = mark.encode()
    return [
        p
        for p in pids()
        if p != os.getpid() and (text in _read(f"/proc/{p}/environ") or text in _read(f"/proc/{p}/cmdline")) and is_alive(p)
    ]


def kill_all(victims):
    for p in victims:
        try:
            os.kill(p, 9)
        except OSError:
            pass


class Host:
    def __init__(self, lab, index):
        self.lab, self.index, self.name = lab, index, f"node{index}"
        self.dir = lab.state / self.name
        self.addr = f"10.77.0.{index + 1}" if lab.ip != "6" else f"fd77::{index + 1:x}"
        self.home = (self.dir / "home").resolve()

    def _command(self, argv, cwd):
        init = _read(self.dir / "pid").decode().strip()
        assert init, f"{self.name} is dead"
        enter = ["nsenter", "-t", init, "--net", "--uts", "--ipc", "--mount", "--pid", f"--wd={cwd or os.getcwd()}", "--"]
        return enter + [str(a) for a in argv]

    def enter(self):
        """The words before a command that is to run in here, started by another program."""
        return [*self._command([], "/"), "env", f"HOME={self.home}"]

    def _env(self, env):
        """`env` is the whole environment but for HOME, which is the lab's unless given."""
        return {**os.environ, "HOME": str(self.home)} if env is None else {"HOME": str(self.home), **env}

    def popen(self, argv, cwd=None, env=None, **kw):
        """A process in this host. Its pid is nsenter's, which waits for it; see children()."""
        return subprocess.Popen(self._command(argv, cwd), env=self._env(env), **kw)

    def run(self, argv, cwd=None, env=None, timeout=120, **kw):
        kw.setdefault("stdin", subprocess.DEVNULL)
        if "stdout" not in kw:
            kw["capture_output"] = True
        return subprocess.run(self._command(argv, cwd), env=self._env(env), timeout=timeout, **kw)

    def check(self, argv, **kw):
        done = self.run(argv, **kw)
        assert done.returncode == 0, (argv, done.returncode, done.stdout, done.stderr)
        return done.stdout.decode(errors="replace")

    def _nodes(self, *args):
        self.lab.nodes(args[0], self.name, *args[1:])

    def kill(self):
        self._nodes("kill")

    def boot(self):
        self._nodes("boot")
        self.lab.ssh("up")
        if self.lab.batch:
            self.lab.slurm("restart", self.name)

    def freeze(self):
        self._nodes("freeze")

    def thaw(self):
        self._nodes("thaw")

    def cut(self, how="drop", peer=None):
        self._nodes("cut", how, *([peer.name] if peer else []))

    def heal(self):
        self._nodes("heal")

    def limit(self, rate):
        self._nodes("limit", rate)

    def ssh_fault(self, fault):
        self.lab.ssh("fault", self.name, fault)

    @contextlib.contextmanager
    def no_new_logins(self):
        """Whoever connects to its sshd waits; sessions that are there go on."""
        self.check(["bash", "-c", "kill -STOP $(cat /run/lab-ssh/pid)"])
        try:
            yield
        finally:
            self.check(["bash", "-c", "kill -CONT $(cat /run/lab-ssh/pid)"])

    def processes(self):
        """{pid: command line} of all but the host's own (init, sshd listener, Slurm's daemons)."""
        found = {}
        for pid in self._inhabitants():
            line = cmdline(pid)  # none where only other threads are left of it
            if is_alive(pid) and not DAEMON.match(line):
                found[pid] = line
        return found

    def _inhabitants(self):
        """As `nodes` finds those that it kills, but in 0.4 ms, as tests ask often: every process in the host's network
        namespace, but its init and who holds that."""
        try:
            network = os.stat(f"/run/netns/{self.lab.name}-{self.name}").st_ino
        except OSError:
            return []
        own = {int(_read(self.dir / name) or 0) for name in ("pid", "outer")}
        return [pid for pid in pids() if pid not in own and _inode(f"/proc/{pid}/ns/net") == network]

    def sockets(self):
        """Listening and bound sockets but the daemons': what a job may have left. TIME_WAIT is the kernel's."""
        rows = self.check(["ss", "-Hanp", "-A", "tcp,udp"]).splitlines()
        return [r for r in rows if "TIME-WAIT" not in r and not re.search(r'"(sshd|slurmd|slurmctld)"', r)]

    def files(self):
        """Files in the host's own /tmp and /dev/shm. (A folder that goes while find looks makes it end with 1.)"""
        done = self.run(["find", "/tmp", "/dev/shm", "-mindepth", "1"])
        assert all(line.endswith(b"No such file or directory") for line in done.stderr.splitlines()), done
        return set(done.stdout.decode(errors="replace").splitlines())


class Lab:
    """`batch` is None, "slurm" or "pbs", and `settings` are the variables that lab/slurm reads."""

    def __init__(self, count, ssh=True, ip="4", home="shared", name=None, batch=None, settings=None):
        self.name = name or f"t{os.getpid()}-{uuid.uuid4().hex[:6]}"
        self.state, self.ip, self.batch = STATE / self.name, ip, batch
        self._env = {
            **os.environ, "LAB_NAME": self.name, "LAB_IP": ip, "LAB_HOME": home, "LAB_OWNER": str(os.getpid()),
            **(settings or {}),
        }
        self.nodes("reap")
        try:
            (self.ssh if ssh else self.nodes)("up", str(count))
            if batch:
                self._tool(batch, "up")
        except BaseException:
            self.close()
            raise
        self.hosts = [Host(self, i) for i in range(count)]

    def _tool(self, tool, *args):
        done = subprocess.run(
            [str(HERE / tool), *args], env=self._env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300
        )
        if done.returncode != 0:
            raise AssertionError(f"lab/{tool} {' '.join(args)}: {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def nodes(self, *args):
        return self._tool("nodes", *args)

    def ssh(self, *args):
        return self._tool("ssh", *args)

    def slurm(self, *args):
        return self._tool("slurm", *args)

    def __getitem__(self, index):
        return self.hosts[index]

    def __len__(self):
        return len(self.hosts)

    def processes(self):
        return {h.name: p for h in self.hosts if (p := h.processes())}

    def expect_quiet(self, seconds=15.0):
        """Waits until no host runs anything of a job any more; what is left makes the message."""
        wait_for(lambda: not self.processes(), seconds, 0.05, lambda: f"processes left: {self.processes()}")

    @contextlib.contextmanager
    def closed(self, fate="reject with tcp reset", hosts=None):
        """Meanwhile of the connections that come in to `hosts` (default: all), only ssh's do; to others happens `fate`."""
        hosts = self.hosts if hosts is None else hosts
        chain = f"chain in {{ type filter hook input priority 0; tcp flags & (syn | ack) == syn tcp dport != 22 {fate}; }}"
        for host in hosts:
            host.check(["nft", f"table inet closed {{ {chain}; }}"])
        try:
            yield
        finally:
            for host in hosts:
                host.check(["nft", "delete table inet closed"])

    def kill_leftovers(self):
        for processes in self.processes().values():
            kill_all(processes)

    def close(self):
        self.nodes("down")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Relay:
    """A slow network between the hosts of `lab`, by `program` (relay.cc) in the place of their switch; say() sets it."""

    def __init__(self, lab, program):
        self._inside = ["ip", "netns", "exec", f"{lab.name}-sw"]
        self._ports = [f"p{host.index}" for host in lab]
        self._plug("nomaster")
        self._proc = subprocess.Popen(
            [*self._inside, "nice", "-n", "-20", "setpriv", "--pdeathsig", "KILL", str(program), *self._ports],  # a network waits for no core
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        )

    def _plug(self, *where):
        for port in self._ports:
            subprocess.run([*self._inside, "ip", "link", "set", port, *where], check=True)

    def say(self, **settings):
        """delay=MS (one way), rate=MBIT (of what each host sends), stall=MS; in force when it returns."""
        for name, value in settings.items():
            self._proc.stdin.write(f"{name} {value}\n")
            answer = self._proc.stdout.readline()
            assert answer == "ok\n", (name, value, answer)

    def close(self):
        self._proc.stdin.close()
        try:
            assert self._proc.wait(10) == 0
        finally:
            self._plug("master", "br0")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
