"""What the user is told of a job in which nothing has failed: unlike files of the program, and workers that do nothing."""

import re

import pytest

from harness import BIN, LAUNCH, PYTHON, sh

EACH = ("--hosts", "node0,node1,node2", "--nproc-per-node", "1")
UNLIKE = "train.py on node1 is not the same file as on node0: ranks run unlike code"
IDLE = "has run or written a line for"
# A cache's lock that nobody gives back, an answer that nobody sends, and who sleeps meanwhile.
WAITERS = """
import fcntl, os, socket, time
rank = os.environ["RANK"]
if rank == "0":
    server = socket.create_server(("", 28999))
    print("up", flush=True)
    peer = server.accept()
    time.sleep(1066)
elif rank == "1":
    held, wanted = open("/tmp/notices.lock", "w"), open("/tmp/notices.lock", "w")
    fcntl.flock(held, fcntl.LOCK_EX)
    print("up", flush=True)
    fcntl.flock(wanted, fcntl.LOCK_EX)
else:
    while True:
        try:
            peer = socket.create_connection(("10.77.0.1", 28999))
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
    print("up", flush=True)
    peer.recv(1)
"""


@pytest.fixture
def edited(shells):
    """The same program in a folder of each host's own; node1 has another version of it."""
    for shell, word in zip(shells, ["old", "new", "old"]):
        shell.host.check(["bash", "-c", f"mkdir /tmp/project && echo 'print(\"{word}\")' > /tmp/project/train.py"])
    yield "/tmp/project"
    for shell in shells:
        shell.host.check(["rm", "-rf", "/tmp/project"])


@pytest.mark.parametrize("program", [["train.py"], ["-m", "train"], [PYTHON, "/tmp/project/train.py"]], ids=["script", "module", "path"])
def test_a_program_that_was_edited_on_one_host(shells, edited, program):
    result = shells[0].run(*EACH, "--wdir", edited, *program)
    assert result.code == 0 and result.errors.count(UNLIKE) == 1, result
    assert sorted(re.findall("old|new", result.text)) == ["new", "old", "old"], result


def test_where_the_command_is_typed_who_serves_says_it(shells, edited):
    jobs = [shell.start("--nnodes", "2", "--nproc-per-node", "1", "--node-rank", str(i), "--rdzv-endpoint", "node0:29500", "--wdir", edited, "train.py") for i, shell in enumerate(shells[:2])]
    first, second = [job.finish() for job in jobs]
    assert first.code == 0 and second.code == 0, (first, second)
    assert UNLIKE in first.errors and UNLIKE not in second.errors, (first, second)


def test_of_a_job_at_a_daemon_its_first_node_says_it(shells, edited):
    daemon = shells[2].start("--listen", "10.77.0.3:29500", program=BIN / "muster-rendezvous")
    try:
        daemon.expect("listens on")
        jobs = [shell.start("--nnodes", "2", "--nproc-per-node", "1", "--node-rank", str(i), "--rdzv-endpoint", "node2:29500", "--wdir", edited, "train.py") for i, shell in enumerate(shells[:2])]
        first, second = [job.finish() for job in jobs]
        assert first.code == 0 and second.code == 0, (first, second)
        assert first.errors.count(UNLIKE) == 1 and UNLIKE not in second.errors, (first, second)
        daemon.expect(UNLIKE, stream="err")
    finally:
        daemon.signal(15)
        daemon.finish()


def test_a_program_that_one_host_does_not_have(shells, edited):
    shells[1].host.check(["rm", "/tmp/project/train.py"])
    result = shells[0].run(*EACH, "--wdir", edited, PYTHON, "train.py")
    assert result.code == 2 and "train.py is not on node1 where it is on node0: copy it to all nodes, or let --ship do it" in result.errors, result


