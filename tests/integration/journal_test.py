"""A daemon with a journal is killed, and the next one goes on with its jobs."""

import re
import signal

import pytest

from master_site import DAEMON, STEPS, Site, steps, undisturbed


@pytest.fixture
def site(shells, scratch):
    return Site(shells, scratch)


def test_workers_do_not_notice_that_the_master_was_killed(site):
    daemon = site.serve()
    both = site.job(STEPS)
    for job in both:
        job.expect("step 5 ")
    daemon.signal(signal.SIGKILL)
    daemon.finish()
    for job in both:  # a good deal longer than the 250 ms that a master without a journal has
        job.expect("step ", count=60)
    daemon = site.serve()
    daemon.expect("1 job goes on from", stream="err")
    daemon.expect("the nodes of round .* are back", stream="err")
    site.go.touch()
    undisturbed(both)
    daemon.expect("job job ended with 0", stream="err")


def test_what_ends_while_there_is_no_master_is_reported_once(site):
    daemon = site.serve()
    both = site.job(STEPS + "; [ $RANK = 0 ] || { echo ends; exit 7; }; until [ -e {go}2 ]; do sleep 0.05; done")
    for job in both:
        job.expect("step 5 ")
    daemon.signal(signal.SIGKILL)
    daemon.finish()
    site.go.touch()
    both[1].expect("ends")
    daemon = site.serve()
    results = [job.finish() for job in both]
    assert [result.code for result in results] == [7, 7], results
    assert "rank 1 on node2" in results[0].errors and "exit code 7" in results[0].errors, results[0]
    daemon.expect("job job ended with 7: rank 1 on node2", stream="err")
    daemon.signal(signal.SIGTERM)
    assert daemon.finish().errors.count("job job ended") == 1
    # Nothing of a job that has ended is told again.
    daemon = site.serve()
    daemon.signal(signal.SIGTERM)
    assert "job job ended" not in daemon.finish().errors


def test_each_launch_says_what_its_node_knows_of_restarts_and_of_the_end(site):
    """What the daemon says goes to a log that its users may not read."""
    site.serve()
    script = "[ $RANK$TORCHELASTIC_RESTART_COUNT != 10 ] || kill -9 $$; [ $RANK$TORCHELASTIC_RESTART_COUNT != 01 ] || { echo bad luck >&2; exit 7; }; sleep 1000"
    first, second = [job.finish() for job in site.job(script, "--max-restarts", "1")]
    for launch in (first, second):
        assert len(re.findall("muster: rank 1 on node2 .* was ended by SIGKILL .*; restart 1 of 1\n", launch.errors)) == 1, launch
    assert re.search("job job: rank 0 on node1 .* ended with exit code 7 .*\n  its last lines on stderr:\n    [|] bad luck\n  exit code 7", first.errors), first
    assert re.search("job job: rank 0 on node1 .* ended with exit code 7 .*\n  stopped because of that: rank 1 .SIGTERM.\n  exit code 7", second.errors), second


def test_a_restart_counts_on_with_the_next_master(site):
    daemon = site.serve()
    script = STEPS.replace("-e {go} ", "-e {go}.$TORCHELASTIC_RESTART_COUNT ") + "; [ $RANK = 0 ] || exit 3"
    both = site.job("echo round $MUSTER_ROUND restart $TORCHELASTIC_RESTART_COUNT;" + script, "--max-restarts", "1")
    rounds = []
    for restart in range(2):
        rounds += [both[0].expect(rf"round (\d+) restart {restart}")[0]]
        both[1].expect(rf"restart {restart}")
        daemon.signal(signal.SIGKILL)
        daemon.finish()
        daemon = site.serve()
        daemon.expect("are back", stream="err")
        site.go.with_suffix(f".{restart}").touch()
    assert [job.finish().code for job in both] == [3, 3]
    assert int(rounds[1]) >> 32 > int(rounds[0]) >> 32, rounds


