"""How jobs of a real Slurm end, and what it sends them meanwhile."""

import json
import os
import re
import signal
import subprocess
import time

import pytest

from harness import HERE, LAUNCH, PATIENCE, PYTHON, kill_all, wait_for

TOLD = f"{PYTHON} {HERE}/workers/told.py ."
RUN = f"{LAUNCH} --nproc-per-node 2 {TOLD}"


def told(slurm):
    """What each worker has been sent, by rank."""
    return {int(p.suffix[1:]): p.read_text().split() for p in slurm.folder.glob("told.*")}


def all_told(slurm, *signals):
    """Waits until all four workers have been sent this, and no more."""
    want = {rank: list(signals) for rank in range(4)}
    wait_for(lambda: told(slurm) == want, PATIENCE, 0.05, lambda: told(slurm))


HOW = {"steps": [], "script": ["-b"], "all": ["-f"]}


@pytest.mark.parametrize("how", HOW)
def test_a_signal_of_scancel_reaches_each_worker_once_and_the_job_goes_on(slurm, how):
    job = slurm.submit(f"exec {RUN}", "-N2")
    slurm.expect(job, "runs", 4)
    slurm.cancel(job, "-s", "USR1", *HOW[how])
    all_told(slurm, "SIGUSR1")
    slurm.cancel(job, "-s", "USR2", *HOW[how])
    all_told(slurm, "SIGUSR1", "SIGUSR2")
    slurm.cancel(job, "-s", "USR1", *HOW[how])
    all_told(slurm, "SIGUSR1", "SIGUSR2", "SIGUSR1")
    assert slurm.show(job)["JobState"] == "RUNNING"
    slurm.cancel(job)
    slurm.wait(job)
    all_told(slurm, "SIGUSR1", "SIGUSR2", "SIGUSR1", "SIGTERM", "saved")


def test_a_signal_to_a_launch_on_every_node_reaches_each_worker_once(slurm):
    """Each of them hears it from Slurm, and passes it on to its own workers alone."""
    typed = f"{LAUNCH} --nnodes 2 --nproc-per-node 2 --rdzv-endpoint node0:29471 {TOLD}"
    job = slurm.submit(f"exec srun --ntasks-per-node=1 {typed}", "-N2", "-w", "node0,node1")
    slurm.expect(job, "runs", 4)
    slurm.cancel(job, "-s", "USR1")
    all_told(slurm, "SIGUSR1")
    slurm.cancel(job, "-s", "TERM")
    all_told(slurm, "SIGUSR1", "SIGTERM", "saved")
    slurm.wait(job)


@pytest.mark.parametrize("how", HOW)
def test_sigterm_of_scancel_stops_the_job_and_its_workers_save(slurm, how):
    job = slurm.submit(f"exec {RUN}", "-N2")
    slurm.expect(job, "runs", 4)
    slurm.cancel(job, "-s", "TERM", *HOW[how])
    assert slurm.wait(job)["ExitCode"] == "143:0"
    all_told(slurm, "SIGTERM", "saved")
    said = f"launch was sent SIGTERM in Slurm job {job}; Slurm sends it at scancel, a requeue, preemption, the loss of a node and the time limit"
    assert said in slurm.output(job) and "stopping 4 workers" in slurm.output(job), slurm.output(job)


@pytest.mark.parametrize("signo", [signal.SIGINT, signal.SIGHUP, signal.SIGQUIT], ids=lambda signo: signo.name)
def test_other_stop_signals_of_scancel_stop_it_likewise(slurm, signo):
    """Slurm sends them to the step alone, whose agents say so."""
    job = slurm.submit(f"exec {LAUNCH} --nproc-per-node 1 bash -c 'trap \"echo saved; exit 0\" {signo.name[3:]}; echo runs; while :; do sleep 0.1; done'", "-N2")
    slurm.expect(job, "runs", 2)
    slurm.cancel(job, "-s", signo.name[3:])
    assert slurm.wait(job)["ExitCode"] == f"{128 + signo}:0"
    assert slurm.output(job).count("saved") == 2 and slurm.output(job).count("stopping 2 workers") == 1, slurm.output(job)


