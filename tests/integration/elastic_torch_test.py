"""Real torch: DistributedDataParallel with a checkpoint goes from two nodes to one and back to two, and loses nothing."""

import os
import re
from itertools import groupby

import pytest

from harness import EXAMPLES, PYTHON, WORKERS, kill_all

LONG = os.environ.get("MUSTER_LONG") == "1"
EPOCH = r"epoch (\d+): loss ([\d.]+) over (\d) ranks"
# The epoch of a checkpoint, and all its numbers.
DUMP = """
import sys, torch
state = torch.load(sys.argv[1])
print(state["epoch"], [t.numpy().tobytes() for t in state["model"].values()],
      [t.numpy().tobytes() for of in state["optimizer"]["state"].values() for t in of.values()])
"""


def lasting(lines):
    """(epoch, loss, ranks) of the epochs whose checkpoints were used: one that was lost is done once more."""
    return sorted({int(epoch): (int(epoch), loss, int(ranks)) for epoch, loss, ranks in lines}.values())


def again(shell, checkpoint, epochs):
    """What an undisturbed run says that does these epochs with as many ranks as they had."""
    lines = []
    for ranks, part in groupby(epochs, key=lambda epoch: epoch[2]):
        end = str(list(part)[-1][0] + 1)
        result = shell.run("-n", str(ranks), "-x", "OMP_NUM_THREADS=1", EXAMPLES / "ddp.py", "--checkpoint", checkpoint, "--epochs", end, seconds=90)
        assert result.code == 0, result
        lines += re.findall(EPOCH, result.text)
    return lasting(lines)


def dump(shell, checkpoint):
    result = shell.run("-c", DUMP, checkpoint, program=PYTHON)
    assert result.code == 0, result
    return result.text


def kill_agent(shell):
    kill_all(list(shell.ours()))


def cut(shell):
    shell.host.cut()


@pytest.mark.parametrize("lose", [kill_agent, cut] if LONG else [kill_agent])
def test_ddp_goes_from_two_nodes_to_one_and_back(shells, scratch, lose):
    checkpoint = scratch / "ddp.pt"
    job = shells[0].start(
        "--hosts", "node0,node1", "--nnodes", "1:2", "--nproc-per-node", "1", "--rdzv-conf", "last_call_timeout=60",
        "-x", "OMP_NUM_THREADS=1", WORKERS / "slow_ddp.py", "--checkpoint", checkpoint, "--epochs", "100000",
    )  # fmt: skip
    job.expect("over 2 ranks", 3)
    with shells[1].host.no_new_logins():  # its new agent comes when three epochs are through
        lose(shells[1])
        job.expect("over 1 ranks", 3)
    shells[1].host.heal()
    before = len(re.findall("over 2 ranks", job.out.data.decode()))
    job.expect("over 2 ranks", before + 3)
    job.signal(15)
    result = job.finish()
    assert result.code == 143, result
    lines = re.findall(EPOCH, result.text)
    assert [ranks for ranks, _ in groupby(line[2] for line in lines)] == ["2", "1", "2"], lines
    epochs = lasting(lines)
    assert [epoch for epoch, _, _ in epochs] == list(range(len(epochs)))
    assert len(lines) - len(epochs) <= 2, lines  # one at each change
    saved = dump(shells[0], checkpoint)
    epochs = epochs[: int(saved.split()[0]) + 1]
    assert again(shells[0], scratch / "again.pt", epochs) == epochs
    assert dump(shells[0], scratch / "again.pt") == saved
