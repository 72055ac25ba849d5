"""muster-rendezvous as a service of a site: its unit, its users, and jobs that meet there."""

import json
import re
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from harness import BIN, DEAF, PATIENCE, PYTHON, ROOT
from users_site import DAEMON, SECRETS, UsersSite


UNIT = ROOT / "deploy/systemd/muster-rendezvous.service.in"


@pytest.fixture
def unit(tmp_path):
    text = UNIT.read_text()
    path = tmp_path / "muster-rendezvous.service"
    path.write_text(text.replace("@CMAKE_INSTALL_PREFIX@/bin", str(BIN)).replace("@CMAKE_INSTALL_PREFIX@", "/usr"))
    return path


def test_systemd_finds_nothing_wrong_with_the_unit(unit):
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = subprocess.run(["systemd-analyze", "security", "--offline=true", unit], capture_output=True, text=True)
    (exposure,) = re.findall(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert float(exposure) <= 2.0, done.stdout


@pytest.fixture
def site(shells, scratch):
    return UsersSite(shells, scratch)


def test_two_users_run_jobs_of_one_name_at_the_same_time(site):
    daemon = site.serve()
    script = f"echo {{}} rank $RANK of $WORLD_SIZE; while [ ! -e {site.folder}/go ]; do sleep 0.05; done"
    jobs = {user: [site.job(user, node, script.format(user)) for node in range(2)] for user in ("alice", "bob")}
    for user, both in jobs.items():
        for node, job in enumerate(both):
            job.expect(f"{user} rank {node} of 2")
    (site.folder / "go").touch()
    for both in jobs.values():
        assert [job.finish().code for job in both] == [0, 0]
    daemon.expect("job alice/job ended with 0", stream="err")
    daemon.expect("job bob/job ended with 0", stream="err")
    daemon.signal(signal.SIGTERM)
    assert daemon.finish().code == 0


def test_a_jobs_first_node_writes_its_report(site):
    site.serve()
    both = [site.job("alice", node, "[ $RANK = 0 ] || sleep 1093; exit 3", "--report", site.folder / f"report{node}") for node in range(2)]
    assert [job.finish().code for job in both] == [3, 3]
    report = json.loads((site.folder / "report0").read_text())
    assert (report["job_id"], report["exit_code"], report["cause"], report["first"]["rank"]) == ("job", 3, "worker", 0), report
    assert not (site.folder / "report1").exists()


def test_a_late_node_of_an_elastic_job_that_ended_well_runs_nothing(site):
    daemon = site.serve()
    elastic = ("--nnodes", "1:2", "--rdzv-conf", "last_call_timeout=0")
    assert site.job("alice", 0, "echo ran", *elastic).finish().text == "[0@node1] ran\n"
    daemon.expect("job alice/job ended with 0", stream="err")
    late = site.job("alice", 1, "echo ran", *elastic).finish()
    assert (late.code, late.text) == (0, ""), late
    assert "the job has ended well before node2 came: nothing runs here (to run it again, give another --rdzv-id)" in late.errors, late
    again = site.job("alice", 0, "echo ran", *elastic).finish()
    assert (again.code, again.text) == (0, "[0@node1] ran\n"), again


def test_who_is_not_known_is_refused_until_the_users_are_read_again(site):
    daemon = site.serve()
    refused = site.job("carl", 0, "true").finish()
    assert refused.code == 1 and "the master knows no user with the secret that node1 brings" in refused.errors, refused
    site.secret(site.folder / "users/carl", SECRETS["carl"])
    daemon.signal(signal.SIGHUP)
    daemon.expect("3 users in", stream="err")
    both = [site.job("carl", node, "true") for node in range(2)]
    assert [job.finish().code for job in both] == [0, 0]
    (site.folder / "users/alice").chmod(0o644)
    daemon.signal(signal.SIGHUP)
    daemon.expect("users/alice may be read or changed by others .*; left out", stream="err")
    assert "the master knows no user" in site.job("alice", 0, "true").finish().errors
    both = [site.job("carl", node, "true") for node in range(2)]
    assert [job.finish().code for job in both] == [0, 0]
    (site.folder / "users").rename(site.folder / "elsewhere")
    daemon.signal(signal.SIGHUP)
    daemon.expect("users: No such file .*; those of before stay", stream="err")


def test_it_says_where_each_job_stands(site):
    daemon = site.serve()
    both = [site.job("alice", node, "echo begins; sleep 1092") for node in range(2)]
    for job in both:
        job.expect("begins")
    alone = site.job("bob", 1, "true")
    daemon.expect("job bob/job: waiting for 1 of 2 nodes", stream="err")
    daemon.signal(signal.SIGUSR1)
    daemon.expect("2 jobs\n.*job alice/job: round .* for .*: 2 workers on 2 nodes \\(node1, node2\\)\n.*job bob/job: waiting for 1 of 2 nodes: have node2", stream="err")
    for job in (*both, alone):
        job.signal(2)
    assert {job.finish().code for job in (*both, alone)} == {130}


def test_the_service_manager_hears_when_it_serves_and_when_it_stops(site):
    heard = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(site.folder / "notify"))
        manager.settimeout(PATIENCE)
        daemon = site.serve(NOTIFY_SOCKET=str(site.folder / "notify"))
        heard.append(manager.recv(100))
        daemon.signal(signal.SIGTERM)
        heard.append(manager.recv(100))
    assert heard == [b"READY=1", b"STOPPING=1"]
    assert daemon.finish().code == 0