# By sbatch's options: what each worker is sent, and how the job is called then. Slurm warns at the first look that is
# within 30 s of the time asked for; with a longer time that would be while a job's agents start.
LIMITS = {
    "": (["SIGTERM", "saved"], "TIMEOUT"),
    "--signal=USR1@10": (["SIGUSR1"], "RUNNING"),
    "--signal=B:USR1@10": (["SIGUSR1"], "RUNNING"),
    "--signal=TERM@10": (["SIGTERM", "saved"], "FAILED"),
    "--signal=B:TERM@10": (["SIGTERM", "saved"], "FAILED"),
}


def test_the_time_limit_and_its_warning_reach_each_worker_once(slurm):
    """All at once: Slurm looks at its jobs' time every half minute."""
    jobs = {}
    ends = "export SLURM_JOB_END_TIME=$(($(date +%s) + 1)); "  # as newer ones say it
    for options in LIMITS:
        (slurm.folder / f"of{options}").mkdir()
        script = f"cd of{options}; {ends if not options else ''}exec {LAUNCH} --nproc-per-node 1 {TOLD}"
        jobs[options] = slurm.submit(script, "-N2", "--time=1", *options.split())
    for job in jobs.values():
        slurm.expect(job, "runs", 2)
    slurm.command("scontrol", "update", f"JobId={jobs['']}", "EndTime=now+1")
    for options, (sent, state) in LIMITS.items():
        said = lambda: [path.read_text().split() for path in (slurm.folder / f"of{options}").glob("told.*")]
        wait_for(lambda: said() == [sent, sent], PATIENCE, 0.1, lambda: (options, said()))
        assert slurm.wait(jobs[options], state)["JobState"] == state
        times = slurm.output(jobs[options]).count("SIGTERM: stopping 2 workers")
        assert times == sent.count("SIGTERM"), slurm.output(jobs[options])
        slurm.cancel(jobs[options])
    assert "DUE TO TIME LIMIT" in slurm.output(jobs[""]), slurm.output(jobs[""])
    assert f"Slurm job {jobs['']} was ended by Slurm (SIGTERM): its time limit is over" in slurm.output(jobs[""]), slurm.output(jobs[""])


# By the partition, which says what is done with jobs in the way of others.
PREEMPTED = {"cancelled": "FAILED", "requeued": "PENDING"}


@pytest.mark.parametrize("partition", PREEMPTED)
def test_a_job_that_makes_room_for_another_saves_first(slurm, partition):
    job = slurm.submit(f"exec {RUN}", "-N2", "--exclusive", "-w", "node0,node1", "-p", partition)
    slurm.expect(job, "runs", 4)
    other = slurm.submit("exec sleep 1000", "-N2", "--exclusive", "-w", "node0,node1")
    slurm.wait(other, "RUNNING")
    all_told(slurm, "SIGTERM", "saved")
    assert slurm.show(job)["JobState"] == PREEMPTED[partition]
    assert "  exit code 143\n" in slurm.output(job), slurm.output(job)


SHELL_DIES = "the script's shell dies at once"


def test_a_script_whose_shell_dies_of_scancel_leaves_the_workers_of_all_nodes_their_time(slurm):
    """They save without launch, which is killed with the shell; it has said so at the start."""
    job = slurm.submit(f"{RUN}; true", "-N2")
    slurm.expect(job, "runs", 4)
    assert slurm.output(job).count(SHELL_DIES) == 1 and "write 'exec launch ...'" in slurm.output(job), slurm.output(job)
    slurm.cancel(job)
    slurm.wait(job)
    all_told(slurm, "SIGTERM", "saved")
    assert "exit code" not in slurm.output(job), slurm.output(job)


