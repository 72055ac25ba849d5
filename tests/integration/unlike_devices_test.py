"""Hosts whose network devices have different names: workers hear of their own host's, and real programs work between them."""

import subprocess

import pytest

from harness import EXAMPLES, WORKERS, Lab, Shell, leave_nothing, sh
from mpi import told

DEVICES = {"node0": "eth0", "node1": "uplink1"}
HOSTS = ("--hosts", "node0:2,node1:2")


def rename(host, device):
    """The kernel renames a device that is down; its addresses stay."""
    for words in (["eth0", "down"], ["eth0", "name", device], [device, "up"]):
        host.check(["ip", "link", "set", *words])


@pytest.fixture(scope="module")
def unlike():
    with Lab(2) as made:
        rename(made[1], DEVICES["node1"])
        yield made


@pytest.fixture
def unlike_node0(unlike):
    made = [Shell(host) for host in unlike]
    yield made[0]
    leave_nothing(unlike, made)


@pytest.fixture
def built(unlike):
    def build(compiler):
        made = unlike.state / compiler
        subprocess.run([compiler, "-o", made, WORKERS / "mpi.c"], check=True)
        return made

    return build


def test_each_worker_hears_of_its_own_hosts_device(unlike_node0):
    asks = sh('echo "$(hostname) gloo $GLOO_SOCKET_IFNAME nccl $NCCL_SOCKET_IFNAME ucx $UCX_NET_DEVICES"')
    result = unlike_node0.run(*HOSTS, "--no-prefix", *asks)
    want = [f"{host} gloo {device} nccl ={device} ucx {device}" for host, device in DEVICES.items()]
    assert result.code == 0 and sorted(result.text.splitlines()) == sorted(2 * want), result


def test_mpich_between_them(unlike_node0, built):
    """It ends by MPI_Abort, as every world of Debian's MPICH between hosts does here (mpi_test.py)."""
    result = unlike_node0.run(*HOSTS, built("mpicc.mpich"), "abort")
    assert result.code == 3 and "MPI_Abort(3)" in result.errors, result
    assert told(result) == {rank: (4, 2, 0) for rank in range(4)}


def test_open_mpi_between_them(unlike_node0, built):
    result = unlike_node0.run(*HOSTS, built("mpicc.openmpi"))
    assert result.code == 0 and told(result) == {rank: (4, 2, 0) for rank in range(4)}, result


def test_gloo_between_them(unlike_node0):
    result = unlike_node0.run(*HOSTS, EXAMPLES / "sgd.py", seconds=120)
    assert result.code == 0 and "replicas are bit-equal" in result.text, result


def test_iface_by_a_network_fits_all_hosts_and_by_a_name_those_that_have_it(unlike_node0):
    asks = sh("echo $(hostname) $UCX_NET_DEVICES")
    network = unlike_node0.run(*HOSTS, "--no-prefix", "--iface", "10.77.0.0/24", *asks)
    assert network.code == 0 and set(network.text.splitlines()) == {f"{host} {device}" for host, device in DEVICES.items()}, network
    name = unlike_node0.run(*HOSTS, "--iface", "eth0", *asks)
    assert name.code != 0 and name.out == b"" and "--iface: nothing on node1 is or is in 'eth0'; it has " in name.errors, name
