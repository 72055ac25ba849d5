"""Workers that use libmuster, started by `launch`."""

import os
import re

import pytest

from harness import BIN, sh

LONG = os.environ.get("MUSTER_LONG") == "1"
PROBE = BIN.parent / "tests/sdk-probe"


@pytest.mark.parametrize("n", [1, 2, 5, 32])
def test_sums(node0, n):
    result = node0.run("-n", n, "--no-prefix", PROBE)
    assert result.code == 0 and sorted(result.text.splitlines()) == sorted(f"rank {r} of {n}: sums are right" for r in range(n)), result


def test_ranks_in_any_order_on_a_node(node0, scratch):
    (scratch / "ranks").write_text("rank 0=localhost slot=2\nrank 1=localhost slot=0\nrank 2=localhost slot=1\n")
    result = node0.run("--rankfile", scratch / "ranks", "--no-prefix", PROBE)
    assert result.code == 0 and result.text.count("sums are right") == 3, result


def test_behind_wrappers_that_keep_the_descriptor(node0):
    result = node0.run("-n", "3", "--no-prefix", *sh(f"(exec {PROBE}); exit $?"))
    assert result.code == 0 and result.text.count("sums are right") == 3, result


def test_a_wrapper_that_closes_it_is_told(node0):
    result = node0.run("-n", "2", "--no-prefix", "/usr/bin/python3", "-c", f"import subprocess, sys; sys.exit(subprocess.run([{str(PROBE)!r}]).returncode)")
    assert result.code == 1 and "MUSTER_AGENT_FD must stay open" in result.text, result


def test_without_launch_a_world_of_one(node0):
    result = node0.run(program=PROBE)
    assert result.code == 0 and result.text == "rank 0 of 1: sums are right\n" and result.errors == "", result
    result = node0.run(program=PROBE, env={"WORLD_SIZE": "4"})
    assert result.code == 0 and "WORLD_SIZE is 4, but this process was not started by launch" in result.errors, result


@pytest.mark.parametrize("nodes,n", [(2, 2), (2, 32), (3, 7), (5, 5)])
def test_sums_between_nodes(node0, nodes, n):
    result = node0.run("--standalone", "--nnodes", nodes, "-n", n, "--no-prefix", PROBE)
    assert result.code == 0 and sorted(result.text.splitlines()) == sorted(f"rank {r} of {n}: sums are right" for r in range(n)), result


def test_sums_between_hosts(node0):
    result = node0.run("--hosts", "node0:3,node1:2,node2:3", "--no-prefix", PROBE)
    assert result.code == 0 and result.text.count("sums are right") == 8, result


@pytest.mark.parametrize("hosts,roundings", [("node0:2,node1:2", 1), ("node0:1,node1:2,node2:1", 2), ("node0:4", 0)])
def test_bfloat16_between_hosts(node0, hosts, roundings):
    runs = [node0.run("--hosts", hosts, "-x", "MUSTER_WIRE=bf16", "--no-prefix", PROBE, "bits") for _ in range(2)]
    off = {float(told) for told in re.findall(r"rank \d: equal bits, off by (\S+)", runs[0].text)}
    assert runs[0].code == 0 and runs[0].text.count("equal bits") == 4 and len(off) == 1, runs[0]
    bound = (1 + 2**-8) ** roundings - 1
    assert bound / 20 <= off.pop() <= bound + 1e-6, runs[0]  # numbers did travel as bfloat16, unless on one node
    assert sorted(runs[0].text.splitlines()) == sorted(runs[1].text.splitlines()), runs


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("variable,usual,other", [("MUSTER_WIRE", "full", "bf16"), ("MUSTER_CHECK", "off", "crc")])
def test_ranks_whose_settings_differ_are_both_named(node0, nodes, variable, usual, other):
    program = sh(f"trap '' TERM; export {variable}=$([ $RANK = 1 ] && echo {other} || echo {usual}); exec {PROBE}")
    result = node0.run("--standalone", "--nnodes", nodes, "-n", "4", "--no-prefix", *program)
    told = [line for line in result.text.splitlines() if line.startswith("FAILED_PRECONDITION: ranks disagree on how to work together: rank ")]
    assert result.code == 1 and len(told) == 4, result
    assert all(re.search(rf"rank 0 has [^,]*{variable}={usual}[^,]*, rank 1 has [^,]*{variable}={other}\b", line) for line in told), result


@pytest.mark.parametrize("hosts,n", [("node0:3", 3), ("node0:2,node1:2", 4)])
def test_results_are_compared_where_that_is_asked_for(node0, hosts, n):
    result = node0.run("--hosts", hosts, "-x", "MUSTER_CHECK=crc", "--no-prefix", PROBE)
    assert result.code == 0 and result.text.count("sums are right") == n, result


