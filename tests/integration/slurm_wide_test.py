"""A Slurm of 16 hosts with 4 workers on each."""

import re
from collections import Counter

import pytest

from harness import HERE, LAUNCH, PYTHON, Lab

NODES, EACH = 16, 4
WORLD = NODES * EACH
SHAPE = [f"-N{NODES}", f"--ntasks-per-node={EACH}"]
WHERE = "echo rank $RANK/$WORLD_SIZE on $(hostname) node $GROUP_RANK local $LOCAL_RANK/$LOCAL_WORLD_SIZE"
TOLD = f"{PYTHON} {HERE}/workers/told.py ."


@pytest.fixture(scope="module")
def slurm_lab():
    """In the place of the three hosts that other modules share."""
    with Lab(NODES, ssh=False, batch="slurm") as made:
        yield made


def expect_whole(text):
    """Each rank is there once, on the node where Slurm counts it."""
    found = re.findall(r"rank (\d+)/(\d+) on node(\d+) node (\d+) local (\d+)/(\d+)$", text, re.M)
    want = [(rank, WORLD, rank // EACH, rank // EACH, rank % EACH, EACH) for rank in range(WORLD)]
    assert sorted(tuple(map(int, one)) for one in found) == want, text


def test_a_job_is_all_its_ranks_on_all_its_nodes(slurm):
    text = slurm.run(f"exec {LAUNCH} bash -c '{WHERE}'", *SHAPE)
    expect_whole(text)
    assert re.search(r"muster: Slurm job \d+: 4\(x16\) workers on 16 nodes, as many as its tasks", text), text


def test_a_launch_on_each_node_is_its_agent(slurm):
    result = slurm.alloc(f"srun --ntasks-per-node=1 {LAUNCH} --nproc-per-node {EACH} bash -c '{WHERE}'", f"-N{NODES}")
    expect_whole(result.text)
    assert result.code == 0, result


def test_two_jobs_share_the_nodes(slurm):
    """Half of the nodes each, at once, in one allocation."""
    names = [f"node{i}" for i in range(NODES)]
    halves = {"first": names[: NODES // 2], "second": names[NODES // 2 :]}
    show = f"--nproc-per-node {EACH} bash -c 'echo $RANK/$WORLD_SIZE on $(hostname)'"
    script = f"""
        {LAUNCH} --exclude {','.join(halves['second'])} {show} > first & first=$!
        {LAUNCH} --exclude {','.join(halves['first'])} {show} > second; echo $?
        wait $first; echo $?
    """
    result = slurm.alloc(script, f"-N{NODES}")
    assert result.text.split() == ["0", "0"], result
    for name, hosts in halves.items():
        found = re.findall(rf"(\d+)/{WORLD // 2} on (\S+)", (slurm.folder / name).read_text())
        assert sorted(int(rank) for rank, _ in found) == list(range(WORLD // 2)), found
        assert Counter(host for _, host in found) == dict.fromkeys(hosts, EACH), found


def test_one_worker_that_fails_ends_the_other_63_and_is_named(slurm):
    fails = "echo up; [ $RANK = 37 ] || exec sleep 1000; exit 9"
    job = slurm.submit(f"exec {LAUNCH} bash -c '{fails}'", *SHAPE)
    assert slurm.wait(job)["ExitCode"] == "9:0"
    said = slurm.output(job)
    assert re.search(r"rank 37 on node9 .*ended with exit code 9", said), said
    slurm.lab.expect_quiet()


def test_scancel_leaves_every_worker_its_time_to_save(slurm):
    job = slurm.submit(f"exec {LAUNCH} {TOLD}", *SHAPE)
    slurm.expect(job, "runs", WORLD)
    slurm.cancel(job)
    assert slurm.wait(job)["JobState"] == "CANCELLED"
    told = {int(path.suffix[1:]): path.read_text().split() for path in slurm.folder.glob("told.*")}
    assert told == {rank: ["SIGTERM", "saved"] for rank in range(WORLD)}, told
