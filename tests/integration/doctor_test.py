"""launch doctor on emulated hosts: all is well, and each check turns red for what it is there to find."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from doctor_site import HOSTS, doctor, only_red, red, the_row
from harness import BIN, LAUNCH, PYTHON, WORKERS, Shell, wait_for
from lab import Lab
from wall_clock import DAY, WallClock


def test_all_is_well(node0):
    checks = doctor(node0, *HOSTS, code=0)
    assert not red(checks) and len(checks) == 18, checks
    assert "6 tries, all pairs" in checks["connections"][0]["seen"], checks
    text = node0.run("doctor", *HOSTS)
    assert text.code == 0 and text.text.endswith("all is well\n") and not text.errors and "\x1b" not in text.text, text


@pytest.mark.parametrize("words, code", [(["doctor"], "\x1b[32mok"), (["--help"], "\x1b[1mExamples"), (["--help-all"], "\x1b[1mExamples")])
def test_colour_is_for_terminals_whose_user_wants_it(node0, words, code):
    def shown(**env):
        result = node0.start(WORKERS / "ptyrun.py", LAUNCH, *words, program=PYTHON, env={"TERM": "xterm", **env}).finish()
        assert len(result.text) > 100, result
        return result.text

    assert code in shown() and code in shown(NO_COLOR="")
    assert "\x1b" not in shown(NO_COLOR="1") and "\x1b" not in shown(TERM="dumb")


@pytest.mark.parametrize("way", [[], ["--standalone", "--nnodes", "2"], ["--hosts", "node1"]])
def test_other_ways_to_start(node0, way):
    checks = doctor(node0, *way, code=0)
    nodes = 2 if "--standalone" in way else 1
    assert checks["start"][0]["seen"].startswith(f"{nodes} node"), checks


def test_the_nodes_of_a_slurm_job(slurm):
    said = json.loads(slurm.run(f"exec {BIN}/launch doctor --json", "-N3"))
    assert said["ok"] and len(said["nodes"]) == 3, said


def test_a_slurm_job_narrower_than_its_node(slurm):
    """Of the CPUs that the machine has it is given one."""
    said = json.loads(slurm.run(f"exec {BIN}/launch doctor --json", "-N1", "-n1"))
    (row,) = [row for row in said["checks"] if row["check"] == "CPUs"]
    assert re.fullmatch(r"1 of \d+ on node\d: all that the scheduler has given", row["seen"]), row


def test_an_agent_that_had_to_be_sent(lab, node0):
    """Where muster is not installed it comes through ssh, and has no name on its node."""
    for i in 1, 2:
        lab[i].check(["mount", "-t", "tmpfs", "tmpfs", str(BIN)])
    try:
        assert not red(doctor(node0, *HOSTS, code=0))
    finally:
        for i in 1, 2:
            lab[i].check(["umount", str(BIN)])


def test_wrong_words(node0):
    for words, error in {
        ("--hosts",): "--hosts: want LIST after it, got nothing",
        ("--nnodes", "2", "--rdzv-endpoint", "node0:29400"): "does not say which nodes to examine",
        (*HOSTS, "--all"): "unknown option '--all'",
    }.items():
        result = node0.run("doctor", *words)
        assert result.code == 2 and error in result.errors, result
    assert node0.run("doctor", "--help").text.startswith("launch doctor [--json]")


def test_a_host_without_sshd(lab, node0):
    lab[1].ssh_fault("refuse")
    try:
        seen, fix = the_row(doctor(node0, *HOSTS, "--ssh-args=-o LogLevel=ERROR"), "bad", "start", "node1")
    finally:
        lab[1].ssh_fault("ok")
    assert "Connection refused" in seen, seen
    assert fix.startswith("start sshd on node1, ") and fix.endswith("see that `ssh -o LogLevel=ERROR node1 true` works"), fix


def test_a_user_who_may_not_log_in(node0):
    seen, fix = the_row(doctor(node0, "--hosts", "localhost,nouser@node1"), "bad", "start", "node1")
    assert "nouser@node1: Permission denied" in seen and "ssh-copy-id" in fix, (seen, fix)


def test_a_prologue_that_fails(node0):
    """Where nodes are started and where launch is the agent."""
    for way, where in {("--hosts", "node1"): "node1", (): "node0"}.items():
        seen, fix = the_row(doctor(node0, *way, "--prologue", "exit 3"), "bad", "start", where)
        assert seen == "launch --prologue: ended with status 3, the program was not started", seen
        assert fix == f"mend what --prologue does on {where}, or leave it out", fix


def test_a_host_that_does_not_exist(node0):
    """The only one: nothing else was looked at, and nothing is called well."""
    said = json.loads(node0.run("doctor", "--json", "--hosts", "nosuchhost").text)
    (row,) = said["checks"]
    assert row["check"] == "start" and "Could not resolve hostname nosuchhost" in row["seen"], said


def test_names_that_are_loopback(lab, node0):
    hosts = lab[1].dir / "hosts"
    kept = hosts.read_text()
    hosts.write_text(kept.replace(f"{lab[1].addr} node1", "127.0.1.1 node1"))
    try:
        seen = only_red(doctor(node0, *HOSTS), "names", "node1")
    finally:
        hosts.write_text(kept)
    assert "its own name node1 is 127.0.1.1" in seen[0]


def test_a_name_that_is_another_address(lab, node0):
    hosts = lab[2].dir / "hosts"
    kept = hosts.read_text()
    hosts.write_text(kept.replace(f"{lab[1].addr} node1", "10.77.0.99 node1"))
    try:
        seen = only_red(doctor(node0, *HOSTS), "names", "node2")
    finally:
        hosts.write_text(kept)
    assert "node1 is 10.77.0.99 there; that node has 10.77.0.2" in seen[0]


def test_an_interface_that_nobody_reaches(node0):
    found = red(doctor(node0, *HOSTS, "--iface", "lo"))
    assert len(found["addresses"]) == 3 and "would be told 127.0.0.1" in found["addresses"][0][1], found


def test_ports_that_are_all_taken(lab, node0):
    """Two are free on every node: the agent's and the probe's; on node1 one of them is not."""
    holder = "import socket; s = socket.create_server(('0.0.0.0', 20500)); print('up', flush=True); input()"
    taken = lab[1].popen([PYTHON, "-c", holder], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert taken.stdout.readline() == b"up\n"
        seen = only_red(doctor(node0, *HOSTS, "--port-range", "20500-20501"), "ports", "node1")
    finally:
        taken.communicate(b"\n")
    assert "every port of it is in use" in seen[0], seen


@pytest.mark.parametrize("route", ["unreachable", "blackhole"])
def test_a_route_that_is_missing(lab, node0, route):
    lab[1].check(["ip", "route", "add", route, f"{lab[2].addr}/32"])
    try:
        found = red(doctor(node0, *HOSTS))
    finally:
        lab[1].check(["ip", "route", "del", route, f"{lab[2].addr}/32"])
    assert list(found) == ["connections"] and "node1 -> node2" in dict(found["connections"]), found


def test_a_firewall_in_one_direction(lab, node0):
    """node2 lets nobody in but sshd's callers, and may call anybody."""
    rules = "add table inet t; add chain inet t in { type filter hook input priority 0; }; " \
            "add rule inet t in iifname eth0 tcp dport != 22 tcp flags & (syn | ack) == syn drop"
    lab[2].check(["nft", rules])
    try:
        found = red(doctor(node0, *HOSTS))
    finally:
        lab[2].check(["nft", "delete table inet t"])
    assert list(found) == ["connections"], found
    assert sorted(where for where, _ in found["connections"]) == ["node0 -> node2", "node1 -> node2"], found


