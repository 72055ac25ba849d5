"""Strangers at the port where a master waits for its agents: refused, bounded, and the job goes on."""

import json
import re
import resource
from pathlib import Path
from subprocess import PIPE

from harness import PYTHON, sh

PORT = 29488
TYPED = ("--nnodes", "2", "--nproc-per-node", "1", "--rdzv-endpoint", f"node0:{PORT}", "--no-prefix")
WHO = sh('echo "rank $RANK of $WORLD_SIZE"')

# Says to ADDRESS PORT what no agent says, one thing after the other; prints as JSON what came of each.
SAY = r"""
import json, socket, ssl, sys
where = (sys.argv[1], int(sys.argv[2]))

def plain(words, then_close=False):
    with socket.create_connection(where, 10) as s:
        s.settimeout(30)
        s.sendall(words)
        if then_close:
            return "left"
        got = b""
        try:
            while chunk := s.recv(4096):
                got += chunk
        except ConnectionError:
            pass
        return got.hex()

def tls(version, words=b""):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = context.maximum_version = version
    try:
        with socket.create_connection(where, 10) as s, context.wrap_socket(s) as t:
            t.settimeout(30)
            t.sendall(words)
            got = 0
            while words and (chunk := t.recv(4096)):
                got += len(chunk)
            return [t.version(), got]
    except OSError as error:
        return type(error).__name__

hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
print(json.dumps({
    "tls13": tls(ssl.TLSVersion.TLSv1_3),
    "tls12": tls(ssl.TLSVersion.TLSv1_2),
    "http": plain(b"GET / HTTP/1.1\r\n\r\n"),
    "truncated": plain(hello, True),
    "oversized record": plain(b"\x16\x03\x01\xff\xff" + b"x" * 70000),
    "nonsense in tls": tls(ssl.TLSVersion.TLSv1_3, b"x" * 100000),
    "huge frame in tls": tls(ssl.TLSVersion.TLSv1_3,
                             b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff\xff\xff\x00\x00\x00\x00\x00\x01" + b"x" * 1000),
}))
"""

# Opens COUNT connections to ADDRESS PORT, of three kinds: silent, in the middle of a handshake, through with it. Says
# so, holds them until its stdin ends.
SIT = r"""
import resource, socket, ssl, sys
count = int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_NOFILE, (count + 100, count + 100))
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname = False
context.verify_mode = ssl.CERT_NONE
held = []
for i in range(count):
    s = socket.socket()
    try:
        if i % 100 == 0:
            s.settimeout(10)
            s.connect((sys.argv[1], int(sys.argv[2])))
            s = context.wrap_socket(s)
        else:
            s.setblocking(False)
            s.connect_ex((sys.argv[1], int(sys.argv[2])))
            if i % 2:
                s.setblocking(True)
                s.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    except OSError:
        pass
    held.append(s)
print("seated", flush=True)
sys.stdin.read()
"""


def memory(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmRSS"))


def test_a_master_speaks_tls_13_and_nothing_else(lab, shells):
    job = shells[0].start(*TYPED, *WHO)
    job.expect("waiting for 1 of 2 nodes", stream="err")
    done = lab[1].run([PYTHON, "-c", SAY, lab[0].addr, str(PORT)])
    assert done.returncode == 0, done
    came = json.loads(done.stdout)
    assert came["tls13"] == ["TLSv1.3", 0], came
    assert came["tls12"] == "SSLError", came
    assert came["http"] == "" and came["truncated"] == "left", came
    assert re.fullmatch("(1503030002..*)?", came["oversized record"]), came  # an alert, or the end
    for said in ("nonsense in tls", "huge frame in tls"):
        assert came[said] in ("ConnectionResetError", "BrokenPipeError", "SSLEOFError") or came[said][1] < 1000, came
    other = shells[1].start(*TYPED, *WHO)
    assert [job.finish().code, other.finish().code] == [0, 0]


def test_who_brings_another_secret_reads_what_to_do(lab, shells):
    job = shells[0].start(*TYPED, *WHO)
    job.expect("waiting for 1 of 2 nodes", stream="err")
    stranger = shells[2].start(*TYPED, *WHO, env={"HOME": "/tmp/stranger"}).finish()
    assert stranger.code == 1, stranger
    assert f"node0:{PORT}: the master's identity is not that of this job's secret: copy the master's with  scp -p node0:" in stranger.errors
    careless = shells[2].start(*TYPED, "--insecure", *WHO).finish()
    assert careless.code == 1 and "the master wants a secret, node2 brings none: leave out --insecure there" in careless.errors, careless
    other = shells[1].start(*TYPED, *WHO)
    result = job.finish()
    assert [result.code, other.finish().code] == [0, 0]
    assert f"refused a connection from {lab[2].addr}: it brings another secret than ours" in result.errors, result


def test_a_master_without_secret_tells_who_brings_one(shells):
    job = shells[0].start(*TYPED, "--insecure", *WHO)
    job.expect("waiting for 1 of 2 nodes", stream="err")
    careful = shells[1].start(*TYPED, *WHO).finish()
    assert careful.code == 1 and f"node0:{PORT}: it runs with --insecure, node1 brings a secret: give --insecure to all or to none" in careful.errors
    other = shells[1].start(*TYPED, "--insecure", *WHO)
    assert [job.finish().code, other.finish().code] == [0, 0]


def test_ten_thousand_connections_that_prove_nothing(lab, shells):
    """A job that waits, and goes on when its second node comes while they all sit there."""
    seats = min(10000, resource.getrlimit(resource.RLIMIT_NOFILE)[1] - 200)
    job = shells[0].start(*TYPED, *WHO)
    job.expect("waiting for 1 of 2 nodes", stream="err")
    before = memory(job.pid)
    sitting = lab[2].popen([PYTHON, "-c", SIT, lab[0].addr, str(PORT), str(seats)], stdin=PIPE, stdout=PIPE)
    try:
        assert sitting.stdout.readline() == b"seated\n"
        grown = memory(job.pid) - before
        assert grown < 200 << 20, grown
        other = shells[1].start(*TYPED, *WHO)
        assert [job.finish().code, other.finish().code] == [0, 0]
    finally:
        sitting.communicate()


def test_the_secret_is_nowhere_that_others_can_read(lab, shells, scratch):
    """Not in a word or the environment of any process of either host, a log, or the report; the workers have none."""
    done = scratch / "go"
    line = ("--nnodes", "2", "--nproc-per-node", "1", "--rdzv-endpoint", "node0:29411", "--log-dir", scratch / "logs", "--tee", "3")
    jobs = [shell.start(*line, "--report", scratch / f"report{i}", *sh(f"env; echo up; while [ ! -e {done} ]; do sleep 0.05; done"))
            for i, shell in enumerate(shells[:2])]
    for job in jobs:
        job.expect("up")
    secret = next(s for s in (lab[0].home / ".config/muster/secret").read_text().split() if len(s) >= 32)
    for shell in shells[:2]:
        pids = shell.host.processes()
        assert len(pids) >= 3, pids
        for pid in pids:
            for what in ("cmdline", "environ"):
                try:
                    seen = Path(f"/proc/{pid}/{what}").read_bytes()
                except OSError:  # a worker's sleep that has just ended
                    continue
                assert secret.encode() not in seen, (pids[pid], what)
    done.touch()
    results = [job.finish() for job in jobs]
    assert [r.code for r in results] == [0, 0], results
    written = [p for p in scratch.rglob("*") if p.is_file() and p != done]
    assert len(written) == 3, written  # a report, and what each rank printed
    for text in [p.read_text() for p in written] + [r.text + r.errors for r in results]:
        assert secret not in text, text