@pytest.mark.parametrize("script", ["exec {}", "trap : TERM\n{}; exit"], ids=["exec", "trap"])
def test_a_script_that_does_as_it_is_told_has_the_report(slurm, script):
    job = slurm.submit(script.format(RUN), "-N2")
    slurm.expect(job, "runs", 4)
    slurm.cancel(job)
    slurm.wait(job)
    all_told(slurm, "SIGTERM", "saved")
    assert "  exit code 143\n" in slurm.output(job) and SHELL_DIES not in slurm.output(job), slurm.output(job)


# One node: its agent is in a step, too, where the script's shell waits for launch.
ONE_NODE = {"plain": "{}; true", "trap": "trap : TERM\n{}; exit", "wait": "{} & P=$!; trap 'kill -TERM $P; wait $P' TERM; wait $P"}


@pytest.mark.parametrize("how", ONE_NODE)
def test_on_one_node_the_workers_of_a_script_s_launch_have_time_to_save(slurm, how):
    job = slurm.submit(ONE_NODE[how].format(RUN), "-N1")
    slurm.expect(job, "runs", 2)
    slurm.cancel(job)
    slurm.wait(job)
    want = {rank: ["SIGTERM", "saved"] for rank in range(2)}
    wait_for(lambda: told(slurm) == want, PATIENCE, 0.05, lambda: (told(slurm), slurm.output(job)))
    assert ("  exit code 143\n" in slurm.output(job)) == (how != "plain"), slurm.output(job)
    assert slurm.output(job).count(SHELL_DIES) == (how == "plain"), slurm.output(job)


def test_on_one_node_a_warning_and_the_time_limit_reach_the_workers_of_a_script_s_launch(slurm):
    """With and without a trap. All at once: Slurm looks at its jobs' time every half minute."""
    wants = {"--signal=USR1@10": ["SIGUSR1"], "": ["SIGTERM", "saved"]}
    jobs = {}
    for how in ("plain", "trap"):
        for options in wants:
            (slurm.folder / f"{how}{options}").mkdir()
            script = ONE_NODE[how].format(f"{LAUNCH} --nproc-per-node 1 {TOLD}")
            jobs[how, options] = slurm.submit(f"cd {how}{options}\n{script}", "-N1", "--time=1", *options.split())
    for (how, options), job in jobs.items():
        slurm.expect(job, "runs")
        if not options:
            slurm.command("scontrol", "update", f"JobId={job}", "EndTime=now+1")
    for (how, options), job in jobs.items():
        said = lambda: [path.read_text().split() for path in (slurm.folder / f"{how}{options}").glob("told.*")]
        wait_for(lambda: said() == [wants[options]], PATIENCE, 0.1, lambda: (how, options, said(), slurm.output(job)))
        assert slurm.show(job)["JobState"] == "RUNNING" if options else slurm.wait(job)["JobState"] == "TIMEOUT"
        slurm.cancel(job)
    assert "  exit code 143\n" in slurm.output(jobs["trap", ""]), slurm.output(jobs["trap", ""])


# What a step would not see as launch does: its CPUs, a file of bash's own. Then its workers are launch's children, as before.
OWN = {"taskset -c 0 {} -n 1 echo bound": "bound\n", "{} -n 1 cat <(echo passed)": "passed\n", "unshare -m {} -n 1 echo mine": "mine\n"}


@pytest.mark.parametrize("words", OWN)
def test_on_one_node_a_launch_with_something_of_its_own_starts_no_step(slurm, words):
    text = slurm.run(words.format(f"{LAUNCH} --no-prefix") + "; true", "-N1", "--exclusive")
    assert text.endswith(OWN[words]) and "before its workers can save: write 'exec launch ...'" in text and "trap" not in text, text


