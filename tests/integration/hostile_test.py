"""Strangers, and workers that mean harm: the worst that they reach is to be refused, and the job goes on."""

import os
import re
import resource
import signal
import textwrap
from subprocess import PIPE

import pytest

from harness import BIN, PYTHON, sh

# Asks the torch store at ADDRESS PORT how many keys it has, as torch 1.13 does: "answered", "closed" (after the
# connection stood) or "refused" (nobody listens there).
ASK = """
import socket, sys
try:
    s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 10)
except ConnectionRefusedError:
    print("refused"); sys.exit()
try:
    s.sendall(bytes([6]))
    print("answered" if len(s.recv(8)) == 8 else "closed")
except ConnectionError:
    print("closed")
"""
# A worker that uses the store as torch does, says so, and waits until it is told to go.
HOLD = sh('echo "at $MASTER_ADDR $MASTER_PORT"; read -r line; echo over')
TWO = ("--hosts", "node0,node1", "--nproc-per-node", "1", "--store", "agent", "--no-prefix")
ALONE = ("-n", "2", "--store", "agent", "--no-prefix")
SDK = ("-x", f"PYTHONPATH={BIN.parent}/python")
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


class Held:
    """A job whose rank 0 waits for a line; where its store is."""

    def __init__(self, shell, *options):
        self.read, self.write = os.pipe()
        self.job = shell.start(*options, *HOLD, stdin=self.read)
        os.close(self.read)
        self.address, self.port = self.job.expect(r"at (\S+) (\d+)")[0]

    def ask(self, host, *words, address=None):
        done = host.run([*words, PYTHON, "-c", ASK, address or self.address, self.port])
        assert done.returncode == 0, done
        return done.stdout.decode().strip()

    def finish(self):
        os.write(self.write, b"go\n")
        os.close(self.write)
        result = self.job.finish()
        assert result.code == 0 and "over" in result.text, result
        return result


@pytest.fixture
def held(shells):
    return lambda *options: Held(shells[0], *options)


def test_a_host_that_is_not_of_the_job_is_not_let_into_the_store(lab, held):
    job = held(*TWO)
    assert [job.ask(lab[i]) for i in (0, 1, 2)] == ["answered", "answered", "closed"]
    errors = job.finish().errors
    assert f"the torch store closed a connection from {lab[2].addr}: no node of this job has that address" in errors, errors
    assert "--store-from any" in errors, errors


def test_a_spare_that_takes_a_place_is_let_into_the_store_and_who_had_it_is_not(lab, shells):
    """The store lives on, with its workers, when --restart=one replaces one of them on another node."""
    hosts = ("--hosts", "node0,node1,node2", "--nnodes", "2", "--spares", "1", "--nproc-per-node", "1")
    worker = f"ask=$({PYTHON} -c '{ASK}' $MASTER_ADDR $MASTER_PORT); echo \"$ask: $(hostname) at $MASTER_ADDR $MASTER_PORT\"; exec sleep 1091"
    job = shells[0].start(*hosts, "--restart", "one", "--max-restarts", "1", "--store", "agent", "--no-prefix", *sh(worker))
    job.expect("answered: node[01] at", 2)
    frozen = list(shells[1].ours())
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    try:
        address, port = job.expect(r"answered: node2 at (\S+) (\d+)")[0]
        ask = lambda host: host.run([PYTHON, "-c", ASK, address, port]).stdout.decode().strip()
        assert [ask(lab[i]) for i in (0, 1, 2)] == ["answered", "closed", "answered"]
        assert len(shells[0].called("sleep 1091")) == 1
    finally:
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)
    job.signal(signal.SIGINT)
    assert job.finish().code == 130


def test_another_user_of_the_host_is_not_let_into_the_store(lab, held):
    for options in (TWO, ALONE):
        job = held(*options)
        assert [job.ask(lab[0]), job.ask(lab[0], *NOBODY)] == ["answered", "closed"]
        assert re.search(r"closed a connection from \S+: it is of uid 65534, the job's is 0", job.finish().errors)


def test_everybody_is_let_in_where_the_user_wants_it(lab, held):
    job = held(*TWO, "--store-from", "any")
    assert [job.ask(lab[0], *NOBODY), job.ask(lab[2])] == ["answered", "answered"]
    assert "closed a connection" not in job.finish().errors


def test_the_store_listens_where_the_job_is_and_nowhere_else(lab, held):
    job = held(*TWO)
    assert job.address == lab[0].addr and job.ask(lab[0], address="127.0.0.1") == "refused"
    job.finish()
    job = held(*ALONE)
    assert job.address == "127.0.0.1" and job.ask(lab[0], address=lab[0].addr) == "refused"
    job.finish()


def test_a_wrong_word_for_who_may_use_the_store(node0):
    result = node0.run("--store-from", "me", "true")
    assert result.code == 2 and "--store-from" in result.errors and "nodes" in result.errors and "any" in result.errors, result


# Opens COUNT connections to ADDRESS PORT, says nothing on them, and holds them until its stdin ends.
SIT = """
import resource, socket, sys
count = int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_NOFILE, (count + 100, count + 100))
held = []
for i in range(count):
    s = socket.socket()
    s.setblocking(False)
    s.connect_ex((sys.argv[1], int(sys.argv[2])))
    held.append(s)
print("seated", flush=True)
sys.stdin.read()
"""


