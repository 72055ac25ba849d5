"""`launch` inside jobs of the PBS look-alike: its nodes, its counts, its end."""

import os
import re
import signal
import time

import pytest

from harness import BIN, EXAMPLES, HERE, LAUNCH, PATIENCE, PYTHON, TORCH_PYTHON, kill_all, wait_for

WHERE = "echo $RANK/$WORLD_SIZE on $(hostname) in $PWD, master $MASTER_ADDR"
# Ends by itself two seconds after it is asked to, as a program that writes a checkpoint.
SAVES = "trap 'sleep 2; echo rank $RANK saved; exit 0' TERM; echo rank $RANK runs; while :; do sleep 0.1; done"


def ranks(text):
    """{rank: rest of its line} of WHERE."""
    return {int(rank): rest for rank, rest in re.findall(r"^(?:\[\S+\] )?(\d+)(/.*)$", text, re.M)}


def test_a_job_runs_as_many_workers_as_lines_where_it_was_handed_in(pbs):
    text = pbs.run(f"exec {LAUNCH} bash -c '{WHERE}'", "-l", "select=2:ncpus=4:mpiprocs=3")
    assert ranks(text) == {rank: f"/6 on node{rank // 3} in {pbs.folder}, master 10.77.0.1" for rank in range(6)}, text
    assert re.search(r"muster: PBS job \d+\.node0: 3\(x2\) workers on 2 nodes, as many as its lines in PBS_NODEFILE \(", text), text
    assert f"muster: the workers run in {pbs.folder}, where the job was handed in" in text, text


def test_the_worker_s_code_is_the_job_s(pbs):
    job = pbs.submit(f"exec {LAUNCH} --nproc-per-node 2 bash -c 'exit $((RANK == 3 ? 7 : 0))'", "-l", "select=2")
    assert pbs.wait(job)["Exit_status"] == "7"
    assert "rank 3 on node" in pbs.output(job), pbs.output(job)


def test_qdel_gives_the_workers_of_all_nodes_time_to_save(pbs):
    job = pbs.submit(f"exec {LAUNCH} --nproc-per-node 2 bash -c '{SAVES.replace(chr(39), chr(34))}'", "-l", "select=2")
    pbs.expect(job, " runs", 4)
    pbs.cancel(job)
    pbs.wait(job)
    assert pbs.output(job).count(" saved") == 4, pbs.output(job)


# The time is for the file, as a large checkpoint needs it.
CHECKPOINT = "trap 'sleep 2; hostname > checkpoint.$RANK; exit 0' TERM; echo rank $RANK runs; while :; do sleep 0.1; done"


# By what is in the environment: what the report says.
WALLTIME = {"": "launch was sent SIGTERM in PBS job {}; PBS sends it at qdel and the walltime", "export PBS_WALLTIME=15; ": r"PBS job {} was ended by PBS \(SIGTERM\): its walltime of 15\.0 s is over"}


@pytest.mark.parametrize("torque", WALLTIME, ids=("openpbs", "torque"))
def test_the_end_of_the_walltime_gives_the_workers_of_all_nodes_time_to_save(pbs, torque):
    """OpenPBS tells the first host alone. It says nowhere in a job's environment how long that may run; Torque does."""
    script = f"{torque}exec {LAUNCH} --nproc-per-node 2 bash -c '{CHECKPOINT.replace(chr(39), chr(34))}'"
    job = pbs.submit(script, "-l", "select=2", "-l", "walltime=0:00:15")
    pbs.expect(job, " runs", 4)
    assert pbs.wait(job)["Exit_status"] == "-29", pbs.output(job)
    saved = {path.suffix: path.read_text() for path in pbs.folder.glob("checkpoint.*")}
    assert saved == {f".{rank}": f"node{rank // 2}\n" for rank in range(4)}, (saved, pbs.output(job))
    assert re.search("=>> PBS: job killed: walltime .* exceeded limit 15\n.*SIGTERM: stopping 4 workers", pbs.output(job), re.S), pbs.output(job)
    assert re.search(WALLTIME[torque].format(job), pbs.output(job)), pbs.output(job)
    assert "  exit code 143\n" in pbs.output(job), pbs.output(job)
    pbs.lab.expect_quiet()


def all_told(pbs, workers, *signals):
    """Waits until all workers (told.py) have been sent this, and no more."""
    want = {rank: list(signals) for rank in range(workers)}
    told = lambda: {int(p.suffix[1:]): p.read_text().split() for p in pbs.folder.glob("told.*")}
    wait_for(lambda: told() == want, PATIENCE, 0.05, lambda: told())


# By how launch is started: PBS signals all processes of its session, launch passes on what it hears.
WAYS = {"hosts": ("", 2), "one machine": ("--standalone --nnodes 1", 1), "agent beside launch": ("--standalone --nnodes 2", 2)}


