"""launch chaos: users break a part of their own job, and see what becomes of it."""

import re
import textwrap
import time

import pytest

from desk import Desk
from harness import BIN, PYTHON, sh, stat_of, wait_for

TWO_HOSTS = ("--hosts", "node0,node1", "--nproc-per-node", "2")


def chaos(desk, *words, code=0):
    result = desk.run("chaos", *words)
    assert result.code == code, result
    return result.errors


@pytest.mark.parametrize("where", [("-n", "4"), TWO_HOSTS, ("--standalone", "--nnodes", "2", "--nproc-per-node", "2")],
                         ids=["one", "two", "standalone"])
def test_a_worker_is_killed_and_nobody_else(desk, where):
    job = desk.detach(*where, "--on-failure", "continue", *sh("sleep 2201"))
    assert "rank 3 on " in chaos(desk, "kill", "rank", "3")
    wait_for(lambda: "rank 3 on" in desk.run("logs", job).errors + desk.run("logs", job).text, 10, what="its end")
    assert "rank 3 has ended already" in chaos(desk, "kill", "rank", "3", code=1)
    assert desk.jobs()[job]["state"] == "running"
    desk.run("stop", "--now", job)


def test_errors_name_what_there_is(desk):
    assert "no job of yours runs on this host" in chaos(desk, "cut", "node1", code=2)
    job = desk.detach(*TWO_HOSTS, "sleep", "2202")
    assert "there is no rank 4: want 0..3" in chaos(desk, "kill", "rank", "4", code=1)
    assert "no node that is there is called node7" in chaos(desk, "freeze", "node7", code=1)
    other = desk.detach("sleep", "2203")
    errors = chaos(desk, "cut", "node1", code=2)
    assert job in errors and other in errors and "--job" in errors
    desk.run("stop", "--now", job)
    desk.run("stop", "--now", other)


def test_one_machine_has_no_network_to_cut(desk, scratch):
    job = desk.detach("-n", "2", *sh(f"until [ -e {scratch}/go ]; do sleep 0.1; done"))
    for words in (("cut", "node0"), ("slow", "node0", "200ms")):
        assert "cut and slow are about the network between nodes, and this job has one" in chaos(desk, *words, code=1)
    (scratch / "go").touch()
    assert desk.ended(job)["exit_code"] == 0


def test_help_says_what_is_not_cut(node0):
    text = " ".join(node0.run("chaos", "--help").text.split())
    assert "What workers print is not held up, nor what they say over gloo, NCCL, MPI" in text


def test_what_lasts_less_than_the_lease_does_no_harm(desk, scratch):
    job = desk.detach(*TWO_HOSTS, *sh(f"until [ -e {scratch}/go ]; do sleep 0.1; done"))
    assert "node1 stands still for 1.0 s" in chaos(desk, "--for", "1s", "freeze", "node1")
    assert "arrives 200 ms later for 2.0 s" in chaos(desk, "--for", "2s", "slow", "node0", "200ms")
    assert "nothing goes between node1 and the others for 1.0 s" in chaos(desk, "--for", "1s", "cut", "node1")
    time.sleep(4)  # all of it is over
    (scratch / "go").touch()
    assert desk.ended(job)["exit_code"] == 0


def test_what_workers_say_to_other_nodes_is_held_up(desk, scratch):
    """Collectives and messages: a cut of 2 s is a step that takes as long, and a slow node makes every step slow."""
    (scratch / "steps.py").write_text(textwrap.dedent(f"""
        import muster, numpy as np, os, time
        comm = muster.init()
        stop = np.zeros(1)
        while not stop[0]:
            begun = time.monotonic()
            stop[0] = comm.rank == 0 and os.path.exists("{scratch}/stop")
            stop = comm.all_reduce(stop)
            between = time.monotonic()
            comm.send(stop, 1 - comm.rank)
            comm.recv(stop, 1 - comm.rank)
            print(f"sum {{between - begun:.3f}} message {{time.monotonic() - between:.3f}}", flush=True)
            time.sleep(0.02)
    """))
    job = desk.detach("--hosts", "node0,node1", "--nproc-per-node", "1", "-x", f"PYTHONPATH={BIN.parent}/python", PYTHON, scratch / "steps.py")

    def steps(since=0):
        text = desk.run("logs", job).text
        return [(float(a), float(b)) for a, b in re.findall(r"sum (\S+) message (\S+)", text)][since:]

    wait_for(lambda: len(steps()) >= 20, 30, what="steps")
    assert sorted(max(step) for step in steps())[10] < 0.1, steps()
    begun = len(steps())
    chaos(desk, "--for", "2s", "cut", "node1")
    wait_for(lambda: sum(max(step) > 1.8 for step in steps(begun)) == 2, 30, what="one long step of each rank")
    begun = len(steps())
    chaos(desk, "--for", "15s", "slow", "node1", "200ms")
    for kind in 0, 1:
        wait_for(lambda: sum(step[kind] >= 0.2 for step in steps(begun)) >= 4, 30, what="steps of 200 ms and more")
    begun = len(steps())
    wait_for(lambda: sum(max(step) < 0.1 for step in steps(begun)) >= 4, 30, what="quick steps again")
    (scratch / "stop").touch()
    assert desk.ended(job)["exit_code"] == 0


