"""--lease: how long a node may be silent."""

import re
import signal

import pytest

from harness import BIN, sh

ENDPOINT = "10.77.0.1:29400"
TWO_HOSTS = ("--hosts", "node0,node1", "--nproc-per-node", "1")
LIFE = "echo life $TORCHELASTIC_RESTART_COUNT world $WORLD_SIZE; [ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit 0; exec sleep 2401"


class Site:
    """A daemon with a journal on node0."""

    def __init__(self, shells, folder):
        self.shells, self.secret = shells, folder / "secret"
        self.secret.write_text("a secret of the tests, long enough\n")
        self.secret.chmod(0o600)
        words = ["--listen", ENDPOINT, "--secret-file", self.secret, "--journal", folder / "journal"]
        self.daemon = shells[0].start(*words, program=BIN / "muster-rendezvous")
        self.daemon.expect("listens on")

    def job(self, shell, node, *more):
        words = ["--nnodes", "2", "--rdzv-endpoint", ENDPOINT, "--rdzv-id", "job", "--secret-file", self.secret]
        return self.shells[shell].start(*words, *node, *more, *sh(LIFE))


@pytest.fixture
def site(shells, scratch):
    return Site(shells, scratch)


def test_a_node_is_lost_two_seconds_after_its_lease(desk):
    job = desk.detach("--lease", "1s", *TWO_HOSTS, "sleep", "2402")
    assert desk.run("chaos", "--for", "5s", "freeze", "node1").code == 0
    assert desk.ended(job)["exit_code"] == 1
    text = desk.run("logs", job).text
    assert re.search(r"node node1 was lost: no beat for (2[.][6-9]|3[.]\d) s", text), text


def test_a_lease_of_a_job_at_a_daemon_with_a_journal(site):
    both = [site.job(1 + rank, ("--node-rank", str(rank)), "--lease", "1s") for rank in range(2)]
    for job in both:
        job.expect("life 0 world 2")
    both[1].signal(signal.SIGKILL)
    result = both[0].finish()
    assert result.code == 1 and "its connection closed and did not come back within 3.0 s" in result.errors, result


def test_all_nodes_have_one_lease(site):
    first = site.job(1, ("--node-rank", "0"), "--lease", "2s")
    site.daemon.expect("waiting for 1 of 2 nodes", stream="err", seconds=20)
    other = site.job(2, ("--node-rank", "1")).finish()
    assert other.code == 1 and "--lease: node1 has '2.0 s', node2 has ''; give the same value" in other.errors, other
    first.signal(signal.SIGINT)
    first.finish()


@pytest.mark.parametrize("value", ["0", "500ms", "2h"])
def test_a_lease_out_of_bounds_is_refused(node0, value):
    result = node0.run("--lease", value, "true")
    assert result.code == 2 and f"--lease: want a time from 1 s to 1 h, got '{value}'" in result.errors, result


def test_a_job_file_has_it(node0, scratch):
    (scratch / "job.yaml").write_text("np: 1\nlease: 2h\ncommand: [true]\n")
    result = node0.run("--config", scratch / "job.yaml")
    assert result.code == 2 and "job.yaml:2:8: lease: want a time from 1 s to 1 h, got '2h'" in result.errors, result
