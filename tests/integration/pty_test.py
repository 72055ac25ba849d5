"""--pty: one rank has the user's terminal, the others are as ever; --gdb: that rank under a debugger."""

import os
import signal
import subprocess

import pytest

from harness import LAUNCH, WORKERS, sh

WHERE = pytest.mark.parametrize("where", [["-n", "2"], ["--standalone", "--nnodes", "2"], ["--hosts", "node0,node1"]], ids=["one", "standalone", "hosts"])
STTY = '; echo "after: $(stty -a | grep -oE -e "-?(icanon|isig|echo)\\b" | xargs)"'
COOKED = "after: isig icanon echo"


def on_terminal(shell, *words, before="true", after=STTY, env=None):
    """launch in a shell on a terminal of 30 x 100; what is written to stdin is typed there."""
    script = f'stty rows 30 cols 100; {before}; "$0" "$@"; code=$?{after}; exit $code'
    return shell.start(WORKERS / "ptyrun.py", "bash", "-c", script, LAUNCH, *words, program="/usr/bin/python3", stdin=subprocess.PIPE, env=env)


def type_in(job, text):
    job.proc.stdin.write(text)
    job.proc.stdin.flush()


@WHERE
def test_it_has_size_keys_and_colours_of_the_users_terminal(shells, where):
    script = """
        [ $RANK = 0 ] && { tty; exit 0; }
        [ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo "size $(stty size) $TERM"
        trap 'echo interrupted' INT
        read -rsn1 key; echo "key $key"
        read -r line; echo "line $line" >&2
        printf 'no end'; exit 4"""
    job = on_terminal(shells[0], *where, "--pty", "1", *sh(script), env={"TERM": "xterm-256color"})
    job.expect("size 30 100 xterm-256color")
    job.expect(r"\[0@node\d\] not a tty")
    type_in(job, b"x")
    job.expect("key x")
    type_in(job, b"\x03")  # a key: the worker's own terminal makes a signal of it
    job.expect("interrupted")
    type_in(job, b"words\r")
    result = job.finish()
    assert result.code == 4 and "line words" in result.text and "no end" in result.text, result
    assert "[1@" not in result.text, result
    assert COOKED in result.text, result


@WHERE
def test_it_hears_of_a_new_size(shells, where, scratch):
    gate = scratch / "gate"
    script = "[ $RANK = 0 ] && exit; echo up; until stty size | grep -q '41 101'; do sleep 0.05; done; echo resized"
    job = on_terminal(shells[0], *where, "--pty", "1", *sh(script), before=f"mkfifo {gate}; {{ (read x < {gate}; stty rows 41 cols 101 < /dev/tty) & }}")
    job.expect("up")
    gate.write_text("now\n")
    job.expect("resized")
    assert job.finish().code == 0


@pytest.mark.parametrize("where", [["-n", "1"], ["--hosts", "node1"]], ids=["one", "host"])
def test_the_terminal_is_as_before_when_launch_is_stopped(shells, where):
    job = on_terminal(shells[0], *where, "--pty", "0", *sh("stty raw -echo; echo up; exec sleep 1071"))
    job.expect("up")
    launch = [pid for pid, line in shells[0].ours().items() if "--pty" in line and "sleep 1071" in line]
    os.kill(launch[0], signal.SIGTERM)
    result = job.finish()
    assert result.code == 143 and COOKED in result.text, result


def test_without_a_terminal_it_is_refused(shells):
    result = shells[0].run("--pty", "0", "true")
    assert result.code == 2 and "--pty 0: stdin and stdout of launch must be a terminal" in result.errors, result


def test_a_detached_job_has_none(shells):
    result = on_terminal(shells[0], "--detach", "--gdb", "0", "true").finish()
    assert result.code == 2 and "--gdb 0 and --detach contradict: a detached job has no terminal" in result.text, result


def test_a_debugger_for_one_rank(shells):
    job = on_terminal(shells[0], "--hosts", "node0,node1", "--gdb", "1", *sh('echo "rank $RANK under ${DEBUGGED:-nothing} $(tty > /dev/null && echo terminal)"'), env={"MUSTER_DEBUGGER": "env DEBUGGED='my debugger'"})
    result = job.finish()
    assert result.code == 0 and "rank 1 under my debugger terminal" in result.text and "rank 0 under nothing" in result.text, result


def test_a_debugger_that_is_not_there_is_named(shells):
    result = on_terminal(shells[0], "--gdb", "0", "true", env={"MUSTER_DEBUGGER": "no-such-debugger --args"}).finish()
    assert result.code == 127 and "no-such-debugger" in result.text, result


def test_the_program_of_a_restart_has_it_again(shells):
    job = on_terminal(shells[0], "-n", "2", "--max-restarts", "1", "--pty", "0", *sh('[ $RANK = 1 ] && { [ $TORCHELASTIC_RESTART_COUNT = 1 ]; exit; }; echo "round $TORCHELASTIC_RESTART_COUNT"; read -r line; echo "got $line"'))
    job.expect("round 1")
    type_in(job, b"hello\r")
    result = job.finish()
    assert result.code == 0 and "got hello" in result.text and COOKED in result.text, result
