"""Workers' output: whole lines, told apart, nothing lost, and no slow reader that stops a job."""

import os
import random
import re
import signal
import subprocess
import time

import pytest

from harness import LAUNCH, PREFIX, PYTHON, WORKERS, by_rank, kill_all, sh, wait_for


@pytest.mark.parametrize("whole", ["", "1"])
def test_lines_are_never_torn(node0, whole):
    result = node0.run("-n", "8", WORKERS / "pieces.py", env={"LINES": "40", "WHOLE": whole})
    assert result.code == 0, result.errors[-2000:]
    ranks = by_rank(result.out)
    assert ranks == {r: [bytes([97 + r]) * 8000] * 40 for r in range(8)}


def test_lines_are_never_torn_without_prefix(node0):
    result = node0.run("-n", "8", "--no-prefix", WORKERS / "pieces.py", env={"LINES": "40"})
    lines = result.out.split(b"\n")
    assert lines.pop() == b""
    assert sorted(lines) == sorted(bytes([97 + r]) * 8000 for r in range(8) for _ in range(40))


def test_prefix_by_default_only_above_one_rank(node0):
    assert node0.run("-n", "1", "echo", "alone").out == b"alone\n"
    assert node0.run("--hosts", "localhost", "echo", "alone").out == b"alone\n"
    assert node0.run("--hosts", "localhost", "-l", "echo", "alone").out == b"[0@localhost] alone\n"
    result = node0.run("-n", "2", "echo", "two")
    assert sorted(result.out.splitlines()) == [b"[0@node0] two", b"[1@node0] two"], result
    result = node0.run("-n", "2", "--no-prefix", "echo", "two")
    assert result.out == b"two\ntwo\n", result


def test_quiet_says_nothing_but_errors(node0):
    nodes = ("--standalone", "--nnodes", "2", "--monitor-interval", "1")  # the last one makes a note
    result = node0.run(*nodes, "-q", "echo", "x")
    assert (result.code, result.errors) == (0, "") and len(result.out.splitlines()) == 2, result
    assert "--monitor-interval has no effect" in node0.run(*nodes, "echo", "x").errors
    result = node0.run(*nodes, "-q", "false")
    assert result.code == 1 and "exit code 1" in result.errors, result


def test_quiet_counts_down_in_silence(node0):
    job = node0.start("-q", "--grace", "1", *sh("trap '' INT TERM; echo up; while :; do sleep 0.1; done"))
    job.expect("up")
    job.signal(2)
    result = job.finish(30)
    assert result.code == 130 and "stopping" not in result.errors, result


def test_verbose_says_how_nodes_start_and_meet(node0):
    result = node0.run("-v", "--standalone", "--nnodes", "2", "echo", "x")
    for step in ("node1: muster-agent runs, process ", "node1: the agent answers", "round 1 starts: 2 workers on 2 nodes"):
        assert step in result.errors, result
    assert "round 1 starts: 3 workers on 1 node" in node0.run("-v", "-n", "3", "true").errors


def test_prefix_template(node0):
    result = node0.run("-n", "2", "--log-prefix", "<{rank}/{local_rank} {stream}> ", *sh("echo out; echo err >&2"))
    assert sorted(result.text.splitlines()) == ["<0/0 out> out", "<1/1 out> out"], result
    assert "<1/1 err> err" in result.errors.splitlines(), result


def test_timestamps(node0):
    result = node0.run("-n", "2", "--timestamps", "echo", "x")
    assert len(result.text.splitlines()) == 2, result
    assert all(re.search(r"\d\d:\d\d:\d\d", line) and line.endswith(" x") for line in result.text.splitlines()), result


def test_stderr_stays_stderr(node0):
    result = node0.run("-n", "2", *sh("echo to-out; echo to-err >&2"))
    assert b"to-err" not in result.out and result.out.count(b"to-out") == 2
    assert b"to-out" not in result.err and result.err.count(b"to-err") == 2


