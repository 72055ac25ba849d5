"""Hosts without IPv4: every way to start, MASTER_ADDR without brackets, and torch over it."""

import re

import pytest

from harness import BIN, EXAMPLES, PYTHON, Lab, Shell, leave_nothing, sh

WHO = sh('echo "rank $RANK at $(hostname) master $MASTER_ADDR on $GLOO_SOCKET_IFNAME"')


@pytest.fixture(scope="module")
def six():
    with Lab(2, ip="6") as made:
        yield made


@pytest.fixture
def six_shells(six):
    made = [Shell(host) for host in six]
    yield made
    leave_nothing(six, made)


def check(*results):
    assert [r.code for r in results] == [0] * len(results), results
    rows = [m.groups() for r in results for m in re.finditer(r"rank (\d+) at (\S+) master (\S+) on (\S+)", r.text)]
    assert sorted(int(row[0]) for row in rows) == [0, 1, 2, 3], results
    of_rank_0 = next(row[1] for row in rows if row[0] == "0")
    assert {row[2:] for row in rows} == {({"node0": "fd77::1", "node1": "fd77::2"}[of_rank_0], "eth0")}, results


@pytest.mark.parametrize("hosts", [
    ("--hosts", "node0,node1", "--nproc-per-node", "2"), ("--hosts", "[fd77::1]:2,[fd77::2]:2"),
    ("--hosts", "node0:2,node1:2", "--iface", "fd77::/64"),
], ids=["names", "addresses", "network"])
def test_hosts_over_ssh(six_shells, hosts):
    check(six_shells[0].run(*hosts, *WHO))


@pytest.mark.parametrize("where", [
    ("--rdzv-endpoint", "node0:29490"), ("--rdzv-endpoint", "[fd77::1]:29491"), ("--master-addr", "fd77::1", "--master-port", "29492"),
], ids=["name", "address", "static"])
def test_typed_on_every_node(six_shells, where):
    ranks = [("--node-rank", i) if where[0] == "--master-addr" else () for i in (0, 1)]
    jobs = [shell.start("--nnodes", "2", "--nproc-per-node", "2", *rank, *where, *WHO) for shell, rank in zip(six_shells, ranks)]
    check(*[job.finish() for job in jobs])


def test_horovod_is_refused(six_shells):
    result = six_shells[0].run("--hosts", "node0,node1", "--nproc-per-node", "1", "--dialect", "horovod", "true")
    assert result.code == 1 and "--dialect horovod: the nodes meet at fd77::1, and Horovod's HTTP client takes" in result.errors, result


def test_the_printed_line_and_a_file(six_shells, six):
    job = six_shells[0].start("--nnodes", "2", "--nproc-per-node", "2", *WHO)
    line = job.expect(r"(?m)^\s*(\S*launch .*--rdzv-endpoint.*)$", stream="err")[0]
    assert "[fd77::1]:" in line, line
    other = six_shells[1].start("-c", line, program="bash")
    check(job.finish(), other.finish())
    point = f"file://{six.state}/point"
    jobs = [shell.start("--nnodes", "2", "--nproc-per-node", "2", "--rdzv-endpoint", point, *WHO) for shell in six_shells]
    check(*[job.finish() for job in jobs])


@pytest.mark.parametrize("store", ["agent", "worker"])
def test_training(six_shells, store):
    result = six_shells[0].run("--hosts", "node0,node1", "--nproc-per-node", "2", f"--store={store}", EXAMPLES / "sgd.py", seconds=120)
    assert result.code == 0 and "replicas are bit-equal" in result.text, result


def test_the_sdk(six_shells):
    program = "import array, muster\nwith muster.init() as c: print('sum', c.all_reduce(array.array('f', [c.rank]))[0])"
    result = six_shells[0].run("--hosts", "node0,node1", "--nproc-per-node", "2", "-x", f"PYTHONPATH={BIN.parent}/python", PYTHON, "-c", program)
    assert result.code == 0 and result.text.count("sum 6.0") == 4, result