def test_settings_that_are_none(node0):
    result = node0.run("-n", "1", "--no-prefix", PROBE, env={"MUSTER_WIRE": "fp16"})
    assert result.code == 1 and "INVALID_ARGUMENT: MUSTER_WIRE: want full or bf16, got 'fp16'" in result.text, result
    result = node0.run("-n", "1", "--no-prefix", PROBE, env={"MUSTER_CHECK": "yes"})
    assert result.code == 1 and "INVALID_ARGUMENT: MUSTER_CHECK: want off or crc, got 'yes'" in result.text, result


def test_ranks_dealt_to_hosts_one_by_one(node0, scratch):
    (scratch / "ranks").write_text("".join(f"rank {r}=node{r % 2} slot={r // 2}\n" for r in range(5)))
    result = node0.run("--rankfile", scratch / "ranks", "--no-prefix", PROBE)
    assert result.code == 0 and result.text.count("sums are right") == 5, result


@pytest.mark.parametrize("nodes,n", [(1, 1), (1, 5), (2, 4), (3, 7)])
def test_calls_that_are_started_only(node0, nodes, n):
    result = node0.run("--standalone", "--nnodes", nodes, "-n", n, "--no-prefix", PROBE, "started")
    assert result.code == 0 and result.text.count("what was started is right") == n, result


@pytest.mark.parametrize("nodes,n", [(1, 1), (1, 5), (2, 2), (2, 7), (3, 7), (5, 5)])
def test_parts_that_differ(node0, nodes, n):
    result = node0.run("--standalone", "--nnodes", nodes, "-n", n, "--no-prefix", PROBE, "parts")
    assert result.code == 0 and sorted(result.text.splitlines()) == sorted(f"rank {r} of {n}: parts are right" for r in range(n)), result


def test_parts_that_differ_between_hosts_with_results_compared(node0):
    result = node0.run("--hosts", "node0:3,node1:1,node2:2", "-x", "MUSTER_CHECK=crc", "--no-prefix", PROBE, "parts")
    assert result.code == 0 and result.text.count("parts are right") == 6, result


@pytest.mark.parametrize("nodes", [1, 2])
def test_counts_of_parts_that_ranks_disagree_on(node0, nodes):
    result = node0.run("--standalone", "--nnodes", nodes, "-n", "2", "--no-prefix", PROBE, "parts-differ")
    told = re.findall(r"FAILED_PRECONDITION: all_gather_v .*rank (\d) calls all_gather_v\(8 x int32 in parts (\w+)\), rank (\d) calls all_gather_v\(8 x int32 in parts (\w+)\)", result.text)
    assert result.code == 1 and len(told) == 2, result
    assert all({one[0], one[2]} == {"0", "1"} and one[1] != one[3] for one in told), result


@pytest.mark.parametrize("nodes", [1, 2, 4])
def test_what_is_sent_and_what_is_expected_are_compared(node0, nodes):
    result = node0.run("--standalone", "--nnodes", nodes, "-n", "4", "--no-prefix", PROBE, "expect-more")
    lines = [line for line in result.text.splitlines() if line]
    assert result.code == 1 and len(lines) == 4, result
    assert all(re.fullmatch(r"FAILED_PRECONDITION: all_to_all_v \(call \d+\) on rank \d: rank 0 sends 4 elements to rank 1, which expects 5", line) for line in lines), result


@pytest.mark.parametrize("nodes,n", [(1, 1), (1, 5), (2, 4), (3, 7), (2, 16)])
def test_messages_between_any_two(node0, nodes, n):
    result = node0.run("--standalone", "--nnodes", nodes, "-n", n, "--no-prefix", PROBE, "messages")
    assert result.code == 0 and result.text.count("messages are right") == n, result


@pytest.mark.parametrize("nodes", [1, 2])
def test_more_messages_than_anybody_keeps_in_the_opposite_order(node0, nodes):
    result = node0.run("--standalone", "--nnodes", nodes, "-n", 2, "--no-prefix", PROBE, "messages-backwards", env={"MUSTER_TIMEOUT": "50"})
    assert result.code == 0 and result.text.count("messages are right") == 2, result


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_message_leaves_while_its_sender_waits_in_another_communicator(node0, nodes):
    result = node0.run("--standalone", "--nnodes", nodes, "-n", 4, "--no-prefix", PROBE, "message-then-group", env={"MUSTER_TIMEOUT": "20"})
    assert result.code == 0 and result.text.splitlines() == ["OK"] * 4, result


