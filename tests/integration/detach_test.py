"""launch --detach and launch ps, attach, logs, stop: a job goes on without its terminal, and stays within reach."""

import ctypes
import json
import os
import re
import signal
import subprocess

import pytest

from harness import DEAF, LAUNCH, PYTHON, WORKERS, is_alive, sh, stat_of, wait_for

TWO_HOSTS = ("--hosts", "node0,node1", "--nproc-per-node", "1")
STANDALONE = ("--standalone", "--nnodes", "2", "--nproc-per-node", "1")
PTRACE_ATTACH = 16
WAYS = pytest.mark.parametrize("where", [("-n", "2"), TWO_HOSTS, STANDALONE], ids=["one", "two", "standalone"])


def workers(shells, word):
    return [p for shell in shells for p in shell.called(word)]


def keeper_and_launcher(desk, job):
    keeper = desk.outer_pid(desk.jobs()[job]["pid"])
    with open(f"/proc/{keeper}/task/{keeper}/children") as f:
        return keeper, int(f.read().split()[0])


@WAYS
def test_start_list_and_stop(shells, desk, where):
    job = desk.detach(*where, "--name", "night", "sleep", "2101")
    assert len(workers(shells[:2], "sleep 2101")) == 2
    record = desk.jobs()[job]
    assert (record["state"], record["world_size"], record["name"]) == ("running", 2, "night"), record
    table = desk.run("ps")
    assert re.search(rf"^{job} +night +running +2 +[12] +\d+ s +sleep 2101$", table.text, re.M), table
    stopped = desk.run("stop", "night")
    assert stopped.code == 0 and f"{job} has ended with 130" in stopped.errors, stopped
    assert not workers(shells[:2], "sleep 2101")
    assert desk.jobs()[job]["state"] == "ended"
    assert json.loads((desk.folder / "muster/jobs" / job / "report.json").read_text())["exit_code"] == 130
    again = desk.run("stop", job)
    assert again.code == 0 and "has ended with 130" in again.errors, again


def test_two_jobs_of_one_name_are_told_apart_by_their_ids(shells, desk):
    first = desk.detach("--name", "twin", *sh("echo one; exec sleep 2121"))
    start = desk.run("--detach", "--name", "twin", *sh("echo two; exec sleep 2121"))
    second = start.text.split()[0]
    assert start.code == 0 and f"--name twin: {first} 'twin' (running) has that name, too" in start.errors, start
    for command in (["logs"], ["stop"], ["attach"], ["restart"]):
        refused = desk.run(*command, "twin")
        assert refused.code == 2 and f"'twin' may be {first} 'twin' (running), {second} 'twin' (running): name one by its id" in refused.errors, refused
    assert len(workers(shells[:1], "sleep 2121")) == 2
    assert re.findall(r"^job-\w+", desk.run("ps", "twin").text, re.M) == [first, second]
    assert desk.run("stop", first).code == 0
    assert desk.run("logs", "twin").text == "two\n", "the one that runs"
    assert desk.run("stop", "twin").code == 0
    assert re.findall(r"^(job-\w+) +twin +ended", desk.run("ps", "twin").text, re.M) == [first, second]
    none = desk.run("ps", "aux")
    assert none.code == 2 and "no job of yours on this host is called 'aux'" in none.errors and "launch -- ps" in none.errors, none


def test_everything_is_for_its_owner_alone(desk):
    job = desk.detach("sleep", "2102")
    folder = desk.folder / "muster/jobs" / job
    assert folder.stat().st_mode & 0o777 == 0o700
    modes = {p.name: p.stat().st_mode & 0o077 for p in folder.iterdir() if p.name != "control"}
    assert modes and not any(modes.values()), modes


@WAYS
def test_the_end_of_its_terminal_does_not_touch_it(shells, desk, where):
    """The terminal closes, and every process of its session gets SIGHUP, as when a window or an ssh connection goes."""
    script = f'"$0" --detach {" ".join(where)} sleep 2103; echo done; read -r forever'
    terminal = desk.start(WORKERS / "ptyrun.py", "bash", "-c", script, LAUNCH, program="/usr/bin/python3", stdin=subprocess.PIPE)
    terminal.expect("done")
    job = terminal.expect(r"(job-\w+) runs")[0]
    terminal.signal(signal.SIGKILL)  # the terminal's other side
    terminal.finish()
    wait_for(lambda: not desk.shell.called("bash"), 10, what="the shell gets its SIGHUP")
    for pid in [p for shell in shells[:2] for p in [*shell.ours(), *shell.called("sleep 2103")]]:
        assert stat_of(pid)[4] == "0", "it has a controlling terminal"
    assert desk.jobs()[job]["state"] == "running" and len(workers(shells[:2], "sleep 2103")) == 2
    assert desk.run("stop", job).code == 0