@pytest.mark.parametrize("way", WAYS)
def test_what_pbs_sends_to_the_first_host_reaches_each_worker_once(pbs, way):
    options, nodes = WAYS[way]
    launch = f"{LAUNCH} {options} --nproc-per-node 2 {PYTHON} {HERE}/workers/told.py {pbs.folder}"
    job = pbs.submit(f"exec {launch}", "-l", "select=2")
    pbs.expect(job, "runs", 2 * nodes)
    youngest = max(path.stat().st_ctime for path in pbs.folder.glob("told.*"))
    wait_for(lambda: time.time() > youngest + 0.5, 10, 0.05, lambda: "workers that PBS has certainly seen")  # B2 of session_signals
    sent = []
    for signo in ("USR1", "USR2", "USR1"):  # one by one: two of a kind that wait are one
        pbs.command("qsig", "-s", signo, job)
        sent.append(f"SIG{signo}")
        all_told(pbs, 2 * nodes, *sent)
    pbs.cancel(job)
    pbs.wait(job)
    all_told(pbs, 2 * nodes, "SIGUSR1", "SIGUSR2", "SIGUSR1", "SIGTERM", "saved")
    assert f"launch was sent SIGTERM in PBS job {job}; PBS sends it at qdel" in pbs.output(job), pbs.output(job)


def test_a_signal_to_launch_alone_reaches_each_worker_of_a_pbs_job_once(pbs):
    launch = f"{LAUNCH} --nproc-per-node 2 {PYTHON} {HERE}/workers/told.py {pbs.folder}"
    job = pbs.submit(f"exec {launch}", "-l", "select=2")
    pbs.expect(job, "runs", 4)
    (pid,) = processes(pbs.lab[0], f"{LAUNCH} ")
    os.kill(pid, signal.SIGUSR1)
    all_told(pbs, 4, "SIGUSR1")
    os.kill(pid, signal.SIGTERM)
    pbs.wait(job)
    all_told(pbs, 4, "SIGUSR1", "SIGTERM", "saved")


@pytest.mark.parametrize("before", ("", "unset PBS_JOBCOOKIE; "), ids=("cookie", "file"))
def test_an_agent_that_is_killed_is_started_again_by_pbsdsh(pbs, before):
    """Without the cookie by the secret's file, which is put back for it, and goes again."""
    worker = "echo restarts $TORCHELASTIC_RESTART_COUNT on $(hostname); exec sleep 1000"
    job = pbs.submit(f"{before}exec {LAUNCH} --nproc-per-node 1 --max-restarts 1 bash -c '{worker}'", "-l", "select=2")
    pbs.expect(job, "restarts 0 on node", 2)
    kill_all(list(pbs.shells[1].ours()))
    pbs.expect(job, "restarts 1 on node", 2)
    assert "node1: its agent is started again" in pbs.output(job), pbs.output(job)
    assert list(pbs.folder.glob(".muster-*")) == []
    pbs.cancel(job)
    pbs.wait(job)
    assert list(pbs.folder.glob(".muster-*")) == []


def test_torch_trains_on_two_hosts(pbs):
    text = pbs.run(f"exec {LAUNCH} {TORCH_PYTHON} {EXAMPLES}/sgd.py", "-l", "select=2:ncpus=4:mpiprocs=4")
    assert "over 8 ranks" in text and "replicas are bit-equal" in text, text


def test_workers_elsewhere_find_what_the_script_has_set(pbs):
    tools = pbs.folder / "tools"
    tools.mkdir()
    (tools / "tool").write_text(f"#!{PYTHON}\nimport os\nprint('at', os.environ['RANK'], os.environ['PBS_NODENUM'], os.getcwd(), os.environ['LR'])\n")
    (tools / "tool").chmod(0o755)
    script = f"cd tools_of_home; export PATH={tools}:$PATH LR=0.1 TMPDIR=/nowhere; exec {LAUNCH} --nproc-per-node 1 tool"
    (pbs.lab[0].home / "tools_of_home").mkdir()
    text = pbs.run(script, "-l", "select=2")
    found = dict(re.findall(r"at (\d) (\d \S+ \S+)$", text, re.M))
    assert found == {str(rank): f"{rank} {pbs.lab[0].home}/tools_of_home 0.1" for rank in range(2)}, text


def test_a_node_file_with_domains_and_two_jobs_at_once(pbs):
    """Of the first host only: the look-alike knows its hosts by their short names."""
    one = f"{LAUNCH} --nproc-per-node 2 bash -c '{WHERE}'"
    script = f"""
        sed s/node0/node0.lab.example/ $PBS_NODEFILE > nodefile.$PBS_JOBID
        export PBS_NODEFILE=$PWD/nodefile.$PBS_JOBID
        {one} > $PBS_O_WORKDIR/a & {one} > $PBS_O_WORKDIR/b; wait $!
    """
    pbs.run(script, "-l", "select=2")
    for name in "ab":
        assert [rest.split(" in")[0] for _, rest in sorted(ranks((pbs.folder / name).read_text()).items())] == [
            "/4 on node0", "/4 on node0", "/4 on node1", "/4 on node1"
        ]  # fmt: skip


