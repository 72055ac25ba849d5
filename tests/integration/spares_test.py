"""Spares of a job at a daemon, and what is there on a spare before it is needed."""

import signal

import pytest

from harness import kill_all, sh, wait_for
from master_site import Site

ROUND = "echo rank $RANK of $WORLD_SIZE restarts $TORCHELASTIC_RESTART_COUNT; exec sleep 2601"


@pytest.fixture
def site(shells, scratch):
    """Starts a node of a job at a daemon; nobody says which rank it is."""
    site = Site(shells, scratch, keep=[])
    site.serve()
    return lambda shell, *more: shells[shell].start(*site.meeting(), *more, *sh(ROUND))


def test_a_daemon_knows_how_many_spares_a_job_has(site):
    """Two nodes and a spare, all on their own; a fourth one is one too many."""
    first, second = (site(shell, "--spares", "1") for shell in (1, 2))
    for job in (first, second):
        job.expect("of 2 restarts 0")
    spare = site(0, "--spares", "1")
    spare.expect("waits for a place|spare", stream="err")
    refused = site(0, "--spares", "1").finish()
    assert refused.code == 1 and "the job has its 2 nodes and 1 spare (--nnodes, --spares)" in refused.errors, refused
    second.signal(signal.SIGKILL)
    spare.expect(r"rank \d of 2 restarts 0")
    first.expect(r"rank \d of 2 restarts 0", 2)
    first.signal(signal.SIGINT)
    assert [job.finish().code for job in (first, spare)] == [130, 130]


def test_all_nodes_have_as_many(site):
    first = site(1, "--spares", "1")
    first.expect("waiting", stream="err")
    other = site(2).finish()
    assert other.code == 1 and "--spares: node1 has '1', node2 has ''; give the same value on every node" in other.errors, other
    first.expect(r"refused: node2 \(--spares: node1 has '1', node2 has ''; give", stream="err")  # who waits for it hears why
    first.signal(signal.SIGINT)
    first.finish()


def test_what_is_shipped_is_on_a_spare_before_it_is_needed(shells, scratch):
    (scratch / "data").mkdir()
    (scratch / "data" / "x").write_text("some data")
    shipped = lambda shell: [name for name in shell.host.files() if name.endswith("/data/x") and "/muster-ship-" in name]
    options = ("--hosts", "node0,node1,node2", "--nnodes", "2", "--spares", "1", "--nproc-per-node", "1")
    job = shells[0].start(*options, "--ship", scratch / "data", *sh('cat "$MUSTER_SHIP_DIR/data/x"; echo; ' + ROUND))
    job.expect("of 2 restarts 0", 2)
    wait_for(lambda: shipped(shells[2]), 10, what="the spare has it")
    assert not shells[2].called("sleep 2601")
    with shells[1].host.no_new_logins():  # the spare is there first
        kill_all([min(shells[1].ours())])
        job.expect("@node2. some data")
        job.expect("@node2. rank 1 of 2")
    job.signal(signal.SIGINT)
    assert job.finish().code == 130
