"""launch doctor on emulated hosts: names, addresses and the ways between the nodes, each with its fix."""

import subprocess
from contextlib import contextmanager

import pytest

from doctor_site import HOSTS, doctor, only_red, red, rows_of, the_row
from harness import BIN, LAUNCH, PYTHON
from lab import Relay
from wall_clock import DAY, WallClock


@contextmanager
def hosts_file_without(host, *lines):
    path = host.dir / "hosts"
    kept = path.read_text()
    path.write_text("".join(line for line in kept.splitlines(True) if line.strip() not in lines))
    try:
        yield
    finally:
        path.write_text(kept)


# By the host that has no line for node1.
UNKNOWN = {1: ("its own name node1 does not resolve there: ", "add '10.77.0.2 node1' to /etc/hosts of node1, or to DNS"),
           2: ("node1 does not resolve there (", "in /etc/hosts of node2, or in DNS: '10.77.0.2 node1'")}  # fmt: skip


@pytest.mark.parametrize("where", UNKNOWN)
def test_a_name_that_nobody_knows_is_a_warning(lab, node0, where):
    said, fix = UNKNOWN[where]
    with hosts_file_without(lab[where], "10.77.0.2 node1"):
        seen = the_row(doctor(node0, *HOSTS, code=0), "warn", "names", f"node{where}")
    assert seen[0].startswith(said) and seen[1] == fix, seen


# A server of names that thinks about each question, and knows A records of node1 and node2; until its stdin ends.
SLOW_DNS = """
import socket, sys, threading, time
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
def answer(asked, who):
    time.sleep(1.5)
    end = asked.index(b"\\0", 12) + 5
    name, kind = asked[13 : 13 + asked[12]], asked[end - 3]
    found = kind == 1 and name in (b"node1", b"node2")
    record = b"\\xc0\\x0c\\0\\x01\\0\\x01\\0\\0\\0\\0\\0\\4" + bytes((10, 77, 0, int(name[4:]) + 1)) if found else b""
    server.sendto(asked[:2] + b"\\x81\\x80\\0\\x01\\0" + bytes([found]) + b"\\0\\0\\0\\0" + asked[12:end] + record, who)
def serve():
    while True:
        threading.Thread(target=answer, args=server.recvfrom(512), daemon=True).start()
threading.Thread(target=serve, daemon=True).start()
print("up", flush=True)
sys.stdin.read()
"""


