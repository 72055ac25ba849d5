"""Exit status and report: the right first cause, on one page, without a stack of ours."""

import json
import os
import re
import shlex
import signal
import subprocess
import time

import pytest

from harness import LAUNCH, PATIENCE, PYTHON, sh, wait_for

OTHERS_SLEEP = 'r={rank}; [ "$RANK" = $r ] || exec sleep 1030; '


def report_of(result):
    text = result.errors
    assert "terminate called" not in text and "Traceback" not in re.sub(r"(?s)Traceback.*?Error", "", text)
    assert not re.search(r"#\d+ +0x|backtrace|absl::|muster::", text), text
    return text


@pytest.mark.parametrize("n", [1, 3])
def test_all_zero(node0, n):
    result = node0.run("-n", n, "true")
    assert result.code == 0 and result.errors == "", result


def test_one_rank_fails_while_others_sleep(node0):
    result = node0.run("-n", "4", *sh(OTHERS_SLEEP.format(rank=2) + "echo the-reason >&2; exit 3"))
    assert result.code == 3 and result.seconds < 10, result
    text = report_of(result)
    assert re.search(r"rank 2\b", text) and "node0" in text and "the-reason" in text and re.search(r"\b3\b", text), result


@pytest.mark.parametrize("code", [1, 2, 77, 255])
def test_the_workers_own_code(node0, code):
    assert node0.run("-n", "2", *sh(f"exit {code}")).code == code


@pytest.mark.parametrize("name, code, words", [("SEGV", 139, "segmentation fault"), ("KILL", 137, "SIGKILL"), ("ABRT", 134, "SIGABRT"), ("TERM", 143, "SIGTERM")])
def test_a_signal_ends_a_worker(node0, name, code, words):
    result = node0.run("-n", "3", *sh(OTHERS_SLEEP.format(rank=1) + f"kill -{name} $$; sleep 1031"))
    assert result.code == code, result
    text = report_of(result)
    assert re.search(r"rank 1\b", text) and words.lower() in text.lower() and f"SIG{name}" in text, result


def test_out_of_memory_in_a_cgroup(node0, scratch):
    group = f"/sys/fs/cgroup/memory/{scratch.name}"
    eat = "/usr/bin/python3 -c 'x = bytearray(1 << 30)'"
    script = f'mkdir {group} && echo 134217728 > {group}/memory.limit_in_bytes && echo $$ > {group}/tasks && exec "$@"'
    try:
        job = node0.start("-c", script, "-", LAUNCH, "-n", "2", *sh(OTHERS_SLEEP.format(rank=1) + "exec " + eat), program="bash")
        result = job.finish()
        assert result.code == 137, result
        text = report_of(result)
        assert re.search("out of memory|OOM", text, re.I) and re.search(r"rank 1\b", text), result
    finally:
        wait_for(lambda: node0.host.run(["rmdir", group]).returncode == 0, 10, what=f"rmdir {group}")


def test_program_not_found(node0):
    result = node0.run("-n", "2", "/nonexistent/prog")
    assert result.code == 127 and "/nonexistent/prog" in result.errors, result
    result = node0.run("-n", "2", "no-such-program-anywhere")
    assert result.code == 127 and "no-such-program-anywhere" in result.errors, result


def test_program_not_executable(node0, scratch):
    (scratch / "data").write_text("x\n")
    result = node0.run("-n", "2", scratch / "data")
    assert result.code == 126 and str(scratch / "data") in result.errors, result
    assert node0.run("-n", "2", scratch).code == 126


def test_python_exception(node0, scratch):
    script = scratch / "fails.py"
    script.write_text("import os, time\nif os.environ['RANK'] != '1': time.sleep(1032)\nraise ValueError('the ' + 'cause')\n")
    result = node0.run("-n", "3", script)
    assert result.code == 1 and "ValueError: the cause" in result.errors and re.search(r"rank 1\b", result.errors), result


