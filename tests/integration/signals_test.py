"""Signals reach the workers of all nodes as themselves; stopping is orderly, insisting is quick."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from harness import ANOTHER_PRESS, DEAF, LAUNCH, PYTHON, SIGNALS, WORKERS, sh, stat_of, wait_for

ONE_HOST = ("-n", "2")
TWO_HOSTS = ("--hosts", "node0,node1", "--nproc-per-node", "1")


@pytest.mark.parametrize("where", [ONE_HOST, TWO_HOSTS], ids=["one", "two"])
def test_user_signals_reach_every_worker_and_the_job_goes_on(shells, where):
    job = shells[0].start(*where, "--no-prefix", WORKERS / "catch", "STAY")
    job.expect("ready", 2)
    for name in ("USR1", "USR2", "USR1"):
        job.signal(SIGNALS[name])
        job.expect(f"got {name} [01]", 2 if name == "USR2" else 2)
    wait_for(lambda: job.out.data.count(b"got USR1") == 4, 30, what="each is delivered once and not merged away")
    job.signal(signal.SIGTERM)
    job.expect("got TERM", 2)
    job.signal(signal.SIGKILL)
    job.finish()


@pytest.mark.parametrize("where", [ONE_HOST, TWO_HOSTS], ids=["one", "two"])
def test_a_user_signal_stops_the_job_where_the_user_says_so(shells, where):
    job = shells[0].start(*where, "--grace", "5", "--signals-to-handle", "SIGTERM,SIGUSR1", "--no-prefix", WORKERS / "catch", "LEAVE")
    job.expect("ready", 2)
    job.signal(signal.SIGUSR1)
    result = job.finish()
    assert result.code == 128 + signal.SIGUSR1 and "stopped by the user (SIGUSR1)" in result.errors, result
    assert sorted(l for l in result.text.splitlines() if l.startswith("got")) == ["got USR1 0", "got USR1 1"], result


@pytest.mark.parametrize("where", [ONE_HOST, TWO_HOSTS], ids=["one", "two"])
@pytest.mark.parametrize("name, code", [("INT", 130), ("TERM", 143), ("HUP", 129), ("QUIT", 131)])
def test_stopping_signals_arrive_as_themselves(shells, where, name, code):
    job = shells[0].start(*where, "--no-prefix", WORKERS / "catch", "LEAVE")
    job.expect("ready", 2)
    job.signal(SIGNALS[name])
    result = job.finish()
    assert result.code == code, result
    assert sorted(l for l in result.text.splitlines() if l.startswith("got")) == [f"got {name} 0", f"got {name} 1"], result


@pytest.mark.parametrize("where", [ONE_HOST, TWO_HOSTS], ids=["one", "two"])
def test_who_stands_still_can_save_too(shells, where):
    script = 'trap "echo saved; exit 0" TERM; echo up; kill -STOP $$; sleep 1000'
    job = shells[0].start(*where, "--grace", "60", "--no-prefix", *sh(script))
    job.expect("up", 2)
    stopped = lambda host: [pid for pid, line in host.processes().items() if "kill -STOP" in line and stat_of(pid)[:1] == ["T"]]
    wait_for(lambda: sum(len(stopped(shell.host)) for shell in shells[:2]) == 2, what="both stand still")
    job.signal(signal.SIGTERM)
    result = job.finish()
    assert result.code == 143 and result.text.count("saved") == 2 and result.seconds < 30, result


@pytest.mark.parametrize("where", [ONE_HOST, TWO_HOSTS], ids=["one", "two"])
def test_while_workers_save_it_says_how_many_and_how_long(shells, where):
    """Every 5 s; the first stop's time counts, however else the user asks again."""
    job = shells[0].start(*where, "--grace", "12", "--no-prefix", WORKERS / "catch", "STAY")
    job.expect("ready", 2)
    job.signal(signal.SIGTERM)
    job.expect(r"SIGTERM: stopping 2 workers; what still runs in 12\.0 s is killed", stream="err")
    job.expect(r"waiting for 2 workers \(checkpointing\?\), [1-7] s left", stream="err")
    job.signal(signal.SIGINT)
    job.expect(r"SIGINT: stopping 2 workers; what still runs in [0-7]\.\d s is killed; Ctrl-C again kills now", stream="err")
    time.sleep(ANOTHER_PRESS)
    job.signal(signal.SIGINT)
    assert job.finish().code == 143