@pytest.mark.parametrize("program", [(PYTHON, "-c"), ("sh", "-c", '"$0" -c "$1"; :', PYTHON)], ids=["python", "script"])
def test_what_python_prints_is_seen_at_once(node0, scratch, program):
    """As under torchrun: a log that stays empty for an hour looks like a job that hangs."""
    code = "import os, time\nprint('step 1')\nwhile not os.path.exists(os.environ['GATE']): time.sleep(0.01)"
    base = {"GATE": str(scratch / "gate")}
    job = node0.start("-n", "1", *program, code, env=base)
    job.expect("step 1")
    (scratch / "gate").touch()
    assert job.finish().code == 0
    shown = node0.run("-n", "1", *sh("echo [${PYTHONUNBUFFERED-none}]"), env={"PYTHONUNBUFFERED": ""})
    assert shown.text == "[]\n", shown


def test_last_line_without_newline_is_shown(node0):
    assert node0.run("-n", "1", "printf", "end").out.rstrip(b"\n") == b"end"
    result = node0.run("-n", "2", "printf", "a\nend")
    assert {l[PREFIX.match(l).end():] for l in result.out.split(b"\n") if l} == {b"a", b"end"}, result
    assert len([l for l in result.out.split(b"\n") if l]) == 4, result


def test_binary_passes(node0, scratch):
    data = random.Random(1).randbytes(3_000_000) + b"\n"
    (scratch / "data").write_bytes(data)
    assert node0.run("-n", "1", "cat", scratch / "data").out == data


def test_a_line_over_the_limit_is_split_and_nothing_is_lost(node0):
    size = 3 * (1 << 20) + 5
    result = node0.run("-n", "2", *sh(f"[ $RANK = 0 ] && head -c {size} /dev/zero | tr '\\0' x; echo; echo after"))
    assert result.code == 0, result.errors
    assert result.out.count(b"x") == size
    lines = result.out.split(b"\n")
    assert max(map(len, lines)) < (1 << 20) + (1 << 16) + 200  # one read more than the limit
    assert sum(l.endswith(b"after") for l in lines) == 2
    assert all(PREFIX.match(l) for l in lines[:-1])


def test_100_mb_arrive_whole(node0):
    """Also the end of a flood: the exit must not overtake the output."""
    line = "0123456789" * 7
    job = node0.start("-n", "2", *sh(f"yes {line} | head -n 700000"))
    result = job.finish(120)
    assert result.code == 0
    assert result.out.count(line.encode() + b"\n") == 1400000


def test_log_dir_has_a_file_for_each_rank_and_stream(node0, scratch):
    logs = scratch / "with space"
    result = node0.run("-n", "3", "--log-dir", logs, *sh("echo out $RANK; echo err $RANK >&2"))
    assert result.code == 0 and result.out.count(b"out") == 3, result
    texts = {f.read_text() for f in logs.rglob("*") if f.is_file()}
    assert {f"{s} {r}\n" for s in ("out", "err") for r in range(3)} <= texts, list(logs.rglob("*"))


def test_a_name_given_twice_costs_no_log(node0, scratch):
    """A line that is typed again with its --rdzv-id, as torchrun's users do: the files have both jobs' lines."""
    for job in ("first", "second"):
        result = node0.run("-n", "2", "--log-dir", scratch / "logs", "--rdzv-id", "same", "echo", job)
        told = "logs/same is of an earlier job: this one's lines go behind" in result.errors
        assert result.code == 0 and told == (job == "second"), result
    assert [(scratch / f"logs/same/round-1/rank-{rank}.out").read_text() for rank in range(2)] == ["first\nsecond\n"] * 2


@pytest.mark.parametrize("where", [["-n", "1"], ["--hosts", "node0,node1", "-n", "2"], ["--nnodes", "2", "--rdzv-endpoint", "localhost:29460"]], ids=["one", "hosts", "typed"])
def test_a_log_dir_that_cannot_be_made_is_said_before_the_start(node0, scratch, where):
    result = node0.run(*where, "--log-dir", "/proc/none/logs", "touch", scratch / "started")
    assert result.code in (1, 2) and "--log-dir /proc/none/logs: mkdir /proc/none: No such file or directory" in result.errors, result
    assert not (scratch / "started").exists()