def test_python_exception_with_torch_error_file(node0, scratch):
    """What the error file says stands in both reports."""
    script = scratch / "fails.py"
    script.write_text(
        "import os, sys, time\nfrom torch.distributed.elastic.multiprocessing.errors import record\n"
        "@record\ndef main():\n    if os.environ['RANK'] != '1': time.sleep(1033)\n    raise KeyError('from-record')\nmain()\n"
    )
    result = node0.run("-n", "2", "--report", scratch / "r.json", script, seconds=90)
    assert result.code == 1 and "from-record" in result.errors, result
    assert "from-record" in (scratch / "r.json").read_text()


def test_who_failed_first_though_it_ends_last(node0, scratch):
    """Its error file is there, and it still uploads something when the others fail of that, and all are stopped."""
    script = scratch / "fails.py"
    script.write_text(
        "import os, sys, threading, time\nfrom torch.distributed.elastic.multiprocessing.errors import record\nrank = os.environ['RANK']\n"
        "@record\ndef main():\n    if rank == '1':\n        threading.Thread(target=time.sleep, args=(1034,)).start()\n"
        f"        raise ValueError('NaN loss')\n    while not os.path.exists({str(scratch / 'raised')!r}): time.sleep(0.01)\n"
        "    time.sleep(0.2)\n    raise RuntimeError('Connection closed by peer')\n"
        f"try: main()\nfinally:\n    if rank == '1': open({str(scratch / 'raised')!r}, 'w')\n"
    )
    result = node0.run("-n", "3", script, seconds=90)
    assert result.code == 1 and re.search(r"job \S+: rank 1 on node0 \(pid \d+\) ended with exit code 1 .*: it had raised an error, and was stopped \(SIGTERM\) as it still ran on", result.errors), result
    assert "ValueError: NaN loss" in result.errors.split("its error file says")[1], result


def test_report_file(node0, scratch):
    result = node0.run("-n", "4", "--report", scratch / "r.json", *sh(OTHERS_SLEEP.format(rank=2) + "echo PID $$ >&2; echo last-words >&2; exit 9"))
    assert result.code == 9, result
    report = json.loads((scratch / "r.json").read_text())
    text = json.dumps(report)
    pid = re.search(r"PID (\d+)", result.errors)[1]
    for word in ("node0", "last-words", pid):
        assert word in text, (word, report)
    numbers = [v for v in walk(report) if isinstance(v, (int, float)) and not isinstance(v, bool)]
    assert 9 in numbers and 2 in numbers and int(pid) in numbers, report


def walk(value):
    if isinstance(value, dict):
        for v in value.values():
            yield from walk(v)
    elif isinstance(value, list):
        for v in value:
            yield from walk(v)
    else:
        yield value


@pytest.mark.parametrize("path, why", [("/nonexistent/r.json", "No such file or directory"), ("/tmp", "Is a directory")])
def test_a_report_that_cannot_be_written_is_said_before_the_start(node0, scratch, path, why):
    result = node0.run("-n", "2", "--report", path, "touch", scratch / "started")
    assert result.code == 2 and f"--report {path}: {why}" in result.errors and not (scratch / "started").exists(), result


@pytest.mark.parametrize("ends, code, told", (("exit 0", 1, "the job ended well, but its report is lost: --report"), ("exit 5", 5, "--report")))
def test_a_report_for_which_the_disk_has_no_room_is_missed(node0, scratch, ends, code, told):
    full = scratch / "full"
    full.mkdir()
    launch = shlex.join(map(str, [LAUNCH, "-n", "1", "--report", full / "r.json", *sh(ends)]))
    steps = f"mount -t tmpfs -o size=4k,mode=700 none {full}; head -c 4096 /dev/zero > {full}/rest; {launch}; code=$?; ls {full}; exit $code"
    result = node0.run("-m", "bash", "-c", steps, program="unshare")
    assert (result.code, result.text) == (code, "rest\n"), result
    assert f"{told} {full}/r.json: No space left on device" in result.errors, result


