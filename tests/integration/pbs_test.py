"""`launch` inside jobs of the PBS look-alike: its nodes, its counts, its end."""

import os
import re
import signal

from harness import LAUNCH

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