def test_on_one_node_a_step_gives_what_a_child_would(slurm):
    """stdin, exit code, output as it is written, the GPUs that the user has chosen, counts, --plan and --explain-env."""
    script = f"""
        echo in | {LAUNCH} -n 1 cat; {LAUNCH} -n 1 bash -c 'exit 7'; echo code $?
        CUDA_VISIBLE_DEVICES=1 {LAUNCH} -n 1 bash -c 'echo gpus $CUDA_VISIBLE_DEVICES name $SLURM_JOB_NAME'
        PATH=/nonexistent {LAUNCH} -n 1 /bin/echo no srun
        {LAUNCH} --plan true | grep -c 'srun --nodes=1'; {LAUNCH} --explain-env true | grep -o 'LOCAL_WORLD_SIZE=[0-9]*' | head -1
        {LAUNCH} --detach --name d -n 1 bash -c 'echo detached; exit 3' > d.out 2>&1; {LAUNCH} attach d; echo code $?; {LAUNCH} logs d
        {LAUNCH} doctor | grep -c node0
    """
    text = slurm.run(script, "-N1", "-n3", "--gpus-per-node=2", "-J", "mine", "-w", "node0")
    assert "in\n" in text and "code 7\n" in text and "gpus 1 name mine\n" in text and "no srun\n" in text, text
    assert "detached\n" in text and "code 3\n" in text and "\n1\n" in text and text.count(SHELL_DIES) == 1, text


# Of an srun that is there and starts nothing: slurmctld is down, or does not answer.
NO_STEP = {"down": "echo 'srun: error: Unable to confirm allocation for job: Unable to contact slurm controller' >&2; exit 1", "silent": "exec sleep 1000"}


@pytest.mark.parametrize("why", NO_STEP)
def test_on_one_node_a_launch_that_gets_no_step_starts_its_workers_without(slurm, why):
    script = f"""
        mkdir bin; printf '#!/bin/sh\\n%s\\n' "{NO_STEP[why]}" > bin/srun; chmod +x bin/srun
        PATH=$PWD/bin:$PATH {LAUNCH} --no-prefix -n 2 bash -c 'echo rank $RANK of job $SLURM_JOB_ID; exit $((3 * (1 - RANK)))'; echo code $?
    """
    text = slurm.run(script, "-N1", "-n2")
    assert "rank 0 of job" in text and text.endswith("code 3\n"), text
    assert text.count("Slurm has started no step for the agent (node") == 1 and "it is started without one" in text, text
    slurm.lab.expect_quiet()


def test_on_one_node_a_rank_of_a_step_has_the_terminal(slurm):
    """In a batch script there is none but what a program makes, as script(1) does."""
    text = slurm.run(f"{PYTHON} {HERE}/workers/ptyrun.py {LAUNCH} -n 1 --pty 0 bash -c 'tty && echo has one' < /dev/null; true", "-N1")
    assert "has one" in text, text


def test_on_one_node_a_step_keeps_a_journal_and_serves_mpi(slurm, scratch):
    made = scratch / "mpi"
    subprocess.run(["mpicc.mpich", "-o", made, HERE / "workers/mpi.c"], check=True)
    text = slurm.run(f"{LAUNCH} --journal {scratch}/j -n 2 bash -c 'echo rank $RANK'; echo code $?; {LAUNCH} -n 2 {made}; echo mpi $?", "-N1", "-n2")
    assert "rank 0" in text and "rank 1" in text and "code 0\n" in text and text.endswith("mpi 0\n"), text


def test_a_job_that_slurm_suspends_is_no_ctrl_z(slurm):
    job = slurm.submit(f"exec srun --ntasks-per-node=1 {LAUNCH} --nproc-per-node 1 bash -c 'echo up; while :; do sleep 0.1; done'", "-N2")
    slurm.expect(job, "up", 2)
    slurm.command("scontrol", "suspend", job)
    slurm.wait(job, "SUSPENDED")
    slurm.command("scontrol", "resume", job)
    slurm.wait(job, "RUNNING")
    slurm.cancel(job)
    slurm.wait(job)
    assert "Ctrl-Z" not in slurm.output(job), slurm.output(job)