def test_the_callers_pipes_see_their_end(desk):
    result = desk.run("-c", f'{LAUNCH} --detach sleep 2104 3>&1 | cat', program="/bin/bash")
    assert result.code == 0 and result.seconds < 30, result


def test_its_stdin_is_empty(desk):
    job = desk.detach(*sh("cat; echo after"))
    assert desk.ended(job)["exit_code"] == 0
    assert desk.run("logs", job).text == "after\n"


@pytest.mark.parametrize(
    "args, code, says",
    [
        (("--nnodes", "x", "true"), 2, "--nnodes"),
        (("--hostfile", "/nowhere", "true"), 2, "/nowhere"),
        (("--name", "a b", "true"), 2, "--name: want 1 to 64 letters"),
        (("--job-log", "1K", "true"), 2, "--job-log: want 64K or more"),
        (("/nowhere/prog",), 127, "/nowhere/prog"),
        (("--hosts", "nosuchhost", "true"), 1, "nosuchhost"),
    ],
)
def test_what_is_wrong_is_said_at_once(desk, args, code, says):
    result = desk.run("--detach", *args)
    assert result.code == code and says in result.errors and not result.text, result


def test_it_ends_where_the_parent_had_signals_blocked(shells, desk):
    started = desk.run(*DEAF, LAUNCH, "--detach", "true", program=PYTHON)
    assert started.code == 0, started
    (job,) = desk.jobs()
    assert desk.ended(job)["exit_code"] == 0
    wait_for(lambda: not shells[0].ours(), 30, what="the keeper ends")


def test_a_job_that_ends_at_once_has_started(desk):
    job = desk.detach("-n", "2", "sh", "-c", "exit 5")
    assert desk.ended(job)["exit_code"] == 5
    assert desk.run("attach", job).code == 5


def test_ctrl_c_before_the_start_stops_it(desk):
    start = desk.start("--detach", "--nnodes", "2", "--rdzv-endpoint", "localhost:29411", "true")
    start.expect("waiting for 1 of 2 nodes", stream="err")
    start.signal(signal.SIGINT)
    result = start.finish()
    assert result.code == 130, result


def test_ctrl_c_at_the_node_that_serves_a_meeting_at_a_file(desk, scratch):
    point = scratch / "point"
    start = desk.start("--detach", "--nnodes", "2", "--rdzv-endpoint", f"file://{point}", "true")
    start.expect("waiting for 1 of 2 nodes", stream="err")
    start.signal(signal.SIGINT)
    assert start.finish(20).code == 130
    assert [job["state"] for job in desk.jobs().values()] == ["ended"]


def test_typed_on_every_node(shells, desk, scratch):
    typed = ("--detach", "--nnodes", "2", "--insecure", "--rdzv-endpoint", "node0:29412", "sleep", "2115")
    both = [shell.start(*typed, env={"XDG_RUNTIME_DIR": str(scratch / f"run{i}")}) for i, shell in enumerate(shells[:2])]
    for start in both:
        result = start.finish()
        assert result.code == 0 and "2 workers on 2 nodes" in result.text, result
    stopped = shells[1].run("stop", result.text.split()[0], env={"XDG_RUNTIME_DIR": str(scratch / "run1")})
    assert stopped.code == 0 and "has ended with 130" in stopped.errors, stopped
    wait_for(lambda: not workers(shells[:2], "sleep 2115") and not shells[0].ours(), 30, what="the other node ends, too")


def test_two_jobs_at_once_and_their_names(desk):
    first, second = desk.detach("--name", "twin", "sleep", "2106"), desk.detach("--name", "twin", "sleep", "2107")
    both = desk.run("stop", "twin")
    assert both.code == 2 and first in both.errors and second in both.errors, both
    none = desk.run("stop", "other")
    assert none.code == 2 and first in none.errors, none
    assert desk.run("stop", first[4:10]).code == 0  # a beginning of the id
    jobs = desk.jobs()
    assert (jobs[first]["state"], jobs[second]["state"]) == ("ended", "running")
    assert desk.run("stop", "twin").code == 0  # the one that still runs
    hidden = desk.run("ps")
    assert first not in hidden.text and "2 jobs have ended" in hidden.errors, hidden


