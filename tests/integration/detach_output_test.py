"""What a detached job prints: launch logs and attach, the log on the disk, and Ctrl-C at a terminal that is attached."""

import os
import re
import signal
import subprocess
import time

import pytest

from harness import LAUNCH, WORKERS, open_files, sh, wait_for


def test_logs_and_attach(desk, scratch):
    gate = scratch / "gate"
    job = desk.detach(*sh(f"for i in 1 2 3; do echo line $i; done; until [ -e {gate} ]; do sleep 0.1; done; echo last >&2; exit 7"))
    wait_for(lambda: desk.run("logs", job).text == "line 1\nline 2\nline 3\n", 20, what="its output is in the log")
    assert desk.run("logs", "-n", "1", job).text == "line 3\n"
    attached = desk.start("attach", "-n", "2", job)
    followed = desk.start("logs", "-f", job)
    attached.expect("line 3")
    followed.expect("line 3")
    gate.touch()
    result = attached.finish()
    assert (result.code, result.text.splitlines()[:3]) == (7, ["line 2", "line 3", "last"]), result
    assert followed.finish().text.startswith("line 1\nline 2\nline 3\nlast\n")
    assert desk.ended(job)["exit_code"] == 7
    late = desk.run("attach", job)
    assert late.code == 7 and not late.text and "has ended with 7" in late.errors, late
    assert desk.run("logs", job).text.startswith("line 1\n")


def test_what_was_printed_since_a_time(desk, scratch):
    gate = scratch / "gate"
    job = desk.detach(*sh(f"echo old; until [ -e {gate} ]; do sleep 0.1; done; echo new; echo newer; exec sleep 2124"))
    wait_for(lambda: desk.run("logs", job).text == "old\n", 20, what="its output is in the log")
    printed = time.time()
    wait_for(lambda: time.time() > printed + 2, 20, what="another second has come")
    then = desk.run("-Iseconds", program="/bin/date").text.strip()
    gate.touch()
    wait_for(lambda: desk.run("logs", "-n", "1", job).text == "newer\n", 20, what="its output is in the log")
    assert desk.run("logs", "--since", then, job).text == "new\nnewer\n"
    assert desk.run("logs", "--since", then.replace("T", " ")[:19], "--tail", "1", job).text == "newer\n"
    assert desk.run("logs", "--since", then, "--tail=all", job, env={"TZ": "Asia/Tokyo"}).text == "new\nnewer\n"
    for everything in ("1h", "start", "2026-01-01"):
        result = desk.run("logs", "--since", everything, job)
        assert result.text == "old\nnew\nnewer\n" and not result.errors, result
    attached = desk.start("attach", "--since", then, job)
    attached.expect("newer")
    assert desk.run("stop", job).code == 0
    assert attached.finish().text.startswith("new\nnewer\n")
    assert desk.run("logs", "--since", then, job).text.startswith("new\n"), "also after its end"
    (desk.folder / f"muster/jobs/{job}/times.{0:020}").unlink()
    unknown = desk.run("logs", "--since", then, job)
    assert unknown.text.startswith("old\n") and "when the first lines were printed is not known" in unknown.errors, unknown


def test_a_time_that_is_none(desk):
    for command in ("logs", "attach"):
        result = desk.run(command, "--since", "noon", "job-1")
        assert result.code == 2 and "--since: want a time back from now (90s, 10m," in result.errors and "got 'noon'" in result.errors, result


def takes_ctrl_c(pid):
    with open(f"/proc/{pid}/status") as f:
        return int(re.search(r"SigCgt:\s*(\w+)", f.read())[1], 16) & 2


class Attached:
    """`launch attach` at a terminal of its own, once it takes Ctrl-C."""

    def __init__(self, desk, job):
        self.run = desk.start(WORKERS / "ptyrun.py", LAUNCH, "attach", job, program="/usr/bin/python3", stdin=subprocess.PIPE)
        wait_for(lambda: desk.shell.called(f"{LAUNCH} attach {job}"), 20, what="it attaches")
        pid = desk.shell.called(f"{LAUNCH} attach {job}")[0]
        wait_for(lambda: takes_ctrl_c(pid), 20, what="it waits for Ctrl-C")

    def press(self, keys):
        self.run.proc.stdin.write(keys)
        self.run.proc.stdin.flush()

    def ctrl_c(self, asked=1):
        self.press(b"\x03")
        self.run.expect("Enter: go on: ", count=asked)


