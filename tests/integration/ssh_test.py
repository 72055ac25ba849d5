"""Hosts over the user's own ssh: its configuration, names and ways in are respected, and what it says of a failure is shown."""

import re

import pytest
from harness import Shell, leave_nothing, sh, wait_for
from lab import Lab

WHERE = sh('echo "rank $RANK at $(hostname) from ${SSH_CONNECTION%% *}"')


def where(result):
    """{rank: (host, address that sshd saw)}; "" of the node that launch itself is on."""
    return {int(r): (h, a) for r, h, a in re.findall(r"rank (\d+) at (\S+) from (\S*)", result.text)}


def configured(lab, text):
    """The words that let ssh read `text` before the lab's configuration. (Without -F it would be ~/.ssh/config, where ~ is
    the account's and not $HOME.)"""
    file = lab.state / "home-ssh-config"
    file.write_text(text + (lab.state / "ssh/ssh_config").read_text())
    return f"--ssh-args=-F {file}"


def test_names_of_the_ssh_configuration(shells, lab):
    config = configured(lab, "Host big-one\n  HostName node1\n  User root\nHost other\n  HostName node2\n")
    result = shells[0].run(config, "--hosts", "big-one,other", "--nproc-per-node", "1", *WHERE)
    assert result.code == 0 and {r: h for r, (h, _) in where(result).items()} == {0: "node1", 1: "node2"}, result


def test_users_and_ports_of_the_list(shells, lab):
    user = "root"  # who the lab's keys belong to
    sshd = ["/usr/sbin/sshd", "-D", "-p", "2222", "-f", str(lab.state / "ssh/sshd_config"), "-o", "PidFile=none", "-o", f"SetEnv=HOME={lab[1].home}"]
    extra = lab[1].popen(["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", *sshd])
    known = lab.state / "ssh/known_hosts"
    before = known.read_text()
    known.write_text(before + "".join(f"[node1]:2222 {line.split(' ', 1)[1]}\n" for line in before.splitlines() if line.startswith("node1,")))
    try:
        wait_for(lambda: ":2222 " in lab[1].check(["ss", "-Hltn"]), 20, 0.05, what="sshd listens on 2222")
        file = lab.state / "hostfile-of-ports"
        file.write_text("root@node2\nnode1 port=2222\n")
        result = shells[0].run("--hostfile", file, "--nproc-per-node", "1", *WHERE)
        assert result.code == 0 and {r: h for r, (h, _) in where(result).items()} == {0: "node2", 1: "node1"}, result
        result = shells[0].run("--hosts", f"ssh://{user}@node1:2222,node2", "--nproc-per-node", "1", *WHERE)
        assert result.code == 0 and {r: h for r, (h, _) in where(result).items()} == {0: "node1", 1: "node2"}, result
        plan = shells[0].run("--hostfile", file, "--plan", "true")
        assert "ssh://node1:2222" in plan.text and "root@node2" in plan.text, plan
    finally:
        known.write_text(before)
        file.unlink()
        extra.terminate()
        extra.wait(10)
        lab[1].run(["pkill", "-f", "sshd -D -p 2222"])


def test_a_host_behind_another(shells, lab):
    config = configured(lab, "Host node2\n  ProxyJump node1\n")
    result = shells[0].run(config, "--hosts", "node0,node2", "--nproc-per-node", "1", *WHERE)
    assert result.code == 0 and where(result) == {0: ("node0", ""), 1: ("node2", "10.77.0.2")}, result


def test_ssh_args_are_the_users(shells):
    result = shells[0].run("--hosts", "node1", "--ssh-args=-o SetEnv=LC_MARK=here", "--nproc-per-node", "1", "-v", *WHERE)
    assert result.code == 0 and where(result)[0][0] == "node1", result
    result = shells[0].run("--hosts", "node1", "--ssh-args=-o NoSuchOption=1", "true")
    assert result.code == 1 and "Bad configuration option: nosuchoption" in result.errors, result


