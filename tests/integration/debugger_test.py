"""What debuggers of parallel programs find: the table of workers in launch (MPIR), --proctable, --gdb."""

import os
import re
import signal
import subprocess

import pytest

from harness import LAUNCH, WORKERS, sh, wait_for

WHERE = pytest.mark.parametrize("where", [["-n", "4"], ["--standalone", "--nnodes", "2", "--nproc-per-node", "2"], ["--hosts", "node0,node1", "--nproc-per-node", "2"]], ids=["one", "standalone", "hosts"])
WORKER = sh('echo "rank $RANK pid $$ at $(hostname)"')
NAMES = {"MPIR_proctable", "MPIR_proctable_size", "MPIR_debug_state", "MPIR_being_debugged", "MPIR_Breakpoint", "MPIR_i_am_starter", "MPIR_partial_attach_ok", "MPIR_acquired_pre_main"}


def said(result):
    """{rank: (host, pid)} by the workers' own words."""
    return {int(r): (host, int(pid)) for r, pid, host in re.findall(r"rank (\d+) pid (\d+) at (\S+)", result.text)}


TO_THE_TABLE = ["tbreak main", "run", "set var MPIR_being_debugged = 1", "break MPIR_Breakpoint", "continue", 'printf "table of %d, pre main %d\\n", MPIR_proctable_size, MPIR_acquired_pre_main']


def start_gdb(shell, commands, *words):
    told = [word for command in commands for word in ("-ex", command)]
    # It loses its way in threads that begin as it looks ("Cannot find user-level thread"), and needs none of their names.
    quiet = ("-iex", "set auto-load libthread-db off")
    return shell.start("-q", "-batch", "-nx", *quiet, *told, "--args", LAUNCH, *words, program="/usr/bin/gdb", env={"DEBUGINFOD_URLS": ""})


GDBS_OWN_FAULTS = ("Cannot find user-level thread", "This is a bug, please report it.  For instructions, see:\n<https://www.gnu.org/software/gdb/bugs/>")
TRIES = 3


def gdb(shell, commands, *words):
    """Once more where gdb itself fails, as it does now and then where threads end while it looks."""
    for attempt in range(TRIES):
        result = start_gdb(shell, commands, *words).finish()
        if attempt + 1 == TRIES or not any(fault in result.text + result.errors for fault in GDBS_OWN_FAULTS):
            return result


@WHERE
def test_gdb_reads_the_table_when_all_workers_have_started(shells, where):
    rows = [f'printf "row {i} %s %d %s\\n", MPIR_proctable[{i}].host_name, MPIR_proctable[{i}].pid, MPIR_proctable[{i}].executable_name' for i in range(4)]
    result = gdb(
        shells[0],
        ["tbreak main", "run", "set var MPIR_being_debugged = 1", "break MPIR_Breakpoint", "continue",
         'printf "table of %d, state %d\\n", MPIR_proctable_size, MPIR_debug_state', *rows, "continue"],
        *where, *WORKER,
    )
    assert result.code == 0 and "table of 4, state 1" in result.text, result
    table = {int(i): (host, int(pid)) for i, host, pid in re.findall(r"^row (\d) (\S+) (\d+) /(?:usr/)?bin/bash$", result.text, re.M)}
    assert len(table) == 4 and table == said(result), result
    assert result.text.count("Breakpoint 2, ") == 1, result  # once a round


@WHERE
def test_workers_wait_for_the_debugger_longer_than_a_lease(shells, scratch, where):
    look = f"shell sleep {1 if where[0] == '-n' else 8}; echo begun: $(ls {scratch})"
    result = gdb(shells[0], [f"shell rm -f {scratch}/begun-*", *TO_THE_TABLE, look, "continue"], *where, *sh(f"touch {scratch}/begun-$RANK; {WORKER[2]}"))
    assert result.code == 0 and "table of 4, pre main 1\nbegun:\n" in result.text, result
    assert len(said(result)) == 4 and len(list(scratch.iterdir())) == 4, result