def test_names_that_take_long_are_a_warning(lab, node0, scratch):
    """Its own, and that of another node."""
    (scratch / "resolv.conf").write_text("nameserver 127.0.0.1\n")
    lab[1].check(["mount", "--bind", scratch / "resolv.conf", "/etc/resolv.conf"])
    server = lab[1].popen([PYTHON, "-c", SLOW_DNS], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert server.stdout.readline() == b"up\n"
        with hosts_file_without(lab[1], "10.77.0.2 node1", "10.77.0.3 node2"):
            checks = doctor(node0, *HOSTS, code=0)
    finally:
        server.communicate()
        lab[1].check(["umount", "/etc/resolv.conf"])
    own, other = checks["names"]
    assert (own["where"], other["where"]) == ("node1", "node1") and own["seen"].startswith("its own name node1 took 1."), checks["names"]
    assert own["fix"] == "see `getent hosts node1` and the servers of /etc/resolv.conf on node1", own
    assert other["seen"].startswith("node2 took 1.") and other["fix"] == "see the servers of /etc/resolv.conf on node1", other


def test_an_interface_that_is_not_there(node0):
    """Where the agents need no address of theirs, the probes look for one."""
    checks = doctor(node0, "--standalone", "--nnodes", "2", "--iface", "ib7")
    found = only_red(checks, "addresses")
    assert len(found) == 2 and all("ib7" in seen for seen in found), found
    assert checks["addresses"][0]["fix"] == "give an interface or a network that all have: --iface", checks


GIVE_AN_INTERFACE = "give an interface that all nodes have, or the network between them: --iface NAME or --iface CIDR " \
                    "(`ip -brief address` on each lists them)"


def test_an_interface_that_one_node_does_not_have(lab, node0):
    for i in 0, 2:
        lab[i].check(["ip", "link", "add", "ib0", "type", "veth", "peer", "name", "ib1"])
        lab[i].check(["ip", "link", "set", "ib1", "up"])
        lab[i].check(["ip", "link", "set", "ib0", "up"])
        lab[i].check(["ip", "addr", "add", f"10.88.{i}.1/24", "dev", "ib0"])
    try:
        checks = doctor(node0, *HOSTS, "--iface", "ib0")
    finally:
        for i in 0, 2:
            lab[i].check(["ip", "link", "del", "ib0"])
    (row,) = checks["start"]
    assert (row["where"], row["health"], row["fix"]) == ("node1", "bad", GIVE_AN_INTERFACE), row
    assert row["seen"].startswith("--iface: nothing on node1 is or is in 'ib0'; it has lo 127.0.0.1"), row


def test_an_interface_that_the_nodes_of_a_batch_job_do_not_have(slurm, pbs):
    slurm_job = slurm.submit(f"exec {LAUNCH} doctor --json --iface ib7 2> errors", "-N2", "-w", "node0,node1")
    pbs_job = pbs.submit(f"{LAUNCH} doctor --json --iface ib7 2> $PBS_O_WORKDIR/errors", "-l", "select=2")
    for batch, job in (slurm, slurm_job), (pbs, pbs_job):
        batch.wait(job)
        rows = rows_of(batch.output(job), 1)["start"]
        assert [row["where"] for row in rows] == ["node0", "node1"], rows
        for row in rows:
            assert row["seen"].startswith("--iface: nothing on node0 is or is in 'ib7'") and row["fix"] == GIVE_AN_INTERFACE, row


def test_a_way_by_another_address_is_a_warning(lab, node0):
    """As where a route goes over the slower one of two networks."""
    lab[1].check(["ip", "addr", "add", "10.77.0.201/24", "dev", "eth0"])
    lab[1].check(["ip", "route", "add", "10.77.0.3/32", "dev", "eth0", "src", "10.77.0.201"])
    try:
        seen, fix = the_row(doctor(node0, *HOSTS, code=0), "warn", "addresses", "node1 -> node2")
    finally:
        lab[1].check(["ip", "route", "del", "10.77.0.3/32"])
        lab[1].check(["ip", "addr", "del", "10.77.0.201/24", "dev", "eth0"])
    assert seen == "goes out from 10.77.0.201, while others are told 10.77.0.2: two networks, of which one may be slow", seen
    assert fix == "choose one: --iface, or mend the route (`ip route get 10.77.0.3` on node1)", fix


def test_a_port_range_that_the_kernel_gives_to_anybody_is_a_warning(node0):
    checks = doctor(node0, *HOSTS, "--port-range", "40000-40100", code=0)
    assert [row["health"] for row in checks["ports"]] == ["warn"] * 3 and not red(checks), checks["ports"]
    for row in checks["ports"]:
        assert "--port-range 40000-40100 is among the ports that the kernel gives to any connection" in row["seen"], row
        assert row["fix"].endswith("sysctl net.ipv4.ip_local_reserved_ports=40000-40100"), row


def test_a_connection_that_holds_and_lets_nothing_pass(lab, node0):
    """As where a firewall forgets at once whom it has let in."""
    rules = "add table inet t; add chain inet t in { type filter hook input priority 0; }; " \
            f"add rule inet t in ip saddr {lab[1].addr} tcp flags & psh == psh tcp dport != 22 tcp sport != 22 drop"
    lab[2].check(["nft", rules])
    try:
        checks = doctor(node0, *HOSTS)
    finally:
        lab[2].check(["nft", "delete table inet t"])
    seen = {row["where"]: row for row in checks["connections"]}
    assert set(red(checks)) == {"connections"} and "node1 -> node2" in seen, checks
    assert seen["node1 -> node2"]["seen"].startswith("TCP holds, and nothing passes, to 10.77.0.3 port "), seen
    assert "the firewalls of both (`nft list ruleset`)" in seen["node1 -> node2"]["fix"], seen


# By the milliseconds that the network takes one way.
LATE = {3: "warn", 30: "bad", 60: "bad"}


@pytest.mark.parametrize("delay", LATE)
def test_a_network_with_a_delay(lab, node0, delay):
    with Relay(lab, BIN.parent / "tests/lab-relay") as relay:
        relay.say(delay=delay)
        checks = doctor(node0, *HOSTS, code=int(LATE[delay] == "bad"))
    assert set(red(checks)) <= {"speed"}, red(checks)
    late = [row for row in checks["speed"] if row["seen"].startswith("a round trip takes ")]
    assert len(late) == 6 and all(row["health"] == LATE[delay] for row in late), checks["speed"]
    for row in late:
        assert 2 * delay <= float(row["seen"].split()[4]) < 20 * delay, row
        assert row["fix"].startswith("`ip route get 10.77.0.") and row["fix"].endswith(": is it the network that is meant? else --iface"), row


def test_a_network_with_a_delay_that_loses_large_packets(lab, node0):
    """Both are told; of the pair that loses them no speed."""
    rules = "add table inet t; add chain inet t in { type filter hook input priority 0; }; " \
            f"add rule inet t in ip saddr {lab[1].addr} meta length > 1000 drop"
    with Relay(lab, BIN.parent / "tests/lab-relay") as relay:
        relay.say(delay=60)
        lab[2].check(["nft", rules])
        try:
            checks = doctor(node0, *HOSTS)
        finally:
            lab[2].check(["nft", "delete table inet t"])
    found = red(checks)
    assert set(found) == {"large packets", "speed"} and [where for where, _ in found["large packets"]] == ["node1 -> node2"], found
    late = {where for where, seen in found["speed"] if seen.startswith("a round trip takes ")}
    assert len(late) == 5 and "node1 -> node2" not in late, found


# By the seconds that node1's clock is ahead.
AHEAD = {10: ("warn", "ahead of"), -10: ("warn", "behind"), -DAY: ("bad", "behind")}


@pytest.mark.parametrize("ahead", AHEAD)
def test_a_clock_that_is_off(node0, in_environment, scratch, ahead):
    health, how = AHEAD[ahead]
    in_environment(**WallClock(scratch, ahead=ahead).env)
    seen, fix = the_row(doctor(node0, *HOSTS, code=int(health == "bad")), health, "clocks", "node1")
    assert seen.endswith(f" {how} this machine's clock"), seen
    assert fix == "on node1: timedatectl set-ntp true, or: chronyc makestep", fix


def test_a_probe_that_ends_half_way(node0):
    """It said what its node is, and then nothing of the others."""
    one_line = "p=$(mktemp -u); mkfifo $p; head -n 1 < $p & exec > $p; rm $p"
    seen, fix = the_row(doctor(node0, "--hosts", "node1", "--prologue", one_line), "bad", "start", "node1")
    assert seen == "its probe started, and never told what it found of the others", seen
    assert "look at the node's load and memory" in fix, fix