def test_each_host_that_fails_is_named_with_sshs_words(shells, lab):
    """One that refuses, one whose name is not known; the third is well."""
    lab[1].ssh_fault("refuse")
    try:
        refused = shells[0].run("--hosts", "node0,node1,node2", "--nproc-per-node", "1", "true")
    finally:
        lab[1].ssh_fault("ok")
    unknown = shells[0].run("--hosts", "node0,node2,no-such-host", "--nproc-per-node", "1", "true")
    assert refused.code == unknown.code == 1, (refused, unknown)
    assert re.search(r"node1: ssh ended with status 255 \(3 tries\): .*port 22: Connection refused; does `ssh node1 true` work\?", refused.errors), refused
    assert re.search(r"no-such-host: ssh ended with status 255: .*Could not resolve hostname no-such-host", unknown.errors), unknown
    assert all("node2:" not in r.errors.partition("what is wrong with the nodes")[0] for r in (refused, unknown)), (refused, unknown)


def test_a_host_key_that_has_changed_is_said_in_sshs_words(shells, lab):
    known = lab.state / "wrong-known-hosts"
    key = (lab.state / "ssh/id.pub").read_text().split()
    known.write_text(f"node1,10.77.0.2 {key[0]} {key[1]}\n")
    try:
        config = configured(lab, f"Host node1\n  UserKnownHostsFile {known}\n")
        result = shells[0].run(config, "--hosts", "node1", "true")
        assert result.code == 1 and "Host key verification failed" in result.errors and "tries" not in result.errors, result
    finally:
        known.unlink()


def test_sixteen_hosts_behind_one():
    """All through one jump host, which drops logins when many come together, as sshd does by default: they are tried again."""
    with Lab(18) as lab:
        shell = Shell(lab[0])
        try:
            config = lab.state / "ssh/sshd_config"
            config.write_text(config.read_text().replace("MaxStartups 512:30:1024", "MaxStartups 10:30:100"))
            lab[1].ssh_fault("refuse")
            lab[1].ssh_fault("ok")  # reads it
            jump = configured(lab, "Host node?* !node0 !node1\n  ProxyJump node1\n")
            hosts = ",".join(f"node{i}" for i in range(2, 18))
            result = shell.run(jump, "--hosts", hosts, "--nproc-per-node", "1", *WHERE, seconds=120)
            assert result.code == 0, result
            assert where(result) == {r: (f"node{r + 2}", "10.77.0.2") for r in range(16)}, result
        finally:
            leave_nothing(lab, [shell])


def test_settings_of_mpi_go_along_and_with_genvall_all(node0):
    """Ranks with unlike settings of a collective wait for each other for ever."""
    says = sh('echo "has $OMPI_MCA_coll $MPIR_CVAR_X ${LR-none}"')
    here = {"OMPI_MCA_coll": "self", "MPIR_CVAR_X": "1", "LR": "0.1"}
    for options, there in ((), "none"), (("-genvall",), "0.1"):
        result = node0.run("--hosts", "node0,node1", "--nproc-per-node", "1", *options, *says, env=here)
        assert result.code == 0, result
        assert sorted(re.findall(r"(\w+)\] has (.*)", result.text)) == [("node0", "self 1 0.1"), ("node1", f"self 1 {there}")], result


@pytest.mark.parametrize("fate, why", [("drop", "Connection timed out"), ("reject with tcp reset", "Connection refused")], ids=["drop", "reset"])
def test_a_firewall_between_the_nodes_is_named(lab, shells, fate, why):
    """Torch would wait at MASTER_ADDR for many minutes, without a word."""
    with lab.closed(fate, [lab[0]]):
        job = shells[0].start("--hosts", "node0,node1", "--nproc-per-node", "1", "--store", "agent", "sleep", "1091")
        job.expect(rf"node1: MASTER_ADDR:MASTER_PORT \(10\.77\.0\.1:\d+\) cannot be reached from here: {why}; .*launch doctor", stream="err")
        job.signal(2)
        assert job.finish().code == 130
    result = shells[0].run("--hosts", "node0,node1", "--nproc-per-node", "1", "sleep", "3")
    assert result.code == 0 and "MASTER_ADDR" not in result.errors, result