def test_large_packets_that_are_lost(lab, node0):
    """As where a switch or tunnel on the way has a smaller MTU, and tells nobody."""
    rules = "add table inet t; add chain inet t in { type filter hook input priority 0; }; " \
            f"add rule inet t in ip saddr {lab[1].addr} meta length > 1000 drop"
    lab[2].check(["nft", rules])
    try:
        found = red(doctor(node0, *HOSTS))
    finally:
        lab[2].check(["nft", "delete table inet t"])
    assert list(found) == ["large packets"] and found["large packets"][0][0] == "node1 -> node2", found


def test_a_slow_link(lab, node0):
    lab[1].limit("40mbit")
    try:
        found = red(doctor(node0, *HOSTS))
    finally:
        lab[1].limit("none")
    assert list(found) == ["speed"] and all("node1" in where for where, _ in found["speed"]), found


def test_proxies(node0, in_environment):
    in_environment(http_proxy="http://proxy:3128", no_proxy="localhost,node1,10.77.0.2")
    checks = doctor(node0, *HOSTS)
    assert "http_proxy=http://proxy:3128" in only_red(checks, "proxies", "node1")[0]
    assert "-x no_proxy=localhost,node1,10.77.0.2,node0,10.77.0.1" in checks["proxies"][0]["fix"], checks
    doctor(node0, *HOSTS, "-x", checks["proxies"][0]["fix"].split()[1], code=0)


def test_a_clock_that_is_a_day_off(node0, in_environment, scratch):
    in_environment(**WallClock(scratch, ahead=DAY).env)
    assert "ahead of this machine" in only_red(doctor(node0, *HOSTS), "clocks", "node1")[0]


def test_few_open_files(node0, restart_sshd):
    restart_sshd(before=["prlimit", "--nofile=300:300", "--"])
    assert "ulimit -n is 300" in only_red(doctor(node0, *HOSTS), "limits", "node1")[0]


def test_a_short_listen_queue(lab, node0):
    write = lambda value: lab[1].check(["bash", "-c", f"echo {value} > /proc/sys/net/core/somaxconn"])
    kept = lab[1].check(["cat", "/proc/sys/net/core/somaxconn"]).strip()
    write(16)
    try:
        assert "somaxconn is 16" in only_red(doctor(node0, *HOSTS), "listen queue", "node1")[0]
    finally:
        write(kept)