def test_files_of_hydras_patterns(shells, scratch):
    patterns = ("-outfile-pattern", f"{scratch}/out.%h.%r", "-errfile-pattern", f"{scratch}/err.%r")
    for _ in range(2):  # the second run's files replace those of the first
        result = shells[0].run("-hosts", "node0,node1", "-n", "2", *patterns, *sh("echo out $RANK; echo err $RANK >&2"))
        assert result.code == 0 and result.out == b"" and "err" not in result.errors, result
    found = {p.name: p.read_text() for p in scratch.iterdir()}
    assert found == {"out.node0.0": "out 0\n", "out.node1.1": "out 1\n", "err.0": "err 0\n", "err.1": "err 1\n"}


def test_the_folder_of_open_mpi(shells, scratch):
    result = shells[0].run("--hosts", "node0:6,node1:5", "--output-filename", scratch / "a b", "--no-prefix", *sh("echo out $RANK; echo err $RANK >&2"))
    assert result.code == 0 and result.out.count(b"out") == 11 and result.err.count(b"err") == 11, result
    found = {str(p.relative_to(scratch / "a b")): p.read_text() for p in scratch.rglob("std*")}
    assert found == {f"1/rank.{r:02}/std{s}": f"{s} {r}\n" for s in ("out", "err") for r in range(11)}


def test_the_folder_of_open_mpi_without_a_copy_here(node0, scratch):
    result = node0.run("-n", "2", "--max-restarts", "1", "--output-filename", f"{scratch}:nocopy,nojobid", *sh("echo $RANK; [ $TORCHELASTIC_RESTART_COUNT = 1 ]"))
    assert result.code == 0 and result.out == b"", result
    assert {"rank.0/stdout.1", "rank.1/stdout.1"} <= {str(p.relative_to(scratch)) for p in scratch.rglob("std*")}


def test_log_dir_keeps_rounds_apart(node0, scratch):
    script = 'echo "$RANK in $TORCHELASTIC_RESTART_COUNT"; [ $TORCHELASTIC_RESTART_COUNT = 1 ] || exit 3'
    result = node0.run("-n", "2", "--max-restarts", "1", "--log-dir", scratch / "logs", *sh(script))
    assert result.code == 0, result
    texts = [f.read_text() for f in (scratch / "logs").rglob("*") if f.is_file()]
    for text in ("0 in 0\n", "1 in 0\n", "0 in 1\n", "1 in 1\n"):
        assert texts.count(text) <= 1
    assert texts.count("0 in 1\n") == texts.count("1 in 1\n") == 1, texts


def test_log_files_as_torchrun_lays_them(shells, scratch):
    """Two nodes of one folder do not meet in it; chosen lines, error files and attempts have their places."""
    script = (
        'echo "loss of $RANK"; echo other; echo "warn $RANK" >&2; [ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit 0\n'
        f'touch {scratch}/$RANK; [ $RANK = 2 ] || exec sleep 1070; until [ $(ls {scratch} | wc -l) = 5 ]; do sleep 0.01; done\n'
        'echo \'{"message": "boom"}\' > $TORCHELASTIC_ERROR_FILE; exit 3')
    logs = scratch / "logs"
    logs.mkdir(mode=0o777)
    options = ("--log-layout", "torchrun", "--log-dir", logs, "--rdzv-id", "j", "--duplicate-stdout-filters", "loss,none", "--max-restarts", "1")
    result = shells[0].run("--hosts", "node0,node1", "--nproc-per-node", "2", *options, *sh(script))
    assert result.code == 0 and result.out.count(b"other") == 8, result
    runs = sorted(logs.iterdir())
    assert len(runs) == 2 and all(re.fullmatch("j_[0-9a-f]{8}", run.name) for run in runs), runs
    if "loss of 2" in (runs[0] / "attempt_0/0/stdout.log").read_text():
        runs.reverse()
    for node, run in enumerate(runs):
        for attempt in (0, 1):
            for local in (0, 1):
                folder, rank = run / f"attempt_{attempt}/{local}", 2 * node + local
                assert (folder / "stdout.log").read_text() == f"loss of {rank}\nother\n"
                assert (folder / "stderr.log").read_text() == f"warn {rank}\n"
                assert (folder / "error.json").exists() == ((rank, attempt) == (2, 0)), folder
            chosen = (run / f"attempt_{attempt}/filtered_stdout.log").read_text().splitlines()
            assert sorted(chosen) == [f"[{r}@node{node}] loss of {r}" for r in (2 * node, 2 * node + 1)], chosen