@pytest.mark.parametrize("what", ["freeze", "cut"])
def test_what_outlasts_the_lease_loses_the_node(shells, desk, what):
    job = desk.detach(*TWO_HOSTS, "sleep", "2204")
    chaos(desk, "--for", "20s", what, "node1")
    record = desk.ended(job)
    assert record["exit_code"] == 1, record
    assert "node node1 was lost: no beat for" in desk.run("logs", job).text
    # A frozen one dies as it thaws.
    wait_for(lambda: not shells[1].called("sleep 2204"), 30, what="the workers of node1 end")


def test_a_node_is_killed_as_a_whole(shells, desk):
    job = desk.detach(*TWO_HOSTS, "sleep", "2205")
    chaos(desk, "kill", "node1")
    assert desk.ended(job)["exit_code"] == 1
    wait_for(lambda: not [p for s in shells[:2] for p in s.called("sleep 2205")], 10, what="all workers end")


def test_the_master_is_killed_and_nothing_survives_it(shells, desk):
    job = desk.detach(*TWO_HOSTS, "sleep", "2206")
    assert "the launcher is killed" in chaos(desk, "kill", "master")
    assert desk.ended(job)["state"] in ("lost", "ended")
    wait_for(lambda: not [p for s in shells[:2] for p in s.called("sleep 2206")], 15, what="all workers end")


def test_the_only_node_is_killed_and_that_is_said(shells, desk):
    desk.detach("-n", "2", "sleep", "2210")
    assert "is killed, and all its workers" in chaos(desk, "kill", "0")
    wait_for(lambda: not shells[0].called("sleep 2210"), 15, what="all workers end")


def test_a_launcher_that_stands_still_is_killed(shells, desk):
    desk.detach("-n", "2", "sleep", "2209")
    chaos(desk, "--for", "30s", "freeze", "0")
    wait_for(lambda: any(stat_of(pid)[0] == "T" for pid in shells[0].ours()), 10, what="it stands still")
    assert "the launcher is killed" in chaos(desk, "kill", "master")
    wait_for(lambda: not shells[0].called("sleep 2209"), 15, what="all workers end")


def test_a_job_typed_on_every_node_is_broken_where_it_is_served(shells, desk, scratch):
    other = Desk(shells[1], scratch / "other")
    typed = ("--detach", "--nnodes", "2", "--nproc-per-node", "2", "--insecure", "--rdzv-endpoint", "node0:29413")
    starts = [one.start(*typed, "--node-rank", i, "--on-failure", "continue", *sh("sleep 2208")) for i, one in enumerate((desk, other))]
    for start in starts:
        result = start.finish()
        assert result.code == 0 and "4 workers on 2 nodes" in result.text, result
    for what in (("kill", "rank", "0"), ("kill", "master")):
        assert "does not serve its job, whose master is at node0:29413" in chaos(other, *what, code=1)
    assert "rank 3 on node1" in chaos(desk, "kill", "rank", "3")
    wait_for(lambda: len(shells[1].called("sleep 2208")) == 1, 10, what="it is killed")
    assert "the launcher is killed" in chaos(desk, "kill", "master")
    wait_for(lambda: not [p for s in shells[:2] for p in s.called("sleep 2208")], 15, what="all workers end")
