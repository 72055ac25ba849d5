"""`launch` inside jobs of a real Slurm: its nodes, its counts, its end."""

import os
import re
import signal
import subprocess
import time

import pytest

from harness import ANOTHER_PRESS, BIN, EXAMPLES, LAUNCH, PATIENCE, PYTHON, WORKERS, wait_for

WHERE = "echo $RANK/$WORLD_SIZE on $(hostname) task $SLURM_PROCID.$SLURM_LOCALID of $SLURM_NTASKS, master $MASTER_ADDR"
# Ends by itself a moment after it is asked to, as a program that writes a checkpoint.
SAVES = "trap 'sleep 1; echo rank $RANK saved; exit 0' TERM; echo rank $RANK runs; while :; do sleep 0.1; done"

BYTES = bytes(range(256)) * 4096


def ranks(text):
    """{rank: rest of its line} of WHERE."""
    return {int(rank): rest for rank, rest in re.findall(r"^(?:\[\S+\] )?(\d+)(/.*)$", text, re.M)}


def here(slurm):
    """Launches that run on node0."""
    return [pid for pid, line in slurm.lab[0].processes().items() if line.startswith(str(LAUNCH))]


def test_a_job_runs_as_many_workers_as_tasks_on_its_nodes(slurm):
    text = slurm.run(f"exec {LAUNCH} bash -c '{WHERE}'", "-N2", "--ntasks-per-node=3", "-w", "node0,node1")
    assert ranks(text) == {
        rank: f"/6 on node{rank // 3} task {rank}.{rank % 3} of 6, master 10.77.0.1" for rank in range(6)
    }, text
    assert re.search(r"muster: Slurm job \d+: 3\(x2\) workers on 2 nodes, as many as its tasks", text), text


def test_what_srun_reads_of_the_environment_is_not_the_step_s(slurm):
    """That of the agents has all that the job has."""
    told = "export SRUN_CPUS_PER_TASK=99 SLURM_EXACT=1 SLURM_KILL_BAD_EXIT=1; srun --overlap -n1 true || echo it is refused"
    text = slurm.run(f"{told}; exec {LAUNCH} bash -c '{WHERE}'", "-N2", "--ntasks-per-node=2", "-w", "node0,node1")
    assert "it is refused" in text and [ranks(text)[rank].split(" task")[0] for rank in range(4)] == ["/4 on node0"] * 2 + ["/4 on node1"] * 2, text


@pytest.mark.parametrize("asked", ["-c2", ""])
def test_cpus_per_task_are_told_on_every_node_if_they_were_asked_for(slurm, asked):
    text = slurm.run(f"exec {LAUNCH} bash -c 'echo $RANK has ${{SLURM_CPUS_PER_TASK-none}}'", "-N2", "-n2", *asked.split())
    assert sorted(re.findall(r"\d has \w+", text)) == [f"{rank} has {2 if asked else 'none'}" for rank in range(2)], text


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


def test_ctrl_c_on_a_terminal_reaches_each_worker_once(slurm):
    """It goes to the whole foreground group; srun, which would kill the step, is in a group of its own."""
    words = ("salloc", "-Q", "-N2", "-w", "node0,node1", LAUNCH, "--nproc-per-node", 1, "--no-prefix", WORKERS / "catch", "LEAVE")
    running = slurm.start("/usr/bin/python3", WORKERS / "ptyrun.py", *words, stdin=subprocess.PIPE)
    running.expect("ready", 2)
    running.proc.stdin.write(b"\x03")
    running.proc.stdin.flush()
    result = running.finish()
    assert result.out.count(b"got INT") == 2 and result.code == 130, result


def test_a_launch_that_is_killed_leaves_nothing(slurm):
    running = slurm.start("salloc", "-Q", "-N2", "-w", "node1,node2", LAUNCH, "--nproc-per-node", 2, "bash", "-c", "echo up; exec sleep 1000")
    running.expect("up", 4)
    (launch,) = here(slurm)
    os.kill(launch, signal.SIGKILL)
    running.finish()


def test_a_launch_that_srun_starts_on_each_node_is_its_agent(slurm):
    """The habit of torchrun's users; what counts is the step's, and the first node speaks for all."""
    result = slurm.alloc(f"srun --ntasks-per-node=1 -c3 {LAUNCH} bash -c '{WHERE}'", "-N2", "-c3", "-w", "node1,node2")
    assert ranks(result.text) == {
        rank: f"/6 on node{1 + rank // 3} task {rank}.{rank % 3} of 6, master 10.77.0.2" for rank in range(6)
    }, result
    said = re.findall("^muster: (.*)", result.errors, re.M)
    assert len(said) == 1 and re.match(r"Slurm job \d+, step 0: 2 nodes, 3 workers on the first, as many as its CPUs", said[0]), result


