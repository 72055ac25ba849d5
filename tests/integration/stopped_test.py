"""One of our processes stands still (SIGSTOP; a wait in the kernel is the same to the others), and the job does not wait for it."""

import os
import signal
import subprocess

import pytest

from harness import LAUNCH, PATIENCE, WORKERS, kill_all, name_of, sh, wait_for

TWO = ("--hosts", "node0,node1", "--nproc-per-node", "1")
ROUND = 'echo "life $TORCHELASTIC_RESTART_COUNT: rank $RANK of $WORLD_SIZE on $(hostname)"; '


def the(shell, name):
    (pid,) = [pid for pid in shell.ours() if name_of(pid) == name]
    return pid


def test_workers_of_a_stopped_shepherd_end_before_others_take_their_place(shells):
    """Its node hears the job no more: nobody else would end them."""
    job = shells[0].start("--hosts", "node0,node1,node2", "--nproc-per-node", "1", "--nnodes", "2:3", "--rdzv-conf", "last_call_timeout=20", *sh(ROUND + "exec sleep 1094"))
    job.expect("of 3 on", 3)
    os.kill(the(shells[1], "muster-shepherd"), signal.SIGSTOP)
    shells[1].host.cut("drop")
    try:
        wait_for(lambda: not shells[1].called("sleep 1094"), PATIENCE, what="the workers of the node have ended")
        assert "of 2 on" not in job.out.data.decode()
        job.expect("of 2 on", 2)
    finally:
        shells[1].host.heal()
    job.signal(signal.SIGINT)
    assert job.finish().code == 130


def test_a_stopped_shepherd_is_noticed_when_nothing_is_asked_of_it(shells, lab):
    job = shells[0].start(*TWO, *sh(ROUND + "sleep 3"))
    job.expect("of 2 on", 2)
    os.kill(the(shells[1], "muster-shepherd"), signal.SIGSTOP)
    result = job.finish(60)
    assert result.code == 137 and "node1: the shepherd process does not answer" in result.errors, result
    lab.expect_quiet()


def test_a_stopped_agent_is_replaced_and_leaves_nothing(shells, lab):
    job = shells[0].start(*TWO, "--max-restarts", "1", *sh(ROUND + "[ $TORCHELASTIC_RESTART_COUNT = 1 ] || exec sleep 1095"))
    job.expect("life 0: .* of 2 on", 2)
    os.kill(the(shells[1], "muster-agent"), signal.SIGSTOP)
    job.expect("life 1: rank 1 of 2 on node1", seconds=60)
    assert job.finish().code == 0
    lab.expect_quiet()


def test_a_stopped_reaper_ends_with_its_agent(shells, lab):
    job = shells[0].start(*TWO, *sh(ROUND + "setsid sleep 1096 & exec sleep 1097"))
    job.expect("of 2 on", 2)
    os.kill(the(shells[1], "muster-reaper"), signal.SIGSTOP)
    kill_all([the(shells[1], "muster-agent")])
    assert job.finish().code == 1
    lab.expect_quiet()


def test_a_job_of_a_shell_that_is_killed_while_it_is_paused_leaves_nothing(shells, lab):
    """kill -9 %1: launch and its shepherd are of one process group."""
    before = shells[0].host.files()
    ptyrun = ["bash", "--norc", "-i"]
    job = shells[0].start(WORKERS / "ptyrun.py", *ptyrun, program="/usr/bin/python3", stdin=subprocess.PIPE)

    def type_in(text):
        job.proc.stdin.write(text)
        job.proc.stdin.flush()

    type_in(f"{LAUNCH} -n 2 bash -c 'echo up of $RANK; exec sleep 1098'\n".encode())
    job.expect(r"\] up of", 2)
    assert shells[0].host.files() - before
    type_in(b"\x1a")
    job.expect("Stopped")
    type_in(b"kill -9 %1; wait; exit; exit\n")  # the second where the shell has not heard yet that it is dead
    job.finish()
    lab.expect_quiet()
    wait_for(lambda: not shells[0].host.files() - before, 5, what="its files are gone")


@pytest.mark.parametrize("signo", [signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_an_agent_leaves_signals_to_launch(shells, scratch, signo):
    job = shells[0].start(*TWO, *sh(ROUND + f"until [ -e {scratch}/go ]; do sleep 0.1; done"))
    job.expect("of 2 on", 2)
    agent = the(shells[1], "muster-agent")
    os.kill(agent, signo)
    (scratch / "go").touch()
    result = job.finish()
    assert result.code == 0 and result.errors == "", result
