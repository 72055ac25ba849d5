"""Nodes of a host list that are lost, replaced by spares, started again, and that come back."""

import os
import re
import signal
import time

import pytest
from harness import kill_all, name_of, sh, wait_for

HOSTS = ("--hosts", "node0,node1,node2", "--nproc-per-node", "1")
ROUND = 'echo "restarts $TORCHELASTIC_RESTART_COUNT: rank $RANK of $WORLD_SIZE on $(hostname), fence $MUSTER_ROUND."; exec sleep 1090'


def kill_agent(shell):
    """Both of its processes, at one moment."""
    agents = shell.acting()
    assert len(agents) == 2, agents
    kill_all(agents)
    return time.monotonic()


def ranks_of(job, world, count):
    """{host: rank} of the last world of that size, once `count` workers have said that they are in such a one."""
    found = job.expect(rf"rank (\d) of {world} on (\w+),", count)
    return {host: rank for rank, host in found[-world:]}


def test_an_agent_is_killed_the_others_go_on_and_it_comes_back(shells):
    job = shells[0].start("--nnodes", "1:3", *HOSTS, "--rdzv-conf", "last_call_timeout=20", *sh(ROUND))
    first = ranks_of(job, 3, 3)
    assert first == {"node0": "0", "node1": "1", "node2": "2"}
    with shells[1].host.no_new_logins():  # the others may be busy for longer than its new agent needs
        killed = kill_agent(shells[1])
        ranks_of(job, 2, 2)
        print(f"two nodes run again {time.monotonic() - killed:.2f} s after the kill")
    job.expect("node1: its agent is started again", stream="err")
    job.expect("node1 came: 3 nodes", stream="err")  # once the round of two has run for a while
    job.expect(r"rank \d of 3", 6)
    assert ranks_of(job, 3, 6) == first
    assert not re.search("restarts [1-9]", job.out.data.decode()), job.out.data
    fences = sorted({int(fence) for fence in job.expect(r"fence (\d+)\.", 8)})
    assert len(fences) == 3, fences
    job.signal(2)
    assert job.finish().code == 130


def test_what_a_node_wrote_before_the_round_without_another_keeps_its_name(shells, scratch):
    hosts = ("--hosts", "node1,node2,node0", "--nproc-per-node", "1", "--rdzv-conf", "last_call_timeout=20", "--output-spool", "8M")
    script = f'[ $WORLD_SIZE = 2 ] && touch {scratch}/again.$RANK && exit 0; echo told > {scratch}/began.$RANK; exec yes "on $(hostname) $(printf %01000d 0)"'
    job = shells[0].start("--nnodes", "2:3", *hosts, *sh(script), read=False)
    wait_for(lambda: len(list(scratch.glob("began.*"))) == 3, 60, what="they write")
    time.sleep(1)  # more than the pipe takes
    with shells[1].host.no_new_logins():
        kill_agent(shells[1])
        wait_for(lambda: len(list(scratch.glob("again.*"))) == 2, 60, what="the round of two")
    said = job.proc.stdout.read()
    assert job.finish().code == 0
    lines = set(re.findall(rb"^\[\d@(\w+)\] on (\w+) 0+$", said, re.M))
    assert {(b"node2", b"node2"), (b"node0", b"node0")} <= lines <= {(node, node) for node in (b"node0", b"node1", b"node2")}, lines


def test_both_nodes_are_needed_and_one_is_started_again(shells):
    job = shells[0].start("--hosts", "node0,node1", "--nproc-per-node", "1", "--max-restarts", "1", *sh(ROUND))
    assert ranks_of(job, 2, 2) == {"node0": "0", "node1": "1"}
    killed = kill_agent(shells[1])
    job.expect("restarts 1: rank 0 of 2 on node0")
    job.expect("restarts 1: rank 1 of 2 on node1")
    print(f"both run again {time.monotonic() - killed:.2f} s after the kill")
    # No restart is left.
    kill_agent(shells[1])
    result = job.finish()
    assert result.code == 1 and "node1 was lost" in result.errors, result


@pytest.mark.parametrize("nodes", ["2", "1:2"], ids=["waited_for", "the_others_go_on"])
def test_a_machine_that_boots_comes_back(shells, nodes):
    hosts = ("--hosts", "node0,node1", "--nnodes", nodes, "--nproc-per-node", "1", "--max-restarts", "1")
    job = shells[0].start(*hosts, *sh(ROUND))
    assert ranks_of(job, 2, 2) == {"node0": "0", "node1": "1"}
    shells[1].host.kill()
    try:
        job.expect("node1: .*; it is tried again about every", stream="err")  # ssh was refused often enough to give up on
    finally:
        shells[1].host.boot()
    assert ranks_of(job, 2, 4) == {"node0": "0", "node1": "1"}
    job.signal(2)
    assert job.finish().code == 130


def test_a_machine_that_was_off_at_the_start_comes_later(shells):
    shells[2].host.kill()
    try:
        job = shells[0].start("--nnodes", "2:3", *HOSTS, "--rdzv-conf", "last_call_timeout=1", *sh(ROUND))
        ranks_of(job, 2, 2)
        job.expect("node2: .*Connection refused.*; it is tried again while the job may grow", stream="err")
    finally:
        shells[2].host.boot()
    job.expect("node2 came: 3 nodes", stream="err")
    assert set(ranks_of(job, 3, 3)) == {"node0", "node1", "node2"}
    job.signal(2)
    assert job.finish().code == 130


