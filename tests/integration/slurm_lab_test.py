"""What Muster relies on of Slurm, seen of the real one on emulated hosts."""

import hashlib
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from batch import ENV, SHOW, environments, has
from harness import HERE, PATIENCE, PYTHON, cmdline, wait_for
from lab import STATE, marked

# How launch runs one agent on each host of a job.
AGENTS = "srun --overlap -N2 -n2 --ntasks-per-node=1 --cpu-bind=none --mpi=none -K1 --export=ALL"
ONE = "srun --overlap -N1 -n1 --cpu-bind=none --mpi=none"
BYTES = bytes(range(256)) * 4096


def lines(text):
    return sorted(text.splitlines())


# Slurm: what a job's processes see


def test_environment_of_a_script_and_of_a_step(slurm):
    job = slurm.submit(f"{SHOW}; srun -n4 --ntasks-per-node=2 {SHOW}", "-N2", "--ntasks-per-node=3", "-c2")
    assert slurm.wait(job)["JobState"] == "COMPLETED", slurm.output(job)
    script, *tasks = environments(slurm)
    has(
        script, SLURM_JOB_ID=job, SLURM_JOBID=job, SLURM_JOB_NODELIST="node[0-1]", SLURM_NODELIST="node[0-1]",
        SLURM_JOB_NUM_NODES="2", SLURM_NNODES="2", SLURM_NTASKS="6", SLURM_NTASKS_PER_NODE="3", SLURM_TASKS_PER_NODE="3(x2)",
        SLURM_CPUS_PER_TASK="2", SLURM_JOB_CPUS_PER_NODE="6(x2)", SLURM_CPUS_ON_NODE="6", SLURMD_NODENAME="node0",
        SLURM_SUBMIT_DIR=str(slurm.folder), SLURM_SUBMIT_HOST="node0", TMPDIR="/tmp",
        SLURM_PROCID="0", SLURM_LOCALID="0", SLURM_NODEID="0",  # although it is no task
    )  # fmt: skip
    assert not [k for k in script if k.startswith("SLURM_STEP")], script
    assert [t["SLURM_PROCID"] for t in tasks] == ["0", "1", "2", "3"]
    for task in tasks:
        rank = int(task["SLURM_PROCID"])
        has(
            task, SLURM_JOB_ID=job, SLURM_STEP_ID="0", SLURM_STEP_NODELIST="node[0-1]", SLURM_STEP_NUM_NODES="2",
            SLURM_STEP_NUM_TASKS="4", SLURM_NTASKS="4", SLURM_STEP_TASKS_PER_NODE="2(x2)", SLURM_TASKS_PER_NODE="2(x2)",
            SLURM_NODEID=str(rank // 2), SLURM_LOCALID=str(rank % 2), SLURMD_NODENAME=f"node{rank // 2}",
            SLURM_LAUNCH_NODE_IPADDR="10.77.0.1", SLURM_JOB_CPUS_PER_NODE="6(x2)",
        )  # fmt: skip


OPTIONS = {
    "-N2": {"SLURM_NTASKS": None, "SLURM_TASKS_PER_NODE": "1(x2)", "SLURM_JOB_CPUS_PER_NODE": "1(x2)"},
    "-N3 -n40 --exclusive": {"SLURM_NTASKS": "40", "SLURM_TASKS_PER_NODE": "14,13(x2)", "SLURM_JOB_CPUS_PER_NODE": "16(x3)"},
    "-N3 --exclusive": {"SLURM_NTASKS": None, "SLURM_JOB_CPUS_PER_NODE": "16(x3)", "SLURM_JOB_NODELIST": "node[0-2]"},
    "-w node0,node2": {"SLURM_JOB_NODELIST": "node[0,2]", "SLURM_JOB_NUM_NODES": "2"},
    "-a 7": {"SLURM_ARRAY_TASK_ID": "7"},
}


def test_environment_by_options(slurm):
    jobs = {slurm.submit(SHOW, *options.split()): want for options, want in OPTIONS.items()}
    for job in jobs:
        assert slurm.wait(job)["JobState"] == "COMPLETED", slurm.output(job)
    for env in environments(slurm):
        has(env, **jobs.pop(env.get("SLURM_ARRAY_JOB_ID", env["SLURM_JOB_ID"])))
    assert not jobs


def test_salloc_starts_no_task(slurm):
    assert slurm.start("salloc", "-N2", "--ntasks-per-node=4", PYTHON, "-c", ENV).finish().code == 0
    (env,) = environments(slurm)
    has(env, SLURM_JOB_NODELIST="node[0-1]", SLURM_TASKS_PER_NODE="4(x2)", SLURM_JOB_NUM_NODES="2", SLURM_NTASKS="8")
    assert not {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURMD_NODENAME", "SLURM_STEP_ID"} & set(env), env


def test_srun_without_a_script(slurm):
    assert slurm.start("srun", "-N2", "--ntasks-per-node=2", PYTHON, "-c", ENV).finish().code == 0
    tasks = environments(slurm)
    assert [t["SLURM_PROCID"] for t in tasks] == ["0", "1", "2", "3"]
    for task in tasks:
        has(task, SLURM_STEP_NODELIST="node[0-1]", SLURM_STEP_TASKS_PER_NODE="2(x2)", SLURM_SRUN_COMM_HOST="10.77.0.1")


# Slurm: agents in a job


def test_agents_start_beside_a_step_that_runs(slurm):
    """At once only with --overlap, one on each host, with every CPU and without the script's stdin."""
    script = f"""
        srun -N2 -n2 --ntasks-per-node=1 bash -c 'echo up; exec sleep 1000' > first & first=$!
        until [ $(grep -c up first) = 2 ]; do sleep 0.05; done
        {AGENTS} --input=none bash -c 'echo $(hostname) $(nproc)'
        srun -N2 -n2 --immediate=1 echo never 2> /dev/null || echo alone $?
        {{ {AGENTS} --input=none true; cat; }} <<< kept
        kill $first; wait $first
    """
    result = slurm.alloc(script, "-N2", "--exclusive")
    assert lines(result.text) == ["alone 1", "kept", *(f"node{i} {os.cpu_count()}" for i in range(2))], result


@pytest.mark.parametrize("flags", ["", "--unbuffered"], ids=["buffered", "unbuffered"])
def test_bytes_pass_unharmed(slurm, flags):
    """All 256 values, 1 MiB, both ways of a task on another host, and to two tasks at once; stderr stays apart."""
    (slurm.folder / "in").write_bytes(BYTES)
    result = slurm.alloc(
        f"{ONE} -w node1 {flags} bash -c 'cat; hostname >&2' < in > out 2> err; {AGENTS} {flags} --input=all sha256sum < in > sums",
        "-N2",
    )
    assert result.code == 0, result
    assert (slurm.folder / "out").read_bytes() == BYTES and (slurm.folder / "err").read_text() == "node1\n"
    assert (slurm.folder / "sums").read_text() == f"{hashlib.sha256(BYTES).hexdigest()}  -\n" * 2


ECHO = """
import os, select, subprocess, sys
patience = 60 if "--unbuffered" in sys.argv else 1
srun = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
for word in (b"line\\n", b"\\0\\1\\2"):
    srun.stdin.write(word)
    got = b""
    while len(got) < len(word) and select.select([srun.stdout], [], [], 60 if word.endswith(b"\\n") else patience)[0]:
        got += os.read(srun.stdout.fileno(), 100)
    print(got, flush=True)
srun.stdin.close()
print(srun.stdout.read(), srun.wait())
"""


def test_only_unbuffered_passes_a_part_of_a_line_on_at_once(slurm):
    (slurm.folder / "echo.py").write_text(ECHO)
    result = slurm.alloc(f"for f in '' --unbuffered; do {PYTHON} echo.py {ONE} $f -w node1 cat; done", "-N2")
    line, part = (repr(word) for word in (b"line\n", b"\0\1\2"))
    assert result.text.splitlines() == [line, "b''", f"{part} 0", line, part, "b'' 0"], result


STEPS = {
    f"{AGENTS} --kill-on-bad-exit=0 bash -c 'exit $((SLURM_PROCID * 3))'": 3,  # the highest
    f"{ONE} bash -c 'kill -9 $$'": 137,
    f"{ONE} bash -c 'kill -15 $$'": 143,
    f"{ONE} /no/such/program": 2,
    f"{AGENTS} bash -c '[ $SLURM_PROCID = 0 ] || exit 3; sleep 1000'": 143,  # -K1 ends the others
}


def test_exit_status_of_srun(slurm):
    result = slurm.alloc("\n".join(f"{step}; echo $?" for step in STEPS), "-N2")
    assert [int(code) for code in result.text.split()] == list(STEPS.values()), result


# Slurm: signals and the end

# A task that says what it is sent. A signal does not end it, nor does the end of the script's shell.
TOLD = "bash -c 'for s in TERM USR1; do trap \"echo $SLURMD_NODENAME told $s\" $s; done; echo up; while :; do sleep 0.1; done'"


def test_sigterm_to_srun_kills_unheard_and_sigusr1_is_passed_on(slurm):
    script = f"""
        {AGENTS} {TOLD} & srun=$!
        until [ $(grep -c up $SLURM_JOB_ID.out) = 2 ]; do sleep 0.05; done
        kill -USR1 $srun
        until [ $(grep -c USR1 $SLURM_JOB_ID.out) = 2 ]; do sleep 0.05; done
        kill -TERM $srun; wait $srun; echo ended
    """
    job = slurm.submit(script, "-N2")
    slurm.wait(job)
    said = slurm.output(job)
    assert "ended" in said and "told TERM" not in said and "node0 told USR1" in said and "node1 told USR1" in said


def test_scancel(slurm):
    """-s alone reaches the tasks of steps, -b the script's shell; without, all are told on every host, then killed."""
    # exec: a shell that waits for its child instead dies of the first SIGTERM, and the rest at once with it
    job = slurm.submit(f"{AGENTS} {TOLD} & exec {TOLD}", "-N2")
    slurm.expect(job, "up", 3)
    slurm.cancel(job, "-s", "USR1")
    slurm.expect(job, "told USR1", 2)
    assert sorted(slurm.output(job).split()[-6:]) == sorted("node0 told USR1 node1 told USR1".split()), slurm.output(job)
    slurm.cancel(job, "-b", "-s", "USR1")
    slurm.expect(job, "told USR1", 3)
    slurm.cancel(job)
    slurm.expect(job, "told TERM", 3)
    done = slurm.wait(job)
    assert done["JobState"] == "CANCELLED" and done["ExitCode"] == "0:9", done
    slurm.lab.expect_quiet()


def test_the_end_of_a_job_ends_all_its_processes(slurm):
    """Those of a session of their own that ignore SIGTERM, too, on every host."""
    stray = "bash -c 'trap \"\" TERM HUP; setsid sleep 4321 > /dev/null 2>&1 < /dev/null & until [ -e go ]; do sleep 0.05; done'"
    job = slurm.submit(f"{AGENTS} {stray} & exec {stray}", "-N2")
    strays = lambda: sorted(name for name, p in slurm.lab.processes().items() for line in p.values() if line == "sleep 4321")
    wait_for(lambda: strays() == ["node0", "node0", "node1"], PATIENCE, 0.05, strays)
    (slurm.folder / "go").touch()
    assert slurm.wait(job)["JobState"] == "COMPLETED"
    slurm.lab.expect_quiet()


# The lab itself


def test_a_host_comes_back_with_its_slurmd(slurm):
    host = slurm.lab[2]
    host.kill()
    host.boot()
    result = slurm.alloc("srun hostname", "-w", "node2")
    assert result.code == 0 and result.text == "node2\n", result


KILLED = """
import os, sys
from pathlib import Path
from harness import Lab
from batch import Slurm
lab = Lab(1, ssh=False, batch="slurm")
slurm = Slurm(lab, lab[0].home)
slurm.expect(slurm.submit("setsid sleep 5432 & echo up; exec sleep 5432"), "up")
(frozen,) = slurm.command("find", "/run/lab-slurm/cgroup/freezer", "-name", "step_batch").split()
lab[0].check(["sh", "-c", f"echo FROZEN > {frozen}/freezer.state"])
print(lab.name, flush=True)
sys.stdin.read()
"""


def freezer_cgroups(word):
    listing = 'mount -t cgroup -o freezer cgroup "$0" && find "$0" -type d'
    found = subprocess.run(["unshare", "--mount", "sh", "-ec", listing, "/mnt"], check=True, capture_output=True, text=True).stdout
    return [line for line in found.splitlines() if word in line]


def test_a_killed_test_run_leaves_nothing(slurm):
    """Not even of a job whose processes are frozen, and runs that start together do not trip over each other."""
    run = subprocess.Popen([PYTHON, "-c", KILLED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=HERE)
    name = run.stdout.readline().strip()
    run.kill()
    run.wait()
    assert name and marked(name) and freezer_cgroups(name)
    with ThreadPoolExecutor() as pool:
        list(pool.map(slurm.lab.nodes, ["reap"] * 4))
    assert not freezer_cgroups(name) and not (STATE / name).exists()
    wait_for(lambda: not marked(name), what=lambda: [cmdline(p) for p in marked(name)])
