"""--lease: how long a node may be silent."""

import re
import signal

import pytest

from harness import sh
from master_site import Site

TWO_HOSTS = ("--hosts", "node0,node1", "--nproc-per-node", "1")
LIFE = "echo life $TORCHELASTIC_RESTART_COUNT world $WORLD_SIZE; [ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit 0; exec sleep 2401"


@pytest.fixture
def site(shells, scratch):
    """Its daemon has a journal."""
    return Site(shells, scratch)


def test_a_node_is_lost_two_seconds_after_its_lease(desk):
    job = desk.detach("--lease", "1s", *TWO_HOSTS, "sleep", "2402")
    assert desk.run("chaos", "--for", "5s", "freeze", "node1").code == 0
    assert desk.ended(job)["exit_code"] == 1
    text = desk.run("logs", job).text
    assert re.search(r"node node1 was lost: no beat for (2[.][6-9]|3[.]\d) s", text), text


def test_a_lease_of_a_job_at_a_daemon_with_a_journal(site):
    site.serve()
    both = site.job(LIFE, "--lease", "1s")
    for job in both:
        job.expect("life 0 world 2")
    both[1].signal(signal.SIGKILL)
    result = both[0].finish()
    assert result.code == 1 and "its connection closed and did not come back within 3.0 s" in result.errors, result


def test_all_nodes_have_one_lease(site):
    daemon = site.serve()
    first = site.node(0, LIFE, "--lease", "2s")
    daemon.expect("waiting for 1 of 2 nodes", stream="err", seconds=20)
    other = site.node(1, LIFE).finish()
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
