"""What a machine may lack, or do wrong, while a job starts and runs: one clear message, exit 1, nothing left behind."""

import re
from pathlib import Path

import pytest

from harness import BIN, LAUNCH, sh
from wall_clock import DAY, WallClock

TWO_HOSTS = ("--hosts", "node0,node1", "--nproc-per-node", "1")
# Another try of a start, and that it goes on.
ON_THE_WAY = re.compile(r"muster: (job \S+: )?(waiting for \d+ of |.*; (try [123] of 3 follows|it is tried again.*)$|\S+: its agent is started again$)")
NOBODY = "setpriv --reuid=12345 --regid=12345 --clear-groups env HOME=/ bash -c"


def bash(shell, script, **kw):
    """`launch` under a shell's limits: L stands for it."""
    return shell.run("-c", f"L={LAUNCH}; {script}", program="bash", **kw)


def says(result, *words, code=1, tries=0):
    """One message of ours, and no more lines of it than a reader takes in; the doctor's table may follow, and what
    is said of so many further tries of a start may come before it."""
    assert result.code == code, result
    for word in words:
        assert word in result.errors, result
    message, _, _ = result.errors.partition("muster: what is wrong with the nodes: ")
    lines = message.splitlines()
    if tries:
        assert message.count(" follows\n") <= tries, result
        lines = [line for line in lines if not ON_THE_WAY.match(line)]
    assert len(lines) <= 6, result


# --- limits ---


@pytest.mark.parametrize("how", ["-n 2", "--standalone --nnodes 2", "--nnodes 2 --rdzv-endpoint localhost:29470"])
def test_too_few_descriptors_to_begin(node0, how):
    says(bash(node0, f"ulimit -n 40; $L {how} true"), "40 files", "64 are the least", "ulimit -Hn")


def test_too_few_descriptors_for_the_workers(node0):
    says(bash(node0, "ulimit -n 64; $L -n 64 sleep 1060"), "no pipe for its output: Too many open files", "raise ulimit -n")


def test_too_few_descriptors_for_what_workers_get_of_us(node0):
    said = bash(node0, f"ulimit -n 90; $L -n 2 {BIN.parent / 'tests/sdk-probe'}")
    assert said.code == 1 and "may have 90 descriptors (ulimit -n), and this one is number 100: raise the limit to 128 or more" in said.text, said
    says(bash(node0, "ulimit -n 90; $L -n 2 --mpi pmi1 true"), "no descriptor of number 102 (PMI_FD): raise `ulimit -n` to 128")


def test_too_small_files_for_the_program(node0):
    says(bash(node0, "ulimit -f 1; $L -n 2 true"), "cannot hand the program to the shepherd", "raise the limit of file sizes (ulimit -f)")
    assert bash(node0, "ulimit -f 0; $L --help > /dev/null").code == 0
    assert bash(node0, "ulimit -f 8; $L --no-prefix -n 1 sh -c 'trap' && $L -n 1 sh -c 'kill -XFSZ $$'").code == 128 + 25


def test_no_processes_left_for_the_workers(node0):
    says(bash(node0, f"cd /; {NOBODY} 'ulimit -u 6; {LAUNCH} -n 16 sleep 1061'"), "could not be started: fork a process: Resource temporarily unavailable")


@pytest.mark.parametrize("how", ["--standalone --nnodes 2", "--nnodes 2 --insecure --rdzv-endpoint localhost:29471"])
def test_no_threads_left(node0, how):
    says(bash(node0, f"cd /; {NOBODY} 'ulimit -u 8; {LAUNCH} {how} sleep 1062'"), "cannot start a thread", "ulimit -u")


# --- disks ---


def fill(folder):
    """Makes it a file system with nothing left on it."""
    return f"mkdir -p {folder} && mount -t tmpfs -o size=64k none {folder} && head -c 9M /dev/zero > {folder}/full 2>/dev/null"


def on_full_disk(folder, script):
    return f"{fill(folder)}; {script}; code=$?; umount {folder}; exit $code"


def test_a_full_dev_shm(node0):
    result = bash(node0, on_full_disk("/dev/shm", "$L -n 4 sh -c 'exit 3'"))
    says(result, "exit code 3", code=3)


@pytest.mark.parametrize("how", ["-n 2", "-q --standalone --nnodes 2", "-q --nnodes 2 --insecure --rdzv-endpoint localhost:29472"])
def test_a_full_disk_for_logs_loses_the_logs_alone_and_is_a_failure(node0, how):
    launch = f"$L {how} --log-dir /tmp/logs sh -c 'echo end $RANK'"
    if "endpoint" in how:  # typed once a node
        launch = f"{launch} & {launch}; code=$?; wait $! && exit 0; (exit $code)"
    result = bash(node0, on_full_disk("/tmp/logs", launch))
    says(result, "ended well, but some of its output is lost", "/tmp/logs/", "No space left on device", code=1)
    assert sorted(re.findall(r"end (\d)", result.text)) == ["0", "1"], result


def test_a_full_disk_for_the_logs_of_another_host_is_a_failure(shells, lab):
    lab[1].check(["bash", "-c", f"{fill('/tmp/logs')}; true"])
    try:
        result = bash(shells[0], "$L --hosts node1,node2 -q --log-dir /tmp/logs sh -c 'echo end $RANK'")
    finally:
        lab[1].check(["umount", "/tmp/logs"])
    says(result, "ended well, but some of its output is lost: node1: write /tmp/logs/", "No space left on device", code=1)


