"""Core files: none of a process that knows a secret, those of workers as their user wants them."""

import ctypes
import os
import resource
import signal
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness import LAUNCH, PATIENCE, is_alive, parent_of, sh, wait_for
from master_site import Site
from users_site import UsersSite

SECRET = "5ec2e7" * 10 + "beef"  # 256 bits, as launch makes them
WANTED = 'ulimit -c unlimited; exec "$0" "$@"'
PTRACE_ATTACH, PTRACE_DETACH, PTRACE_SETSIGMASK = 16, 17, 0x420B
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def ptrace(request, pid, address=None, data=None):
    assert libc.ptrace(request, pid, address, data) == 0, (request, pid, os.strerror(ctypes.get_errno()))


def crash(pids):
    """All at once, so that none ends because another has; also those that block every signal. Parents last: the kernel kills
    some with theirs."""
    pids = sorted(pids, key=lambda pid: -len(ancestors(pid)))
    for pid in pids:
        ptrace(PTRACE_ATTACH, pid)
        os.waitpid(pid, 0x40000000)  # __WALL
    none = ctypes.c_uint64(0)
    for pid in pids:
        ptrace(PTRACE_SETSIGMASK, pid, 8, ctypes.addressof(none))
        ptrace(PTRACE_DETACH, pid, None, int(signal.SIGABRT))
    for pid in pids:
        wait_for(lambda: not is_alive(pid), PATIENCE, what=f"{pid} has ended")


def ancestors(pid):
    found = []
    while pid > 1:
        pid = parent_of(pid)
        found.append(pid)
    return found


@contextmanager
def folders(pids):
    """Where these processes run, as descriptors, which outlive them: there the kernel writes their cores."""
    held = {pid: os.open(f"/proc/{pid}/cwd", os.O_DIRECTORY) for pid in pids}
    try:
        yield held
    finally:
        for fd in held.values():
            os.close(fd)


def take_cores(fds):
    """The bytes of all core files in these folders, which are removed."""
    found = []
    for fd in fds:
        for name in os.listdir(fd):
            if name == "core" or name.startswith("core."):
                with open(os.open(name, os.O_RDONLY, dir_fd=fd), "rb") as file:
                    found.append(file.read())
                os.unlink(name, dir_fd=fd)
    return found


@pytest.fixture(autouse=True)
def in_files():
    """Cores go to files, here of what is tested only: nsenter ends as its child does."""
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    if not pattern.startswith("core"):
        pytest.skip(f"cores do not go to the folder of who dies here, but to {pattern}")
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    yield
    resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))


@pytest.fixture
def secret_file(scratch):
    path = scratch / "secret"
    path.write_text(SECRET + "\n")
    path.chmod(0o600)
    return path


def wanting(shell, cwd, program, *words):
    """Starts it as in a shell whose user wants cores."""
    return shell.start("-c", WANTED, program, *words, program="bash", cwd=cwd)


def crash_ours(shells, processes):
    """Of each host this many are ours; none leaves a core."""
    pids = [pid for shell in shells for pid in shell.ours()]
    assert [len(shell.ours()) for shell in shells] == processes, [shell.ours() for shell in shells]
    with folders(pids) as where:
        # What keeps a core from a file and, unlike 0, from a program of core_pattern.
        assert {resource.prlimit(pid, resource.RLIMIT_CORE)[0] for pid in pids} == {1}
        crash(pids)
        assert take_cores(where.values()) == []


def test_typed_on_every_node(shells, scratch, secret_file):
    """launch, which is master and agent, its shepherd and reaper; on the second host the same."""
    words = ("--nnodes", "2", "--nproc-per-node", "1", "--rdzv-endpoint", "node0:29412", "--secret-file", secret_file)
    jobs = [wanting(shell, scratch, LAUNCH, *words, *sh("echo up; sleep 1000")) for shell in shells[:2]]
    for job in jobs:
        job.expect("up")
    crash_ours(shells, [3, 3, 0])
    assert [job.finish().code for job in jobs] == [128 + signal.SIGABRT] * 2


def test_over_ssh(shells, scratch, secret_file):
    """launch, which is the master, and on each host the three processes of an agent."""
    words = ("--hosts", "node0,node1", "--secret-file", secret_file)
    job = wanting(shells[0], scratch, LAUNCH, *words, *sh("echo up; sleep 1000"))
    job.expect("up", count=2)
    crash_ours(shells, [4, 3, 0])
    assert job.finish().code == 128 + signal.SIGABRT


@pytest.mark.parametrize("kind", [Site, UsersSite])
def test_a_daemon(shells, scratch, kind):
    """Also that of a site, which has a key of its own, and knows the secrets of its users."""
    site = kind(shells, scratch)
    daemon = site.serve()
    crash_ours(shells, [1, 0, 0])
    assert daemon.finish().code == 128 + signal.SIGABRT


def test_who_asks_for_one_of_launch_gets_it(shells, scratch, secret_file):
    """As one may who looks for a fault in it. It has the secret: what is looked for above is where it is looked for."""
    words = ("--nnodes", "2", "--rdzv-endpoint", "node0:29413", "--secret-file", secret_file)
    job = wanting(shells[0], scratch, LAUNCH, *words, "true")
    job.expect("waiting for 1 of 2 nodes", stream="err")
    with folders([job.pid]) as where:
        _, hard = resource.prlimit(job.pid, resource.RLIMIT_CORE)
        resource.prlimit(job.pid, resource.RLIMIT_CORE, (hard, hard))
        crash([job.pid])
        (core,) = take_cores(where.values())
    assert SECRET.encode() in core
    assert job.finish().code == 128 + signal.SIGABRT


@pytest.mark.parametrize("way, hosts", [
    (["-n", "2"], 1),
    (["--nnodes", "2", "--nproc-per-node", "1", "--rdzv-endpoint", "node0:29414"], 2),
    (["--hosts", "node0,node1", "--propagate", "core"], 1),
], ids=["one", "typed", "hosts"])
def test_workers_write_theirs(shells, scratch, way, hosts):
    """Each waits for the other, and dies in a folder of its own; the one that is stopped first does not."""
    script = f"ulimit -c; mkdir {scratch}/$RANK; cd {scratch}/$RANK; until [ -e ../$((1 - RANK)) ]; do sleep 0.01; done; kill -ABRT $$"
    jobs = [wanting(shell, scratch, LAUNCH, *way, "--no-prefix", *sh(script)) for shell in shells[:hosts]]
    results = [job.finish() for job in jobs]
    assert {r.code for r in results} == {128 + signal.SIGABRT}, results
    assert "".join(r.text for r in results).split() == ["unlimited"] * 2, results
    fds = [os.open(scratch / str(rank), os.O_DIRECTORY) for rank in range(2)]
    try:
        assert take_cores(fds), results
    finally:
        for fd in fds:
            os.close(fd)