def test_a_worker_can_be_stopped_in_main_and_the_others_go_on(shells, scratch):
    """A second gdb takes rank 0 before its first instruction, and lets it go when launch has gone on long since."""
    commands = scratch / "commands"
    wait = f"shell touch {scratch}/attached; until [ -e {scratch}/gate ]; do sleep 0.1; done"
    commands.write_text("\n".join(["handle SIGSTOP nostop noprint nopass", "break main", wait, "continue", "detach"]))
    job = start_gdb(
        shells[0],
        [*TO_THE_TABLE, f'eval "shell gdb -q -batch -nx -p %d -x {commands} > {scratch}/seen 2>&1 &", MPIR_proctable[0].pid',
         f"shell timeout 60 sh -c 'until [ -e {scratch}/attached ]; do sleep 0.1; done'", "continue"],
        "-n", "3", LAUNCH, "--version",
    )
    job.expect(r"\[[12]@\S+ launch 0", count=2)
    assert b"[0@" not in job.out.data
    (scratch / "gate").touch()
    result = job.finish()
    seen = (scratch / "seen").read_text()
    assert result.code == 0 and re.search(r"^\[0@\S+ launch 0", result.text, re.M), (result, seen)
    assert re.search(r"^Breakpoint 1, .*main \(", seen, re.M), seen


def test_workers_go_on_when_the_debugger_lets_launch_go(shells):
    result = gdb(shells[0], [*TO_THE_TABLE, "detach"], "-n", "4", *WORKER)
    assert "table of 4" in result.text and len(said(result)) == 4, result


def test_a_debugger_that_is_killed_leaves_nobody_waiting(shells):
    job = start_gdb(shells[0], [*TO_THE_TABLE, "shell echo here; exec sleep 3001"], "-n", "2", "/bin/sleep", "3002")
    job.expect("here")
    wait_for(lambda: shells[0].called("sleep 3001"), 20, what="gdb's shell has become its sleep")
    assert len(shells[0].called("/bin/sleep 3002")) == 2
    job.signal(signal.SIGKILL)
    wait_for(lambda: not shells[0].ours() and not shells[0].called("/bin/sleep 3002"), 30, what="launch ends with its debugger")
    for pid in shells[0].called("sleep 3001"):
        os.kill(pid, signal.SIGKILL)


def test_after_a_restart_workers_wait_again(shells, scratch):
    look = f"shell echo begun: $(ls {scratch})"
    result = gdb(
        shells[0], [*TO_THE_TABLE, look, "continue", look, "continue"], "-n", "2", "--max-restarts", "1",
        *sh(f'touch {scratch}/begun-$RANK-$TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = 1 ]'),
    )
    first, second = re.findall(r"^begun:(.*)$", result.text, re.M)
    assert result.code == 0 and first == "" and set(re.findall(r"begun-\d-(\d)", second)) == {"0"}, result


def test_where_it_is_typed_on_every_node_nobody_waits(shells, scratch):
    words = ("--nnodes", "2", "--nproc-per-node", "1", "--rdzv-endpoint", "node0:29441")
    other = shells[1].start(*words, "--proctable", scratch / "table", *WORKER)
    result = gdb(shells[0], [*TO_THE_TABLE, "continue"], *words, *WORKER)
    assert result.code == 0 and "table of 2, pre main 0" in result.text and len(said(result)) == 1, result
    assert other.finish().code == 0


def test_without_a_debugger_nobody_is_asked(shells):
    result = gdb(shells[0], ["break MPIR_Breakpoint", "run"], "-n", "2", *WORKER)
    assert result.code == 0 and "Breakpoint 1, " not in result.text and len(said(result)) == 2, result


def test_the_names_are_there_without_the_symbols():
    listed = subprocess.run(["nm", "-D", LAUNCH], capture_output=True, text=True, check=True).stdout
    assert NAMES <= {line.split()[-1] for line in listed.splitlines()}, listed


@WHERE
def test_the_table_as_a_file(shells, scratch, where):
    file = scratch / "table"
    result = shells[0].run(*where, "--proctable", file, *WORKER)
    assert result.code == 0, result
    head, *rows = file.read_text().splitlines()
    assert head == "rank\thost\tpid\texecutable"
    table = {int(rank): (host, int(pid)) for rank, host, pid, _ in (row.split("\t") for row in rows)}
    assert table == said(result) and all(row.endswith("/bin/bash") for row in rows), (rows, result)


