"""--port-range: every port that launch, its agents and the stores choose is one of these, on every node."""

import re
import subprocess

import pytest

from harness import BIN, sh

LOW, HIGH = 23000, 23019
RANGE = ("--port-range", f"{LOW}-{HIGH}")
# Once rank 0 has said its port, all workers stay until the test has looked.
WORKER = '[ $RANK != 0 ] || echo "port $MASTER_PORT"; echo up; until [ -e $GATE ]; do sleep 0.05; done'


def listening(shell):
    """Ports on which something but sshd listens in this host."""
    rows = [r.split() for r in shell.host.check(["ss", "-Hltnp"]).splitlines() if "sshd" not in r]
    return sorted(int(r[3].rpartition(":")[2]) for r in rows)


def in_range(port):
    return LOW <= int(port) <= HIGH


def look(job, workers, shells, gate):
    """Ports that listen while the job runs; it ends well afterwards."""
    job.expect("up", count=workers)
    port = job.expect(r"port (\d+)")[0]
    ports = [listening(shell) for shell in shells]
    gate.write_text("")
    result = job.finish()
    assert result.code == 0 and in_range(port), result
    return ports


@pytest.mark.parametrize("store", ["agent", "worker"])
def test_on_one_machine(shells, scratch, store):
    gate = scratch / "gate"
    job = shells[0].start("-n", "2", *RANGE, "--store", store, *sh(WORKER), env={"GATE": str(gate)})
    ports = look(job, 2, shells[:1], gate)
    assert all(map(in_range, ports[0])) and len(ports[0]) == (store == "agent"), ports


@pytest.mark.parametrize("where", [["--hosts", "node0,node1"], ["--standalone", "--nnodes", "2"]], ids=["hosts", "standalone"])
def test_on_nodes_that_launch_starts(shells, scratch, where):
    gate = scratch / "gate"
    job = shells[0].start(*where, "--nproc-per-node", "2", *RANGE, "--store", "agent", "-x", f"GATE={gate}", *sh(WORKER))
    ports = look(job, 4, shells[:2], gate)
    assert ports[0] and all(in_range(p) for host in ports for p in host), ports


def test_one_port_a_node_also_for_workers_that_use_the_sdk(shells, scratch):
    gate = scratch / "gate"
    probe = BIN.parent / "tests/sdk-probe"
    work = f'echo up; until [ -e $GATE ]; do sleep 0.05; done; exec {probe}'
    job = shells[0].start("--hosts", "node0,node1", "--nproc-per-node", "2", "--no-prefix", *RANGE, "-x", f"GATE={gate}", *sh(work))
    job.expect("up", count=4)
    (port,) = listening(shells[1])
    assert in_range(port)
    # Strangers there are dropped and disturb nobody: silent ones, more than are waited for at a time, and noisy ones.
    stranger = (
        "import contextlib, socket, sys\n"
        f"made = [socket.create_connection(('node1', {port}), 10) for _ in range(200)]\n"
        "for i, one in enumerate(made[:100]):\n"
        "    with contextlib.suppress(ConnectionError):  # it may be dropped by now\n"
        "        one.sendall(b'MSPC'[: i % 5] + bytes([i]) * (i * 7))\n"
        "print('there', flush=True)\n"
        "sys.stdin.read()\n"
    )
    other = shells[2].host.popen(["/usr/bin/python3", "-c", stranger], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout.readline() == b"there\n"
    gate.write_text("")
    result = job.finish()
    other.communicate()
    assert other.returncode == 0 and result.code == 0 and result.text.count("sums are right") == 4, result


def test_of_a_restarted_job(shells):
    script = '[ $RANK != 0 ] || { echo "port $MASTER_PORT"; [ $TORCHELASTIC_RESTART_COUNT = 2 ]; }'
    result = shells[0].run("--hosts", "node0,node1", "--nproc-per-node", "1", "--max-restarts", "2", *RANGE, *sh(script))
    ports = re.findall(r"port (\d+)", result.text)
    assert result.code == 0 and len(ports) == 3 and all(map(in_range, ports)), result


def test_of_nodes_that_meet_through_a_file(shells, scratch):
    gate = scratch / "gate"
    words = ("--nnodes", "2", "--nproc-per-node", "1", "--rdzv-endpoint", f"file://{scratch}/job", *RANGE, "--store", "agent")
    jobs = [s.start(*words, *sh(WORKER), env={"GATE": str(gate)}) for s in shells[:2]]
    for job in jobs:
        job.expect("up")
    ports = [listening(shell) for shell in shells[:2]]
    gate.write_text("")
    assert [j.finish().code for j in jobs] == [0, 0]
    assert len(sum(ports, [])) >= 2 and all(in_range(p) for host in ports for p in host), ports


def test_where_it_serves_the_line_for_the_other_node_has_it(shells):
    job = shells[0].start("--nnodes", "2", "--nproc-per-node", "1", *RANGE, "true")
    line = job.expect(r"launch.* --rdzv-endpoint \S+:\d+ true", stream="err")[0]
    assert f"--port-range {LOW}-{HIGH}" in line and in_range(re.search(r":(\d+) true", line)[1]), line
    assert all(map(in_range, listening(shells[0])))
    assert shells[1].run(*line.split()[1:]).code == 0
    assert job.finish().code == 0


def test_mpiexecs_variable(shells):
    result = shells[0].run("-n", "1", *sh("echo port $MASTER_PORT"), env={"MPIEXEC_PORT_RANGE": f"{LOW}:{HIGH}"})
    assert result.code == 0 and in_range(re.search(r"port (\d+)", result.text)[1]), result


@pytest.mark.parametrize("where", [["-n", "1"], ["--hosts", "node0,node1", "--nproc-per-node", "1"]], ids=["one", "hosts"])
def test_none_left(shells, where):
    holder = "import socket; s = socket.create_server(('0.0.0.0', 23050)); print('up', flush=True); input()"
    other = shells[0].start("-c", holder, program="/usr/bin/python3", stdin=subprocess.PIPE)
    other.expect("up")
    result = shells[0].run(*where, "--port-range", "23050-23050", "true")
    assert result.code == 1 and "--port-range 23050-23050: every port of it is in use" in result.errors, result


def test_jobs_of_one_range_do_not_meet(shells, scratch):
    """Four ports, four jobs at once, each with its own."""
    gate = scratch / "gate"
    jobs = [shells[0].start("-n", "1", "--port-range", "23060-23063", "--store", "agent", *sh(WORKER), env={"GATE": str(gate)}) for _ in range(4)]
    ports = {job.expect(r"port (\d+)")[0] for job in jobs}
    gate.write_text("")
    assert [job.finish().code for job in jobs] == [0] * 4 and ports == {"23060", "23061", "23062", "23063"}


def test_a_wrong_one_is_refused(shells):
    result = shells[0].run("--port-range", "80-90", "true")
    assert result.code == 2 and "--port-range: want LOW-HIGH, ports 1024..65535" in result.errors, result