@pytest.mark.parametrize("option, shown_out, shown_err", [("-r", 0, 0), ("-t", 2, 2)])
def test_redirects_and_tee(node0, scratch, option, shown_out, shown_err):
    logs = scratch / "logs"
    result = node0.run("-n", "2", option, "3", "--log-dir", logs, *sh("echo OUT; echo ERR >&2"))
    assert result.code == 0, result
    assert (result.out.count(b"OUT"), result.err.count(b"ERR")) == (shown_out, shown_err), result
    texts = [f.read_text() for f in logs.rglob("*") if f.is_file()]
    assert texts.count("OUT\n") == 2 and texts.count("ERR\n") == 2, texts


def test_redirects_by_local_rank(node0, scratch):
    result = node0.run("-n", "2", "--redirects", "1:1", "--log-dir", scratch / "logs", *sh("echo OUT; echo ERR >&2"))
    assert list(by_rank(result.out)) == [0] and result.err.count(b"ERR") == 2, result


def test_show_by_global_rank(node0):
    result = node0.run("-n", "4", "--show", "1,3", "echo", "x")
    assert sorted(by_rank(result.out)) == [1, 3], result
    assert result.code == 0


@pytest.mark.parametrize("where", [("-n", "2"), ("--standalone", "--nnodes", "2", "--nproc-per-node", "2")])
def test_closed_stdout_stops_the_job(node0, lab, where):
    """launch ... | head -n 1"""
    job = node0.start("-c", '"$@" | head -n 1; echo "${PIPESTATUS[0]}" >&2', "-", str(LAUNCH), *where, "yes", program="bash")
    result = job.finish()
    assert len(result.out.splitlines()) == 1 and result.errors.splitlines()[-1] == "141", result
    assert "nobody reads its output any more" in result.errors, result
    lab.expect_quiet()


@pytest.mark.parametrize("where", [("-n", "2"), ("--standalone", "--nnodes", "2", "--nproc-per-node", "2")])
def test_a_stop_of_the_whole_pipeline_is_a_stop_whoever_dies_first(node0, lab, scratch, where):
    """SIGTERM to `launch ... | tee`: the reader is gone, and launch has seen it, before launch is asked to stop."""
    seen = f'trap ": > {scratch}/stopped; until [ -e {scratch}/go ]; do sleep 0.01; done; exit 0" TERM; echo up; while :; do sleep 0.01; echo more; done'
    piped = (f'"$@" > >(read -r _) & P=$!; until [ -e {scratch}/stopped ]; do sleep 0.01; done\n'
             f'kill -TERM $P; sleep 0.3; : > {scratch}/go; wait $P; echo $? >&2')
    result = node0.start("-c", piped, "-", str(LAUNCH), *where, *sh(seen), program="bash").finish()
    assert result.errors.splitlines()[-1] == "143", result
    assert "because nobody reads" not in result.errors, result
    lab.expect_quiet()


def test_a_failure_before_stdout_was_closed_is_the_cause(node0, scratch):
    """The reader ends while rank 1, stopped because of rank 0, still writes."""
    script = (f'[ $RANK = 0 ] && {{ echo "fatal: bad data" >&2; until [ -e {scratch}/up ]; do sleep 0.01; done; exit 3; }}\n'
              f'trap "touch {scratch}/saving; for i in 1 2 3; do sleep 0.5; yes saving | head -n 100000; done; exit 0" TERM\n'
              f'touch {scratch}/up; while :; do sleep 0.01; done')
    reader = f'read -r _; until [ -e {scratch}/saving ]; do sleep 0.01; done'
    piped = f'"$@" | ( {reader} ); echo "${{PIPESTATUS[0]}}" >&2'
    job = node0.start("-c", piped, "-", str(LAUNCH), "-n", "2", "bash", "-c", "echo begins; " + script, program="bash")
    result = job.finish()
    assert result.errors.splitlines()[-1] == "3", result
    assert "rank 0 on node0" in result.errors and "exit code 3" in result.errors, result


