"""The main job: real training on two hosts over a real sshd, and that jobs leave each other and the hosts alone."""

import os
import re

import pytest

from harness import EXAMPLES, HERE, LAUNCH, PYTHON, WORKERS, by_rank, sh, wait_for

SIXTEEN = ("--hosts", "node0,node1", "--nproc-per-node", "16")
# Differ between launchers by nature (issue: MASTER_*, RUN_ID, ERROR_FILE, OMP_NUM_THREADS).
MAY_DIFFER = {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_ERROR_FILE", "OMP_NUM_THREADS"}


def lines_of_rank_0(result):
    return [l.decode() for l in by_rank(result.out).get(0, [])]


def test_sgd_on_two_hosts(shells):
    result = shells[0].run(*SIXTEEN, EXAMPLES / "sgd.py", seconds=180)
    assert result.code == 0, result
    lines = lines_of_rank_0(result)
    assert any(l.startswith("replicas are bit-equal") for l in lines), result
    losses = [float(re.search(r"loss ([\d.]+) over 32 ranks", l)[1]) for l in lines if "loss" in l]
    assert len(losses) == 5 and losses[-1] < losses[0] / 4, result


def read_env(folder, world):
    envs = {}
    for rank in range(world):
        pairs = (folder / f"{rank}.env").read_bytes().rstrip(b"\0").split(b"\0")
        envs[rank] = dict(p.decode(errors="surrogateescape").partition("=")[::2] for p in pairs)
    return envs


def test_environment_equals_torchruns(shells, scratch):
    ours, theirs = scratch / "ours", scratch / "theirs"
    ours.mkdir()
    theirs.mkdir()
    # The program is a script, in which auto cannot see a torch.
    assert shells[0].run(*SIXTEEN, "--store", "agent", WORKERS / "dumpenv", ours).code == 0
    torchrun = [PYTHON, HERE / "torchrun.py", "--nnodes", "2", "--nproc_per_node", "16", "--monitor_interval", "0.1",
                "--master_addr", shells[0].host.addr, "--master_port", "29511", "--no_python"]
    jobs = [s.start(*torchrun[1:], "--node_rank", i, WORKERS / "dumpenv", theirs, program=PYTHON) for i, s in enumerate(shells[:2])]
    for job in jobs:
        result = job.finish(120)
        assert result.code == 0, result
    mine, other = read_env(ours, 32), read_env(theirs, 32)
    shell_own = {"_", "SHLVL", "PWD", "OLDPWD", "LINES", "COLUMNS"}
    for rank in range(32):
        base = {k for k in other[rank] if k in os.environ or k in ("HOME", "PYTHON_EXEC")}
        set_by_torchrun = set(other[rank]) - base - shell_own
        assert set_by_torchrun >= {"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "TORCHELASTIC_RESTART_COUNT"}
        assert set_by_torchrun <= set(mine[rank]), set_by_torchrun - set(mine[rank])
        differ = {k: (other[rank][k], mine[rank][k]) for k in set_by_torchrun - MAY_DIFFER if other[rank][k] != mine[rank][k]}
        assert not differ, (rank, differ)
    assert {e["MASTER_ADDR"] for e in mine.values()} == {"10.77.0.1"}
    assert len({e["MASTER_PORT"] for e in mine.values()}) == 1
    assert [mine[r]["LOCAL_RANK"] for r in range(32)] == [str(r % 16) for r in range(32)]
    assert [mine[r]["GROUP_RANK"] for r in range(32)] == [str(r // 16) for r in range(32)]
    assert {mine[r]["GLOO_SOCKET_IFNAME"] for r in range(32)} == {"eth0"}


@pytest.mark.parametrize("example, words", [
    ("hello", "hello from rank 3 of 4"), ("sgd.py", "replicas are bit-equal"), ("ring.py", "ring of 4: token 18 after 3 laps"),
    ("ddp.py", "done: epochs 0..3, world 4"),
])
def test_examples_on_standalone_nodes(node0, example, words):
    """The one-line command of each example's header."""
    result = node0.run("--standalone", "--nnodes", "2", "--nproc-per-node", "2", EXAMPLES / example, seconds=90)
    assert result.code == 0 and words in result.text, result


def test_the_job_file_of_the_examples(node0):
    """As it is, with an option typed, and as the file that --plan --yaml writes of it."""
    job = EXAMPLES / "job.yaml"
    said = lambda result: sorted(line for lines in by_rank(result.out).values() for line in lines)
    result = node0.run("--config", job)
    assert result.code == 0 and len(said(result)) == 4, result
    assert all(line.startswith(b"good morning from rank %d of 4" % rank) for rank, line in enumerate(said(result))), result
    result = node0.run("--config", job, "--nproc-per-node", "1", "-x", "GREETING=good night")
    assert result.code == 0 and [line[:27] for line in said(result)] == [b"good night from rank 0 of 2", b"good night from rank 1 of 2"], result


def test_a_written_job_file_does_the_same(shells, scratch):
    """Hosts, environment and words with blanks, through a file, over ssh."""
    typed = ("--hosts", "node0,node1:2", "-x", "WORDS=a  b: #c", "--timeout", "1:30", *sh('echo "$(hostname) $RANK $WORDS $1"'), "sh", "- x\ty")
    written = shells[0].run(*typed[:4], "--plan", "--yaml", *typed[4:])
    assert written.code == 0, written
    (scratch / "job.yaml").write_bytes(written.out)
    results = [shells[0].run(*args) for args in (typed, ("--config", scratch / "job.yaml"))]
    assert [r.code for r in results] == [0, 0], results
    want = {0: [b"node0 0 a  b: #c - x\ty"], 1: [b"node1 1 a  b: #c - x\ty"], 2: [b"node1 2 a  b: #c - x\ty"]}
    assert [by_rank(r.out) for r in results] == [want, want], results


def test_ddp_goes_on_from_its_checkpoint(node0, scratch):
    args = ("-n", "2", EXAMPLES / "ddp.py", "--checkpoint", scratch / "c.pt", "--epochs")
    assert "done: epochs 0..1, world 2" in node0.run(*args, "2", seconds=90).text
    assert "done: epochs 2..2, world 2" in node0.run(*args, "3", seconds=90).text


def test_two_jobs_at_once_on_the_same_hosts(shells):
    """Started from different hosts at the same moment; ports and ranks never meet."""
    jobs = [shells[i].start("--hosts", "node0,node1", "--nproc-per-node", "2", EXAMPLES / "ring.py") for i in (0, 1, 2)]
    for job in jobs:
        result = job.finish(120)
        assert result.code == 0 and "ring of 4: token 18" in result.text, result


@pytest.mark.parametrize("hosts", [(), ("--hosts", "node0,node1", "--nproc-per-node", "1")], ids=["one", "two"])
def test_spaces_newlines_and_other_bytes(shells, scratch, hosts):
    folder = scratch / "with space é 'quote'"
    folder.mkdir()
    odd = b"line one\nline two\t\xff\xfe=\"'$HOME` \\".decode(errors="surrogateescape")
    arguments = ["a b", "", "*", "$HOME", "new\nline", b"\xff".decode(errors="surrogateescape"), "--flag"]
    result = shells[0].run(*(hosts or ("-n", "2")), "-x", "ODD", "-x", f"OTHER={odd}2", WORKERS / "dumpenv", folder, *arguments, cwd=folder, env={"ODD": odd})
    assert result.code == 0, result
    for rank, env in read_env(folder, 2).items():
        assert env["ODD"] == odd and env["OTHER"] == odd + "2", (rank, env)
        assert (folder / f"{rank}.pwd").read_text() == f"{folder}\n"
        want = b"".join(os.fsencode(a) + b"\0" for a in arguments)
        assert (folder / f"{rank}.args").read_bytes() == want


def traces(lab):
    return {h.name: (h.sockets(), h.files()) for h in lab.hosts}


def test_100_launches_leave_nothing(shells, lab):
    before = traces(lab)
    loop = 'for i in $(seq 97); do "$1" -n 2 /bin/true || exit 1; done; for i in 1 2 3; do "$1" --hosts node0,node1 --nproc-per-node 2 /bin/true || exit 1; done'
    result = shells[0].start("-c", loop, "-", LAUNCH, program="bash").finish(120)
    assert result.code == 0, result
    # What the hosts' sshd and kernels still hold of closed connections is not ours to leave: sshd ends a session once it
    # has seen its client go.
    left = lambda host: [line for line in host.processes().values() if not line.startswith("sshd: ")]
    assert not left(lab[0])
    wait_for(lambda: not left(lab[1]), 5, what=lambda: left(lab[1]))  # an agent that has been told to end
    lab.expect_quiet()
    wait_for(lambda: traces(lab) == before, 20, what=lambda: (before, traces(lab)))


def test_torch_store_on_a_second_init_in_one_process(shells, scratch):
    script = scratch / "twice.py"
    script.write_text(
        "import torch, torch.distributed as d\n"
        "for i in range(2):\n    d.init_process_group('gloo'); t = torch.ones(1); d.all_reduce(t); d.barrier(); d.destroy_process_group()\n"
        "    print('sum', t.item(), flush=True)\n"
    )
    result = shells[0].run("--hosts", "node0,node1", "--nproc-per-node", "2", script, seconds=120)
    assert result.code == 0 and result.out.count(b"sum 4.0") == 8, result
