"""--propagate: the soft limits of the shell in which launch was typed, for workers everywhere."""

import pytest

from harness import LAUNCH, by_rank, sh

ASK = sh("ulimit -Ss; ulimit -Sc; ulimit -Sn")
SET = "ulimit -Ss 4096; ulimit -Sc 7; ulimit -Sn 300; exec "


def limits(result):
    assert result.code == 0, result
    return {rank: [line.decode() for line in lines] for rank, lines in by_rank(result.out).items()}


def typed(shell, *words):
    return shell.run("-c", SET + '"$0" "$@"', LAUNCH, *words, *ASK, program="bash")


@pytest.mark.parametrize("where", [["-n", "2"], ["--standalone", "--nnodes", "2"], ["--hosts", "node0,node1"]], ids=["one", "standalone", "hosts"])
def test_all_of_them(shells, where):
    assert limits(typed(shells[0], *where, "--propagate", "all")) == {r: ["4096", "7", "300"] for r in (0, 1)}


def test_those_that_are_named(shells):
    there = limits(shells[1].run("-n", "2", *ASK))[0]
    rows = limits(typed(shells[0], "--hosts", "node0,node1", "--propagate=core"))
    assert rows == {0: ["4096", "7", "300"], 1: [there[0], "7", there[2]]}
    rows = limits(typed(shells[0], "--hosts", "node0,node1"))
    assert rows[1] == there and rows[0] == ["4096", "7", "300"]


def test_none_is_above_the_nodes_hard_one(shells, scratch):
    """One line says which node, which limit, and what it is there. This ssh stays on node0."""
    ssh = scratch / "ssh"
    ssh.write_text('#!/bin/bash\nulimit -c 5\nexec bash -c "${@: -1}"\n')
    ssh.chmod(0o755)
    result = typed(shells[0], "--ssh", ssh, "--hosts", "node0,node1", "--propagate", "core")
    assert [limits(result)[rank][1] for rank in (0, 1)] == ["7", "5"]
    said = [line for line in result.errors.splitlines() if "--propagate" in line]
    assert said == ["muster: node1: node0: --propagate: core is 5120, the hard limit there, not 7168"], result
