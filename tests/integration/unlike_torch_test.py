"""Nodes whose torch is of unlike versions: their ranks meet all the same."""

import pytest
from harness import PYTHON

VERSION = "/usr/lib/python3/dist-packages/torch/version.py"
SUM = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
t = torch.ones(1)
dist.all_reduce(t)
print("sum", t.item(), flush=True)
"""


@pytest.fixture
def older(shells):
    """node1 has a torch that says it is one of which nobody knows whether it takes an agent's store."""
    host = shells[1].host
    host.check(["sh", "-c", f"sed 's/1[.]13[.][0-9]*/1.12.1/' {VERSION} >/tmp/version.py && mount --bind /tmp/version.py {VERSION}"])
    yield
    host.check(["umount", VERSION])


@pytest.mark.parametrize("hosts", ["node0,node1", "node1,node0"])
def test_one_store_for_all(shells, scratch, older, hosts):
    script = scratch / "sum.py"
    script.write_text(SUM)
    result = shells[0].run("--hosts", hosts, "--nproc-per-node", "1", PYTHON, script, seconds=120)
    assert result.code == 0 and result.text.count("sum 2.0") == 2, result
    # It is told by whoever would have served it.
    assert ("torch's store is rank 0's" in result.errors) == hosts.startswith("node0"), result