def test_a_child_by_fork_ends_nothing_of_its_parent(node0):
    result = node0.run("-n", 3, "--no-prefix", PROBE, "fork")
    assert result.code == 0 and result.text.count("sums are right") == 3, result


@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_an_exception_is_no_farewell(node0, nodes):
    result = node0.run("--standalone", "--nnodes", nodes, "-n", 3, "--no-prefix", "--grace", "30", PROBE, "throw")
    assert len(re.findall("UNAVAILABLE: barrier .* rank 1 has failed and left", result.text)) == 2, result


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_message_of_one_that_died(node0, nodes):
    result = node0.run("--standalone", "--nnodes", nodes, "-n", 4, "--no-prefix", "--grace", "30", PROBE, "message-death")
    assert "OK, then UNAVAILABLE: recv(100000 x float32 from rank 1, tag 0) on rank 0: rank 1 has died" in result.text, result


@pytest.mark.parametrize("how", ["kill", "exit"])
@pytest.mark.parametrize("nodes", [1, 2, 4])  # rank 1: beside the one that speaks for its node, or that one itself
def test_a_death_ends_the_call_of_the_others(node0, nodes, how):
    result = node0.run("--standalone", "--nnodes", nodes, "-n", "4", "--no-prefix", PROBE, how)
    lines = [line for line in result.text.splitlines() if line]
    assert len(lines) == 3, result
    for line in lines:
        told = re.fullmatch(r"([0-9.]+) s: UNAVAILABLE: all_reduce \(call \d+\) on rank [023]: rank 1 has died", line)
        assert told and float(told[1]) < 5, result  # as soon as the agent knows; machines of tests are slow


