"""--nnodes MIN:MAX with real nodes: the last call, a node that is late, one that is lost, and one that comes back."""

import signal

from harness import sh

LEAVES = "this node leaves it (SIGTERM)"
ROUND = 'echo "round $TORCHELASTIC_RESTART_COUNT rank $RANK of $WORLD_SIZE fence $MUSTER_ROUND"; exec sleep 1080'


def elastic(port, *more, nodes="1:3"):
    return ("--nnodes", nodes, "--nproc-per-node", "1", "--rdzv-endpoint", f"node0:{port}", "--rdzv-conf", "last_call_timeout=2", *more, *sh(ROUND))


def test_it_starts_with_fewer_after_the_last_call(shells):
    jobs = [shell.start(*elastic(29495)) for shell in shells[:2]]
    ranks = {job.expect(r"rank (\d) of 2")[0] for job in jobs}
    assert ranks == {"0", "1"}
    late = shells[2].start(*elastic(29495))
    late.expect("the job runs with 2 nodes; this node joins the next round", stream="err")
    jobs[0].signal(2)
    assert [job.finish().code for job in (*jobs, late)] == [130] * 3


def test_a_late_node_takes_the_place_of_a_lost_one_which_comes_back(shells, lab):
    jobs = [shell.start(*elastic(29496, "--max-restarts", "5", "--node-rank", str(i))) for i, shell in enumerate(shells[:2])]
    for job in jobs:
        job.expect("of 2")
    late = shells[2].start(*elastic(29496, "--max-restarts", "5", "--node-rank", "2"))
    late.expect("joins the next round", stream="err")
    try:
        lab[1].kill()
        late.expect(r"round 0 rank 1 of 2", seconds=40)  # nodes may go: that is no restart
        jobs[0].expect(r"round 0 rank 0 of 2", 2)
    finally:
        lab[1].boot()
    back = shells[1].start(*elastic(29496, "--max-restarts", "5", "--node-rank", "1"))
    back.expect("joins the next round", stream="err")
    back.expect(r"round 0 rank 1 of 3")  # its own
    late.expect(r"round 0 rank 2 of 3")
    jobs[0].expect(r"round 0 rank 0 of 3")
    fences = [int(fence) for fence in jobs[0].expect(r"fence (\d+)", 3)]
    assert fences == sorted(set(fences)), fences
    jobs[0].signal(2)
    assert [job.finish().code for job in (jobs[0], late, back)] == [130] * 3


def test_a_node_that_is_told_to_end_leaves_and_the_others_go_on(shells):
    """Spot machines and pods get SIGTERM; Ctrl-C, and SIGTERM where the job is served, stop the job."""
    jobs = [shell.start(*elastic(29493)) for shell in shells[:2]]
    ranks = [job.expect(r"rank (\d) of 2")[0] for job in jobs]
    waits = shells[2].start(*elastic(29493))
    waits.expect("this node joins the next round", stream="err")
    for job in (waits, jobs[1]):
        job.signal(signal.SIGTERM)
        result = job.finish()
        assert result.code == 143 and LEAVES in result.errors, result
    jobs[0].expect("round 0 rank 0 of 1")
    jobs[0].expect(r"node node1 leaves: it was told to end \(SIGTERM\); a round of 1 node follows", stream="err")
    back = shells[1].start(*elastic(29493))
    back.expect(f"round 0 rank {ranks[1]} of 2")  # its own again
    jobs[0].expect(f"round 0 rank {ranks[0]} of 2", 2)
    back.signal(signal.SIGINT)
    assert [job.finish().code for job in (jobs[0], back)] == [130] * 2


def test_the_job_stops_with_a_node_that_it_needs(shells):
    jobs = [shell.start(*elastic(29492, nodes="2:3")) for shell in shells[:2]]
    for job in jobs:
        job.expect("of 2")
    jobs[1].signal(signal.SIGTERM)
    results = [job.finish() for job in jobs]
    assert [result.code for result in results] == [143] * 2 and LEAVES not in results[1].errors, results