def test_a_debugger_that_attaches_later_finds_it(shells, scratch):
    gate = scratch / "gate"
    script = f'echo "rank $RANK pid $$ at $(hostname)"; until [ -e {gate} ]; do sleep 0.05; done'
    job = shells[0].start("-n", "2", "--proctable", scratch / "table", *sh(script))
    job.expect("rank", count=2)
    wait_for((scratch / "table").exists, 20, what="all workers have started")
    with open(f"/proc/{job.pid}/status") as f:
        pid = re.search(r"^NSpid:.*\s(\d+)$", f.read(), re.M)[1]  # as the host numbers it
    look = 'printf "pids %d %d of %d\n", MPIR_proctable[0].pid, MPIR_proctable[1].pid, MPIR_proctable_size'
    seen = shells[0].run("-q", "-batch", "-nx", "-p", pid, "-ex", look, program="/usr/bin/gdb")
    gate.write_text("")
    result = job.finish()
    workers = said(result)
    assert f"pids {workers[0][1]} {workers[1][1]} of 2" in seen.text, (seen, result)
    assert result.code == 0


def test_after_a_restart_it_is_that_of_the_new_workers(shells, scratch):
    file = scratch / "table"
    result = shells[0].run("-n", "2", "--max-restarts", "1", "--proctable", file, *sh('echo "rank $RANK pid $$ at $(hostname)"; [ $TORCHELASTIC_RESTART_COUNT = 1 ]'))
    assert result.code == 0, result
    rows = [row.split("\t") for row in file.read_text().splitlines()[1:]]
    assert [int(row[2]) for row in rows] == [pid for _, (_, pid) in sorted(said(result).items())], (rows, result)


def typed(shells, flags, gate):
    words = ("--nnodes", "2", "--nproc-per-node", "1", "--rdzv-endpoint", "node0:29440")
    script = f'echo "rank $RANK pid $$ at $(hostname)"; until [ -e {gate} ]; do sleep 0.05; done'
    jobs = [s.start(*words, *more, *sh(script)) for s, more in zip(shells, flags)]
    for job in jobs:
        job.expect("rank")
    return jobs


def test_where_the_command_is_typed_the_serving_node_has_it(shells, scratch):
    file, gate = scratch / "table", scratch / "gate"
    flag = ("--proctable", file)
    jobs = typed(shells, [flag, flag], gate)
    gate.write_text("")
    results = [job.finish() for job in jobs]
    assert [r.code for r in results] == [0, 0], results
    rows = [row.split("\t")[:3] for row in file.read_text().splitlines()[1:]]
    workers = {**said(results[0]), **said(results[1])}
    assert {int(rank): (host, int(pid)) for rank, host, pid in rows} == workers, (rows, results)


def test_a_node_that_does_not_tell_is_named(shells, scratch):
    file, gate = scratch / "table", scratch / "gate"
    jobs = typed(shells, [("--proctable", file), ()], gate)
    jobs[0].expect("node1 does not tell their pids; give --proctable on every node", stream="err")
    gate.write_text("")
    assert [job.finish().code for job in jobs] == [0, 0] and not file.exists()


def test_a_file_that_cannot_be_written_does_not_end_the_job(shells):
    result = shells[0].run("-n", "1", "--proctable", "/nowhere/table", "true")
    assert result.code == 0 and "--proctable /nowhere/table: No such file or directory" in result.errors, result


def test_one_rank_under_gdb(shells):
    """gdb itself, at the keys of the user's terminal."""
    script = 'stty rows 30 cols 100; "$0" "$@"'
    job = shells[0].start(
        WORKERS / "ptyrun.py", "bash", "-c", script, LAUNCH, "-n", "2", "--gdb", "1", "/bin/echo", "done",
        program="/usr/bin/python3", stdin=subprocess.PIPE, env={"TERM": "dumb", "DEBUGINFOD_URLS": ""},
    )
    job.expect(r"\(gdb\) ")
    for keys, seen in ((b"run\r", "exited normally"), (b"quit\r", None)):
        job.proc.stdin.write(keys)
        job.proc.stdin.flush()
        if seen:
            job.expect(seen)
    result = job.finish()
    assert result.code == 0 and result.text.count("done") >= 2, result
