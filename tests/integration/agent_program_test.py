"""Nodes on which Muster is not installed: launch sends its agent to two at a time, and these pass it on."""

import json
import re
import signal

import pytest

from harness import BIN, Shell, leave_nothing, sh
from lab import Lab

HOME = "/tmp/only here"  # /tmp is each host's own
NODES = 8
LISTENS = "ss -Hltn | awk '{print $4}'; cat words"


@pytest.fixture(scope="module")
def lab():
    with Lab(NODES + 1) as made:
        yield made


@pytest.fixture
def shells(lab):
    made = [Shell(host) for host in lab]
    lab[0].check(["bash", "-c", f'mkdir -p "{HOME}" && cp {BIN}/launch {BIN}/muster-agent "{HOME}/" && echo shipped > "{HOME}/words"'])
    yield made
    lab[0].check(["rm", "-rf", HOME])
    leave_nothing(lab, made)


def sent_by(host):
    [link] = json.loads(host.check(["ip", "-s", "-j", "link", "show", "eth0"]))
    return link["stats64"]["tx"]["bytes"]


def start(shell, nodes, *words):
    hosts = ",".join(f"node{i + 1}" for i in range(nodes))
    script = f'exec "{HOME}/launch" -v --hosts {hosts} --nproc-per-node 1 "$@"'
    return shell.start("-c", script, "launch", *words, program="bash")


def ways(result):
    """How often launch sent it, and how often a node was told of another one."""
    return len(re.findall("is sent the agent's program", result.errors)), len(re.findall("gets the agent's program from", result.errors))


def test_two_are_sent_it_and_the_others_get_it_from_these(shells, lab):
    """The next line on the channel is the shipped files'; the door is in the range of ports that is open between nodes;
    start-up files that print are not part of the program."""
    before = sent_by(lab[0])
    rc = lab[0].home / ".bashrc"
    rc.write_text("echo welcome\n")
    try:
        result = start(shells[0], NODES, "--port-range", "20500-20598", "--ship", f"{HOME}/words", *sh(LISTENS)).finish(60)
    finally:
        rc.unlink()
    assert result.code == 0 and result.text.count("] shipped\n") == NODES, result
    assert ways(result) == (2, NODES - 2), result
    size = (BIN / "muster-agent").stat().st_size
    assert size < sent_by(lab[0]) - before < 3 * size
    ports = {int(port) for port in re.findall(r":(\d+)\n", result.text)} - {22}
    assert ports and all(20500 <= port <= 20598 for port in ports), result


@pytest.mark.parametrize("fate", ["reject with tcp reset", "drop"])
def test_nodes_that_do_not_reach_each_other_are_sent_it(shells, lab, fate):
    """What is dropped costs 5 s at each of two."""
    with lab.closed(fate):
        result = start(shells[0], 3, "hostname").finish(60)
    assert result.code == 0 and sorted(re.findall(r"\] (node\d)\n", result.text)) == ["node1", "node2", "node3"], result
    sent, told = ways(result)
    assert sent == 3 and 1 <= told <= 2, result


def test_launch_is_killed_while_a_node_tries_another(shells, lab):
    """Its shell, which is let wait there, tidies up."""
    with lab.closed("drop"):
        job = start(shells[0], 3, "sleep", "1064")
        job.expect("gets the agent's program from", stream="err")
        job.signal(signal.SIGKILL)
        job.finish()
        lab.expect_quiet()
    for host in lab:
        assert not [name for name in host.files() if name.startswith("/tmp/muster-")]