def test_the_shepherd_lives_a_little_longer_than_its_agent(shells):
    job = shells[0].start("--nnodes", "1:3", *HOSTS, "--rdzv-conf", "last_call_timeout=20", *sh(ROUND))
    first = ranks_of(job, 3, 3)
    with shells[1].host.no_new_logins():
        kill_all([min(shells[1].ours())])
        ranks_of(job, 2, 2)
    job.expect("node1 came: 3 nodes", stream="err")
    assert ranks_of(job, 3, 6) == first
    wait_for(lambda: shells[1].called("sleep 1090"), 10, what="it sleeps behind what it said")
    assert len(shells[1].called("sleep 1090")) == 1
    job.signal(2)
    assert job.finish().code == 130


@pytest.mark.parametrize("mode", ("all", "one"))
def test_a_shepherd_that_is_killed_alone_is_followed_by_another(shells, mode):
    """Here it is that of launch itself, there that of an agent behind ssh."""
    job = shells[0].start("--hosts", "node0,node1", "--nproc-per-node", "2", "--max-restarts", "4", "--restart", mode, *sh(ROUND))
    ranks_of(job, 4, 4)
    lost = 2 if mode == "one" else 4
    for i in range(1, 5):
        shell = shells[i % 2]
        kill_all([pid for pid in shell.ours() if name_of(pid) == "muster-shepherd"])
        job.expect(r"rank \d of 4", 4 + i * lost)
        wait_for(lambda: len(shell.called("sleep 1090")) == 2, 10, what="of the workers before nothing is left")
    assert len(job.expect("the shepherd process of this node was killed: every worker here has been ended\n", 4, stream="err")) == 4
    job.expect("replaced: restart 4 of 4" if mode == "one" else "restart 4 of 4", stream="err")  # one failure each
    job.signal(2)
    assert job.finish().code == 130


def test_after_a_shepherds_death_workers_have_a_place_for_their_error_files(node0):
    script = 'test -d "$(dirname "$TORCHELASTIC_ERROR_FILE")" && echo up; [ $TORCHELASTIC_RESTART_COUNT = 1 ] || exec sleep 1091'
    job = node0.start("-n", "2", "--max-restarts", "1", *sh(script))
    job.expect("up", 2)
    kill_all([pid for pid in node0.ours() if name_of(pid) == "muster-shepherd"])
    job.expect("up", 4)
    assert job.finish().code == 0


def test_a_shepherd_that_lives_keeps_the_next_agent_from_running_workers(shells):
    job = shells[0].start("--hosts", "node0,node1", "--nproc-per-node", "1", "--max-restarts", "3", *sh(ROUND))
    ranks_of(job, 2, 2)
    agent, shepherd = sorted(shells[1].acting())
    os.kill(shepherd, signal.SIGSTOP)
    try:
        kill_all([agent])
        job.expect(r"earlier agent of this job .* still lives here", stream="err")
        assert "restarts 1" not in job.out.data.decode()
    finally:
        os.kill(shepherd, signal.SIGCONT)
    job.expect("restarts 1: rank 1 of 2 on node1")
    wait_for(lambda: len(shells[1].called("sleep 1090")) == 1, 10, what="nothing of the life before is left")
    job.signal(2)
    assert job.finish().code == 130


def test_standalone_nodes_are_started_again(node0):
    job = node0.start("--standalone", "--nnodes", "2", "--nproc-per-node", "1", "--max-restarts", "1", *sh(ROUND))
    job.expect(r"rank \d of 2", 2)
    agents = sorted(pid for pid, line in node0.ours().items() if "muster-agent" in line)
    kill_all(agents[:1])
    job.expect(r"restarts 1: rank \d of 2", 2)
    job.signal(2)
    assert job.finish().code == 130


def test_a_spare_takes_the_place_of_a_lost_node_and_the_lost_one_is_the_spare(shells):
    job = shells[0].start("--nnodes", "2", "--spares", "1", *HOSTS, *sh(ROUND))
    assert ranks_of(job, 2, 2) == {"node0": "0", "node1": "1"}
    assert not shells[2].called("sleep 1090")
    with shells[1].host.no_new_logins():
        killed = kill_agent(shells[1])
        job.expect(r"rank \d of 2", 4)
        print(f"with the spare {time.monotonic() - killed:.2f} s after the kill")
    assert ranks_of(job, 2, 4) == {"node0": "0", "node2": "1"}
    job.expect("node1 waits as a spare", stream="err")
    kill_agent(shells[2])
    job.expect(r"rank 1 of 2 on node1", 2)
    assert "restarts 1" not in job.out.data.decode()
    job.signal(2)
    assert job.finish().code == 130


def test_what_spares_cannot_be(node0):
    for args, said in {
        ("--spares", "1", "true"): "--spares 1: nobody can wait beside one node",
        ("--hosts", "node0,node1", "--nnodes", "2", "--spares", "1", "true"): "want 3 hosts, but --hosts node0,node1 names 2",
        ("--hosts", "node0:1,node1:2,node2:1", "--spares", "1", "true"): "say --nproc-per-node",
        ("--hosts", "node0,node1", "-n", "1", "--spares", "1", "true"): "-n 1 and --spares 1 contradict",
        ("--spares", "-1", "true"): "--spares: want 0..16384, got '-1'",
    }.items():
        result = node0.run(*args)
        assert result.code == 2 and said in result.errors, result
    plan = node0.run("--plan", *HOSTS, "--spares", "1", "true")
    assert "2 workers on 2 nodes" in plan.text and "spares   node2" in plan.text, plan