def test_a_reader_that_stops_does_not_stop_the_job(node0, scratch):
    """More than pipe and memory hold goes to the spool; nothing is lost when the reader comes back."""
    done = scratch / "done"
    line = "0123456789" * 7
    job = node0.start("-n", "1", *sh(f"yes {line} | head -n 2000000; touch {done}"), read=False)
    wait_for(done.exists, 60, what="142 MB are written while nobody reads")
    total = 0
    while piece := os.read(job.proc.stdout.fileno(), 1 << 20):
        total += len(piece)
    assert total == 2000000 * 71
    assert job.finish().code == 0


def test_a_full_spool_drops_with_a_count_if_told_so(node0, scratch):
    done = scratch / "done"
    job = node0.start("-n", "1", "--output-spool", "1M", "--output-overflow", "drop", *sh(f"yes 0123456789 | head -c 200000000; touch {done}"), read=False)
    wait_for(done.exists, 60, what="the job goes on")
    text = bytearray()
    while piece := os.read(job.proc.stdout.fileno(), 1 << 20):
        text += piece
    result = job.finish()
    assert result.code == 0 and len(text) < 190_000_000, result
    assert re.search(rb"(dropped|lost)", text[-4096:] + text[:4096] + result.err) or re.search(rb"\n[^\n]*dropped[^\n]*\n", text), result


def test_a_full_spool_blocks_by_default(node0, scratch):
    done = scratch / "done"
    job = node0.start("-n", "1", "--output-spool", "1M", *sh(f"yes 0123456789 | head -c 200000000; touch {done}"), read=False)
    total = 0
    while piece := os.read(job.proc.stdout.fileno(), 1 << 20):
        total += len(piece)
    assert total == 200000000 and job.finish().code == 0


def test_a_terminal_sees_partial_lines(node0):
    """A prompt and a progress bar are shown before their newline comes."""
    job = node0.start(WORKERS / "ptyrun.py", LAUNCH, "-n", "1", *sh("printf 'name? '; read -r x; echo got $x; printf '10%%\\r20%%\\r'; read -r y; echo"), program="/usr/bin/python3", stdin=subprocess.PIPE)
    job.expect(r"name\? ")
    job.proc.stdin.write(b"me\n")
    job.proc.stdin.flush()
    job.expect("got me")
    job.expect("20%")
    job.proc.stdin.write(b"\n")
    job.proc.stdin.flush()
    assert job.finish().code == 0


@pytest.mark.parametrize("options", [("-n", "2", "--no-prefix"), ("-n", "1", "--timestamps")])
def test_a_pipe_sees_only_whole_lines(node0, scratch, options):
    job = node0.start(*options, *sh(f"printf part; while [ ! -e {scratch}/go ]; do read -t 0.05 <> <(:); done; echo -whole"))
    job2 = node0.start("-n", "1", *sh("sleep 0.5; echo later"))  # well beyond the terminal's 200 ms
    job2.finish()
    assert job.out.data == b""
    (scratch / "go").touch()
    assert job.finish().out.count(b"part-whole\n") == int(options[1])


def test_a_pipe_sees_what_the_one_worker_writes_before_its_newline(node0):
    """Who drives the program through pipes, with a prompt, is not told apart from a terminal."""
    job = node0.start("-n", "1", *sh("printf 'name? '; read -r x; echo got $x; printf 'sure? ' >&2; read -r y; echo $y"), stdin=subprocess.PIPE)
    job.expect(r"name\? ")
    os.write(job.proc.stdin.fileno(), b"me\n")
    job.expect("got me")
    job.expect(r"sure\? ", stream="err")
    os.write(job.proc.stdin.fileno(), b"yes\n")
    assert job.finish().out == b"name? got me\nyes\n"


def test_a_filter_behind_its_worker_ends_its_work(shells):
    """Of bash's exec > >(...) the last line comes after the end of the script."""
    script = "exec > >(sleep 1; sort) 2> >(sed s/^/log:/ >&2); for i in 3 1 2; do echo line $i; done; echo late >&2"
    result = shells[0].run("--hosts", "node0,node1", "--no-prefix", *sh(script))
    assert result.code == 0 and sorted(result.out.splitlines()) == sorted(2 * [b"line 1", b"line 2", b"line 3"]), result
    assert result.errors.splitlines() == 2 * ["log:late"], result
    result = shells[0].run("-n", "1", *sh("exec 2> >(sleep 0.1; sed s/^/log:/ >&2); echo why >&2; exit 3"))
    assert result.code == 3 and "log:why\n" in result.errors and "left processes" not in result.errors, result