def test_steps_of_launches_side_by_side_and_uneven_ones(slurm):
    """Two jobs at once on the same nodes; a node for each component; a count of the command's own."""
    script = f"""
        srun -n2 --overlap {LAUNCH} --nproc-per-node 2 bash -c '{WHERE}' > first & one=$!
        srun -n2 --overlap {LAUNCH} --nproc-per-node 2 bash -c '{WHERE}' > second; echo $?
        wait $one; echo $?
        srun -n2 {LAUNCH} -n 3 bash -c '{WHERE}' > third; echo $?
    """
    result = slurm.alloc(script, "-N2")
    assert result.text.split() == ["0", "0", "0"], result
    for name, count in (("first", 4), ("second", 4), ("third", 3)):
        text = (slurm.folder / name).read_text()
        assert sorted(ranks(text)) == list(range(count)) and f"of {count}, " in text, text


@pytest.mark.parametrize("srun", ["exec", "srun --ntasks-per-node=1"])
def test_torch_trains_on_two_hosts(slurm, srun):
    """gloo, with nothing said of nodes, ports or ranks."""
    text = slurm.run(f"{srun} {LAUNCH} --nproc-per-node 2 {PYTHON} {EXAMPLES}/sgd.py", "-N2", "-w", "node0,node1")
    assert "replicas are bit-equal" in text, text


def test_open_mpi_is_one_world_on_two_hosts(slurm):
    """Served by muster-pmix, not by a PMI of Slurm's, whose variables are there as well."""
    program = slurm.folder / "mpi"
    subprocess.run(["mpicc.openmpi", "-o", program, WORKERS / "mpi.c"], check=True)
    text = slurm.run(f"exec {LAUNCH} {program}", "-N2", "--ntasks-per-node=2", "-w", "node0,node1")
    assert len(re.findall("rank [0-3] of 4 here 2 ring 6 sum 6", text)) == 4, text


def test_the_report_of_a_step_comes_once_and_the_code_is_srun_s(slurm):
    result = slurm.alloc(f"srun -n2 {LAUNCH} --nproc-per-node 2 bash -c 'exit $((RANK == 3 ? 7 : 0))'", "-N2")
    assert result.code == 7 and len(re.findall("rank 3 on node1 .* ended with exit code 7", result.errors)) == 1, result


def test_a_port_that_a_stranger_has_is_named(slurm):
    """Not with srun -K, which now and then loses what a task says last: bash's echo, too, 12 times of 60 on a busy machine."""
    takes = "import socket, time; s = socket.create_server(('', 4321)); print('taken', flush=True); time.sleep(1000)"
    script = f"""
        {PYTHON} -c "{takes}" > taken & stranger=$!
        until grep -q taken taken; do sleep 0.05; done
        srun -n2 -W1 {LAUNCH} --port-range 4321-4321 --nproc-per-node 1 true; echo $?
        kill $stranger
    """
    result = slurm.alloc(script, "-N2", "-w", "node0,node1")
    assert "Slurm job" in result.errors and ":4321: the port is in use by" in result.errors, result
    assert "--port-range gives it another" in result.errors and result.text != "0\n", result


def test_a_task_that_is_refused_ends_the_job_at_once(slurm):
    """Its node comes once, and the others would wait for it until the join timeout, 10 minutes."""
    each = f"exec {LAUNCH} --nproc-per-node 1 --max-restarts $SLURM_PROCID true"
    result = slurm.alloc(f"srun -n2 bash -c '{each}'", "-N2", "-w", "node0,node1")
    assert result.code == 1 and len(re.findall("node1 is refused: --max-restarts: node0 has '0', node1 has '1'", result.errors)) == 1, result


def test_many_tasks_on_a_node_are_refused_with_the_way_out(slurm):
    result = slurm.alloc(f"srun -n4 {LAUNCH} true", "-N2", "-n4")
    assert result.code == 2 and result.errors.count("srun has started launch 4 times (SLURM_STEP_NUM_TASKS) on 2 nodes") == 1, result
    assert "srun --ntasks=2 --ntasks-per-node=1" in result.errors and "leave srun out" in result.errors, result