@pytest.mark.parametrize("where", [ONE_HOST, TWO_HOSTS], ids=["one", "two"])
def test_why_workers_are_stopped_is_said_while_they_save(shells, where):
    """A peer of one that has failed may hang until it is killed; who then stops the job is told what time is left."""
    job = shells[0].start(*where, "--grace", "60", *sh(f'if [ $RANK = 0 ]; then sleep 0.5; exit 3; fi; exec {WORKERS}/catch STAY'))
    job.expect(r"rank 0 on \S+ \(pid \d+\) ended with exit code 3 after \S+ m?s; stopping 1 worker; what still runs in 5[0-8]\.\d s is killed", stream="err")
    job.signal(signal.SIGINT)
    job.expect(r"SIGINT: stopping 1 worker; what still runs in [1-5]?\d\.\d s is killed; Ctrl-C again kills now", stream="err")
    time.sleep(ANOTHER_PRESS)
    job.signal(signal.SIGINT)
    result = job.finish()
    assert result.code == 3 and "got TERM" in result.text and result.errors.count("stopping 1 worker") == 2, result


def test_one_press_that_comes_twice_is_one(node0):
    """By the terminal, and by what launch runs under (timeout, npm)."""
    job = node0.start("-n", "2", WORKERS / "catch", "LEAVE")
    job.expect("ready", 2)
    for _ in range(2):
        job.signal(signal.SIGINT)
    result = job.finish()
    assert result.code == 130 and result.text.count("got INT") == 2 and "killing" not in result.errors, result


@pytest.mark.parametrize("where", [ONE_HOST, TWO_HOSTS], ids=["one", "two"])
@pytest.mark.parametrize("name, code", [("INT", 130), ("TERM", 143), ("HUP", 129)])
def test_what_the_parent_had_blocked_is_heard(shells, where, name, code):
    job = shells[0].start(*DEAF, LAUNCH, *where, "--no-prefix", WORKERS / "catch", "LEAVE", program=PYTHON)
    job.expect("ready", 2)
    job.signal(SIGNALS[name])
    result = job.finish()
    assert result.code == code and result.text.count(f"got {name}") == 2, result


def test_the_end_of_ssh_is_heard_where_the_parent_had_it_blocked(node0):
    result = node0.run(*DEAF, LAUNCH, "--hosts", "no-such-host,node1", "--nproc-per-node", "1", "true", program=PYTHON)
    assert result.code == 1 and "ssh ended with status 255" in result.errors, result


def test_a_second_interrupt_kills_now(node0):
    job = node0.start("-n", "2", WORKERS / "catch", "STAY")
    job.expect("ready", 2)
    job.signal(signal.SIGINT)
    job.expect("got INT", 2)
    time.sleep(ANOTHER_PRESS)
    began = time.monotonic()
    job.signal(signal.SIGINT)
    result = job.finish()
    assert result.code == 130 and time.monotonic() - began < 10, result


@pytest.mark.parametrize("where", [ONE_HOST, TWO_HOSTS], ids=["one", "two"])
def test_ctrl_c_on_a_terminal(shells, where):
    """The terminal signals its whole foreground group; ssh must not be in it, and workers get it once."""
    job = shells[0].start(WORKERS / "ptyrun.py", LAUNCH, *where, "--no-prefix", WORKERS / "catch", "LEAVE", program="/usr/bin/python3", stdin=subprocess.PIPE)
    job.expect("ready", 2)
    job.proc.stdin.write(b"\x03")
    job.proc.stdin.flush()
    result = job.finish()
    assert result.code == 130, result
    assert result.out.count(b"got INT") == 2, result


