"""libmuster over networks with a delay, a limit and a stall (lab/relay.cc): right, and as fast as they allow."""

import re

import pytest

from harness import BIN, PATIENCE, PYTHON, WORKERS
from lab import Relay

PACES = WORKERS / "paces.py"
PACKAGE = {"PYTHONPATH": str(BIN.parent / "python")}
PROBE = BIN.parent / "tests/sdk-probe"
SLACK = 1.3
WAKING = 0.5  # ms for each other host: ranks, relay and whatever else runs here share few cores
# What is small takes one way between two hosts or three, but the dissemination of a barrier: log2(hosts), rounded up.
SMALL = {"all_reduce:8": (1, 1), "all_reduce:1024": (1, 1), "broadcast:8": (1, 1), "all_to_all:8": (1, 1), "barrier": (1, 2)}


@pytest.fixture(scope="module")
def network(lab):
    with Relay(lab, BIN.parent / "tests/lab-relay") as relay:
        yield relay


@pytest.fixture
def relay(network):
    yield network
    network.say(delay=0, rate=0, stall=0)


# Before what other tests run on the same cores: the pace is the network's, and not theirs.
FIRST = ["nice", "-n", "-10", PYTHON]


def on(count):
    return ["--hosts", ",".join(f"node{i}:1" for i in range(count)), "--no-prefix"]


def paces(result):
    """{op: (milliseconds of a call, of the slowest)}"""
    assert result.code == 0, result
    return {op: (float(pace), float(slowest)) for op, pace, slowest in re.findall(r"^(\S+) ([\d.]+) ([\d.]+)$", result.text, re.M)}


def test_the_relay_refuses_what_it_does_not_know(relay):
    with pytest.raises(AssertionError, match="delay: want 0..60000, got '60001'"):
        relay.say(delay=60001)
    with pytest.raises(AssertionError, match="want delay, rate or stall, got 'lose'"):
        relay.say(lose=1)


@pytest.mark.parametrize("hosts", [2, 3])
def test_small_calls_take_the_ways_that_they_need(node0, relay, hosts):
    measured = {}
    for delay, calls in (0, 100), *3 * [(1, 100)], *3 * [(10, 16)], *3 * [(50, 8)]:
        relay.say(delay=delay)
        result = node0.run(*on(hosts), *FIRST, PACES, calls, *SMALL, env=PACKAGE)
        for op, (pace, _) in paces(result).items():  # noise only adds
            measured[delay, op] = min(pace, measured.get((delay, op), pace))
    for op, ways in SMALL.items():
        for delay in 1, 10, 50:
            bound = delay * ways[hosts - 2]
            limit = SLACK * bound + measured[0, op] + WAKING * (hosts - 1)
            assert 0.99 * bound <= measured[delay, op] <= limit, (op, delay, measured)


@pytest.mark.parametrize("hosts,delay", [(2, 1), (2, 10), (3, 10), (3, 50)])
def test_large_sums_are_right(node0, relay, hosts, delay):
    relay.say(delay=delay)
    result = node0.run(*on(hosts), PROBE)
    assert result.code == 0 and result.text.count("sums are right") == hosts, result


def test_a_limited_link_is_full(node0, relay):
    relay.say(delay=10, rate=100)
    size = 16 << 20
    bound = size * 8 / 100e6 * 1e3 + 10
    measured = []
    while len(measured) < 3 and not any(pace <= SLACK * bound for pace in measured):  # noise only adds
        pace, _ = paces(node0.run(*on(2), PACES, 6, f"all_reduce:{size}", env=PACKAGE))[f"all_reduce:{size}"]
        measured.append(pace)
    assert bound <= min(measured) <= SLACK * bound, measured


def test_a_stall_in_the_middle_of_a_call_is_waited_for(node0, relay):
    relay.say(delay=1)
    op = "all_reduce:65536"
    job = node0.start(*on(2), PACES, 4000, op, env=PACKAGE)
    job.expect("begun", seconds=PATIENCE)
    relay.say(stall=2000)
    pace, slowest = paces(job.finish())[op]
    assert pace < 20 and 1500 < slowest < 20000, (pace, slowest)