def test_little_shared_memory(lab, node0):
    lab[1].check(["mount", "-t", "tmpfs", "-o", "size=1M,mode=1777", "tmpfs", "/dev/shm"])
    try:
        assert "1.0 MiB" in only_red(doctor(node0, *HOSTS), "shared memory", "node1")[0]
    finally:
        lab[1].check(["umount", "/dev/shm"])


def test_a_full_disk_and_a_missing_folder(lab, node0, scratch):
    lab[1].check(["mount", "-t", "tmpfs", "-o", "size=1M,mode=1777", "tmpfs", "/tmp"])
    lab[2].check(["mount", "-t", "tmpfs", "tmpfs", str(scratch.parent)])
    try:
        checks = doctor(node0, *HOSTS, "--wdir", scratch)
    finally:
        lab[1].check(["umount", "/tmp"])
        lab[2].check(["umount", str(scratch.parent)])
    seen = only_red(checks, "disks")
    assert "temporary folder /tmp" in seen[0] and "No such file or directory" in seen[1], seen


def test_a_cgroup_that_is_almost_full(lab, node0, restart_sshd):
    group = Path("/sys/fs/cgroup/pids") / lab.name
    group.mkdir()
    try:
        (group / "pids.max").write_text("100\n")
        restart_sshd(before=["bash", "-c", f"echo $$ > {group}/cgroup.procs; exec \"$@\"", "-"])
        assert "more processes and threads" in only_red(doctor(node0, *HOSTS), "cgroups", "node1")[0]
        restart_sshd()
    finally:
        wait_for(lambda: not (group / "cgroup.procs").read_text(), what="the cgroup is empty")
        group.rmdir()


def test_a_narrow_cpu_mask(node0, restart_sshd):
    first = min(os.sched_getaffinity(0))
    restart_sshd(before=["taskset", "-c", str(first)])
    assert "the CPU mask has 1 CPU" in only_red(doctor(node0, *HOSTS), "CPUs", "node1")[0]


def test_a_process_on_a_gpu(node0, scratch):
    """By what nvidia-smi says, which stands for the driver here."""
    tool = scratch / "nvidia-smi"
    one = "NVIDIA H100, 4242, python3, 1024 MiB"
    tool.write_text(f"#!/bin/sh\n[ $(hostname) = node1 ] || exit 9\ncase $1 in *driver*) echo 550.1;; *) echo '{one}';; esac\n")
    tool.chmod(0o755)
    seen = only_red(doctor(node0, *HOSTS, env={"PATH": f"{scratch}:/usr/sbin:/usr/bin:/sbin:/bin"}), "GPUs", "node1")
    assert "process 4242 (python3) holds 1024 MiB of NVIDIA H100" in seen[0]


def test_another_python_and_torch(node0, scratch):
    other = scratch / "python3"
    other.write_text("#!/bin/sh\necho 3.9.1\n")
    other.chmod(0o755)
    prologue = f'if [ "$MUSTER_NODE_RANK" = 1 ]; then PATH={scratch}:$PATH; fi'
    seen = only_red(doctor(node0, *HOSTS, "--prologue", prologue, env={"PYTHON_EXEC": "python3"}), "versions")
    assert any("3.9.1 on node1" in one for one in seen), seen


def test_programs_that_differ(lab, node0, scratch):
    program = scratch / "train.py"
    program.write_text("print(1)\n")
    other = scratch / "other.py"
    other.write_text("print(2)\n")
    assert "the same file" in doctor(node0, *HOSTS, program, code=0)["program"][0]["seen"]
    lab[1].check(["mount", "--bind", other, program])
    try:
        assert "its content differs" in only_red(doctor(node0, *HOSTS, program), "program")[0]
    finally:
        lab[1].check(["umount", program])
    assert "No such file" in only_red(doctor(node0, *HOSTS, scratch / "none.py"), "program")[0]


def test_a_probe_that_hangs(lab, node0):
    """One that stands still before it says anything holds nobody up for ever, and Ctrl-C ends all."""
    job = node0.start("doctor", *HOSTS, "--prologue", 'if [ "$MUSTER_NODE_RANK" = 1 ]; then exec sleep 1000; fi')
    wait_for(lambda: any("sleep 1000" in line for line in lab[1].processes().values()), what="the probe hangs")
    job.signal(signal.SIGINT)
    assert job.finish().code == 130
    lab.expect_quiet()


def test_a_sample_of_pairs():
    with Lab(17) as many:
        hosts = ["--hosts", ",".join(host.name for host in many)]
        shell = Shell(many[0])
        checks = doctor(shell, *hosts, code=0)
        assert "85 tries, a sample of all pairs" in checks["connections"][0]["seen"], checks
        many.expect_quiet()