def test_an_allocation_s_shell_is_no_script(slurm):
    result = slurm.alloc(f"{LAUNCH} --nproc-per-node 1 true; true", "-N2")
    assert result.code == 0 and SHELL_DIES not in result.errors, result


# By the job's end and the user's words: what launch says that a stop leaves the workers.
LEFT = [("", "", r"3\.8 s"), ("60", "", r"[45]\d\.\d s"), ("3600", "", r"3\.8 s"), ("10", "--grace 300", r"1[0-5]\.\d s"), ("", "--grace 17", r"17\.0 s")]


@pytest.mark.parametrize("ends, options, left", LEFT)
def test_a_stop_leaves_what_the_job_s_end_does(slurm, ends, options, left):
    until = f"export SLURM_JOB_END_TIME=$(($(date +%s) + {ends}))" if ends else "unset SLURM_JOB_END_TIME"
    job = slurm.submit(f"{until}; exec {LAUNCH} --verbose {options} --nproc-per-node 2 {TOLD}", "-N2")
    slurm.expect(job, "runs", 4)
    assert bool(ends) == (f"Slurm job {job} ends in " in slurm.output(job)), slurm.output(job)
    slurm.cancel(job, "-b", "-s", "TERM")
    slurm.wait(job)
    assert re.search(f"SIGTERM: stopping 4 workers; what still runs in {left} is killed", slurm.output(job)), slurm.output(job)


def test_while_the_workers_of_a_slurm_job_save_it_says_how_many_and_how_long(slurm):
    job = slurm.submit(f"exec {LAUNCH} --nproc-per-node 2 --grace 60 bash -c 'trap \"\" TERM; echo runs; exec sleep 1000'", "-N2")
    slurm.expect(job, "runs", 4)
    slurm.cancel(job, "-b", "-s", "TERM")
    wait_for(lambda: re.search(r"waiting for 4 workers \(checkpointing\?\), [45]\d s left", slurm.output(job)), PATIENCE, 0.1, lambda: slurm.output(job))


def test_an_end_that_is_no_time_is_refused_by_name(slurm):
    result = slurm.alloc(f"SLURM_JOB_END_TIME=soon {LAUNCH} --nproc-per-node 1 true", "-N1")
    assert result.code == 2 and "SLURM_JOB_END_TIME=soon: want a number" in result.errors, result


def begin_again(slurm, job):
    """A requeued job. Slurm waits two minutes instead: a job that begins sooner is taken to have ended when its first life has, and in the same
    second its credential is taken for the old one."""
    wait_for(lambda: not any("slurmstepd" in line for p in slurm.lab.processes().values() for line in p.values()))
    slurm.command("scontrol", "update", f"JobId={job}", "StartTime=now+2")


def test_a_job_that_is_requeued_knows_it(slurm):
    """In its first line, its report, and by a MUSTER_ROUND that has grown."""
    worker = "echo round $MUSTER_ROUND restarts $SLURM_RESTART_COUNT.$TORCHELASTIC_RESTART_COUNT; exec sleep 1000"
    job = slurm.submit(f"exec {LAUNCH} --report report.json --nproc-per-node 1 bash -c '{worker}'", "-N2", "--requeue")
    slurm.expect(job, "round 4294967297 restarts .0", 2)
    slurm.command("scontrol", "requeue", job)
    slurm.wait(job, "PENDING")
    begin_again(slurm, job)
    slurm.expect(job, "round 8589934593 restarts 1.0", 2)
    assert "muster: Slurm has restarted this job 1 time" in slurm.output(job), slurm.output(job)
    slurm.cancel(job)
    slurm.wait(job)
    report = json.loads((slurm.folder / "report.json").read_text())
    assert (report["requeued"], report["restarts"]) == (1, 0), report
    assert "  before: Slurm has restarted this job 1 time\n" in slurm.output(job), slurm.output(job)


