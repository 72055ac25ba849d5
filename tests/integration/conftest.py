"""Three emulated hosts for the whole run; after each test nothing of it may be left on any."""

import os
import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from batch import Pbs, Slurm  # noqa: E402
from desk import Desk  # noqa: E402
from harness import LAUNCH, Lab, Shell, leave_nothing, wait_for  # noqa: E402


def pytest_sessionstart(session):
    if hasattr(session.config, "workerinput"):
        return  # one of several that run the tests: has it from the first, and may be on a thread that sets no handler
    # A shell's background job (deploy/test &) ignores the first two, nohup the third, and so would every launch that is tested.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if os.getuid() != 0:
        pytest.exit("emulated hosts (network namespaces, sshd) need root", returncode=1)
    if not LAUNCH.exists() and not session.config.option.collectonly:
        pytest.exit(f"no {LAUNCH}: build first (cmake --preset release && cmake --build --preset release)", returncode=1)


@pytest.fixture(scope="session")
def lab():
    with Lab(3) as made:
        yield made


@pytest.fixture
def shells(lab):
    made = [Shell(host) for host in lab]
    yield made
    leave_nothing(lab, made)


@pytest.fixture
def node0(shells):
    return shells[0]


@pytest.fixture
def scratch(lab):
    """A directory that all hosts see at the same path (their /tmp is their own) and anyone may write."""
    made = lab.state / "scratch" / os.urandom(4).hex()
    made.mkdir(parents=True)
    made.chmod(0o1777)
    return made


@pytest.fixture
def desk(shells, scratch):
    folder = scratch / "run"
    folder.mkdir(mode=0o700)
    made = Desk(shells[0], folder)
    yield made
    for job in made.jobs().values():
        made.run("stop", "--now", job["id"])


@pytest.fixture
def restart_sshd(lab):
    """Restarts node1's sshd under words of ours, or with more of its options; an ordinary one at the end."""
    keys = lab.state / "ssh"
    # Until it is gone: the next one would find its port taken, and say so to nobody, being a daemon by then.
    stop = """
        p=$(cat /run/lab-ssh/pid); kill -- -$p || kill $p; rm -f /run/lab-ssh/pid
        for i in {1..500}; do kill -0 $p 2> /dev/null || exit 0; sleep 0.02; done
    """

    def restart(before=(), options=()):
        lab[1].run(["bash", "-c", stop])
        lab[1].check([*before, "/usr/sbin/sshd", "-f", keys / "sshd_config", "-o", "PidFile=/run/lab-ssh/pid", *options])
        wait_for(lambda: lab[0].run(["ssh", "node1", "true"]).returncode == 0, what="node1's sshd")

    yield restart
    lab[1].run(["bash", "-c", stop])
    lab.ssh("up")


@pytest.fixture
def in_environment(lab, restart_sshd):
    """Variables that only logins at node1 have."""

    def put(**variables):
        words = " ".join(f"{name}={value}" for name, value in {"HOME": lab[1].home, **variables}.items())
        restart_sshd(options=["-o", f"SetEnv={words}"])

    return put


def batch_lab(kind):
    with Lab(3, batch=kind, settings={"LAB_PBS_KILL_DELAY": "8"}) as made:
        yield made


@pytest.fixture(scope="session")
def slurm_lab():
    yield from batch_lab("slurm")


@pytest.fixture(scope="session")
def pbs_lab():
    yield from batch_lab("pbs")


def batch_jobs(kind, lab):
    folder = lab.state / "home" / os.urandom(4).hex()
    folder.mkdir()
    made = kind(lab, folder)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def slurm(slurm_lab):
    """Real Slurm on three hosts of its own; what a test starts ends with the test."""
    yield from batch_jobs(Slurm, slurm_lab)


@pytest.fixture
def pbs(pbs_lab):
    yield from batch_jobs(Pbs, pbs_lab)
