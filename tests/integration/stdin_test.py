"""stdin goes to rank 0 unless told otherwise, whole, wherever that rank runs."""

import hashlib
import random
import subprocess

import pytest

from harness import LAUNCH, by_rank, kill_all, sh, wait_for


def feed(shell, data, *args, **kw):
    job = shell.start(*args, stdin=subprocess.PIPE, **kw)
    try:
        job.proc.stdin.write(data)
        job.proc.stdin.close()
    except BrokenPipeError:
        pass
    return job.finish()


def test_rank_0_by_default(node0):
    result = feed(node0, b"one\ntwo\n", "-n", "2", *sh("cat; echo end"))
    assert by_rank(result.out) == {0: [b"one", b"two", b"end"], 1: [b"end"]}, result


@pytest.mark.parametrize("mode, ranks", [("none", []), ("1", [1]), ("all", [0, 1, 2])])
def test_modes(node0, mode, ranks):
    result = feed(node0, b"x\n", "-n", "3", "--stdin", mode, *sh("cat; echo end"))
    want = {r: ([b"x"] if r in ranks else []) + [b"end"] for r in range(3)}
    assert by_rank(result.out) == want, result


def test_what_the_worker_leaves_is_for_whoever_reads_on(node0):
    loop = 'while read x; do "$@" "$x"; done; echo over'
    body = [LAUNCH, "-n", "2", "--no-prefix", "--max-restarts", "1", *sh('[ $RANK = 1 ] || { echo "$0"; [ $TORCHELASTIC_RESTART_COUNT = 1 ]; }')]
    result = feed(node0, b"one\ntwo\nthree\n", "-c", loop, "-", *body, program="bash")
    assert result.text.split() == ["one", "one", "two", "two", "three", "three", "over"], result
    script = f"{LAUNCH} -n 2 --no-prefix sh -c 'echo $RANK'\necho second\n".encode()
    assert sorted(feed(node0, script, "-s", program="bash").text.split()) == ["0", "1", "second"]


def test_20_mb_arrive_whole_on_another_host(shells):
    data = random.Random(2).randbytes(20_000_000)
    for args in (("-n", "2"), ("--hosts", "node1", "--nproc-per-node", "2")):
        result = feed(shells[0], data, *args, "--no-prefix", *sh('if [ "$RANK" = 0 ]; then md5sum; fi'))
        assert hashlib.md5(data).hexdigest() in result.text, result


def test_a_new_agents_workers_hear_of_the_end(shells):
    script = "[ $TORCHELASTIC_RESTART_COUNT = 0 ] && exec sleep 1013; cat; echo end"
    job = shells[0].start("--hosts", "node1", "--max-restarts", "1", "--no-prefix", *sh(script), stdin=subprocess.PIPE)
    job.proc.stdin.close()
    wait_for(lambda: shells[1].called("sleep 1013"), 30, what="the first round")
    kill_all(shells[1].acting())
    result = job.finish()
    assert result.code == 0 and result.text == "end\n", result


def test_a_worker_that_does_not_read_does_not_hang_the_job(node0):
    result = feed(node0, b"x" * 5_000_000, "-n", "2", "true")
    assert result.code == 0, result


def test_no_stdin_at_all(node0):
    result = node0.start("-c", '"$@" <&-', "-", LAUNCH, "-n", "2", "cat", program="bash").finish()
    assert result.code == 0, result