@pytest.mark.parametrize("start", ["exec", "exec srun --ntasks-per-node=1"], ids=["launch", "srun"])
def test_a_job_that_is_requeued_keeps_its_ranks_by_the_journal(slurm, start):
    """Those of the node that is there again, which would be the first one now; the other's go to the one that is new."""
    worker = "echo round $MUSTER_ROUND rank $RANK of $WORLD_SIZE on $(hostname); exec sleep 1000"
    launch = f"{LAUNCH} --journal x.journal --report report.json --nproc-per-node 1 bash -c '{worker}'"
    job = slurm.submit(f"{start} {launch}", "-N2", "-w", "node0,node1", "--requeue")
    for rank in range(2):
        slurm.expect(job, f"round 4294967297 rank {rank} of 2 on node{rank}")
    slurm.command("scontrol", "requeue", job)
    slurm.wait(job, "PENDING")
    slurm.command("scontrol", "update", f"JobId={job}", "ReqNodeList=node1,node2")
    begin_again(slurm, job)
    for rank, node in (0, "node2"), (1, "node1"):
        slurm.expect(job, f"round 8589934593 rank {rank} of 2 on {node}")
    again = "round 1.1 on node[0-1]: Slurm has started the job again (SLURM_RESTART_COUNT=1)"
    assert f"muster: the nodes that are there again keep their ranks: {again}\n" in slurm.output(job), slurm.output(job)
    slurm.cancel(job, "-s", "TERM")
    slurm.wait(job)
    assert f"  before: {again}\n" in slurm.output(job), slurm.output(job)
    report = json.loads((slurm.folder / "report.json").read_text())
    assert (report["requeued"], report["history"]) == (1, [again]), report


@pytest.mark.parametrize("start", ["exec", "exec srun --ntasks-per-node=1"], ids=["launch", "srun"])
def test_a_job_that_has_ended_well_leaves_nothing_in_its_journal(slurm, start):
    slurm.run(f"{start} {LAUNCH} --journal x.journal --nproc-per-node 1 true", "-N2")
    assert list((slurm.folder / "x.journal").iterdir()) == []


@pytest.mark.parametrize("nodes, lost", [("node1,node2", 1), ("node0,node2", 2)], ids=["script", "other"])
def test_slurm_starts_a_job_again_whose_node_has_crashed(slurm, nodes, lost):
    """The node that runs the script, or another: then launch, which knows it at once, waits for Slurm, or the job would have failed."""
    worker = "echo restarts $SLURM_RESTART_COUNT. on $(hostname); exec sleep 1000"
    job = slurm.submit(f"exec {LAUNCH} --nproc-per-node 1 bash -c '{worker}'", "-N2", "-w", nodes, "--requeue", "--open-mode=append")
    slurm.expect(job, "restarts . on node", 2)
    slurm.lab[lost].kill()
    try:
        if lost == 2:
            slurm.expect(job, "muster: Slurm starts this job again when it finds node2 down itself, which may take 47s")
        wait_for(lambda: slurm.show(job)["JobState"] == "PENDING", 2 * PATIENCE, 0.2, lambda: (slurm.show(job), slurm.output(job)))
    finally:
        slurm.lab[lost].boot()
    begin_again(slurm, job)
    slurm.expect(job, "restarts 1. on node", 2)
    assert "muster: Slurm has restarted this job 1 time" in slurm.output(job), slurm.output(job)
    slurm.cancel(job)
    slurm.wait(job)


def test_a_step_that_is_cancelled_has_lost_no_node(slurm):
    """scancel kills its agents at once; nothing has to be waited for."""
    job = slurm.submit(f"exec {LAUNCH} --nproc-per-node 1 bash -c 'echo up; exec sleep 1000'", "-N2", "--requeue")
    slurm.expect(job, "up", 2)
    slurm.cancel(f"{job}.0")
    assert slurm.wait(job)["ExitCode"] == "1:0"
    text = slurm.output(job)
    assert f"*** STEP {job}.0 ON node0 CANCELLED AT" in text and "starts this job again" not in text, text