def test_ctrl_c_asks_and_a_second_one_detaches(desk):
    job = desk.detach("sleep", "2105")
    attached = Attached(desk, job)
    attached.ctrl_c()
    attached.press(b"\x03")
    result = attached.run.finish()
    assert result.code == 130 and rf"[d]etach ({job} goes on), [s]top the job" in result.text and f"stop {job}" in result.text, result
    assert desk.jobs()[job]["state"] == "running"


def test_what_ctrl_c_can_be_answered_with(desk, scratch):
    gate = scratch / "gate"
    job = desk.detach(*sh(f"until [ -e {gate} ]; do sleep 0.1; done; echo went on; exec sleep 2125"))
    attached = Attached(desk, job)
    attached.ctrl_c()
    attached.press(b"what?\n")
    attached.run.expect("Enter: go on: ", count=2)
    attached.press(b"\n")
    gate.touch()
    attached.run.expect("went on")
    attached.ctrl_c(asked=3)
    attached.press(b"d\n")
    result = attached.run.finish()
    assert result.code == 130 and f"detached from {job}, which goes on" in result.text, result
    assert desk.jobs()[job]["state"] == "running"


def test_ctrl_c_can_stop_the_job_and_then_at_once(desk):
    job = desk.detach("--no-prefix", WORKERS / "catch", "STAY")
    wait_for(lambda: "ready" in desk.run("logs", job).text, 20, what="the worker is ready")
    attached = Attached(desk, job)
    attached.ctrl_c()
    attached.press(b"s\n")
    attached.run.expect("got INT")
    attached.ctrl_c(asked=2)
    attached.press(b"s\n")
    result = attached.run.finish()
    assert result.code == 130 and f"{job} has been asked to stop" in result.text and f"{job} is being killed" in result.text, result
    assert f"({job} goes on ending), [s]top it at once" in result.text and f"{job} has ended with 130" in result.text, result
    assert desk.jobs()[job]["state"] == "ended"


def test_a_job_that_ends_while_the_user_thinks(desk, scratch):
    gate = scratch / "gate"
    job = desk.detach(*sh(f"until [ -e {gate} ]; do sleep 0.1; done; echo last; exit 9"))
    attached = Attached(desk, job)
    attached.ctrl_c()
    gate.touch()
    result = attached.run.finish()
    assert result.code == 9 and "last" in result.text and f"{job} has ended with 9" in result.text, result


def test_without_a_terminal_ctrl_c_detaches(desk):
    job = desk.detach("sleep", "2126")
    attached = desk.start("attach", "--since", "start", job, stdin=subprocess.PIPE)
    wait_for(lambda: takes_ctrl_c(attached.pid), 20, what="it waits for Ctrl-C")
    attached.signal(signal.SIGINT)
    result = attached.finish()
    assert result.code == 130 and not result.text, result
    assert result.errors == f"muster: detached from {job}, which goes on; stop it: {LAUNCH} stop {job}\n", result
    assert desk.jobs()[job]["state"] == "running"


def test_many_followers_are_told_and_leave_room_for_a_stop(desk):
    job = desk.detach(*sh("echo first; exec sleep 2117"))
    wait_for(lambda: desk.run("logs", job).text == "first\n", 20, what="its output is in the log")
    followers = [desk.start("logs", "-f", job) for _ in range(17)]
    for follower in followers:
        follower.expect("first")
    refused = wait_for(lambda: [f for f in followers if f.proc.poll() is not None], 20, what="one is refused")
    result = refused[0].finish()
    assert len(refused) == 1 and result.code == 1 and f"too many attach, logs -f and stop at the same time: what the job prints is in {LAUNCH} logs {job}" in result.errors, result
    assert desk.jobs()[job]["state"] == "running"
    stopped = desk.run("stop", job)
    assert stopped.code == 0 and "has ended with 130" in stopped.errors, stopped
    for follower in followers:
        if follower is not refused[0]:
            assert follower.finish().code == 130


