"""launch chaos: users break a part of their own job, and see what becomes of it."""

import pytest

from harness import sh, wait_for

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


def test_help_says_what_is_not_cut(node0):
    text = " ".join(node0.run("chaos", "--help").text.split())
    assert "what goes between the workers themselves, and what they print, is not held up" in text


def test_what_lasts_less_than_the_lease_does_no_harm(desk):
    job = desk.detach(*TWO_HOSTS, *sh("sleep 4"))
    assert "node1 stands still for 1.0 s" in chaos(desk, "--for", "1s", "freeze", "node1")
    assert "arrives 200 ms later for 2.0 s" in chaos(desk, "--for", "2s", "slow", "node0", "200ms")
    assert "nothing goes between node1 and the master for 1.0 s" in chaos(desk, "--for", "1s", "cut", "node1")
    assert desk.ended(job)["exit_code"] == 0


@pytest.mark.parametrize("what", ["freeze", "cut"])
def test_what_outlasts_the_lease_loses_the_node(shells, desk, what):
    job = desk.detach(*TWO_HOSTS, "sleep", "2204")
    chaos(desk, "--for", "9s", what, "node1")
    record = desk.ended(job)
    assert record["exit_code"] == 1, record
    assert "node node1 was lost: no beat for" in desk.run("logs", job).text
    # A frozen one dies as it thaws.
    wait_for(lambda: not shells[1].called("sleep 2204"), 15, what="the workers of node1 end")


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