@pytest.mark.parametrize("words", [["--no-preflight", "train.py"], ["--ship", "train.py", "train.py"], ["sh", "-c", "echo old"]], ids=["not_wanted", "shipped", "no_file"])
def test_nothing_is_said_of_files_that_are_alike_or_not_looked_at(shells, edited, words):
    result = shells[0].run("-c", 'cd "$0" && exec "$@"', edited, LAUNCH, *EACH, *words, program="bash")
    assert result.code == 0 and not result.errors, result


def test_where_workers_wait_that_do_nothing(shells):
    job = shells[0].start(*EACH, "--tell-idle", "2s", PYTHON, "-c", WAITERS)
    job.expect("up", count=3)
    job.expect(r"none of the 3 workers has run or written a line for [2-9][.]\d s; next word after [48][.]0 s", stream="err")
    job.expect(r"  rank 0 [(]pid \d+ on node0[)] in sleep", stream="err")
    job.expect(r"  rank 1 [(]pid \d+ on node1[)] in flock: /tmp/notices[.]lock", stream="err")
    job.expect(r"  rank 2 [(]pid \d+ on node2[)] in recv: TCP 10[.]77[.]0[.]1:28999", stream="err")
    job.expect("has run or written a line", count=2, stream="err")
    job.signal(15)
    assert job.finish().code == 143
    shells[1].host.check(["rm", "/tmp/notices.lock"])


def test_one_that_writes_is_enough(shells):
    result = shells[0].run(*EACH, "--tell-idle", "1s", *sh('for i in $(seq 12); do [ "$RANK" != 1 ] || echo $i; sleep 0.5; done'))
    assert result.code == 0 and IDLE not in result.errors, result


def test_one_that_runs_is_enough(shells):
    result = shells[0].run(*EACH, "--tell-idle", "1s", *sh('[ "$RANK" = 1 ] || exec sleep 6; exec timeout 6 sh -c "while :; do :; done" || true'))
    assert IDLE not in result.errors, result


# Rank 1 uses the store of rank 0's node, as torch would.
STORE = """
import os, socket
place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
with socket.create_connection(place, 30):
    print(os.environ["RANK"], "came to", place[0], flush=True)
"""
NAT = "table ip nat { chain out { type nat hook output priority -100; ip daddr 192.0.2.7 dnat to 10.77.0.1; }; }"


def test_an_address_by_which_others_reach_a_node_from_outside(shells):
    """--local-addr of a node behind NAT: its store listens on what it has."""
    shells[1].host.check(["nft", NAT])
    shells[1].host.check(["ip", "route", "add", "192.0.2.7", "via", "10.77.0.1"])
    try:
        words = ("--nnodes", "2", "--nproc-per-node", "1", "--rdzv-endpoint", "node0:29481", "--store", "agent")
        program = ("sh", "-c", '[ $RANK = 0 ] || exec "$0" -c "$1"', PYTHON, STORE)
        first = shells[0].start(*words, "--node-rank", "0", "--local-addr", "192.0.2.7", *program)
        second = shells[1].start(*words, "--node-rank", "1", *program)
        result, other = first.finish(), second.finish()
        assert result.code == 0 and other.code == 0, (result, other)
        assert "1 came to 192.0.2.7" in other.text, other
        assert "--local-addr 192.0.2.7 is not this machine, which has 10.77.0.1: right where others reach it so from outside" in result.errors, result
        assert "--local-addr" not in other.errors, other
    finally:
        shells[1].host.check(["ip", "route", "del", "192.0.2.7"])
        shells[1].host.check(["nft", "delete table ip nat"])


def test_a_meeting_place_that_each_machine_has(node0):
    """Typed on two machines, each node would wait for the other by itself."""
    words = ("--nnodes", "2", "--nproc-per-node", "1", "--rdzv-endpoint", "localhost:29482", "true")
    first = node0.start(*words)
    first.expect("--rdzv-endpoint localhost:29482 is each machine's own: nodes typed on this one come together there; for other machines say node0:29482 on all", stream="err")
    second = node0.run(*words)
    assert second.code == 0 and first.finish().code == 0 and "each machine's own" not in second.errors, second