def test_at_the_prompt_of_srun_pty_launch_starts_the_nodes(slurm):
    """Of the step's tasks only the first has the terminal: the other shells have ended."""
    keys = slurm.folder / "keys"
    keys.write_text(f"PS1=; {LAUNCH} --nproc-per-node 2 bash --norc -c '{WHERE}'; echo code $?; {LAUNCH} doctor | grep -c node; exit\n")
    with keys.open() as stdin:
        session = slurm.start("script", "-qec", "srun -N2 -w node1,node2 --pty bash --norc", "/dev/null", stdin=stdin)
        text = re.sub("\r|\x1b\\[[?]2004.", "", session.finish().text)
    assert sorted(ranks(text)) == [0, 1, 2, 3] and "\ncode 0\n" in text and "on node2 task" in text, text


def test_a_detached_job_of_a_step_would_end_with_it(slurm):
    result = slurm.alloc(f"srun -n2 {LAUNCH} --detach true", "-N2")
    assert result.code == 2 and result.errors.count("--detach: srun has started launch") == 2, result


def test_the_doctor_needs_no_srun(slurm):
    result = slurm.alloc(f"srun -n1 -N1 {LAUNCH} doctor | tail -1; srun -n2 {LAUNCH} doctor", "-N2")
    assert result.code == 2 and result.errors.count("leave srun out, and it examines the job's nodes") == 2, result


def test_what_the_command_says_of_the_place_counts_more_than_the_step(slurm):
    result = slurm.alloc(f"srun -n2 {LAUNCH} --standalone bash -c 'echo $RANK/$WORLD_SIZE'", "-N2")
    assert result.text.split() == ["0/1", "0/1"] and result.code == 0, result
    result = slurm.alloc(f"srun -n2 {LAUNCH} --nnodes 3 true", "-N2")
    assert result.code == 2 and "--nnodes 3: srun has started launch on 2 nodes" in result.errors, result


def test_a_heterogeneous_job_is_all_its_components(slurm):
    """Each with its own counts, from a script on its first node and from salloc's shell."""
    want = {0: "node0", 1: "node0", 2: "node1", 3: "node1", 4: "node1", 5: "node2"}
    options = ["-N1", "-n2", "-w", "node0", ":", "-N2", "-n4", "-w", "node1,node2"]
    text = slurm.run(f"exec {LAUNCH} bash -c '{WHERE}'", *options)
    assert {rank: rest.split()[2] for rank, rest in ranks(text).items()} == want and "as many as its tasks" in text, text
    result = slurm.alloc(f"{LAUNCH} bash -c '{WHERE}'; srun --het-group=0,1 --ntasks-per-node=1 -N1 -n1 {LAUNCH} -n 2 bash -c '{WHERE}'", *options)
    assert len(ranks(result.text)) == 6 and result.text.count("/2 on node") == 2 and result.code == 0, result


def test_jobs_of_an_array_are_jobs_of_their_own(slurm):
    job = slurm.submit(f"exec {LAUNCH} --nproc-per-node 1 bash -c '{WHERE}, index '$SLURM_ARRAY_TASK_ID", "-N2", "-a", "4-5", "-o", f"{slurm.folder}/%a.out")
    for index in (4, 5):
        out = slurm.folder / f"{index}.out"
        wait_for(lambda: out.exists() and len(ranks(out.read_text())) == 2, PATIENCE, 0.1, lambda: slurm.show(job))
        assert out.read_text().count(f"index {index}") == 2


@pytest.mark.parametrize("job, srun, count", [
    ("-N1 --gres=gpu:3", "--ntasks-per-node=1", "3 workers on 1 node, as many as its GPUs"),
    ("-N1 -c4", "-n1 -c2", "2 workers on 1 node, as many as its CPUs"),
    ("-N1 -c4", "", "4 workers on 1 node, as many as its CPUs"),
])  # fmt: skip
def test_a_step_of_one_task_counts_as_those_of_more_nodes(slurm, job, srun, count):
    result = slurm.alloc(f"srun {srun} {LAUNCH} bash -c '{WHERE}'", *job.split())
    assert sorted(ranks(result.text)) == list(range(int(count[0]))) and count in result.errors, result


GPUS = {
    "--gpus-per-node=2": "GPUs",
    "--gres=gpu:2": "GPUs",
    "-n4 --ntasks-per-node=2 --gpus-per-node=2": "tasks",
}


