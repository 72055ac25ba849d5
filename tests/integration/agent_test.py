"""No process of a job outlives it, whoever dies first and however; and what workers find around them."""

import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from harness import LAUNCH, PYTHON, WORKERS, kill_all, name_of, parent_of, sh, wait_for


@pytest.fixture
def suid_sleep(scratch):
    """sleep(1) that runs as another user; its exec clears the parent-death signal."""
    copy = scratch / "usleep"
    shutil.copy("/bin/sleep", copy)
    os.chown(copy, 65534, 65534)
    os.chmod(copy, 0o4755)
    return copy


def start_brood(shell, suid_sleep, *args, ranks=2, broods_here=2):
    job = shell.start(*args, WORKERS / "brood", suid_sleep, env={"BROODS": str(broods_here)})
    job.expect("ready", ranks)
    return job


def test_kill_9_of_any_process_of_ours_on_one_host(shells, node0, suid_sleep, lab):
    job = start_brood(node0, suid_sleep, "-n", "2")
    count = len(node0.acting())
    assert count >= 2, node0.ours()
    for victim in range(count):
        if victim > 0:
            job = start_brood(node0, suid_sleep, "-n", "2")
        pid = sorted(node0.acting())[victim]
        kill_all([pid])
        lab.expect_quiet(10)
        assert job.finish().code != 0


def test_kill_9_of_all_processes_of_ours_but_one(node0, suid_sleep, lab):
    job = start_brood(node0, suid_sleep, "-n", "2")
    count = len(node0.ours())
    for survivor in range(count):
        if survivor > 0:
            job = start_brood(node0, suid_sleep, "-n", "2")
        kill_all([p for i, p in enumerate(sorted(node0.ours())) if i != survivor])
        lab.expect_quiet(10)
        job.finish()


def test_kill_9_of_all_processes_of_ours_at_once(node0, lab):
    """Then nobody is left to clean up, and the kernel does it; not for those with a group of their own."""
    job = node0.start("-n", "2", *sh("(sleep 1017 & wait) & echo ready; wait"))
    job.expect("ready", 2)
    wait_for(lambda: len(node0.called("sleep 1017")) == 2, 10, what="the workers' own processes")
    kill_all(list(node0.ours()))
    lab.expect_quiet(1)
    job.finish()


@pytest.mark.parametrize("where", [0, 1])
def test_kill_9_of_any_process_of_ours_on_two_hosts(shells, suid_sleep, lab, where):
    args = ("--hosts", "node0,node1", "--nproc-per-node", "1")
    job = start_brood(shells[0], suid_sleep, *args, broods_here=1)
    count = len(shells[where].acting())
    assert count >= 2, shells[where].ours()
    for victim in range(count):
        if victim > 0:
            job = start_brood(shells[0], suid_sleep, *args, broods_here=1)
        kill_all([sorted(shells[where].acting())[victim]])
        lab.expect_quiet(15)
        assert job.finish().code != 0


def test_kill_9_of_the_ssh_client(shells, suid_sleep, lab):
    job = start_brood(shells[0], suid_sleep, "--hosts", "node0,node1", "--nproc-per-node", "1", broods_here=1)
    clients = [p for p, line in lab[0].processes().items() if os.path.basename(line.split()[0]) == "ssh"]
    assert clients, lab[0].processes()
    kill_all(clients)
    lab.expect_quiet(15)
    assert job.finish().code != 0


def test_a_crashed_host_ends_the_job(shells, lab):
    job = shells[2].start("--hosts", "node0,node1", "--nproc-per-node", "1", *sh("echo up; exec sleep 1007"))
    job.expect("up", 2)
    try:
        lab[1].kill()
        result = job.finish()
        assert result.code == 1 and "node1" in result.errors, result
    finally:
        lab[1].boot()


@pytest.mark.parametrize("how", ["cut", "freeze"])
def test_a_silent_host_ends_the_job_everywhere(shells, lab, how):
    """The lost host cannot be told: its own lease ends its workers."""
    job = shells[2].start("--hosts", "node0,node1", "--nproc-per-node", "1", *sh("echo up; exec sleep 1008"))
    job.expect("up", 2)
    try:
        getattr(lab[1], how)()
        result = job.finish()
        assert result.code == 1 and "node1" in result.errors, result
        if how == "cut":
            wait_for(lambda: not shells[1].called("sleep 1008"), 20, what="the lease ends the workers of the cut host")
    finally:
        lab[1].thaw()
        lab[1].heal()
    lab.expect_quiet(20)


