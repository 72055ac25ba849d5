"""What Muster relies on of PBS, seen of the look-alike on emulated hosts (lab/pbs), whose model is OpenPBS 23.06."""

import pytest

from batch import ENV, SHOW, environments, has
from harness import PYTHON


def test_environment_and_nodefile_of_a_pbs_job(pbs):
    job = pbs.submit(f"{SHOW}; cat $PBS_NODEFILE; pwd", "-l", "select=2:ncpus=4:mpiprocs=3")
    assert pbs.wait(job)["JobState"] == "COMPLETED", pbs.output(job)
    (env,) = environments(pbs)
    home = str(pbs.lab[0].home)
    has(
        env, PBS_ENVIRONMENT="PBS_BATCH", PBS_JOBID=job, NCPUS="4", OMP_NUM_THREADS="4", PBS_NODENUM="0", HOME=home,
        PBS_O_WORKDIR=str(pbs.folder), PBS_JOBNAME="job", PBS_QUEUE="workq",
    )  # fmt: skip
    assert job.endswith(".node0") and not [k for k in env if k.startswith(("SLURM", "SBATCH"))], env
    assert pbs.output(job).splitlines() == ["node0"] * 3 + ["node1"] * 3 + [home]


NODEFILES = {
    "select=2:ncpus=1": ["node0", "node1"],
    "select=1:ncpus=2:mpiprocs=2+1:ncpus=1": ["node0", "node0", "node1"],
    "nodes=2:ppn=3": ["node0"] * 3 + ["node1"] * 3,
    "ncpus=3": ["node0"],
}


def test_nodefile(pbs):
    jobs = {pbs.submit(f"#PBS -l {select}\ncat $PBS_NODEFILE"): want for select, want in NODEFILES.items()}
    for job, want in jobs.items():
        assert pbs.wait(job)["JobState"] == "COMPLETED" and pbs.output(job).splitlines() == want, pbs.output(job)


def test_pbsdsh(pbs):
    """A task per line or per host asked for, no shell, no stdin, the job's output, nothing of the script's environment."""
    told = f"pbsdsh -h node1 -- {PYTHON} -c \"{ENV}; print(os.getcwd(), repr(open(0).read()), flush=True)\""
    script = f"""
        export MINE=1
        pbsdsh hostname
        caught=$(pbsdsh -n 2 -- echo 'a  $HOME; b')
        echo "caught <$caught>"
        {told} <<< nothing
    """
    job = pbs.submit(script, "-l", "select=2:ncpus=2:mpiprocs=2")
    assert pbs.wait(job)["JobState"] == "COMPLETED", pbs.output(job)
    said = pbs.output(job).splitlines()
    assert sorted(said[:4]) == ["node0", "node0", "node1", "node1"]
    assert said[4:] == ["a  $HOME; b", "caught <>", f"{pbs.lab[0].home} ''"], said
    (env,) = environments(pbs)
    has(env, PBS_JOBID=job, PBS_NODENUM="1", PATH="/bin:/usr/bin", MINE=None, USER=None, SHELL=None)
    assert "PBS_NODEFILE" in env and not [k for k in env if k.startswith("SLURM")], env


def test_pbsdsh_only_prints_a_status(pbs):
    programs = {"sh -c 'exit 7'": 7, "sh -c 'kill -9 $$'": 265, "no-such-program": 254}
    said = pbs.run("\n".join(f"pbsdsh -n 0 -- {program}; echo is $?" for program in programs)).splitlines()
    assert said == [w for s in programs.values() for w in (f"pbsdsh: task 0x00000000 exit status {s}", "is 0")]


PBS_TOLD = "bash -c 'trap \"echo $(hostname) told TERM\" TERM; echo up; while :; do sleep 0.1; done'"


def told(text):
    """Once each: a shell and its child may be told one after the other."""
    return sorted({line for line in text.splitlines() if line.endswith("told TERM") or line.startswith("is ")})


def test_sigterm_to_pbsdsh_reaches_its_tasks(pbs):
    script = f"""
        pbsdsh {PBS_TOLD} & pbsdsh=$!
        until [ $(grep -c up $PBS_O_WORKDIR/job.o*) = 2 ]; do sleep 0.05; done
        kill $pbsdsh; wait $pbsdsh; echo is $?
        until [ $(grep -c told $PBS_O_WORKDIR/job.o*) = 2 ]; do sleep 0.05; done
    """
    said = pbs.run(script, "-l", "select=2")
    assert told(said) == ["is 1", "node0 told TERM", "node1 told TERM"]
    pbs.lab.expect_quiet()  # the end of the script ended the tasks


# By how a job ends: qsub's options, the Exit_status.
ENDS = {"qdel": ([], "265"), "walltime": (["-l", "walltime=0:00:15"], "-29")}


@pytest.mark.parametrize("end", ENDS)
def test_qdel_and_the_walltime_tell_the_first_host_and_kill_on_all(pbs, end):
    """No pbsdsh passes it on here: the tasks of one that was killed live on."""
    options, status = ENDS[end]
    script = f"""
        trap 'echo script told TERM' TERM
        pbsdsh {PBS_TOLD} &
        until [ $(grep -c up $PBS_O_WORKDIR/job.o*) = 2 ]; do sleep 0.05; done
        kill -9 $!
        echo ready; while :; do sleep 0.1; done
    """
    job = pbs.submit(script, "-l", "select=2", *options)
    pbs.expect(job, "ready")
    if end == "qdel":
        pbs.cancel(job)
    assert pbs.wait(job)["Exit_status"] == status, pbs.output(job)
    pbs.lab.expect_quiet()
    assert told(pbs.output(job)) == ["node0 told TERM", "script told TERM"]


# Three processes: one in a process group of its own, one in a session of its own.
THREE = f"""#!{PYTHON}
import os, signal

name = "first"
for how, leave in (("group", os.setpgrp), ("session", os.setsid)):
    if name == "first" and os.fork() == 0:
        leave()
        name = how
signal.signal(signal.SIGTERM, lambda *_: print(os.uname().nodename, name, "told TERM", flush=True))
print("up", flush=True)
while True:
    signal.pause()
"""


def test_a_signal_is_for_the_whole_session_of_a_task(pbs):
    """Whatever process groups are in it; where qdel reaches a pbsdsh, also on that one's host."""
    program = pbs.folder / "three"
    program.write_text(THREE)
    program.chmod(0o755)
    job = pbs.submit(f"pbsdsh -h node1 -- {program} & exec {program}", "-l", "select=2")
    pbs.expect(job, "up", 6)
    pbs.cancel(job)
    pbs.wait(job)
    assert told(pbs.output(job)) == [f"node{i} {name} told TERM" for i in range(2) for name in ("first", "group")]
    pbs.lab.expect_quiet()