@pytest.mark.parametrize("options", GPUS)
def test_workers_follow_the_gpus_and_see_those_that_slurm_gives(slurm, options):
    """Those of the script's own node, and those of a step."""
    show = "echo $RANK/$WORLD_SIZE on $(hostname) gpus $CUDA_VISIBLE_DEVICES, step $SLURM_STEP_GPUS"
    text = slurm.run(f"exec {LAUNCH} bash -c '{show}'", "-N2", "-w", "node0,node1", *options.split())
    found = ranks(text)
    assert sorted(found) == [0, 1, 2, 3] and f"as many as its {GPUS[options]}" in text, text
    assert all(rest.startswith(f"/4 on node{rank // 2} gpus 0,1, step") for rank, rest in found.items()), text
    assert found[2].endswith("step 0,1") and found[3].endswith("step 0,1"), text


SHOW_GPUS = "echo $RANK/$WORLD_SIZE on $(hostname) gpus $CUDA_VISIBLE_DEVICES"


def test_gpus_that_a_job_has_in_all_are_each_node_s_share(slurm):
    """Slurm would give a step one of the first node's. A job of one command and one of salloc's shell."""
    text = slurm.run(f"exec {LAUNCH} bash -c '{SHOW_GPUS}'", "-N2", "-w", "node0,node1", "--gpus=8")
    want = {rank: f"/8 on node{rank // 4} gpus 0,1,2,3" for rank in range(8)}
    assert ranks(text) == want and "as many as its GPUs" in text, text
    assert ranks(slurm.alloc(f"{LAUNCH} bash -c '{SHOW_GPUS}'", "-N2", "-w", "node0,node1", "--gpus=8").text)[7] == want[7]


UNEVEN = {
    "-N3 -n4 --gpus-per-task=1": [2, 1, 1],
    "-N2 -n4 --gpus-per-task=1": [3, 1],
    "-N2 -n3 --gpus=3": [2, 1],
    "-N2 --gpus=4": [3, 1],
    "-N3 --gpus=7": [4, 2, 1],  # scontrol knows
}


@pytest.mark.parametrize("options", UNEVEN)
def test_gpus_that_are_spread_unevenly_are_all_there(slurm, options):
    """Slurm itself would give one step of all nodes one of each, or refuse it."""
    text = slurm.run(f"exec {LAUNCH} --gpu-mode all bash -c '{SHOW_GPUS}'", *options.split())
    on = [(node, ",".join(map(str, range(gpus)))) for node, gpus in enumerate(UNEVEN[options]) for _ in range(gpus)]
    assert ranks(text) == {rank: f"/{len(on)} on node{node} gpus {gpus}" for rank, (node, gpus) in enumerate(on)}, text
    assert "unevenly" not in text and "is not known" not in text, text


def test_behind_salloc_scontrol_says_how_gpus_are_spread(slurm):
    result = slurm.alloc(f"{LAUNCH} bash -c '{SHOW_GPUS}'", "-N2", "-w", "node1,node2", "--gpus=4")
    assert [rest.split(" gpus ")[1] for _, rest in sorted(ranks(result.text).items())] == ["0,1,2"] * 3 + ["0"], result


OWN_GPUS = {
    "-N2 -n4 --ntasks-per-node=2 --gpus-per-task=1": ["0", "1", "0", "1"],
    "-N2 -n4 --ntasks-per-node=2 --gpus-per-task=2": ["0,1", "2,3", "0,1", "2,3"],
    "-N2 -n4 --ntasks-per-node=2 --gpus-per-node=2 --gpu-bind=single:1": ["0", "1", "0", "1"],
    "-N1 -n2 --ntasks-per-node=2 --gpus-per-task=1": ["0", "1"],
    "-N2 -n4 --gpus-per-task=1": ["0", "1", "2", "0"],  # uneven
}


@pytest.mark.parametrize("options", OWN_GPUS)
def test_workers_see_the_gpus_that_tasks_of_srun_would(slurm, options):
    text = slurm.run(f"exec {LAUNCH} bash -c '{SHOW_GPUS}'", *options.split())
    assert [rest.split(" gpus ")[1] for _, rest in sorted(ranks(text).items())] == OWN_GPUS[options], text
    assert len(re.findall(r"muster: Slurm job \d+: each worker sees its own .*--gpu-mode all", text)) == 1, text