def test_a_report_into_a_pipe_waits_for_nobody_who_is_not_there(node0, scratch):
    pipe = scratch / "pipe"
    os.mkfifo(pipe)
    result = node0.run("-n", "2", "--report", pipe, "--proctable", pipe, "true")
    assert result.code == 0 and f"--report {pipe}: nobody reads this pipe" in result.errors, result
    assert f"--proctable {pipe}: nobody reads this pipe" in result.errors, result
    stalled = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(stalled, bytes(4096))
    result = node0.run("-n", "2", "--report", pipe, "true")
    assert result.code == 0 and re.search(rf"--report {pipe}: who reads this pipe has taken 0 of \d+ bytes in 3.0 s", result.errors), result
    os.close(stalled)
    reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE)
    assert node0.run("-n", "2", "--report", pipe, "true").code == 0
    assert 0 in list(walk(json.loads(reader.communicate(timeout=PATIENCE)[0])))


@pytest.mark.parametrize("name", ["-", "/dev/stdout", "{file}"])
def test_a_report_to_where_the_output_goes_keeps_the_output(node0, scratch, name):
    file = scratch / "out"
    line = f"{LAUNCH} -n 2 --no-prefix --report {name} echo hi > {{file}}".format(file=file)
    assert node0.run("-c", line, program="bash").code == 0
    output, _, report = file.read_text().partition("{")
    assert output == "hi\nhi\n" and 0 in list(walk(json.loads("{" + report)))


def test_a_report_into_the_pipe_that_the_output_goes_to(node0):
    result = node0.run("-n", "2", "--no-prefix", "--report", "-", "echo", "hi")
    output, _, report = result.text.partition("{")
    assert result.code == 0 and output == "hi\nhi\n" and 0 in list(walk(json.loads("{" + report))), result


def test_a_job_file_from_standard_input(node0):
    run = lambda text: node0.run("-c", f"printf '{text}' | {LAUNCH} --no-prefix --config -", program="bash")
    result = run("nproc-per-node: 2\ncommand: [echo, hi]\n")
    assert result.code == 0 and result.text == "hi\nhi\n", result
    result = run("nproc: [\n")
    assert result.code == 2 and result.errors.startswith("muster: -"), result


def test_report_of_success(node0, scratch):
    assert node0.run("-n", "2", "--report", scratch / "r.json", "true").code == 0
    assert 0 in list(walk(json.loads((scratch / "r.json").read_text())))


def test_consequences_are_not_causes(node0):
    """Ranks that fail because they are stopped are never blamed."""
    script = 'trap "echo connection-reset >&2; exit 99" TERM; echo up; [ "$RANK" = 3 ] && exit 7; sleep 1034 & wait'
    result = node0.run("-n", "4", *sh(script))
    assert result.code == 7 and re.search(r"rank 3\b", result.errors), result


@pytest.mark.parametrize("options", [
    ["--nosuch", "true"], ["-n", "0", "true"], ["-n", "x", "true"], ["-n", "-1", "true"], ["-n", "2"], [], ["--nnodes", "2:1", "true"],
    ["--timeout", "soon", "true"], ["-n", "99999999999", "true"], ["--store", "nowhere", "true"], ["--hosts", "", "true"],
    ["--stdin", "x", "true"], ["--redirects", "9", "true"], ["--grace", "-3", "true"], ["-n"],
])
def test_wrong_usage(node0, options):
    result = node0.run(*options, seconds=20)
    assert result.code == 2 and result.err and not result.out, result
    assert len(result.errors.splitlines()) <= 12, result
    if options and options[0].startswith("--"):
        assert options[0] in result.errors, result


