"""What a worker runs in turn, in its own process group or in others: gets the signals, and the time to save."""

import signal

import pytest

from harness import LAUNCH, WORKERS, sh, stat_of, wait_for

ONE_HOST = ("-n", "2")
TWO_HOSTS = ("--hosts", "node0,node1", "--nproc-per-node", "1")
SAVES = WORKERS / "saves"
where_and_what = lambda test: pytest.mark.parametrize("where", [ONE_HOST, TWO_HOSTS], ids=["one", "two"])(
    pytest.mark.parametrize("wrapper", ["", "timeout 100 "], ids=["shell", "timeout"])(test))


@where_and_what
def test_what_a_shell_runs_has_the_grace(shells, where, wrapper):
    """The shell dies of SIGTERM at once."""
    job = shells[0].start(*where, "--grace", "60", "--no-prefix", *sh(f"{wrapper}{SAVES}; echo ended $?"))
    job.expect("ready", 2)
    job.signal(signal.SIGTERM)
    result = job.finish()
    assert result.code == 143 and result.text.count("saved") == 2 and result.text.count("got SIGTERM") == 2, result
    assert result.seconds < 40, result


@where_and_what
def test_what_a_shell_runs_has_the_restart_grace(shells, scratch, where, wrapper):
    script = f"[ $TORCHELASTIC_RESTART_COUNT != 0 ] && exit 0; [ $RANK = 1 ] && {{ {wrapper}{SAVES}; exit 0; }};" \
             f" until [ -e {scratch}/go ]; do sleep 0.1; done; exit 3"
    job = shells[0].start(*where, "--max-restarts", "1", "--restart-grace", "60", "--no-prefix", *sh(script))
    job.expect("ready 1")
    (scratch / "go").touch()
    result = job.finish()
    assert result.code == 0 and result.text.count("saved 1") == 1 and result.seconds < 40, result


@pytest.mark.parametrize("where", [ONE_HOST, TWO_HOSTS], ids=["one", "two"])
def test_what_a_shell_runs_saves_when_another_rank_fails(shells, scratch, where):
    script = f"[ $RANK = 1 ] && {{ timeout 100 {SAVES}; exit 0; }}; until [ -e {scratch}/go ]; do sleep 0.1; done; exit 3"
    job = shells[0].start(*where, "--no-prefix", *sh(script))
    job.expect("ready 1")
    (scratch / "go").touch()
    result = job.finish()
    assert result.code == 3 and result.text.count("saved 1") == 1 and result.seconds < 25, result


def test_what_does_not_end_is_killed_after_the_grace(node0):
    job = node0.start("-n", "2", "--grace", "2", *sh('(trap : TERM; echo up; while :; do sleep 1031; done) & wait'))
    job.expect("up", 2)
    wait_for(lambda: len(node0.called("sleep 1031")) == 2, what="both stay")
    job.signal(signal.SIGTERM)
    job.expect("what still runs in 2.0 s is killed", stream="err")
    result = job.finish()
    assert result.code == 143 and 2 <= result.seconds < 20 and not node0.called("sleep 1031"), result


@pytest.mark.parametrize("signo, script", [
    (signal.SIGINT, "sleep 1035 & echo up; sleep 1036"),  # which a shell has ignore it
    (signal.SIGTERM, '(trap "" TERM; exec sleep 1035) & echo up; sleep 1036'),
], ids=["int", "term"])
def test_what_ignores_the_stop_is_not_waited_for(node0, signo, script):
    job = node0.start("-n", "2", "--grace", "60", *sh(script))
    job.expect("up", 2)
    wait_for(lambda: len(node0.called("sleep 1035")) == 2, what="both are there")
    job.signal(signo)
    result = job.finish()
    assert result.code == 128 + signo and result.seconds < 30 and not node0.called("sleep 1035"), result


def test_a_daemon_has_no_time_of_its_own(node0):
    """One in a session of its own, that does not heed the signal either."""
    job = node0.start("-n", "2", "--grace", "60", *sh('(trap "" TERM; exec setsid sleep 1032) & echo up; wait'))
    job.expect("up", 2)
    wait_for(lambda: len(node0.called("sleep 1032")) == 2, what="both daemons are there")
    job.signal(signal.SIGTERM)
    result = job.finish()
    assert result.code == 143 and result.seconds < 30 and not node0.called("sleep 1032"), result


def test_another_interrupt_kills_what_saves(node0):
    job = node0.start("-n", "2", "--grace", "60", "--no-prefix", *sh('(trap : TERM INT; echo up; while :; do sleep 1033; done) & wait'))
    job.expect("up", 2)
    job.signal(signal.SIGTERM)
    job.expect("stopping 2 workers", stream="err")
    job.signal(signal.SIGINT)
    job.expect("SIGINT", stream="err")
    wait_for(lambda: job.proc.poll() is not None or job.signal(signal.SIGINT), 30, 0.3, what="it ends by a second one")
    assert job.finish().code == 143 and not node0.called("sleep 1033")


@pytest.mark.parametrize("where", [ONE_HOST, TWO_HOSTS], ids=["one", "two"])
def test_signals_reach_the_groups_below_workers(shells, where):
    """timeout(1) leads one; it would die of SIGUSR1, where its parent does not ignore that."""
    job = shells[0].start(*where, "--grace", "60", "--no-prefix", *sh(f'trap "" USR1; timeout 100 {SAVES}; echo ended'))
    job.expect("ready", 2)
    for count in (2, 4):
        job.signal(signal.SIGUSR1)
        job.expect("got SIGUSR1", count)
    job.signal(signal.SIGINT)
    result = job.finish()
    assert result.code == 130 and result.text.count("saved") == 2 and result.text.count("ended") == 2, result
    assert result.text.count("got SIGUSR1") == 4 and result.text.count("got SIGINT") == 2, result


@pytest.mark.parametrize("where", [ONE_HOST, TWO_HOSTS], ids=["one", "two"])
def test_ctrl_z_reaches_the_groups_below_workers(shells, where):
    job = shells[0].start(*where, *sh("timeout 1000 sleep 1034 & set -m; sleep 1034 & setsid sleep 1034 & echo up; exec sleep 1034"))
    job.expect("up", 2)
    found = lambda: [p for s in shells[:2] for p in s.called("sleep 1034") if stat_of(p)]
    below = wait_for(lambda: len(pids := found()) == 8 and pids, 20, what="all below the workers are there")
    job.signal(signal.SIGTSTP)
    wait_for(lambda: all(stat_of(p)[0] == "T" for p in below), 20, what="they stand still")
    job.signal(signal.SIGCONT)
    wait_for(lambda: all(stat_of(p)[0] == "S" for p in below), 20, what="they go on")
    job.signal(signal.SIGTERM)
    assert job.finish().code == 143


def test_a_launch_below_passes_signals_on_once(node0):
    job = node0.start("-n", "1", "--grace", "60", "--no-prefix", LAUNCH, "-n", "2", "--no-prefix", WORKERS / "catch", "LEAVE")
    job.expect("ready", 2)
    job.signal(signal.SIGUSR1)
    job.expect("got USR1", 2)
    job.signal(signal.SIGTERM)
    result = job.finish()
    assert result.text.count("got USR1") == 2 and result.text.count("got TERM") == 2, result