def test_another_order_of_the_ranks_is_noted(slurm):
    text = slurm.run(f"exec {LAUNCH} bash -c '{WHERE}'", "-N2", "--ntasks-per-node=2", "-m", "cyclic", "-w", "node0,node1")
    assert "SLURM_DISTRIBUTION=cyclic has no effect" in text and "--rankfile FILE" in text, text
    assert [ranks(text)[rank].split(" task")[0] for rank in range(4)] == ["/4 on node0"] * 2 + ["/4 on node1"] * 2, text


def test_components_have_gpus_of_their_own(slurm):
    options = ["-N1", "-n2", "--gpus-per-task=1", "-w", "node0", ":", "-N2", "--gpus=8", "-w", "node1,node2"]
    text = slurm.run(f"exec {LAUNCH} bash -c '{SHOW_GPUS}'", *options)
    first = {rank: "/10 on node0 gpus 0,1" for rank in range(2)}
    assert ranks(text) == {**first, **{2 + i: f"/10 on node{1 + i // 4} gpus 0,1,2,3" for i in range(8)}}, text


def test_launches_side_by_side_in_exact_steps_have_cpus_of_their_own(slurm):
    """The guide's line: of launches beside each other without it all take the same ones."""
    step = f"srun --exact -N1 -n1 -c1 {LAUNCH} bash -c 'grep Cpus_allowed_list /proc/self/status; until [ -e both ]; do sleep 0.05; done'"
    script = f"""
        {step} > one & {step} > two &
        until [ $(cat one two | grep -c Cpus_) = 2 ]; do sleep 0.05; done
        touch both; wait; cat one two
    """
    result = slurm.alloc(script, "-N1", "-n2")
    cpus = re.findall(r"Cpus_allowed_list:\s+(\S+)", result.text)
    assert sorted(cpus) == ["0", "1"] and result.text.count("Cpus_") == 2, result


def test_a_step_s_tasks_follow_the_gpus_of_their_nodes(slurm):
    result = slurm.alloc(f"srun --ntasks-per-node=1 {LAUNCH} bash -c 'echo $RANK/$WORLD_SIZE on $CUDA_VISIBLE_DEVICES'", "-N2", "--gres=gpu:3")
    assert ranks(result.text) == {rank: "/6 on 0,1,2" for rank in range(6)}, result


# A submit host that the nodes cannot connect to

PORTS = "5000-5009"


@pytest.fixture(params=["reject", "drop"])
def firewall(slurm, request):
    """node0 takes no connections to PORTS, but srun's."""
    rules = f"""table inet wall {{
        chain in {{ type filter hook input priority 0; iifname eth0 tcp dport {PORTS} {request.param}
        }}
    }}"""
    host = slurm.lab[0]
    done = host.run(["nft", "-f", "-"], input=rules.encode(), stdin=None)
    assert done.returncode == 0, done
    yield
    host.check(["nft", "delete", "table", "inet", "wall"])


def submit(slurm, *args, **kw):
    """launch on node0 for two nodes of which that is none; it runs on the first of them."""
    return slurm.start("salloc", "-Q", "-N2", "-w", "node1,node2", LAUNCH, *args, **kw)


LAST_FAILS = "touch done$RANK; [ $RANK != 3 ] || { until [ -e done0 -a -e done1 -a -e done2 ]; do sleep 0.05; done; exit 7; }"
THERE = ["--rdzv-conf", "is_host=0"]


def test_a_submit_host_behind_a_firewall(slurm, firewall):
    result = submit(slurm, "--port-range", PORTS, "--nproc-per-node", 2, "bash", "-c", f"{WHERE}; {LAST_FAILS}").finish()
    assert ranks(result.text) == {
        rank: f"/4 on node{1 + rank // 2} task {rank}.{rank % 2} of 4, master 10.77.0.2" for rank in range(4)
    }, result
    assert re.search(r"launch runs on node1, the first node of Slurm job \d+: its nodes cannot connect to this host \(node\d: 10.77", result.errors)
    assert result.code == 7 and "rank 3 on node2" in result.errors and "srun: error" not in result.errors, result


def test_bytes_pass_unharmed_to_and_from_the_first_node(slurm):
    (slurm.folder / "in").write_bytes(BYTES)
    script = f"{LAUNCH} {' '.join(THERE)} -n 1 bash -c 'cat; cat /dev/null >&2; printf end >&2' < in > out 2> err; echo $?"
    result = slurm.alloc(script, "-N2", "-w", "node1,node2")
    assert result.text == "0\n" and (slurm.folder / "out").read_bytes() == BYTES, result
    errors = (slurm.folder / "err").read_text()
    assert errors.endswith("end") and "muster-step" not in errors, errors