def test_output_of_two_hosts(shells):
    result = shells[0].run("--hosts", "node0,node1", "--nproc-per-node", "4", "-x", "LINES", WORKERS / "pieces.py", env={"LINES": "20"})
    assert result.code == 0, result.errors[-2000:]
    assert by_rank(result.out) == {r: [bytes([97 + r]) * 8000] * 20 for r in range(8)}
    hosts = {PREFIX.match(l)[2] for l in result.out.splitlines()}
    assert hosts == {b"node0", b"node1"}


@pytest.mark.parametrize("where", [("-n", "2"), ("--hosts", "node1", "--nproc-per-node", "2")])
def test_a_reader_may_be_slow_after_the_last_worker(shells, scratch, where):
    """A pager that is left on its first page for longer than a lease and its slack sees the rest."""
    job = shells[0].start(*where, *sh(f"yes 0123456789 | head -n 1000000; touch {scratch}/written.$RANK"), read=False)
    wait_for(lambda: len(list(scratch.glob("written.*"))) == 2, 60, what="all is written")
    time.sleep(10)
    total = b""
    while piece := os.read(job.proc.stdout.fileno(), 1 << 20):
        total += piece
    assert job.finish().code == 0
    assert total.count(b"0123456789\n") == 2000000


def start_unread(shell, *args):
    """stdout and stderr are one pipe, which is full before long and which nobody reads yet."""
    return shell.start("-c", 'exec "$0" "$@" 2>&1', LAUNCH, *args, program="bash", read=False)


@pytest.mark.parametrize("where", [("-n", "2"), ("--hosts", "node1", "--nproc-per-node", "2")])
def test_a_job_is_stopped_though_its_reader_stands_still(shells, where):
    """What launch itself says meanwhile waits, as the workers' output does."""
    job = start_unread(shells[0], *where, "--output-spool", "8M", *sh("exec yes 0123456789"))
    writing = lambda: shells[0].called("yes 0123456789") + shells[1].called("yes 0123456789")
    wait_for(lambda: len(writing()) == 2, 60, what="they write")
    time.sleep(1)
    job.signal(signal.SIGTERM)
    wait_for(lambda: not writing(), 10, what="they are stopped")
    last = b""
    while piece := os.read(job.proc.stdout.fileno(), 1 << 20):
        last = last[-4000:] + piece
    assert job.finish().code == 143 and b"SIGTERM" in last, last


def test_a_round_follows_though_the_reader_stands_still(shells, scratch):
    """What the master tells the terminal holds up nothing: no lease ends meanwhile, and who runs on is told to end."""
    script = f"trap 'touch {scratch}/told.$RANK; exit 0' TERM; [ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit 0; yes 0123456789 & wait $!"
    job = start_unread(shells[0], "--hosts", "node1,node2", "--max-restarts", "1", "--output-spool", "8M", *sh(script))
    writing = lambda i: shells[i].called("yes 0123456789")
    wait_for(lambda: len(writing(1) + writing(2)) == 2, 60, what="they write")
    time.sleep(2)
    kill_all(writing(2))
    wait_for(lambda: not writing(1), 30, what="the end of the first round")
    while os.read(job.proc.stdout.fileno(), 1 << 20):
        pass
    assert job.finish().code == 0 and (scratch / "told.0").exists()


def test_a_flood_does_not_end_a_job_over_ssh(shells):
    """Output has a channel of its own: beats pass a reader that stands still for longer than the lease."""
    job = shells[0].start("--hosts", "node1", "--nproc-per-node", "2", *sh("yes 0123456789 | head -c 100000000; sleep 9; echo; echo end"), read=False)
    wait_for(lambda: len(shells[1].called("sleep 9")) == 2, 60, what="the flood is written")
    wait_for(lambda: not shells[1].called("sleep 9"), 60, what="9 s pass: lease and slack")
    total = b""
    while piece := os.read(job.proc.stdout.fileno(), 1 << 20):
        total = total[-100:] + piece
    assert job.finish().code == 0 and b"end" in total