def test_background_children_do_not_outlive_a_worker_that_ends_well(node0, lab):
    result = node0.run("-n", "2", *sh("setsid sleep 1010 & sleep 1011 & (setsid sleep 1012 &) ; exit 0"))
    assert result.code == 0 and "ranks 0-1 left processes behind, with the output still open: they are ended now" in result.errors, result
    assert not lab.processes()
    result = node0.run("-n", "2", *sh("setsid sleep 1010 > /dev/null 2>&1 & exit 0"))
    assert result.code == 0 and result.errors == "", result
    assert not lab.processes()


def kill_at_once(pids):
    """The others are stopped first: none acts on the end of another. But not launch: nsenter, above it, would stop itself
    when its child does, and stay."""
    (launch,) = (pid for pid in pids if name_of(parent_of(pid)) == "nsenter")
    others = [pid for pid in pids if pid != launch]
    for pid in others:
        os.kill(pid, signal.SIGSTOP)
    kill_all([launch, *others])  # some of them the kernel may have killed with launch


@pytest.mark.parametrize("start", [[], ["--hosts", "node0:2"]])
@pytest.mark.parametrize("reaper", ["lives", "dies"])
def test_a_kill_of_the_agent_ends_what_has_a_session_of_its_own(node0, lab, start, reaper):
    """The reaper does it, of whatever age it is. Without that nobody of ours is left to look for it: the kernel kills the
    groups that the shepherd has come to know of."""
    job = node0.start(*start, "-n", "2", *sh("setsid sleep 1016 & (setsid sh -c 'sleep 1017; :' &); echo up; exec sleep 1018"))
    job.expect("up", 2)
    if reaper == "dies":
        wait_for(lambda: len(node0.called("sleep 1016")) == len(node0.called("sleep 1017")) == 2, 20, what="their sessions")
        time.sleep(3)  # the shepherd looks 0.1 s after what is new
    doomed = node0.acting() if reaper == "lives" else list(node0.ours())
    assert len(doomed) >= (2 if reaper == "lives" else 3), node0.ours()
    kill_at_once(doomed)
    lab.expect_quiet(5)
    job.finish()


@pytest.mark.parametrize("start", [[], ["--hosts", "node0:2"]])
def test_a_reaper_that_is_killed_is_not_missed(node0, scratch, lab, start):
    job = node0.start(*start, "-n", "2", *sh(f"setsid sleep 1016 & echo up; until [ -e {scratch}/go ]; do sleep 0.05; done; exit 3"))
    job.expect("up", 2)
    (reaper,) = set(node0.ours()) - set(node0.acting())
    kill_all([reaper])
    (scratch / "go").touch()
    assert job.finish().code == 3
    lab.expect_quiet(5)


def test_a_kill_of_the_whole_agent_ends_a_session_that_a_long_quiet_worker_has_made(node0, scratch, lab):
    os.mkfifo(scratch / "go")
    job = node0.start("-n", "2", "bash", "-c", f"exec 9<>{scratch}/go; echo up; read -u 9; setsid sleep 1019 & echo late; exec sleep 1018")
    job.expect("up", 2)
    time.sleep(6)  # nothing begins meanwhile
    (scratch / "go").write_text("1\n2\n")
    job.expect("late", 2)
    wait_for(lambda: len(node0.called("sleep 1019")) == 2, 20, what="their sessions")
    time.sleep(3)
    kill_at_once(node0.ours())
    lab.expect_quiet(5)
    job.finish()


def test_grace_then_kill(node0):
    """TERM, --grace, KILL to everything that descends from the worker."""
    job = node0.start("-n", "2", "--grace", "1", *sh("trap '' TERM INT; setsid bash -c 'trap \"\" TERM; sleep 1013' & echo up; while :; do sleep 1014; done"))
    job.expect("up", 2)
    began = time.monotonic()
    job.signal(signal.SIGTERM)
    result = job.finish()
    assert result.code == 143, result
    assert 0.9 < time.monotonic() - began < 15