@pytest.mark.parametrize("words", [("--signal", "TERM"), ("--grace", "0.5"), ("--now",)], ids=["term", "grace", "now"])
def test_ways_to_stop(desk, words):
    keeps = "LEAVE" if words[0] == "--signal" else "STAY"
    job = desk.detach("-n", "2", "--no-prefix", WORKERS / "catch", keeps)
    wait_for(lambda: desk.run("logs", job).text.count("ready") == 2, 20, what="workers are ready")
    stopped = desk.run("stop", *words, job)
    assert stopped.code == 0 and stopped.seconds < 15, stopped
    assert desk.jobs()[job]["exit_code"] == (143 if keeps == "LEAVE" else 130)
    log = desk.run("logs", job).text
    assert ("got TERM" in log) == (keeps == "LEAVE"), log
    assert ("what still runs in 500 ms is killed" in log) == (words[0] == "--grace"), log


def test_a_longer_grace_than_the_jobs_is_refused(desk):
    job = desk.detach("--grace", "2", "sleep", "2108")
    result = desk.run("stop", "--grace", "5", job)
    assert result.code == 2 and "--grace 2" in result.errors, result


@WAYS
@pytest.mark.parametrize("victim", ["keeper", "launcher"])
def test_kill_9_leaves_no_worker_and_is_seen(shells, desk, where, victim):
    job = desk.detach(*where, "sleep", "2109")
    keeper, launcher = keeper_and_launcher(desk, job)
    os.kill(keeper if victim == "keeper" else launcher, signal.SIGKILL)
    wait_for(lambda: not workers(shells[:2], "sleep 2109") and not is_alive(launcher), 30, what="no worker is left")
    assert desk.ended(job)["state"] == "lost"
    assert re.search(rf"^{job} .* lost ", desk.run("ps").text, re.M)
    stopped = desk.run("stop", job)
    assert stopped.code == 0 and "was lost" in stopped.errors, stopped
    assert desk.run("attach", job).code != 0
    assert desk.run("logs", job).code == 0


def test_a_launcher_that_does_not_listen_yet_can_be_stopped(desk, scratch):
    """It still looks for the node that serves: the file is a link to nowhere."""
    point = scratch / "point"
    point.symlink_to(scratch / "nowhere/point")
    start = desk.start("--detach", "--nnodes", "2", "--rdzv-endpoint", f"file://{point}", "true")
    job = wait_for(lambda: [*desk.jobs()], 20, step=0.1, what="the job is there")[0]
    stopped = desk.run("stop", job)
    assert stopped.code == 0 and f"{job} has ended with 130" in stopped.errors, stopped
    assert start.finish().code == 130
    assert desk.jobs()[job]["state"] == "ended"


def test_a_launcher_that_does_not_answer_is_killed(shells, desk):
    job = desk.detach("-n", "2", "sleep", "2116")
    launcher = keeper_and_launcher(desk, job)[1]
    assert ctypes.CDLL(None).ptrace(PTRACE_ATTACH, launcher, 0, 0) == 0  # unlike SIGSTOP, no SIGCONT ends that
    assert os.WIFSTOPPED(os.waitpid(launcher, 0)[1])
    stop = desk.start("stop", "--now", job)
    assert os.WTERMSIG(os.waitpid(launcher, 0)[1]) == signal.SIGKILL
    stopped = stop.finish()
    assert stopped.code == 0 and "was lost" in stopped.errors, stopped
    assert desk.jobs()[job]["state"] == "lost" and not is_alive(launcher)
    wait_for(lambda: not workers(shells[:1], "sleep 2116"), 15, what="no worker is left")


def test_what_stands_still_is_woken_by_stop(desk):
    job = desk.detach("sleep", "2199")
    for pid in keeper_and_launcher(desk, job):
        os.kill(pid, signal.SIGSTOP)
    stopped = desk.run("stop", job)
    assert stopped.code == 0 and f"{job} has ended with 130" in stopped.errors and stopped.seconds < 10, stopped


def test_a_long_job_that_was_killed_is_not_forgotten_unseen(desk):
    job = desk.detach("sleep", "2119")
    path = desk.folder / "muster/jobs" / job / "job.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "started_at": record["started_at"] - 30 * 24 * 3600}))
    os.kill(desk.outer_pid(record["pid"]), signal.SIGKILL)
    first, second = desk.ended(job), desk.jobs()[job]
    assert first["state"] == "lost" and first["ended_at"] > record["started_at"], first
    assert second == first  # it is as old as when it was noticed
    lost = path.parent / "lost"
    os.utime(lost, (0, record["started_at"] - 8 * 24 * 3600))
    assert job not in desk.jobs() and not path.parent.exists()


