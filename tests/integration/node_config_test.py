"""`nodes:` of a job file: what is different on single nodes."""

import re

import pytest

from harness import sh

WORKER = sh('echo "rank $RANK at $(hostname) node $GROUP_RANK: $WHO $(pwd) $MORE"')


def lines(*results):
    return {int(rank): (node, what.strip()) for result in results for rank, node, what in re.findall(r"rank (\d+) at \S+ node (\d+): (.*)", result.text)}


def write(path, *rows):
    path.write_text("\n".join(rows) + "\n")
    return path


def test_hosts_have_their_own_environment_folder_and_count(shells, scratch):
    file = write(
        scratch / "job.yaml", "hosts: [node0, node1, node2]", "env: {WHO: all, MORE: same}",
        "nodes:", "  node1: {env: {WHO: one}, wdir: /usr, nproc-per-node: 2}", "  2: {prologue: export MORE=prologue}",
    )
    result = shells[0].run("--config", file, "--wdir", "/tmp", *WORKER)
    assert result.code == 0, result
    assert lines(result) == {0: ("0", "all /tmp same"), 1: ("1", "one /tmp same"), 2: ("1", "one /tmp same"), 3: ("2", "all /tmp prologue")}, result
    result = shells[0].run("--config", file, "-x", "WHO=typed", *WORKER, cwd="/")
    assert lines(result)[1] == ("1", "typed /usr same") and lines(result)[0] == ("0", "typed / same"), result


@pytest.mark.parametrize("where", [["standalone: true", "nnodes: 2"], ["nnodes: 1", "nproc-per-node: 2"]], ids=["standalone", "one"])
def test_nodes_of_this_machine(shells, scratch, where):
    file = write(scratch / "job.yaml", *where, "nodes: {0: {env: {WHO: first}}}")
    result = shells[0].run("--config", file, *WORKER, cwd="/", env={"WHO": "inherited"})
    assert result.code == 0 and lines(result)[0] == ("0", "first /"), result
    assert lines(result)[1] == (("1", "inherited /") if "standalone" in where[0] else ("0", "first /")), result


def test_typed_on_every_node_each_finds_its_own(shells, scratch):
    file = write(
        scratch / "job.yaml", "nnodes: 2", "rdzv-endpoint: node0:29450",
        "nodes: {node0: {env: {WHO: zero}}, node1: {env: {WHO: one}, wdir: /usr, nproc-per-node: 2}}",
    )
    jobs = [s.start("--config", file, *WORKER, cwd="/") for s in shells[:2]]
    results = [job.finish() for job in jobs]
    assert [r.code for r in results] == [0, 0], results
    assert sorted(what for _, what in lines(*results).values()) == ["one /usr", "one /usr", "zero /"], results


def test_what_is_shown_first(shells, scratch):
    file = write(scratch / "job.yaml", "hosts: [node0, node1]", "nodes: {node1: {env: {OMP_NUM_THREADS: 77}, nproc-per-node: 2}}", "command: 'true'")
    plan = shells[0].run("--config", file, "--plan")
    assert plan.code == 0 and "only     node1: OMP_NUM_THREADS=77, nproc-per-node: 2" in plan.text, plan
    shown = shells[0].run("--config", file, "--explain-env=2")
    assert re.search(r"OMP_NUM_THREADS +77 +set by you", shown.text), shown
    assert not re.search(r"OMP_NUM_THREADS +77", shells[0].run("--config", file, "--explain-env=0").text)
    again = write(scratch / "again.yaml", shells[0].run("--config", file, "--plan", "--yaml").text)
    assert shells[0].run("--config", again, "--plan").text == plan.text
    wrong = write(scratch / "wrong.yaml", "hosts: [node0]", "nodes: {node7: {wdir: /}}")
    result = shells[0].run("--config", wrong, "true")
    assert result.code == 2 and f"{wrong}:2:9: nodes: 'node7' is no node of this job" in result.errors, result