def test_with_restart_one_the_next_master_stops_nobody_who_lives_on(site):
    daemon = site.serve()
    begins = "echo round $MUSTER_ROUND restart $TORCHELASTIC_RESTART_COUNT; [ $RANK$TORCHELASTIC_RESTART_COUNT = 10 ] && exit 3;"
    both = site.job(begins + STEPS + "; [ $RANK$TORCHELASTIC_RESTART_COUNT = 11 ] && exit 3; exit 0", "--restart=one", "--max-restarts", "2")
    daemon.expect("rank 1 on node2 .* ended with exit code 3 .*; replaced: restart 1 of 2", stream="err")
    for job in both:
        job.expect("step 5 ")
    daemon.signal(signal.SIGKILL)
    daemon.finish()
    daemon = site.serve()
    daemon.expect("are back", stream="err")
    site.go.touch()
    daemon.expect("replaced: restart 2 of 2", stream="err")
    survivor, replaced = [job.finish() for job in both]
    assert (survivor.code, replaced.code) == (0, 0), (survivor, replaced)
    counted = steps(survivor)
    assert [n for n, _, _ in counted] == list(range(1, len(counted) + 1)), survivor
    rounds = [(int(token) >> 32, int(restart)) for token, restart in re.findall(r"round (\d+) restart (\d+)", replaced.text)]
    assert rounds == [(rounds[0][0], 0), (rounds[0][0], 1), (rounds[0][0] + 1, 2)], rounds


def test_a_master_that_has_lost_its_journal_refuses_and_starts_nothing_again(site):
    daemon = site.serve()
    both = site.job("echo begins;" + STEPS)
    for job in both:
        job.expect("step 5 ")
    daemon.signal(signal.SIGKILL)
    daemon.finish()
    site.file().unlink()
    site.serve()
    for job in both:
        result = job.finish()
        assert result.code == 1 and "this master does not know round" in result.errors, result
        assert result.text.count("begins") == 1


def test_a_full_disk_is_said_once_and_the_job_goes_on(site):
    bash = lambda script: site.shells[0].run("-c", script, program="/bin/bash")
    assert bash(f"mkdir {site.journal} && mount -t tmpfs -o size=256k,mode=700 none {site.journal}").code == 0
    try:
        daemon = site.serve()
        # Its last words are more than the last page of the file has room for.
        both = site.job(STEPS + "; [ $RANK = 0 ] || { printf %09999d 0 >&2; exit 0; }; until [ -e {go}2 ]; do sleep 0.05; done; exit 4")
        for job in both:
            job.expect("step 5 ")
        assert "No space left" in bash(f"head -c 9M /dev/zero > {site.journal}/filler").errors
        site.go.touch()
        sentence = "job job: this job can no longer survive a master restart: .*No space left on device"
        daemon.expect(sentence, stream="err")
        site.go.with_name("go2").touch()
        assert [job.finish().code for job in both] == [4, 4]
        daemon.expect("job job ended with 4", stream="err")
        daemon.signal(signal.SIGTERM)
        assert daemon.finish().errors.count("no longer survive") == 1
        assert bash(f"rm {site.journal}/filler; ls {site.journal}").text == "lock\n"
    finally:
        site.shells[0].abandon()
        assert bash(f"umount {site.journal}").code == 0


def test_two_daemons_do_not_share_a_journal(site):
    site.serve()
    assert re.search("--journal: .*journal is in use by another launch or muster-rendezvous: end that one", site.refused())


def test_what_was_not_written_to_the_end_is_cut_off(site):
    daemon = site.serve()
    both = site.job(STEPS)
    for job in both:
        job.expect("step 5 ")
    daemon.signal(signal.SIGKILL)
    daemon.finish()
    path = site.file()
    good = path.read_bytes()
    path.write_bytes(good + good[: 12 + 20])  # what a kill leaves of a record
    daemon = site.serve()
    daemon.expect("its last 32 bytes were not written to the end", stream="err")
    daemon.expect("are back", stream="err")
    assert path.read_bytes()[: len(good)] == good
    site.go.touch()
    assert [job.finish().code for job in both] == [0, 0]


def test_one_jobs_damaged_file_ends_no_other_job(site):
    daemon = site.serve()
    both = site.job(STEPS)
    for job in both:
        job.expect("step 5 ")
    path = site.file()
    others = site.job(STEPS, rdzv_id="other")
    for job in others:
        job.expect("step 5 ")
    daemon.signal(signal.SIGKILL)
    daemon.finish()
    damaged = bytearray(path.read_bytes())
    damaged[20] ^= 1
    path.write_bytes(damaged)
    daemon = site.serve()
    daemon.expect(f"{path}: damaged at byte 0: the nodes of its job are refused, the other jobs go on", stream="err")
    daemon.expect("1 job goes on from", stream="err")
    for job in both:
        result = job.finish()
        assert result.code == 1 and "this master does not know round" in result.errors, result
    site.go.touch()
    undisturbed(others)
    assert path.read_bytes() == damaged


def test_the_folder_must_be_one(site):
    site.journal.write_text("")
    assert "--journal: " in site.refused()
    site.journal.unlink()
    result = site.shells[0].run("--journal", "", program=DAEMON)
    assert result.code == 2 and "--journal: want a folder, got ''" in result.errors, result