def test_a_stop_that_finds_no_room_says_so(desk):
    job = desk.detach("sleep", "2118")
    script = f"""
import socket, subprocess, sys
idle = []
for _ in range(32):
    idle.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    idle[-1].connect({str(desk.folder / "muster/jobs" / job / "control")!r})
sys.exit(subprocess.run([{str(LAUNCH)!r}, "stop", {job!r}]).returncode)
"""
    result = desk.run("-c", script, program="/usr/bin/python3")
    assert result.code == 1 and "too many attach" in result.errors, result
    assert desk.jobs()[job]["state"] == "running"


LOST_ANSWERS = {
    "full": ("JOB > /dev/full", "No space left on device"),
    "unread": ("{ until [ -e gone ]; do sleep 0.05; done; JOB; } | { exec <&-; touch gone; }", "Broken pipe"),
    "closed": ("JOB >&-", "Bad file descriptor"),
}  # fmt: skip


@pytest.mark.parametrize("how", LOST_ANSWERS)
def test_an_id_that_stdout_does_not_take_is_said_all_the_same(desk, scratch, how):
    script, why = LOST_ANSWERS[how]
    result = desk.run("-c", script.replace("JOB", f"{{ {LAUNCH} --detach sleep 2125; echo code $? >&2; }}"), program="/bin/bash", cwd=scratch)
    said = re.search(r"job (job-[0-9a-f]{8}) has started and goes on, but stdout did not take its id: (.*); stop it: \S+ stop \1\n", result.errors)
    assert said and said[2] == why and "code 1\n" in result.errors, result
    assert desk.jobs()[said[1]]["state"] == "running"


def test_a_full_disk_loses_output_alone(desk, scratch):
    """The job runs to its end, which is written down all the same."""
    full = scratch / "full"
    script = f"""
      mkdir {full} && mount -t tmpfs -o size=256k,mode=700 none {full} || exit 99
      export XDG_RUNTIME_DIR={full}
      id=$({LAUNCH} --quiet --detach sh -c 'echo first; until [ -e {full}/filled ]; do sleep 0.1; done; head -c 300000 /dev/zero; echo; exit 6')
      until {LAUNCH} logs $id | grep -q first; do :; done
      : > {full}/filled; head -c 9M /dev/zero > {full}/filler 2> /dev/null
      {LAUNCH} attach $id; echo code $?
      {LAUNCH} ps -a; {LAUNCH} logs $id | head -1
      umount {full}"""
    result = desk.run("-c", script, program="/bin/bash")
    assert "code 6" in result.text and "ended 6" in result.text and result.text.endswith("first\n"), result


def test_the_log_is_bounded(desk):
    job = desk.detach("--job-log", "64K", "sh", "-c", "seq 1 100000")
    assert desk.ended(job)["exit_code"] == 0
    lines = desk.run("logs", job).text.splitlines()
    assert lines[-1] == "100000" and len(lines) < 20000 and lines == [str(i) for i in range(int(lines[0]), 100001)]


def test_what_is_dropped_of_the_log_leaves_the_disk(desk):
    job = desk.detach("--job-log", "64K", *sh("seq 1 100000; exec sleep 2122"))
    wait_for(lambda: desk.run("logs", "-n", "1", job).text == "100000\n", 30, what="its output is in the log")
    for pid in desk.shell.ours():
        held = open_files(pid)
        assert not [name for name in held if name.endswith("(deleted)")], (pid, held)


def test_no_room_for_the_log_is_said_in_a_line(desk, scratch):
    full = scratch / "full"
    script = f"""
      mkdir {full} && mount -t tmpfs -o nr_inodes=6,mode=700 none {full} || exit 99
      XDG_RUNTIME_DIR={full} {LAUNCH} --detach true; echo code $?
      ls {full}/muster/jobs
      umount {full}"""
    result = desk.run("-c", script, program="/bin/bash")
    assert result.text == "code 1\n" and result.errors.startswith("muster: ") and "No space left" in result.errors, result
    assert result.errors.endswith("\n"), result