def test_a_death_at_any_moment_of_any_call(node0):
    trials = 500 if LONG else 50
    late = []
    for seed in range(trials):
        nodes = (1, 2, 3, 2, 5)[seed % 5]
        result = node0.run("--standalone", "--nnodes", nodes, "-n", "5", "--no-prefix", PROBE, "chaos", seed)
        lines = [line for line in result.text.splitlines() if line]
        assert len(lines) == 4, (seed, result)
        for line in lines:
            told = re.fullmatch(rf"(-?[0-9.]+) s: UNAVAILABLE: [a-z_]+ \(call \d+\) on rank \d: rank {seed % 5} has died", line)
            assert told and float(told[1]) < 5, (seed, result)
            late.append(float(told[1]))
    assert sorted(late)[len(late) * 9 // 10] < 1, sorted(late)


@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_the_next_round_has_connections_of_its_own(node0, nodes):
    result = node0.run("--standalone", "--nnodes", nodes, "-n", "3", "--max-restarts", "1", "--no-prefix", PROBE, "restart")
    # Of the first round rank 1 says so for certain: the others may be stopped before they do.
    assert result.code == 0 and result.text.count("sums are right") >= 4, result


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_frozen_peer_ends_the_call_by_the_timeout(node0, nodes):
    """The peer is woken when the job is stopped, and hears that nobody waits for it any more."""
    result = node0.run("--standalone", "--nnodes", nodes, "-n", "3", "--no-prefix", "--grace", "30", PROBE, "stop", env={"MUSTER_TIMEOUT": "5"})
    said = re.findall(r"DEADLINE_EXCEEDED: all_reduce \(call \d+\) on rank (\d): rank 1 did not come within 5000 ms", result.text)
    assert sorted(said) == ["0", "1", "2"] and result.seconds < 30, result


@pytest.mark.parametrize("nodes,n", [(1, 1), (1, 7), (2, 8), (3, 7), (5, 5)])
def test_groups(node0, nodes, n):
    result = node0.run("--standalone", "--nnodes", nodes, "-n", n, "--no-prefix", PROBE, "groups")
    assert result.code == 0 and sorted(result.text.splitlines()) == sorted(f"rank {r} of {n}: groups are right" for r in range(n)), result


@pytest.mark.parametrize("hosts", ["node0:3,node1:2", "node0:1,node1:5"])
def test_groups_between_hosts(node0, hosts):
    result = node0.run("--hosts", hosts, "--no-prefix", PROBE, "groups")
    assert result.code == 0 and result.text.count("groups are right") in (5, 6), result


def test_groups_of_ranks_dealt_to_hosts_one_by_one(node0, scratch):
    (scratch / "ranks").write_text("".join(f"rank {r}=node{r % 2} slot={r // 2}\n" for r in range(5)))
    result = node0.run("--rankfile", scratch / "ranks", "--no-prefix", PROBE, "groups")
    assert result.code == 0 and result.text.count("groups are right") == 5, result


@pytest.mark.parametrize("how", ["kill", "exit"])
@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_a_death_in_a_group_does_not_end_the_calls_of_another(node0, nodes, how):
    result = node0.run("--standalone", "--nnodes", nodes, "-n", "6", "--no-prefix", PROBE, f"group-{how}")
    lines = sorted(line for line in result.text.splitlines() if line)
    told = [rf"UNAVAILABLE: all_reduce \(call \d+\) on rank {g} \({r} of the job\): rank 0 \(1 of the job\) has died" for g, r in ((1, 3), (2, 5))]
    going = [rf"goes on after UNAVAILABLE: barrier \(call \d+\) on rank {r}: rank 1 has died" for r in (0, 2, 4)]
    assert len(lines) == 5 and all(re.fullmatch(want, line) for want, line in zip(told + going, lines)), result


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_group_has_the_timeout_of_its_parent(node0, nodes):
    result = node0.run("--standalone", "--nnodes", nodes, "-n", "4", "--no-prefix", "--grace", "5", PROBE, "group-stop", env={"MUSTER_TIMEOUT": "5"})
    assert re.search(r"on rank 1 \(3 of the job\): rank 0 \(1 of the job\) did not come within 5000 ms", result.text), result


def test_where_one_cannot_enter_its_group_all_are_told_and_go_on(node0):
    result = node0.run("-n", "3", "--no-prefix", PROBE, "group-closed")
    lines = result.text.splitlines()
    assert result.code == 0 and lines.count("goes on") == 3, result
    assert lines.count("FAILED_PRECONDITION: split: rank 1 could not enter its group: its own error says why") == 2, result
    assert "UNAVAILABLE: split: cannot reach the agent" in result.text and "MUSTER_AGENT_FD must stay open" in result.text, result


@pytest.mark.parametrize("nodes", [1, 2])
def test_ranks_that_disagree_are_both_named(node0, nodes):
    result = node0.run("--standalone", "--nnodes", nodes, "-n", "2", "--no-prefix", PROBE, "disagree")
    assert result.code == 1, result
    assert "rank 0 calls all_reduce(8 x float32, sum), rank 1 calls all_reduce(7 x float32, sum)" in result.text, result


@pytest.mark.parametrize("nodes", [1, 2])
def test_roots_that_disagree_are_both_named(node0, nodes):
    result = node0.run("--standalone", "--nnodes", nodes, "-n", "2", "--no-prefix", PROBE, "roots")
    # Whoever finds out first names itself first, and the other one hears it from there.
    lines = [line for line in result.text.splitlines() if line]
    both = [f"rank {r} calls reduce(8 x float32, sum, root {r})" for r in (0, 1)]
    assert result.code == 1 and len(lines) == 2 and all(text in line for text in both for line in lines), result


@pytest.mark.parametrize("nodes", [1, 3])
def test_communicators_can_be_opened_again(node0, nodes):
    result = node0.run("--standalone", "--nnodes", nodes, "-n", "3", "--no-prefix", PROBE, "again")
    assert result.code == 0 and result.text == "met again\n" * 3, result


def test_training_gives_the_same_bits_again(node0):
    runs = [node0.run("-n", "4", "--no-prefix", BIN.parent / "examples/allreduce_sgd") for _ in range(3)]
    losses = [float(loss) for loss in re.findall(r"loss (\S+)", runs[0].text)]
    assert len(losses) == 5 and losses == sorted(losses, reverse=True) and losses[-1] < losses[0] / 100, runs[0]
    assert runs[0].code == 0 and runs[0].text == runs[1].text == runs[2].text, runs
    alone = node0.run(program=BIN.parent / "examples/allreduce_sgd")
    apart = node0.run("--standalone", "--nnodes", "2", "-n", "4", "--no-prefix", BIN.parent / "examples/allreduce_sgd")
    for other in alone, apart:
        assert [float(loss) for loss in re.findall(r"loss (\S+)", other.text)] == pytest.approx(losses, rel=1e-9), other


def test_muster_perf_prints_the_columns_of_the_peers(node0):
    result = node0.run("-n", "2", "--no-prefix", BIN / "muster-perf", "--max", "1024", "--seconds", "0.01", "--header")
    lines = result.text.splitlines()
    assert result.code == 0 and lines[0] == "peer,layout,P,bytes,p50_us,p99_us,busbw_GBps,op,mean_us,iters", result
    assert [line.split(",")[7] for line in lines[1:]] == ["allreduce"] * 3 + ["barrier"] + ["pingpong_rtt"] * 3, result
