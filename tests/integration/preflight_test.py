"""What launch says of the nodes beside a start over several hosts, and what it finds when that fails."""

import re
import shlex
import signal

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


def test_each_node_says_it_of_itself_where_the_command_is_typed(shells, doubtful):
    jobs = [shell.start("--nnodes", "2", "--nproc-per-node", "1", "--rdzv-endpoint", "node0:29500", "true") for shell in shells[:2]]
    first, second = [job.finish() for job in jobs]
    assert first.code == 0 and second.code == 0 and "node1:" not in first.errors, (first, second)
    assert "node1: its own name node1 is 127.0.1.1 there" in second.errors and "node1: /dev/shm has 1.0 MiB free" in second.errors, second


@pytest.mark.parametrize("words", [[*HOSTS, "--no-preflight"], ["--standalone", "--nnodes", "2", "--nproc-per-node", "1"]])
def test_where_it_is_not_wanted(node0, doubtful, words):
    result = node0.run(*words, "true")
    assert result.code == 0 and not result.errors, result


def test_proxies_of_the_login_and_of_the_job(node0):
    result = node0.run(*HOSTS, "-x", "https_proxy=http://p:3128", "true")
    assert result.errors.count("https_proxy=http://p:3128 without a no_proxy") == 3, result
    assert not node0.run(*HOSTS, "-x", "https_proxy=http://p:3128", "-x", "no_proxy=*", "true").errors


@pytest.fixture
def refusing(lab):
    """ssh to node2 is refused."""
    lab[2].ssh_fault("refuse")
    yield
    lab[2].ssh_fault("ok")


BAD_NAME = "BAD   names          node1: its own name"


def test_a_start_that_fails_shows_what_the_doctor_finds(node0, doubtful, refusing):
    result = node0.run(*HOSTS, "true")
    said, line, table = result.errors.partition("muster: what is wrong with the nodes: ")
    assert result.code == 1 and not result.text and "its own name node1 is 127.0.1.1" in said, result
    typed, _, table = table.partition("\n")
    assert shlex.split(typed) == [str(LAUNCH), "doctor", "--hosts", "node0,node1,node2"], result
    assert BAD_NAME in table and re.search("^BAD   start +node2: .*refused", table, re.M), result
    assert re.fullmatch(r"\d+ faults, \d+ warnings", table.splitlines()[-1]), result


@pytest.mark.parametrize("words", [["--no-preflight"], ["--quiet"]])
def test_a_start_that_fails_without_the_doctor(node0, doubtful, refusing, words):
    result = node0.run(*HOSTS, *words, "true")
    assert result.code == 1 and "doctor" not in result.errors and BAD_NAME not in result.errors, result


@pytest.mark.parametrize("words, why", [
    (["--nproc-per-node", "gpu"], "gpu"), (["--log-dir", "/proc/no/such"], "/proc/no/such"), (["--cpu-list", "900"], "900"),
])
def test_a_node_that_says_why_it_cannot_is_not_examined(node0, words, why):
    result = node0.run("--hosts", "node0,node1", *words, "true")
    assert result.code == 1 and why in result.errors and "what is wrong with the nodes" not in result.errors, result


def test_a_signal_ends_the_doctor(node0, refusing, lab):
    lab[1].ssh_fault("hang")
    try:
        job = node0.start(*HOSTS, "true")
        job.expect("what is wrong with the nodes", stream="err")
        job.signal(signal.SIGINT)
        assert job.finish().code == 1
    finally:
        lab[1].ssh_fault("ok")