# Slurm itself notices both after half a minute.
GONE = {"crash": ("kill", "boot", "its connection closed"), "hang": ("freeze", "thaw", "no beat for")}


@pytest.mark.parametrize("how", GONE)
def test_a_job_goes_on_without_a_node_that_is_lost(slurm, how):
    lose, back, why = GONE[how]
    worker = "echo rank $RANK of $WORLD_SIZE; exec sleep 1000"
    job = slurm.submit(f"exec {LAUNCH} --nnodes 2:3 --nproc-per-node 1 bash -c '{worker}'", "-N3", "--no-kill")
    slurm.expect(job, " of 3", 3)
    began = time.monotonic()
    getattr(slurm.lab[2], lose)()
    try:
        slurm.expect(job, " of 2", 2)
        assert time.monotonic() - began < 20, slurm.output(job)
        assert re.search(f"muster: node node2 was lost: {why}.*; a round of 2 nodes follows", slurm.output(job)), slurm.output(job)
    finally:
        getattr(slurm.lab[2], back)()
    slurm.cancel(job)
    slurm.wait(job)


def test_an_agent_that_is_killed_is_started_again_by_srun(slurm):
    worker = "echo restarts $TORCHELASTIC_RESTART_COUNT on $(hostname); exec sleep 1000"
    job = slurm.submit(f"exec {LAUNCH} --nproc-per-node 1 --max-restarts 1 bash -c '{worker}'", "-N2", "-w", "node0,node1")
    slurm.expect(job, "restarts 0 on node", 2)
    kill_all(list(slurm.shells[1].ours()))
    slurm.expect(job, "restarts 1 on node", 2)
    assert "node1: its agent is started again" in slurm.output(job), slurm.output(job)
    assert slurm.show(job)["JobState"] == "RUNNING"
    slurm.cancel(job)
    slurm.wait(job)


def test_the_report_names_the_node_that_was_lost(slurm):
    job = slurm.submit(f"exec {LAUNCH} --nproc-per-node 2 {TOLD}", "-N2", "-w", "node0,node2", "--no-requeue")
    slurm.expect(job, "runs", 4)
    slurm.lab[2].kill()
    try:
        slurm.expect(job, "exit code 1")
        assert "node node2 was lost: its connection closed" in slurm.output(job), slurm.output(job)
        assert told(slurm) == {0: ["SIGTERM", "saved"], 1: ["SIGTERM", "saved"], 2: [], 3: []}
    finally:
        slurm.lab[2].boot()
    slurm.wait(job)


# Until it is in this phase, and then it is killed.
PHASES = {
    "starting": ("exec sleep 1000", lambda slurm, job: wait_for(lambda: any("srun" in line for line in slurm.lab[0].processes().values()))),
    "running": ("echo up; exec sleep 1000", lambda slurm, job: slurm.expect(job, "up", 4)),
    "stopping": ("trap \"\" TERM; echo up; while :; do sleep 1; done", lambda slurm, job: (slurm.expect(job, "up", 4), slurm.cancel(job, "-b", "-s", "TERM"), slurm.expect(job, "stopping 4 workers"))),
}


@pytest.mark.parametrize("phase", PHASES)
def test_a_launch_that_is_killed_leaves_nothing_on_any_node(slurm, phase):
    worker, reach = PHASES[phase]
    job = slurm.submit(f"exec {LAUNCH} --nproc-per-node 2 bash -c '{worker}'", "-N2", "-w", "node0,node1")
    reach(slurm, job)
    launch = min(pid for pid, line in slurm.lab[0].processes().items() if line.startswith(str(LAUNCH)))
    os.kill(launch, signal.SIGKILL)
    assert slurm.wait(job)["ExitCode"] == "0:9"
    slurm.lab.expect_quiet()