def test_a_full_disk_for_our_own_output_is_a_failure(shells):
    for where in ("-n 2", "--hosts node1,node2"):
        script = f"$L {where} sh -c 'head -c 200000 /dev/zero; touch /tmp/ended.$RANK' > /tmp/out/file"
        says(bash(shells[0], on_full_disk("/tmp/out", script)), "stdout: No space left on device", "ended well, but some of its output is lost", code=1)


def test_a_full_device_for_our_own_output_is_a_failure(node0):
    """Nobody has gone: the job runs to its end."""
    says(bash(node0, "$L -n 2 sh -c 'echo x' > /dev/full"), "stdout: No space left on device", "ended well, but some of its output is lost", code=1)
    assert bash(node0, "$L -n 2 sh -c 'echo x >&2; sleep 0.2; echo end $RANK' 2> /dev/full").code == 1


def test_output_that_is_closed_is_lost_and_a_failure(node0):
    """Quiet workers lose nothing; a standard error that is closed is nobody's to be told of."""
    says(bash(node0, "$L -n 2 sh -c 'echo x' >&-"), "stdout: closed", "ended well, but some of its output is lost", code=1)
    assert bash(node0, "$L -n 2 true >&-; echo code $?").text == "code 0\n"
    assert bash(node0, "$L -n 2 --no-prefix sh -c 'echo end; echo x >&2' <&- 2>&-").text == "end\nend\n"


@pytest.mark.parametrize("words", ["--help", "--version", "-n 2 --plan true", "--explain-env true", "ps", "ps --help", "doctor --help", "sweep --help"])
def test_an_answer_that_cannot_be_written_is_a_failure(node0, words):
    says(bash(node0, f"$L {words} > /dev/full"), "stdout: No space left on device", code=1)
    assert bash(node0, f"set -o pipefail; $L {words} | true").code in (0, 141)  # by who is first


def test_a_full_disk_for_the_spool(node0, scratch):
    """A reader that waits, and no disk to hold what comes meanwhile: workers wait, nothing is lost."""
    script = "TMPDIR=/tmp/spool $L -n 2 --no-prefix sh -c 'seq 1 3000000' | (sleep 2; wc -l)"
    result = bash(node0, on_full_disk("/tmp/spool", script), seconds=120)
    assert result.code == 0 and result.text.strip() == "6000000", result


# --- ssh ---


def test_a_host_that_refuses(shells, lab):
    lab[1].ssh_fault("refuse")
    try:
        says(shells[0].run(*TWO_HOSTS, "true"), "node1", "Connection refused", "does `ssh node1 true` work?")
    finally:
        lab[1].ssh_fault("ok")


@pytest.mark.parametrize("seconds", [0.12, 0.24, 0.27, 0.3, 0.6])
def test_an_ssh_that_dies_midway(node0, scratch, seconds):
    dying = scratch / "dying-ssh"
    dying.write_text(f'#!/bin/sh\nexec timeout -s KILL {seconds} ssh "$@"\n')
    dying.chmod(0o755)
    result = node0.run("--ssh", dying, *TWO_HOSTS, "sleep", "1063")
    says(result, "node1", tries=3)


def test_an_ssh_that_is_not_there(node0):
    says(node0.run("--ssh", "/nonexistent/ssh", *TWO_HOSTS, "true"), "cannot run /nonexistent/ssh: No such file or directory")


def test_an_ssh_that_prints_a_banner_and_an_answer_of_its_own(node0, scratch):
    talking = scratch / "talking-ssh"
    talking.write_text("#!/bin/sh\necho Welcome to node1\necho 'muster-agent-ready?'\necho You have mail >&2\nexit 3\n")
    talking.chmod(0o755)
    says(node0.run("--ssh", talking, *TWO_HOSTS, "true"), "node1", "status 3", "You have mail")


# --- names and clocks ---


def test_a_host_that_appears_twice_has_two_slots(shells):
    result = shells[0].run("--hosts", "node0,node1,node0", "-n", "3", *sh("echo $RANK on $(hostname)"))
    assert result.code == 0 and sorted(re.findall(r"(\d) on (\w+)", result.text)) == [("0", "node0"), ("1", "node0"), ("2", "node1")], result


def test_a_name_that_means_127_0_1_1_at_home(shells, scratch):
    """Debian's installer writes such a line; elsewhere the name is right."""
    hosts = Path("/etc/hosts").read_text() if Path("/etc/hosts").exists() else ""
    (scratch / "hosts").write_text("127.0.0.1 localhost\n127.0.1.1 node0\n10.77.0.2 node1\n" + hosts)
    shells[0].host.check(["mount", "--bind", str(scratch / "hosts"), "/etc/hosts"])
    try:
        typed = ("--nnodes", "2", "--nproc-per-node", "1", "--rdzv-endpoint", "node0:29472", *sh("echo $RANK at $MASTER_ADDR"))
        results = [job.finish() for job in [shell.start(*typed) for shell in shells[:2]]]
        assert [r.code for r in results] == [0, 0], results
        assert "127.0" not in results[1].text and re.search(r"\d at 10\.77\.0\.\d", results[1].text), results
    finally:
        shells[0].host.check(["umount", "/etc/hosts"])


def test_a_clock_that_is_a_day_off(shells, scratch):
    typed = ("--nnodes", "2", "--nproc-per-node", "1", "--rdzv-endpoint", "node0:29473", *sh("echo $RANK of $WORLD_SIZE on day $(($(date +%s) / 86400)); sleep 7"))
    jobs = [shells[0].start(*typed), shells[1].start(*typed, env=WallClock(scratch, ahead=DAY).env)]  # longer than a lease
    results = [job.finish() for job in jobs]
    assert [r.code for r in results] == [0, 0], results
    days = [int(re.search(r"on day (\d+)", r.text)[1]) for r in results]
    assert days[1] - days[0] == 1, results