def test_the_plan_and_the_environment_before_the_start(pbs):
    script = f"{LAUNCH} --plan true; {LAUNCH} --nproc-per-node 2 --explain-env=3 true"
    text = pbs.run(script, "-l", "select=2:ncpus=4:mpiprocs=2")
    assert re.search(r"1 +node1 +2 +2-3 +pbsdsh: pbsdsh -h node1 -- \S+/muster-agent --dial node1 JOB KEY ADDRESS:PORT", text), text
    assert f"in       {pbs.folder}\n" in text and re.search(r"^  RANK +3 ", text, re.M), text
    assert re.search(r"^  OMP_NUM_THREADS +\d+ +CPUs [\d,-]+ of node1: \d+ cores? of its own", text, re.M), text


def test_an_agent_that_is_not_there_is_named(pbs):
    for file in ("launch", "muster-agent"):  # /tmp is each host's own
        pbs.lab[0].run(["cp", BIN / file, f"/tmp/{file}"], check=True)
    job = pbs.submit("exec /tmp/launch --nproc-per-node 1 true", "-l", "select=2")
    assert pbs.wait(job)["Exit_status"] == "1"
    assert "node1: PBS could not run the agent (status 254): is its program at the same path there?" in pbs.output(job)


def test_a_pbsdsh_that_is_not_there_is_named(pbs):
    job = pbs.submit(f"export PATH=/nonexistent; exec {LAUNCH} --nproc-per-node 1 /bin/true", "-l", "select=2")
    assert pbs.wait(job)["Exit_status"] == "1"
    assert "node1: pbsdsh: not found in PATH (/nonexistent)" in pbs.output(job), pbs.output(job)


def test_without_a_cookie_a_file_carries_the_secret_and_goes(pbs):
    job = pbs.submit(f"unset PBS_JOBCOOKIE; exec {LAUNCH} --nproc-per-node 1 bash -c 'echo runs; exec sleep 1'", "-l", "select=2")
    pbs.expect(job, "runs", 2)
    assert list(pbs.folder.glob(".muster-*")) == []
    assert pbs.wait(job)["Exit_status"] == "0", pbs.output(job)


def processes(host, start):
    return [pid for pid, line in host.processes().items() if line.startswith(start)]


def test_a_job_outlives_its_pbsdsh(pbs):
    go = pbs.folder / "go"
    job = pbs.submit(f"exec {LAUNCH} --nproc-per-node 1 bash -c 'echo up; until [ -e {go} ]; do sleep 0.1; done; echo done'", "-l", "select=2")
    pbs.expect(job, "up", 2)
    (pbsdsh,) = [pid for pid, line in pbs.lab[0].processes().items() if "/pbsdsh -h node1" in line]
    os.kill(pbsdsh, signal.SIGKILL)
    wait_for(lambda: not [line for line in pbs.lab[0].processes().values() if "/pbsdsh -h node1" in line], 10, 0.05, lambda: "pbsdsh's end")
    go.touch()
    assert pbs.wait(job)["Exit_status"] == "0", pbs.output(job)
    assert pbs.output(job).count("done") == 2 and "pbsdsh" not in pbs.output(job), pbs.output(job)


def test_a_launch_that_is_killed_leaves_nothing(pbs):
    """While the script goes on, which would keep the job's processes alive."""
    go = pbs.folder / "go"
    job = pbs.submit(f"{LAUNCH} --nproc-per-node 2 bash -c 'echo up; exec sleep 1000'; until [ -e {go} ]; do sleep 0.1; done", "-l", "select=2")
    pbs.expect(job, "up", 4)
    (launch,) = processes(pbs.lab[0], f"{LAUNCH} ")
    os.kill(launch, signal.SIGKILL)
    gone = lambda: not any(processes(host, words) for host in pbs.lab for words in ("sleep 1000", str(BIN)))
    wait_for(gone, 20, 0.1, lambda: [host.processes() for host in pbs.lab])
    go.touch()
    pbs.wait(job)


def test_tasks_of_pbsdsh_are_refused_with_the_way_out(pbs):
    text = pbs.run(f"pbsdsh {LAUNCH} true", "-l", "select=2")
    assert text.count("launch is a task of pbsdsh") == 2 and "leave pbsdsh out" in text, text


def test_a_notice_of_each_host_names_it_once(pbs):
    """That of the first comes through launch, the others' by pbsdsh."""
    job = pbs.submit(f"exec taskset -c 0 {LAUNCH} --nproc-per-node 1 bash -c 'echo up'", "-l", "select=2")
    pbs.wait(job)
    assert re.search("^muster: node0: workers may use CPU 0 alone", pbs.output(job), re.M), pbs.output(job)
    assert "qsub -l select=1:ncpus=N" in pbs.output(job) and "srun" not in pbs.output(job), pbs.output(job)
    assert pbs.output(job).count("muster: node0: workers may use") == 1, pbs.output(job)