def test_ctrl_z_pauses_job_and_lease(shells):
    job = shells[0].start(*TWO_HOSTS, *sh('echo up; exec sleep 1020'))
    job.expect("up", 2)
    sleepers = lambda: [p for s in shells[:2] for p in s.called("sleep 1020")]
    workers = wait_for(lambda: len(found := sleepers()) == 2 and found, 20, what="both sleep behind what they said")
    job.signal(signal.SIGTSTP)
    wait_for(lambda: all(stat_of(p)[0] == "T" for p in workers), 20, what="the workers stand still")
    time.sleep(8)  # longer than lease and slack: what is tested is that this time does not count
    assert all(stat_of(p)[0] == "T" for p in workers)
    job.signal(signal.SIGCONT)
    wait_for(lambda: all(stat_of(p)[0] == "S" for p in workers), 20, what="the workers go on")
    assert job.proc.poll() is None
    job.signal(signal.SIGTERM)
    assert job.finish().code == 143


def paused_for_a_moment(job, then):
    """Sends `then` once launch has heard of the pause; it stands still itself 0.3 s later. (Two signals at once come in any order, or as one.)"""
    job.expect("ready", 2)
    pid, began = job.pid, time.monotonic()
    status = Path(f"/proc/{pid}/status")
    is_pending = lambda: int(re.search(r"ShdPnd:\s*(\w+)", status.read_text())[1], 16) >> (signal.SIGTSTP - 1) & 1
    os.kill(pid, signal.SIGTSTP)
    wait_for(lambda: not is_pending(), 20, 0.001, what="launch hears of the pause")
    job.signal(then)
    if then != signal.SIGCONT and time.monotonic() - began > 0.25:  # we were held up, and it may stand still: fg
        job.signal(signal.SIGCONT)


def test_a_continue_right_after_ctrl_z_leaves_launch_running(shells, scratch):
    job = shells[0].start(*TWO_HOSTS, *sh(f'echo ready; until [ -e "{scratch}/go" ]; do sleep 0.1; done; echo done'))
    paused_for_a_moment(job, signal.SIGCONT)
    time.sleep(1)
    assert stat_of(job.pid)[0] != "T"
    (scratch / "go").touch()
    result = job.finish()
    assert result.code == 0 and result.out.count(b"done") == 2, result


def test_an_interrupt_right_after_ctrl_z_stops_the_job(shells):
    job = shells[0].start(*TWO_HOSTS, "--no-prefix", WORKERS / "catch", "LEAVE")
    paused_for_a_moment(job, signal.SIGINT)
    result = job.finish()
    assert result.code == 130 and result.out.count(b"got INT") == 2, result


def test_in_the_background_it_never_stops_on_terminal_input(node0):
    script = f'set -m; {LAUNCH} -n 1 cat & sleep 0.5; kill -TERM %1; wait %1; echo "code $?"'
    job = node0.start(WORKERS / "ptyrun.py", "bash", "-c", script, program="/usr/bin/python3", stdin=subprocess.PIPE)
    job.expect("code (143|0)", seconds=20)
    job.finish()


def test_timeout(node0):
    result = node0.run("-n", "2", "--timeout", "1", "sleep", "1021")
    assert result.code == 124, result
    assert 0.9 < result.seconds < 20


def test_the_state_at_a_timeout_is_told_when_asked_for(shells):
    args = ("--hosts", "node0,node1", "--nproc-per-node", "1", "--timeout", "8", "--report-state-on-timeout")
    result = shells[0].run(*args, *sh("[ $RANK = 0 ] || exec sleep 1022"))
    assert result.code == 124, result
    assert "rank 0 on" not in result.errors, result
    assert re.search(r"rank 1 on node1, pid \d+: running, then SIGTERM", result.errors), result