def test_as_pid_1_it_reaps(node0, lab):
    """In a container `launch` is PID 1, and every orphan is its child."""
    zombies = "ps -eo stat= | grep -c Z"
    orphans = f"for i in 1 2 3 4 5; do (setsid /bin/true &); done; for i in $(seq 100); do [ $({zombies}) = 0 ] && break; sleep 0.1; done; {zombies}; echo counted"
    job = node0.start("--fork", "--pid", "--mount-proc", "--", LAUNCH, "-n", "1", *sh(orphans), program="unshare")
    result = job.finish()
    assert result.code == 0 and result.text.split() == ["0", "counted"], result


def test_identity_of_an_outer_launcher_is_removed(node0):
    outer = {
        "RANK": "77", "LOCAL_RANK": "77", "WORLD_SIZE": "99", "MASTER_ADDR": "1.2.3.4", "MASTER_PORT": "1", "PMI_RANK": "77",
        "PMI_SIZE": "99", "PMIX_RANK": "77", "OMPI_COMM_WORLD_RANK": "77", "OMPI_COMM_WORLD_SIZE": "99",
        "TORCHELASTIC_RUN_ID": "outer", "TF_CONFIG": "{}", "MPI_LOCALRANKID": "77", "HOROVOD_RANK": "77",
    }
    result = node0.run("-n", "2", "--no-prefix", "env", env=outer)
    assert result.code == 0, result
    values = [line.partition("=")[2] for line in result.text.splitlines()]
    assert not {"77", "99", "1.2.3.4", "outer", "{}"} & set(values), result
    assert sorted(l for l in result.text.splitlines() if l.startswith("RANK=")) == ["RANK=0", "RANK=1"]


def test_threads_per_worker(node0):
    cpus = len(os.sched_getaffinity(0))
    result = node0.run("-n", "2", "--no-prefix", *sh("echo $OMP_NUM_THREADS"))
    assert result.text.split() == [str(max(1, cpus // 2))] * 2, result
    result = node0.run("-n", "2", "--no-prefix", *sh("echo $OMP_NUM_THREADS"), env={"OMP_NUM_THREADS": "5"})
    assert result.text.split() == ["5", "5"], result


def test_python_file_runs_under_the_named_interpreter(node0, scratch):
    script = scratch / "which.py"
    script.write_text("import sys; print(sys.executable, sys.stdout.write_through, sys.argv[1:])\n")
    result = node0.run("-n", "1", script, "a b", "--x")
    assert result.code == 0 and result.text.strip().endswith("['a b', '--x']") and result.text.startswith(PYTHON), result
    assert " True " in result.text, "python3 -u"


def test_restart_of_all_workers(node0, scratch):
    """--max-restarts: a new round for everyone, counted over the whole job."""
    script = (f'n=$TORCHELASTIC_RESTART_COUNT; echo "round $n rank $RANK"; : > {scratch}/$n.$RANK; [ $n = 2 ] && exit 0; '
              f'[ $RANK = 1 ] || exec sleep 1015; until [ -e {scratch}/$n.0 ] && [ -e {scratch}/$n.2 ]; do sleep 0.05; done; exit 5')
    result = node0.run("-n", "3", "--max-restarts", "2", "--no-prefix", *sh(script))
    assert result.code == 0, result
    assert sorted(result.text.splitlines()) == sorted(f"round {r} rank {k}" for r in range(3) for k in range(3)), result
    result = node0.run("-n", "3", "--max-restarts", "1", "--no-prefix", *sh(script))
    assert result.code == 5, result


def test_restart_on_two_hosts(shells, scratch):
    script = (f'echo "round $TORCHELASTIC_RESTART_COUNT rank $RANK of $WORLD_SIZE"; [ "$TORCHELASTIC_RESTART_COUNT" = 1 ] && exit 0; : > {scratch}/$RANK; '
              f'[ $RANK = 2 ] || exec sleep 1016; until [ $(ls {scratch} | wc -l) = 4 ]; do sleep 0.05; done; kill -9 $$')
    result = shells[0].run("--hosts", "node0,node1", "--nproc-per-node", "2", "--max-restarts", "1", "--no-prefix", *sh(script))
    assert result.code == 0, result
    assert sorted(result.text.splitlines()) == sorted(f"round {r} rank {k} of 4" for r in range(2) for k in range(4)), result