def test_ten_thousand_silent_connections_to_the_ports_of_a_job(lab, shells, scratch):
    """From a stranger, to the store of node0 and to node1's port for other nodes' workers, before these meet."""
    seats = min(10000, resource.getrlimit(resource.RLIMIT_NOFILE)[1] - 200)
    script = textwrap.dedent(f"""
        import os, sys, time, numpy as np
        print("up", os.environ["RANK"], os.environ["MASTER_PORT"], flush=True)
        while not os.path.exists("{scratch}/go"): time.sleep(0.05)
        import muster
        comm = muster.init()
        x = np.ones(1000, dtype=np.float32)
        for _ in range(20): comm.all_reduce(x, op="max")
        print("sum", comm.all_reduce(np.ones(1, dtype=np.int64))[0], flush=True)
    """)
    job = shells[0].start("--hosts", "node0,node1", "--nproc-per-node", "1", "--store", "agent", *SDK, PYTHON, "-c", script)
    job.expect(r"up \d \d+", 2)
    ports = [(host.addr, port) for host in (lab[0], lab[1]) for port in listening(host)]
    assert len(ports) >= 2, ports
    sitting = [lab[2].popen([PYTHON, "-c", SIT, addr, str(port), str(seats // len(ports))], stdin=PIPE, stdout=PIPE)
               for addr, port in ports]
    try:
        assert [one.stdout.readline() for one in sitting] == [b"seated\n"] * len(ports)
        agents = [pid for shell in shells[:2] for pid in shell.ours()]
        (scratch / "go").touch()
        job.expect("sum 2", 2)
        assert all(memory(pid) < 200 << 20 for pid in agents), agents
        assert job.finish().code == 0
    finally:
        for one in sitting:
            one.communicate()


def listening(host):
    """TCP ports of ours that others can reach."""
    rows = [row.split() for row in host.sockets()]
    return sorted({int(r[4].rsplit(":", 1)[1]) for r in rows if r[0] == "tcp" and r[1] == "LISTEN" and not r[4].startswith("127.")})


def memory(pid):
    """0: it has ended."""
    try:
        with open(f"/proc/{pid}/status") as status:
            return next((int(line.split()[1]) << 10 for line in status if line.startswith("VmRSS")), 0)
    except (FileNotFoundError, ProcessLookupError):
        return 0


# Rank 0 says to its agent, on the descriptor that the SDK uses, what no SDK says, as fast as it is taken; then it ends.
FLOOD = """
import os, socket, sys
door = socket.socket(fileno=os.dup(int(os.environ["MUSTER_AGENT_FD"])))
door.setblocking(False)
said = 0
for i in range(200000):
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        socket.send_fds(door, [os.urandom(i % 200 + 1)], [pair[0].fileno()] * (i % 3 + 1))
        said += 1
    except BlockingIOError:
        pass
    for end in pair:
        end.close()
print("said", said > 1000, flush=True)
"""


def test_a_worker_that_floods_its_agent_harms_nobody_else(node0, scratch):
    """Ranks 1 and 2 make sums all the while; the job ends well, as the flood breaks no rule of the job."""
    (scratch / "flood.py").write_text(FLOOD)
    (scratch / "sums.py").write_text(textwrap.dedent(f"""
        import muster, numpy as np, os, time
        rank = int(os.environ["RANK"])
        if rank == 0:
            exec(open("{scratch}/flood.py").read())
        comm = muster.init()
        for _ in range(100): total = comm.all_reduce(np.ones(10, dtype=np.int64))[0]
        print("sum", total, flush=True)
    """))
    result = node0.run("-n", "3", *SDK, PYTHON, scratch / "sums.py")
    assert result.code == 0 and result.text.count("sum 3") == 3 and "said True" in result.text, result


@pytest.mark.parametrize("where", [("-n", "2"), ("--hosts", "node0,node1", "--nproc-per-node", "1")], ids=["one", "two"])
def test_workers_gain_no_privileges_where_that_is_wanted(node0, where):
    look = sh("grep NoNewPrivs /proc/self/status")
    with_it, without = node0.run(*where, "--no-new-privs", *look), node0.run(*where, *look)
    assert with_it.text.count("NoNewPrivs:\t1") == 2 and without.text.count("NoNewPrivs:\t0") == 2, (with_it, without)
    sudo = node0.run(*where, "--no-new-privs", *NOBODY, "su", "-c", "true", "root")
    assert sudo.code != 0, sudo


def test_nothing_that_a_job_shares_has_a_name_in_the_file_system_or_another_reader(lab, shells, scratch):
    """The workers' memory and their doors are descriptors; what there is in /dev/shm and /tmp is the user's alone."""
    before = lab[0].files()
    job = shells[0].start("-n", "2", *SDK, PYTHON, "-c", textwrap.dedent(f"""
        import muster, numpy as np, os, time
        comm = muster.init()
        comm.all_reduce(np.ones(1000))
        print("ready", flush=True)
        while not os.path.exists("{scratch}/go"): time.sleep(0.05)
    """))
    job.expect("ready", 2)
    for path in lab[0].files() - before:
        facts = lab[0].run(["stat", "-c", "%u %a", path])
        uid, mode = facts.stdout.decode().split()
        assert uid == "0" and int(mode, 8) & 0o077 == 0, (path, uid, mode)
    (scratch / "go").touch()
    assert job.finish().code == 0