def test_a_recycled_pid_is_not_the_job(desk):
    job = desk.detach("sleep", "2110")
    pid = desk.jobs()[job]["pid"]
    other = desk.start("sleep", "2111", program="/usr/bin/env")
    wait_for(lambda: desk.shell.called("sleep 2111"), 20, what="the other program runs")
    with open(f"/proc/{desk.shell.called('sleep 2111')[0]}/status") as f:
        inner = int(re.search(r"NSpid:.*\s(\d+)\n", f.read())[1])
    os.kill(desk.outer_pid(pid), signal.SIGKILL)
    path = desk.folder / "muster/jobs" / job / "job.json"
    path.write_text(path.read_text().replace(f'"pid": {pid}', f'"pid": {inner}'))
    assert desk.jobs()[job]["state"] == "lost"
    assert desk.run("stop", "--now", job).code == 0
    assert other.proc.poll() is None and desk.shell.called("sleep 2111")


def test_nonsense_in_the_folder_is_named_and_left_out(desk):
    job = desk.detach("sleep", "2112")
    for name, text in (("job-1", "nonsense"), ("job-2", "{}"), ("job-3", ""), ("job-4", None)):
        folder = desk.folder / "muster/jobs" / name
        folder.mkdir(mode=0o700)
        if text is not None:
            (folder / "job.json").write_text(text)
            (folder / "job.json").chmod(0o600)
    result = desk.run("ps")
    assert result.code == 0 and job in result.text, result
    assert all(name in result.errors for name in ("job-1", "job-2", "job-3")) and "job-4" not in result.errors, result


def test_jobs_of_other_machines_hide_none(desk):
    """A home that many machines share."""
    job = desk.detach("--name", "night", *sh("echo up; exec sleep 2124"))
    record = desk.jobs()[job]
    for i in range(5000):
        folder = desk.folder / f"muster/jobs/job-{i:08x}"
        folder.mkdir(mode=0o700)
        (folder / "job.json").write_text(json.dumps({**record, "id": folder.name, "boot": "another", "host": "another"}))
        (folder / "job.json").chmod(0o600)
    assert list(desk.jobs()) == [job]
    wait_for(lambda: "up" in desk.run("logs", job).text, 20, what="its output can be read")
    assert "up" in desk.run("logs", "night").text
    other = desk.run("logs", "job-00000001")
    assert other.code == 2 and "no job of yours on this host" in other.errors, other
    stopped = desk.run("stop", job)
    assert stopped.code == 0 and f"{job} has ended" in stopped.errors, stopped


def test_a_job_of_a_very_long_command_line_is_within_reach(desk):
    """Each of these bytes is six when it is escaped."""
    job = desk.detach(*sh("echo $#; exec sleep 2126"), "x", *["\x01" * 100000] * 9)
    assert desk.jobs()[job]["command"][-1].endswith("\x01...")
    stopped = desk.run("stop", job)
    assert stopped.code == 0 and f"{job} has ended" in stopped.errors, stopped


def test_old_jobs_are_forgotten(desk):
    for i in range(52):
        folder = desk.folder / f"muster/jobs/job-{i:08x}"
        folder.mkdir(parents=True, mode=0o700)
        (folder / "job.json").write_text("")
        (folder / "job.json").chmod(0o600)
    job = desk.detach("true")
    record = desk.ended(job)
    for i in range(52):
        path = desk.folder / f"muster/jobs/job-{i:08x}/job.json"
        path.write_text(json.dumps({**record, "id": f"job-{i:08x}", "started_at": record["started_at"] - 1000 + i}))
    old = desk.folder / "muster/jobs/job-00000033/job.json"
    old.write_text(json.dumps({**json.loads(old.read_text()), "ended_at": record["ended_at"] - 8 * 24 * 3600}))
    jobs = desk.jobs()
    assert len(jobs) == 50 and job in jobs and "job-00000033" not in jobs and "job-00000000" not in jobs, sorted(jobs)


def test_a_keeper_that_is_killed_before_it_has_written_anything_leaves_nothing(desk):
    """gdb holds it where it leaves the terminal: old or not, nobody takes its folder away while it lives."""
    jobs = desk.folder / "muster/jobs"
    old = f"touch -d '20 minutes ago' {jobs}/job-*"
    held = desk.run(
        "-q", "-batch", "-nx", "-ex", "set follow-fork-mode child", "-ex", "break setsid", "-ex", "run --detach sleep 2123",
        "-ex", f"shell {old}; {LAUNCH} ps -a --json; echo kept $(ls {jobs})", "-ex", "kill", LAUNCH,
        program="/usr/bin/gdb", env={"DEBUGINFOD_URLS": ""},
    )
    kept = re.search(r"^\[\]\nkept (job-[0-9a-f]{8})$", held.text, re.M)
    assert kept, held
    assert not desk.jobs() and not (jobs / kept[1]).exists()