@pytest.mark.parametrize("signo", [signal.SIGINT, signal.SIGTERM], ids=["INT", "TERM"])
def test_signals_reach_the_launch_on_the_first_node(slurm, signo):
    job = submit(slurm, *THERE, "--nproc-per-node", 1, "bash", "-c", f"trap 'echo told' USR1; {SAVES.replace('TERM', signo.name[3:])}")
    job.expect(" runs", 2)
    (launch,) = here(slurm)
    os.kill(launch, signal.SIGUSR1)
    job.expect("told", 2)
    os.kill(launch, signo)
    result = job.finish()
    assert result.text.count(" saved") == 2 and result.code == 128 + signo, result
    said = {"SIGINT": "stopped by the user (SIGINT)", "SIGTERM": "; Slurm sends it at scancel"}
    assert said[signo.name] in result.errors, result


def test_the_second_ctrl_c_stops_the_job_at_once(slurm):
    job = submit(slurm, *THERE, "--nproc-per-node", 1, "bash", "-c", "trap 'echo told' INT TERM; echo up; while :; do sleep 0.1; done")
    job.expect("up", 2)
    (launch,) = here(slurm)
    os.kill(launch, signal.SIGINT)
    job.expect("told", 2)
    time.sleep(ANOTHER_PRESS)
    os.kill(launch, signal.SIGINT)
    assert job.finish().code == 130


def test_a_typed_launch_that_is_killed_leaves_nothing_on_any_node(slurm):
    job = submit(slurm, *THERE, "--nproc-per-node", 2, "bash", "-c", "echo up; exec sleep 1000")
    job.expect("up", 4)
    (launch,) = here(slurm)
    os.kill(launch, signal.SIGKILL)
    job.finish()


def test_a_reader_that_goes_ends_the_job_on_the_first_node(slurm):
    script = f"{LAUNCH} {' '.join(THERE)} -n 2 bash -c 'while :; do echo line; sleep 0.01; done' | head -n 1; echo ${{PIPESTATUS[0]}}"
    result = slurm.alloc(script, "-N2", "-w", "node1,node2")
    assert re.fullmatch(r"\[\d@node[12]\] line\n141\n", result.text), result


def test_an_srun_that_is_not_there_is_named(slurm):
    result = slurm.alloc(f"PATH=/nonexistent {LAUNCH} --nproc-per-node 1 /bin/true", "-N2", "-w", "node1,node2")
    assert result.code == 1 and "srun: not found in PATH (/nonexistent)" in result.errors, result
    assert "the line above has the time it wants" not in result.errors, result  # the doctor has ended


def test_an_agent_that_is_not_there_is_named_with_its_path(slurm):
    for file in ("launch", "muster-agent"):  # /tmp is each host's own
        slurm.lab[0].run(["cp", BIN / file, f"/tmp/{file}"], check=True)
    job = slurm.submit("exec /tmp/launch --nproc-per-node 1 true", "-N2", "-w", "node0,node1")
    assert slurm.wait(job)["ExitCode"] == "1:0"
    text = slurm.output(job)
    said = "node1: Slurm could not run the agent (/tmp/muster-agent: No such file or directory): muster-agent must be at this path on every node"
    assert said in text and "Exited with exit code 2" not in text and "firewall" not in text, text
    assert "install the same build of muster on node1, at the same path as here" in text, text


def test_the_plan_names_the_command(slurm):
    result = slurm.alloc(f"{LAUNCH} --nproc-per-node 1 --plan true", "-N3")
    assert re.search(r"srun: srun --nodes=2 --ntasks=2 .*--nodelist=node\[1-2\]' .*muster-agent --dial", result.text), result


def test_files_come_along_to_the_nodes_of_the_job(slurm):
    """/tmp is each host's own; the launch of a batch script runs on the job's first node."""
    script = f'mkdir /tmp/p && cd /tmp/p && echo "some data" >x && {LAUNCH} --nproc-per-node 1 --ship x bash -c "cat x; hostname; test $PWD != /tmp/p"; rm -r /tmp/p'
    text = slurm.run(script.replace("$PWD", r"\$PWD"), "-N3")
    assert text.count("some data") == 3 and all(f"node{i}" in text for i in range(3)), text
