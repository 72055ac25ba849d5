"""launch --serve --journal: that launch is killed and typed again, and the job goes on."""

import signal
import time

import pytest

import master_site
from harness import kill_all, stat_of, wait_for
from master_site import STEPS, steps


class Site(master_site.Site):
    """node0 serves a job of two nodes, of which it is the first."""

    def serve(self, *more, script=STEPS):
        return self.node(0, script, "--serve", "--journal", self.journal, *more, host=0)

    def other(self, *more, script=STEPS):
        return self.node(1, script, *more, host=1)

    def both(self, *more, script=STEPS):
        """Both nodes, at work."""
        jobs = [self.serve(*more, script=script), self.other(*more, script=script)]
        for job in jobs:
            printed(job, 5)
        return jobs


@pytest.fixture
def site(shells, scratch):
    return Site(shells, scratch)


def printed(job, count):
    """What a job prints also when the process that was typed has ended."""
    wait_for(lambda: job.out.data.count(b"step ") >= count, 20, what=lambda: f"{count} steps of {job._so_far()}")


def test_workers_of_both_nodes_do_not_notice_it(site):
    both = site.both()
    both[0].signal(signal.SIGKILL)
    for job in both:  # a good deal longer than the 250 ms that a master without a journal has
        printed(job, 60)
    again = site.serve()
    again.expect("the agent of this node lives: this launch only serves", stream="err")
    again.expect("the nodes of round .* are back", stream="err")
    both[1].expect("no connection to the master: ", stream="err")
    both[1].expect("connected to the master again", stream="err")
    site.go.touch()
    assert [again.finish().code, both[1].finish().code] == [0, 0]
    for job in both:
        counted = steps(job.finish())
        assert [n for n, _, _ in counted] == list(range(1, len(counted) + 1))
        assert len({pid for _, pid, _ in counted}) == 1
    assert not list(site.journal.glob("job-*"))


def test_another_program_is_not_taken_for_the_job(site):
    both = site.both()
    both[0].signal(signal.SIGKILL)
    both[0].finish()
    other = site.serve(script="exit 5").finish()
    assert other.code == 1 and "is of this job with another program (" in other.errors and "type the same as before" in other.errors, other
    again = site.serve()
    again.expect("the nodes of round .* are back", stream="err")
    site.go.touch()
    assert [again.finish().code, both[1].finish().code] == [0, 0]


def test_ctrl_z_where_it_serves_pauses_all_nodes(site):
    """A master that stands still on purpose is not one that has gone."""
    both = site.both("--lease", "10s")
    counts = lambda: [job.out.data.count(b"step ") for job in both]
    both[0].signal(signal.SIGTSTP)
    wait_for(lambda: stat_of(both[0].pid)[0] == "T", 20, what="launch stands still")

    def still():
        before = counts()
        time.sleep(1)
        return counts() == before

    wait_for(still, 20, what="the workers stand still, and what they said has been read")
    paused = counts()
    time.sleep(13)  # longer than the lease and its slack: what is tested is that this time does not count
    assert counts() == paused
    both[0].signal(signal.SIGCONT)
    for job, count in zip(both, paused):
        printed(job, count + 20)
    site.go.touch()
    assert [job.finish().code for job in both] == [0, 0]


def test_what_ends_meanwhile_is_in_the_report_of_the_next(site):
    script = STEPS + "; [ $RANK = 0 ] && exit 7; until [ -e {go}2 ]; do sleep 0.05; done"
    both = site.both(script=script)
    both[0].signal(signal.SIGKILL)
    site.go.touch()
    again = site.serve(script=script)
    result = again.finish()
    assert result.code == 7 and result.errors.count("rank 0 on node0") == 1 and "exit code 7" in result.errors, result
    assert both[1].finish().code == 7


def test_killed_twice(site):
    both = site.both()
    serving = both[0]
    for _ in range(2):
        serving.signal(signal.SIGKILL)
        serving.proc.wait()
        serving = site.serve()
        serving.expect("the nodes of round .* are back", stream="err")
    site.go.touch()
    assert [serving.finish().code, both[1].finish().code] == [0, 0]


def test_a_node_that_is_killed_as_a_whole_comes_back_as_a_new_life(site):
    script = "echo step of life $TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit 0; exec sleep 2501"
    both = [site.serve("--max-restarts", "1", script=script), site.other("--max-restarts", "1", script=script)]
    for job in both:
        job.expect("step of life 0")
    kill_all(list(site.shells[0].ours()))
    again = site.serve("--max-restarts", "1", script=script)
    again.expect("step of life 1", seconds=15)  # the lease of 30 s is not waited for
    assert [again.finish().code, both[1].finish().code] == [0, 0]


def test_nothing_is_left_where_all_launches_are_killed(site):
    both = site.both("--lease", "4s")
    for job in both:
        job.signal(signal.SIGKILL)
    wait_for(lambda: not any(shell.ours() for shell in site.shells), 15, what="the agents end with their lease")


def test_it_stops_as_one(site):
    both = site.both()
    both[0].signal(signal.SIGINT)
    results = [job.finish() for job in both]
    assert [result.code for result in results] == [130, 130], results
    assert "stopped by the user (SIGINT)" in results[0].errors, results[0]


def test_a_journal_of_another_job_is_refused(site):
    both = site.both()
    both[0].signal(signal.SIGKILL)
    refused = site.serve("--rdzv-id", "other").finish()
    assert refused.code == 1 and "is of the job 'job', this is 'other'" in refused.errors, refused
    other = site.serve("--max-restarts", "3").finish()
    assert other.code == 1 and "is of this job with other options: type the same as before" in other.errors, other
    again = site.serve()
    again.expect("are back", stream="err")
    site.go.touch()
    assert [again.finish().code, both[1].finish().code] == [0, 0]


def test_two_do_not_serve_from_one_journal(site):
    both = site.both()
    second = site.serve().finish()
    assert second.code == 1 and str(site.journal) in second.errors, second
    site.go.touch()
    assert [job.finish().code for job in both] == [0, 0]


def test_a_damaged_journal_is_named_and_left_as_it_is(site):
    both = site.both()
    both[0].signal(signal.SIGKILL)
    path = site.file()
    good = path.read_bytes()
    first = 12 + int.from_bytes(good[:4], "little")  # the header's frame
    for at in (4, 20, first, first + 40):
        damaged = good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :] + bytes(12)
        path.write_bytes(damaged)
        refused = site.serve().finish()
        offset = 0 if at < first else first
        assert refused.code == 1, refused
        assert f"{path}: damaged at byte {offset}; remove it to give its job up" in refused.errors, (at, refused)
        assert path.read_bytes() == damaged
    path.write_bytes(good)
    again = site.serve()
    site.go.touch()
    assert [again.finish().code, both[1].finish().code] == [0, 0]


def test_what_it_goes_with(node0):
    result = node0.run("--journal", "x", "--nnodes", "2", "true")
    assert result.code == 2 and "--journal x: want --nnodes, --serve, --node-rank and --rdzv-endpoint HOST:PORT" in result.errors, result
