"""`launch` inside jobs of a real Slurm: its nodes, its counts, its end."""

import os
import re
import signal

import pytest

from harness import LAUNCH

WHERE = "echo $RANK/$WORLD_SIZE on $(hostname) task $SLURM_PROCID.$SLURM_LOCALID of $SLURM_NTASKS, master $MASTER_ADDR"
# Ends by itself a moment after it is asked to, as a program that writes a checkpoint.
SAVES = "trap 'sleep 1; echo rank $RANK saved; exit 0' TERM; echo rank $RANK runs; while :; do sleep 0.1; done"


def ranks(text):
    """{rank: rest of its line} of WHERE."""
    return {int(rank): rest for rank, rest in re.findall(r"^(?:\[\S+\] )?(\d+)(/.*)$", text, re.M)}


def test_a_job_runs_as_many_workers_as_tasks_on_its_nodes(slurm):
    text = slurm.run(f"exec {LAUNCH} bash -c '{WHERE}'", "-N2", "--ntasks-per-node=3", "-w", "node0,node1")
    assert ranks(text) == {
        rank: f"/6 on node{rank // 3} task {rank}.{rank % 3} of 6, master 10.77.0.1" for rank in range(6)
    }, text
    assert re.search(r"muster: Slurm job \d+: 3\(x2\) workers on 2 nodes, as many as its tasks", text), text


def test_counts_of_the_command_win_and_uneven_tasks_are_kept(slurm):
    script = f"{LAUNCH} --nproc-per-node 1 bash -c '{WHERE}'; echo; {LAUNCH} bash -c '{WHERE}'; {LAUNCH} --nnodes 1 -n 1 echo alone"
    result = slurm.alloc(script, "-N2", "-n3", "-w", "node0,node1")
    first, second = result.text.split("\n\n")
    assert [ranks(first)[r].split(" task")[0] for r in range(2)] == ["/2 on node0", "/2 on node1"], result
    on = [ranks(second)[r].split(" task")[0] for r in range(3)]
    assert on in (["/3 on node0", "/3 on node0", "/3 on node1"], ["/3 on node0", "/3 on node1", "/3 on node1"]), result
    assert "alone" in second, result


def test_a_submit_host_that_is_not_of_the_allocation(slurm):
    result = slurm.alloc(f"{LAUNCH} --nproc-per-node 2 bash -c '{WHERE}'", "-N2", "-w", "node1,node2")
    assert sorted(ranks(result.text)) == [0, 1, 2, 3], result
    assert all(f"on node{1 + rank // 2} " in rest for rank, rest in ranks(result.text).items()), result
    assert result.code == 0, result


def test_the_worker_s_code_is_the_job_s(slurm):
    job = slurm.submit(f"exec {LAUNCH} --nproc-per-node 2 bash -c 'exit $((RANK == 3 ? 7 : 0))'", "-N2")
    assert slurm.wait(job)["ExitCode"] == "7:0"
    assert "rank 3 on node" in slurm.output(job), slurm.output(job)


def test_scancel_gives_the_workers_of_all_nodes_time_to_save(slurm):
    job = slurm.submit(f"exec {LAUNCH} --nproc-per-node 2 bash -c '{SAVES.replace(chr(39), chr(34))}'", "-N2")
    slurm.expect(job, " runs", 4)
    slurm.cancel(job)
    slurm.expect(job, " saved", 4)
    slurm.wait(job)


def test_a_launch_that_is_killed_leaves_nothing(slurm):
    running = slurm.start("salloc", "-Q", "-N2", "-w", "node1,node2", LAUNCH, "--nproc-per-node", 2, "bash", "-c", "echo up; exec sleep 1000")
    running.expect("up", 4)
    launches = [pid for pid, line in slurm.lab[0].processes().items() if line.startswith(str(LAUNCH))]
    assert len(launches) == 1, launches
    os.kill(launches[0], signal.SIGKILL)
    running.finish()


@pytest.mark.parametrize("srun", ["srun -n2 ", "srun --ntasks-per-node=1 -N2 "])
def test_many_launches_of_one_step_are_refused_with_the_way_out(slurm, srun):
    result = slurm.alloc(f"{srun}{LAUNCH} true", "-N2")
    assert result.code == 2 and "srun has started launch 2 times" in result.errors and "leave srun out" in result.errors, result


def test_an_srun_that_is_not_there_is_named(slurm):
    result = slurm.alloc(f"PATH=/nonexistent {LAUNCH} --nproc-per-node 1 /bin/true", "-N2", "-w", "node1,node2")
    assert result.code == 1 and "srun: not found in PATH (/nonexistent)" in result.errors, result


def test_the_plan_names_the_command(slurm):
    result = slurm.alloc(f"{LAUNCH} --nproc-per-node 1 --plan true", "-N3")
    assert re.search(r"srun: srun --nodes=2 --ntasks=2 .*--nodelist=node\[1-2\]' .*muster-agent --dial", result.text), result