def test_it_hears_what_its_parent_had_blocked(site):
    daemon = site.serve(within=[PYTHON, *DEAF])
    daemon.signal(signal.SIGHUP)
    daemon.expect("2 users in", 2, stream="err")
    daemon.signal(signal.SIGTERM)
    assert daemon.finish().code == 0


def test_all_that_it_does_the_unit_allows(site):
    confined = ["/usr/bin/python3", Path(__file__).with_name("confined.py"), UNIT]
    for forbidden in ("import os; os.nice(1)", "import socket; socket.socket(socket.AF_PACKET)", "import mmap; mmap.mmap(-1, 4096, prot=7)"):
        done = subprocess.run([*confined, "/usr/bin/python3", "-c", forbidden], capture_output=True, text=True)
        assert done.returncode == -signal.SIGSYS, (forbidden, done)
    daemon = site.serve("--journal", site.folder / "journal", within=confined)
    script = f"echo begins; until [ -e {site.folder}/go ]; do sleep 0.05; done; [ $RANK = 0 ] || exit 3"
    both = [site.job("alice", node, script, "--max-restarts", "1") for node in range(2)]
    for job in both:
        job.expect("begins")
    daemon.signal(signal.SIGHUP)
    daemon.expect("2 users in", 2, stream="err")
    daemon.signal(signal.SIGTERM)
    assert daemon.finish().code == 0
    daemon = site.serve("--journal", site.folder / "journal", within=confined)
    daemon.expect("are back", stream="err")
    assert site.job("carl", 0, "true").finish().code == 1
    (site.folder / "go").touch()
    assert [job.finish().code for job in both] == [3, 3]
    daemon.expect("job alice/job ended with 3", stream="err")
    daemon.signal(signal.SIGTERM)
    assert daemon.finish().code == 0


# As the head of the unit says, and what systemd does then; in a mount namespace whose /etc and /var/lib are the test's.
INSTALLED = f"""
set -e
cd "$0"
mkdir etc work lib
mount -t overlay -o "lowerdir=/etc,upperdir=$0/etc,workdir=$0/work" overlay /etc
mount --bind lib /var/lib
systemd-sysusers {ROOT}/deploy/systemd/muster.sysusers
install -d -o root -g muster -m 750 /etc/muster /etc/muster/users
cp {ROOT}/deploy/systemd/rendezvous.yaml /etc/muster/
install -o root -g muster -m 640 alice /etc/muster/users/alice
install -d -o muster -g muster -m 700 /var/lib/muster-rendezvous
exec setpriv --reuid=muster --regid=muster --clear-groups --no-new-privs "$@"
"""


def test_the_configuration_that_is_installed_serves_as_it_is(site):
    words = ["-m", "bash", "-c", INSTALLED, site.folder, DAEMON, "--config", "/etc/muster/rendezvous.yaml"]
    daemon = site.shells[0].start(*words, program="unshare")
    daemon.expect(r"listens on \[::\]:29400")
    assert [result.code for result in site.run()] == [0, 0]
    daemon.expect("job alice/job ended with 0", stream="err")
    assert (site.folder / "lib/muster-rendezvous/tls-key").exists()
    daemon.signal(signal.SIGTERM)
    assert daemon.finish().code == 0


def test_what_is_wrong_is_said_before_it_serves(site):
    run = lambda *words: site.shells[0].run(*words, program=DAEMON)
    (site.folder / "site.yaml").write_text("listen: 10.77.0.1:29400\nuser: x\n")
    result = run("--config", site.folder / "site.yaml")
    assert result.code == 2 and "site.yaml:2: unknown key 'user'" in result.errors, result
    for wrong in ("x", "10.77.0.1:70000", "1:2:3"):
        result = run("--users", site.folder / "users", "--listen", wrong)
        assert result.code == 2 and f"--listen: want ADDR:PORT or [ADDR]:PORT with port 0..65535, as in [::]:29400; got '{wrong}'" in result.errors, result
    result = run("--users", site.folder / "nobody")
    assert result.code == 1 and "nobody: No such file" in result.errors, result
    result = run("--users", site.folder / "users", "--listen", "10.77.0.99:29400")
    assert result.code == 1 and "--listen: " in result.errors, result