@pytest.mark.parametrize("text, says", [
    (b"nnodes: 1\nnnode: 2\n", "job.yaml:2:1: unknown key 'nnode'; did you mean nnodes?"),
    (b"nnodes: [1\n", "job.yaml:2:1: not YAML: "), (b"\x7fELF\x02\x01", "job.yaml:1:5: byte 0x02"),
    (b"#" * ((1 << 20) + 1), "job.yaml: want at most 1048576 bytes"), (None, "job.yaml: No such file or directory"),
], ids=["key", "syntax", "bytes", "size", "missing"])
def test_wrong_job_file(node0, scratch, text, says):
    if text is not None:
        (scratch / "job.yaml").write_bytes(text)
    result = node0.run("--config", scratch / "job.yaml", "true", seconds=20)
    assert result.code == 2 and not result.out and says in result.errors and len(result.errors.splitlines()) == 1, result


def test_a_directory_is_no_job_file(node0, scratch):
    result = node0.run("--config", scratch, "true", seconds=20)
    assert result.code == 2 and result.errors == f"muster: --config {scratch}: Is a directory\n", result


def test_help_and_version(node0):
    result = node0.run("--help")
    assert result.code == 0 and "--nproc-per-node" in result.text and "--hosts" in result.text, result
    assert node0.run("--version").code == 0


def test_a_job_that_never_forms(shells, lab):
    lab[1].ssh_fault("refuse")
    try:
        result = shells[0].run("--hosts", "node0,node1", "--nproc-per-node", "1", "true", seconds=90)
        assert result.code == 1 and "node1" in result.errors and "refused" in result.errors.lower(), result
    finally:
        lab[1].ssh_fault("ok")
    result = shells[0].run("--hosts", "node0,nowhere", "--nproc-per-node", "1", "true", seconds=90)
    assert result.code == 1 and "nowhere" in result.errors, result


def test_first_cause_on_another_host(shells):
    result = shells[2].run("--hosts", "node0,node1", "--nproc-per-node", "2", *sh(OTHERS_SLEEP.format(rank=3) + "echo far-away >&2; exit 12"))
    assert result.code == 12, result
    text = report_of(result)
    assert re.search(r"rank 3\b", text) and "node1" in text and "far-away" in text, result


def test_the_others_are_gone_at_once(node0):
    """When one of 4 dies the others follow within 50 ms (mpirun 1-3 s, torchrun 4 s)."""
    times = []
    for _ in range(3):
        job = node0.start("-n", "4", *sh("echo up; exec sleep 1035"))
        job.expect("up", 4)
        wait_for(lambda: len(node0.called("sleep 1035")) == 4, 20, what="each has become its sleep")
        workers = node0.called("sleep 1035")
        began = time.monotonic()
        os.kill(workers[2], signal.SIGKILL)
        wait_for(lambda: not any(os.path.exists(f"/proc/{p}") for p in workers), 20, 0.002, what="the others end")
        times.append(time.monotonic() - began)
        assert job.finish().code == 137
    assert min(times) < 0.05, times  # the best of three: others may meet a busy machine


def test_exits_are_reported_once(node0, scratch):
    """64 workers that end at the same moment, each with its own code."""
    result = node0.run("-n", "64", "--on-failure", "continue", "--report", scratch / "r.json", *sh("exit $((RANK + 1))"))
    assert 1 <= result.code <= 64, result
    exits = json.loads((scratch / "r.json").read_text())["exits"]
    assert sorted((e["rank"], e["exit_code"]) for e in exits) == [(r, r + 1) for r in range(64)], result


def test_killed_workers_do_not_hide_behind_a_clean_one(node0):
    result = node0.run("-n", "2", *sh('[ "$RANK" = 0 ] && exit 0; sleep 0.3; exit 6'))
    assert result.code == 6, result


FIRST = """
import ctypes, subprocess, sys, time
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: as the first process of a container
assert subprocess.run(sys.argv[1:]).returncode == 0
time.sleep(0.3)
print(open("/proc/thread-self/children").read())
"""


@pytest.mark.parametrize("how", [("-n", "2"), ("--standalone", "--nnodes", "2", "--nproc-per-node", "1")])
def test_nothing_is_left_for_the_first_process_to_reap(node0, how):
    result = node0.run("-c", FIRST, LAUNCH, *how, "true", program=PYTHON)
    assert result.code == 0 and result.text.strip() == "", result