def test_what_a_killed_start_left_goes_and_nothing_else(desk):
    jobs = desk.folder / "muster/jobs"
    for name in ("job-0000000a", "job-0000000b", "notes"):
        (jobs / name).mkdir(parents=True, mode=0o700)
        (jobs / name / "reserve").write_text(" " * 100)
    for name in ("job-0000000a", "notes"):
        os.utime(jobs / name, (0, 0))
    job = desk.detach("true")
    assert sorted(p.name for p in jobs.iterdir()) == sorted([job, "job-0000000b", "notes"])


@pytest.mark.parametrize("where", ["run", "run/muster", "run/muster/jobs"])
def test_a_place_where_others_may_write_is_refused(desk, scratch, where):
    (scratch / "run/muster/jobs/job-1").mkdir(parents=True)
    (scratch / where).chmod(0o777)
    result = desk.run("--detach", "sleep", "2119")
    assert result.code == 1 and f"--detach: {scratch / where} belongs to another user, or others may write there" in result.errors, result
    listed = desk.run("ps")
    assert listed.code == 0 and len(re.findall(f"jobs kept in .* are left out: {scratch / where} belongs", listed.errors)) == 1, listed
    (scratch / where).chmod(0o700)


def test_a_place_that_belongs_to_another_is_refused(desk, scratch):
    os.mkdir(scratch / "run/muster", 0o755)
    os.chown(scratch / "run/muster", 12345, 12345)
    result = desk.run("--detach", "sleep", "2120")
    assert result.code == 1 and f"{scratch / 'run/muster'} belongs to another user" in result.errors, result


def test_a_link_that_is_turned_elsewhere_takes_nothing_along(desk, scratch):
    for name in ("mine", "other", "run/muster"):
        (scratch / name).mkdir()
    link = desk.folder / "muster/jobs"
    link.symlink_to(scratch / "mine")
    job = desk.detach("sleep", "2121")
    pid = desk.outer_pid(desk.jobs()[job]["pid"])
    (scratch / "other" / job).mkdir()
    link.unlink()
    link.symlink_to(scratch / "other")
    os.kill(pid, signal.SIGTERM)
    wait_for(lambda: not is_alive(pid), 30, what="it ends")
    assert json.loads((scratch / "mine" / job / "job.json").read_text())["state"] == "ended"
    assert not list((scratch / "other" / job).iterdir())


@pytest.mark.parametrize("place", ["a/file", "/proc/nothing"])
def test_a_place_that_cannot_be_written(desk, scratch, place):
    (scratch / "a").mkdir()
    (scratch / "a/file").write_text("")
    where = place if place[0] == "/" else scratch / place
    result = desk.run("--detach", "sleep", "2113", env={"XDG_RUNTIME_DIR": str(where)})
    assert result.code == 1 and "XDG_RUNTIME_DIR" in result.errors and not result.text, result
    assert not desk.shell.called("sleep 2113")


def test_without_a_home(desk):
    result = desk.run("--detach", "true", env={"XDG_RUNTIME_DIR": "", "HOME": ""})
    assert result.code == 1 and "set HOME" in result.errors, result


def test_home_holds_jobs_where_there_is_no_runtime_folder(desk, scratch):
    env = {"XDG_RUNTIME_DIR": "", "HOME": str(scratch / "home")}
    result = desk.run("--detach", "true", env=env)
    assert result.code == 0, result
    assert (scratch / "home/.local/state/muster/jobs" / result.text.split()[0] / "job.json").exists()


def test_options_come_from_a_job_file_too(desk, scratch):
    (scratch / "job.yaml").write_text("detach: true\nname: filed\njob-log: 1M\ncommand: [sleep, 2114]\n")
    result = desk.run("--config", scratch / "job.yaml")
    assert result.code == 0, result
    assert desk.run("stop", "filed").code == 0


def test_only_the_first_word_is_a_command(desk, scratch):
    for name in ("ps", "stop"):
        program = scratch / name
        program.write_text("#!/bin/sh\necho program $0 $*\n")
        program.chmod(0o755)
    path = {"PATH": f"{scratch}:/usr/bin:/bin"}
    assert desk.run("--", "ps", "-a", env=path).text.endswith("ps -a\n")
    assert desk.run("-n", "1", "stop", env=path).text.endswith("stop\n")
    assert "launch stop" in desk.run("stop", "--help").text
