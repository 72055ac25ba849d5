"""--restart=one: what failed is started anew, and the others live on."""

import json
import re
import signal

import pytest

from harness import BIN, PYTHON, kill_all, sh, wait_for

WORDS = 'echo "rank $RANK restarts $TORCHELASTIC_RESTART_COUNT fence $MUSTER_ROUND replacement ${MUSTER_REPLACEMENT-no}."'
LINE = r"rank (\d+) restarts (\d+) fence (\d+) replacement (\w+)\."

# All meet; then rank 0 ends well, and rank 1 does not, at about the same time.
EPILOGUE = """
import muster
with muster.init() as c:
    c.barrier()
    rank = c.rank
raise SystemExit(3 * rank)
"""


class Workers:
    """Each says how it was started and waits for the gate."""

    def __init__(self, scratch):
        self.gate = scratch / "gate"
        self.wait = f"until [ -e {self.gate} ]; do sleep 0.05; done"

    def program(self, first=":"):
        return sh(f"{WORDS}; {first}; exec sh -c '{self.wait}' $RANK")

    def pid(self, shell, rank):
        return wait_for(lambda: shell.called(f"sh -c {self.wait} {rank}"), what=f"rank {rank}")[0]

    def pids(self, shell, ranks):
        return {rank: self.pid(shell, rank) for rank in ranks}


def test_a_killed_worker_comes_back_and_the_others_stay(node0, scratch):
    workers = Workers(scratch)
    job = node0.start("--standalone", "--nnodes", "2", "--nproc-per-node", "2", "--restart=one", "--max-restarts", "3", "--no-prefix", "--report", scratch / "report.json", *workers.program())
    first = job.expect(LINE, 4)
    fence = int(first[0][2])
    assert sorted(first) == [(str(rank), "0", str(fence), "no") for rank in range(4)], first
    began = workers.pids(node0, range(4))
    kill_all([began[2]])
    job.expect(r"rank 2 on \S+ \(pid \d+\) was ended by SIGKILL .*; replaced: restart 1 of 3", stream="err")
    assert job.expect(LINE, 5)[4] == ("2", "1", str(fence + 1), "1")
    again = workers.pids(node0, range(4))
    assert {rank for rank in began if began[rank] != again[rank]} == {2}, (began, again)
    # What replaces may fail as well, and another one with it.
    kill_all([again[2], again[0]])
    later = job.expect(LINE, 7)[5:]
    assert {(rank, word) for rank, _, _, word in later} == {("0", "1"), ("2", "1")}, later
    last = workers.pids(node0, range(4))
    assert {rank for rank in again if again[rank] != last[rank]} == {0, 2}, (again, last)
    workers.gate.touch()
    result = job.finish()
    assert result.code == 0 and len(re.findall(LINE, result.text)) == 7, result
    report = json.loads((scratch / "report.json").read_text())
    assert report["restarts"] == 3 and len(report["history"]) == 3, report
    assert "replaced: restart 3 of 3" in report["history"][2], report


def test_what_a_dead_worker_left_behind_is_gone_and_the_others_children_are_not(node0, scratch):
    workers = Workers(scratch)
    left = {rank: (f"sleep 114{rank}", f"sleep 115{rank}") for rank in (0, 1)}
    job = node0.start("-n", "2", "--restart=one", "--max-restarts", "1", "--no-prefix", *workers.program("setsid sleep 114$RANK & (sleep 115$RANK &)"))
    began = workers.pids(node0, (0, 1))
    before = {word: wait_for(lambda: node0.called(word)) for words in left.values() for word in words}
    kill_all([began[1]])
    job.expect(LINE, 3)
    for word in left[1]:
        now = wait_for(lambda: node0.called(word))
        assert len(now) == 1 and now != before[word], word
    for word in left[0]:
        assert node0.called(word) == before[word], word
    workers.gate.touch()
    assert job.finish().code == 0
    assert not any(node0.called(word) for word in before)


def test_the_job_ends_when_no_restart_is_left(node0, scratch):
    fails = f'until [ -e "{scratch}/said" ]; do sleep 0.01; done; exit 7'  # not before rank 0 has spoken
    script = f'{WORDS}; [ $RANK = 1 ] && {{ {fails}; }}; touch "{scratch}/said"; exec sleep 1130'
    result = node0.run("-n", "2", "--restart=one", "--max-restarts", "2", "--no-prefix", *sh(script))
    assert result.code == 7 and not node0.called("sleep 1130"), result
    began = sorted(line[0] for line in re.findall(LINE, result.text))
    assert began == ["0", "1", "1", "1"], result


def test_one_that_ended_well_is_not_replaced(node0, scratch):
    workers = Workers(scratch)
    job = node0.start("-n", "2", "--restart=one", "--max-restarts", "1", "--no-prefix", *workers.program("[ $RANK = 0 ] && exit 0"))
    job.expect(LINE, 2)
    kill_all([workers.pid(node0, 1)])
    assert job.expect(LINE, 3)[2][0] == "1"
    workers.gate.touch()
    result = job.finish()
    assert result.code == 0 and len(re.findall(LINE, result.text)) == 3, result


@pytest.mark.parametrize("nodes", [1, 2])
def test_where_one_has_ended_well_a_replacement_does_not_wait_for_all(node0, scratch, nodes):
    """Its program begins as all did, by meeting all."""
    program = scratch / "epilogue.py"
    program.write_text(EPILOGUE)
    options = ("--standalone", "--nnodes", nodes, "--nproc-per-node", 2 // nodes, "--restart=one", "--max-restarts", "9")
    result = node0.run(*options, PYTHON, program, env={"PYTHONPATH": str(BIN.parent / "python")})
    assert result.code == 1 and "FailedPrecondition: rank 0 has ended well, and is not started again: the ranks of this job cannot all meet" in result.errors, result
    assert "replaced: restart 1 of 9" in result.errors and "restart 2 of 9" not in result.errors, result
    assert "not started again: it needs rank 0, which has ended well and is not started again" in result.errors, result


def test_a_lost_node_gets_its_ranks_back_while_the_others_live_on(shells, lab, scratch):
    workers = Workers(scratch)
    options = ("--nnodes", "2", "--nproc-per-node", "2", "--rdzv-endpoint", "node0:29497", "--restart=one", "--max-restarts", "2", "--no-prefix")
    jobs = [shell.start(*options, "--node-rank", str(i), *workers.program()) for i, shell in enumerate(shells[:2])]
    jobs[1].expect(LINE, 2)
    began = workers.pids(shells[0], (0, 1))
    try:
        lab[1].kill()
        jobs[0].expect("the others wait for a node that takes its place", stream="err")
    finally:
        lab[1].boot()
    back = shells[1].start(*options, "--node-rank", "1", *workers.program())
    assert {(rank, word) for rank, _, _, word in back.expect(LINE, 2)} == {("2", "1"), ("3", "1")}
    assert workers.pids(shells[0], (0, 1)) == began
    workers.gate.touch()
    assert [job.finish().code for job in (jobs[0], back)] == [0, 0]


def test_a_stop_ends_survivors_and_replacements(node0, scratch):
    workers = Workers(scratch)
    job = node0.start("-n", "3", "--restart=one", "--max-restarts", "1", "--no-prefix", *workers.program())
    kill_all([workers.pid(node0, 1)])
    job.expect(LINE, 4)
    job.signal(signal.SIGINT)
    assert job.finish().code == 130
