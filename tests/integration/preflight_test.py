"""What launch says of the nodes beside a start over several hosts, and where it points when that fails."""

import shlex

import pytest

from harness import LAUNCH

HOSTS = ["--hosts", "node0,node1,node2", "--nproc-per-node", "1"]


@pytest.fixture
def doubtful(lab):
    """node1's own name is a loopback address, and its /dev/shm is small."""
    hosts = lab[1].dir / "hosts"
    kept = hosts.read_text()
    hosts.write_text(kept.replace(f"{lab[1].addr} node1", "127.0.1.1 node1"))
    lab[1].check(["mount", "-t", "tmpfs", "-o", "size=1M,mode=1777", "tmpfs", "/dev/shm"])
    yield
    lab[1].check(["umount", "/dev/shm"])
    hosts.write_text(kept)


def test_nothing_is_said_where_all_is_well(node0):
    result = node0.run(*HOSTS, "true")
    assert result.code == 0 and not result.errors, result


def test_a_line_for_each_doubt(node0, doubtful):
    result = node0.run(*HOSTS, "true")
    lines = result.errors.splitlines()
    assert result.code == 0 and len(lines) == 2, result
    assert "node1: its own name node1 is 127.0.1.1 there" in lines[0] and "10.77.0.2 node1" in lines[0], result
    assert "node1: /dev/shm has 1.0 MiB free of 1.0 MiB" in lines[1] and "fix: " in lines[1], result


@pytest.mark.parametrize("words", [[*HOSTS, "--no-preflight"], ["--standalone", "--nnodes", "2", "--nproc-per-node", "1"]])
def test_where_it_is_not_wanted(node0, doubtful, words):
    result = node0.run(*words, "true")
    assert result.code == 0 and not result.errors, result


def test_proxies_of_the_login_and_of_the_job(node0):
    result = node0.run(*HOSTS, "-x", "https_proxy=http://p:3128", "true")
    assert result.errors.count("https_proxy=http://p:3128 without a no_proxy") == 3, result
    assert not node0.run(*HOSTS, "-x", "https_proxy=http://p:3128", "-x", "no_proxy=*", "true").errors


def test_a_start_that_fails_points_to_the_doctor(lab, node0, doubtful):
    lab[2].ssh_fault("refuse")
    try:
        result = node0.run(*HOSTS, "true")
    finally:
        lab[2].ssh_fault("ok")
    lines = result.errors.splitlines()
    assert result.code == 1 and any("its own name node1 is 127.0.1.1" in line for line in lines), result
    words = shlex.split(lines[-1].partition("what is wrong with the nodes: ")[2])
    assert words == [str(LAUNCH), "doctor", "--hosts", "node0,node1,node2"], result
    found = node0.run(*words[1:])
    assert found.code == 1 and "BAD   names          node1: its own name" in found.text, found
