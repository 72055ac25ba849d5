"""The ways to start: typed on every node, standalone nodes, hosts over ssh with their faults."""

import json
import re
import signal
import subprocess

import pytest

from harness import BIN, LAUNCH, by_rank, sh

WHO = 'echo "rank $RANK of $WORLD_SIZE local $LOCAL_RANK node $GROUP_RANK at $(hostname) master $MASTER_ADDR"'


def who(result):
    return {int(m[1]): m.groups()[1:] for m in re.finditer(r"rank (\d+) of (\d+) local (\d+) node (\d+) at (\S+) master (\S+)", result.text)}


def typed_everywhere(shells, *args, order=(0, 1), **kw):
    """The same command on node0 and node1; results in the order of the hosts."""
    jobs = {}
    for i in order:
        jobs[i] = shells[i].start(*args, **kw)
    return [jobs[i].finish() for i in sorted(order)]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["server-first", "server-last"])
def test_same_command_on_every_node(shells, order):
    results = typed_everywhere(shells, "--nnodes", "2", "--nproc-per-node", "2", "--rdzv-endpoint", "node0:29400", *sh(WHO), order=order)
    assert [r.code for r in results] == [0, 0], results
    for result, host in zip(results, ("node0", "node1")):
        rows = who(result)
        assert len(rows) == 2 and {r[3] for r in rows.values()} == {host}, results  # each shows its own workers
        assert {r[4] for r in rows.values()} <= {"10.77.0.1", "10.77.0.2"}
    assert sorted({**who(results[0]), **who(results[1])}) == [0, 1, 2, 3]


def test_everyone_exits_with_the_jobs_status(shells):
    results = typed_everywhere(shells, "--nnodes", "2", "--nproc-per-node", "1", "--rdzv-endpoint", "node0:29401", *sh('[ $(hostname) = node1 ] && exit 8; exec sleep 1040'))
    assert [r.code for r in results] == [8, 8], results


def test_ctrl_c_on_any_node_stops_the_job(shells):
    jobs = [s.start("--nnodes", "2", "--nproc-per-node", "1", "--rdzv-endpoint", "node0:29402", *sh("echo up; exec sleep 1041")) for s in shells[:2]]
    for job in jobs:
        job.expect("up")
    jobs[1].signal(2)
    assert [j.finish().code for j in jobs] == [130, 130]


def test_the_others_end_when_the_serving_launch_is_killed(shells, lab):
    jobs = [s.start("--nnodes", "2", "--nproc-per-node", "1", "--rdzv-endpoint", "node0:29412", *sh("echo up; exec sleep 1043")) for s in shells[:2]]
    for job in jobs:
        job.expect("up")
    jobs[0].signal(9)
    result = jobs[1].finish(30)
    assert result.code == 1 and "no connection to the master" in result.errors, result
    jobs[0].finish(30)
    lab.expect_quiet(15)


@pytest.mark.parametrize("first", [0, 1])
def test_differing_options_are_refused_by_name(shells, first):
    """What the serving node was given counts, whoever comes to it first."""
    jobs = {}
    for i in (first, 1 - first):
        jobs[i] = shells[i].start("--nnodes", "23"[i], "--nproc-per-node", "1", "--rdzv-endpoint", "node0:29403", "true")
    result = jobs[1].finish(60)
    assert result.code == 1 and "--nnodes: node0 has '2', node1 has '3'" in result.errors, result
    assert "what was tried last" not in result.errors, "a master has answered"
    jobs[0].signal(signal.SIGINT)
    assert jobs[0].finish(15).code == 130


def test_another_name_of_this_machine_serves(shells):
    result = shells[0].run("--nnodes", "1", "--nproc-per-node", "2", "--rdzv-endpoint", "127.0.0.2:29415", *sh(WHO), seconds=15)
    assert result.code == 0 and len(who(result)) == 2, result


def test_a_stranger_at_the_endpoint_is_named(shells):
    holder = "import socket; s = socket.create_server(('0.0.0.0', 29416)); print('up', flush=True); input()"
    stranger = shells[0].start("-c", holder, program="/usr/bin/python3", stdin=subprocess.PIPE)
    stranger.expect("up")
    job = shells[0].start("--nnodes", "2", "--nproc-per-node", "1", "--rdzv-endpoint", "node0:29416", "true")
    job.expect(r"no master answers at node0:29416, and none can be started there: .*in use by \S+ \(pid \d+\)", stream="err", seconds=20)
    job.signal(signal.SIGINT)
    assert job.finish(15).code == 130


def test_a_master_whose_own_agent_cannot_start_ends_the_job(shells):
    holder = "import socket; s = socket.create_server(('0.0.0.0', 0)); print(s.getsockname()[1], flush=True); input()"
    port = shells[0].start("-c", holder, program="/usr/bin/python3", stdin=subprocess.PIPE).expect(r"\d+")[0]
    result = shells[0].run("--nnodes", "2", "--nproc-per-node", "1", "--rdzv-endpoint", "127.0.0.1:29414", "--master-port", port, "true")
    assert result.code == 1 and result.errors.count("--master-port: ") == 1 and f":{port}: the port is in use" in result.errors, result


def test_one_place_asked_for_twice_is_refused_by_name(shells):
    args = ("--nnodes", "2", "--nproc-per-node", "1", "--master-addr", "node0", "--master-port", "29413")
    job = shells[0].start("--node-rank", "0", *args, *sh("echo up; sleep 15"))
    holder = shells[1].start("--node-rank", "1", *args, *sh("echo up; sleep 15"))
    holder.expect("up")
    late = shells[2].start("--node-rank", "1", *args, *sh("echo up; sleep 15")).finish(30)
    assert late.code == 1 and "--node-rank 1: asked for by both node1 and node2" in late.errors, late
    assert [job.finish().code, holder.finish().code] == [0, 0]


def test_torchruns_static_form(shells):
    jobs = [
        s.start("--nnodes", "2", "--nproc-per-node", "1", "--node-rank", i, "--master-addr", "10.77.0.1", "--master-port", "29404", *sh(WHO + '"$MASTER_PORT"'))
        for i, s in enumerate(shells[:2])
    ]
    results = [j.finish() for j in jobs]
    assert [r.code for r in results] == [0, 0], results
    rows = {**who(results[0]), **who(results[1])}
    assert [rows[r][3] for r in (0, 1)] == ["node0", "node1"] and "29404" in results[0].text, results


def test_two_nodes_that_are_both_rank_0_of_the_static_form_are_told(shells):
    """Each serves a job of its own; the one that MASTER_ADDR does not name says so at once."""
    static = ("--nnodes", "2", "--nproc-per-node", "1", "--node-rank", "0", "--master-addr", "node0", "--master-port", "29407")
    first, second = (s.start(*static, "true") for s in shells[:2])
    second.expect(r"--master-addr node0 is no address of this machine \(node1\).*give this one --node-rank 1", stream="err")
    first.expect("1 of 2 nodes", stream="err")
    for job in (first, second):
        job.signal(signal.SIGTERM)
    results = [first.finish(), second.finish()]
    assert "no address of this machine" not in results[0].errors, results


@pytest.mark.parametrize("answer, port", [("http", 29408), ("silent", 29409)])
def test_a_stranger_at_the_port_of_the_static_form_is_named_long_before_the_join_timeout(shells, answer, port):
    server = f"import http.server as h; h.test(h.SimpleHTTPRequestHandler, port={port}, bind='0.0.0.0')"
    if answer == "silent":
        server = f"import socket, signal; s = socket.socket(); s.bind(('0.0.0.0', {port})); s.listen(9); print('Serving', flush=True); signal.pause()"
    stranger = shells[0].start("-u", "-c", server, program="/usr/bin/python3")
    stranger.expect("Serving")
    job = shells[1].start("--nnodes", "2", "--nproc-per-node", "1", "--node-rank", "1", "--master-addr", "node0", "--master-port", str(port), "true")
    job.expect(rf"another program listens at node0:{port} \(.*take another port on every node \(--master-port\)", stream="err")
    for one in (job, stranger):
        one.signal(signal.SIGTERM)
        one.finish()


def test_launch_alone_prints_the_line_for_the_other_node(shells):
    """Neither hosts nor endpoint: it serves, says what to type, and waits."""
    job = shells[0].start("--nnodes", "2", "--nproc-per-node", "1", *sh(WHO))
    line = job.expect(r"(?m)^\s*(\S*launch .*--rdzv-endpoint.*)$", stream="err")[0]
    other = shells[1].start("-c", line, program="bash")
    results = [job.finish(), other.finish()]
    assert [r.code for r in results] == [0, 0], (line, results)


def test_the_printed_line_carries_what_was_given_here(shells):
    job = shells[0].start("--nnodes", "2", "--nproc-per-node", "cpu", "-x", "MARK=a b", "--wdir", "/tmp", "--node-rank", "0", *sh('echo "rank $RANK $MARK in $PWD"; exit 0'))
    line = job.expect(r"(?m)^\s*(\S*launch .*--rdzv-endpoint.*)$", stream="err")[0]
    assert "--nproc-per-node cpu " in line and "--node-rank" not in line, line
    other = shells[1].start("-c", line, program="bash")
    results = [job.finish(), other.finish()]
    assert [r.code for r in results] == [0, 0], (line, results)
    assert all(re.search(r"rank \d+ a b in /tmp\n", r.text) for r in results), (line, results)


def test_a_stranger_is_refused(shells, lab):
    """Another secret: the refusal prints the line that copies it, and the job does not notice."""
    endpoint = ("--nnodes", "2", "--nproc-per-node", "1", "--rdzv-endpoint", "node0:29405")
    job = shells[0].start(*endpoint, *sh(WHO))
    stranger = shells[2].start(*endpoint, *sh(WHO), env={"HOME": "/tmp/stranger"})
    result = stranger.finish()
    assert result.code != 0 and "secret" in result.errors, result
    other = shells[1].start(*endpoint, *sh(WHO))
    assert [job.finish().code, other.finish().code] == [0, 0]


def test_standalone_nodes(node0):
    result = node0.run("--standalone", "--nnodes", "3", "--nproc-per-node", "2", *sh(WHO))
    assert result.code == 0, result
    rows = who(result)
    assert sorted(rows) == list(range(6))
    assert [(rows[r][1], rows[r][2]) for r in range(6)] == [(str(r % 2), str(r // 2)) for r in range(6)]


def test_reports_tell_standalone_nodes_apart(node0, scratch):
    result = node0.run("--standalone", "--nnodes", "3", "--nproc-per-node", "1", "--report", scratch / "r.json", *sh("[ $RANK != 1 ] || exit 3; exec sleep 1093"))
    assert result.code == 3 and "rank 1 on node1 " in result.errors, result
    assert {exit["rank"]: exit["host"] for exit in json.loads((scratch / "r.json").read_text())["exits"]} == {0: "node0", 1: "node1", 2: "node2"}


@pytest.mark.parametrize("hosts, want", [
    (["--hosts", "node1,node0", "--nproc-per-node", "1"], ["node1", "node0"]),
    (["--hosts", "node0:1,node1:3"], ["node0", "node1", "node1", "node1"]),
    (["-H", "node0:2,node1:2", "-np", "3"], ["node0", "node0", "node1"]),
    (["-n", "4", "-ppn", "2", "-hosts", "node0,node1"], ["node0", "node0", "node1", "node1"]),
    (["--hosts", "node0,node1,node2", "--nnodes", "2", "--nproc-per-node", "1"], ["node0", "node1"]),
    (["--hosts", "10.77.0.2,10.77.0.1", "--nproc-per-node", "1"], ["node1", "node0"]),
])
def test_order_and_slots_of_hosts(shells, hosts, want):
    result = shells[0].run(*hosts, *sh(WHO))
    assert result.code == 0, result
    rows = who(result)
    assert [rows[r][3] for r in sorted(rows)] == want, result
    assert {rows[r][4] for r in rows} == {"10.77.0.%d" % (int(want[0][4:]) + 1)}, result


def test_hostfile(shells, scratch):
    (scratch / "hosts").write_text("# a comment\nnode1 slots=2\n\nnode0 slots=1  # last\n")
    result = shells[0].run("--hostfile", scratch / "hosts", *sh(WHO))
    rows = who(result)
    assert [rows[r][3] for r in sorted(rows)] == ["node1", "node1", "node0"], result


def test_an_excluded_host_is_not_used(shells):
    result = shells[0].run("--hosts", "node[0-2]", "--exclude", "node1", "--nproc-per-node", "1", *sh(WHO))
    assert result.code == 0 and {r[3] for r in who(result).values()} == {"node0", "node2"}, result


def test_a_line_of_mpirun_runs_as_it_is(shells):
    line = ("-np", "4", "--mca", "btl", "self,tcp", "--map-by", "ppr:2:node", "--bind-to", "numa", "-H", "node0:2,node1:2")
    result = shells[0].run(*line, *sh(WHO))
    assert result.code == 0 and [r[3] for _, r in sorted(who(result).items())] == ["node0"] * 2 + ["node1"] * 2, result
    assert "have no effect: btl (" in result.errors and "bind-to" not in result.errors, result


def test_a_host_that_accepts_and_hangs(shells, lab):
    lab[1].ssh_fault("hang")
    try:
        result = shells[0].run("--hosts", "node0,node1", "--nproc-per-node", "1", "true", seconds=120)
        assert result.code == 1 and "node1" in result.errors, result
    finally:
        lab[1].ssh_fault("ok")


def test_the_agent_is_pushed_where_it_is_not_installed(shells, lab, scratch):
    """A copy of the programs at a path that only node0 has: its own /tmp."""
    home = "/tmp/only here"
    try:
        shells[0].host.check(["bash", "-c", f'mkdir -p "{home}" && cp {BIN}/launch {BIN}/muster-agent "{home}/"'])
        result = shells[0].run("--hosts", "node0,node1", "--nproc-per-node", "1", *sh(WHO), program=f"{home}/launch")
        assert result.code == 0 and [who(result)[r][3] for r in (0, 1)] == ["node0", "node1"], result
    finally:
        shells[0].host.check(["rm", "-rf", home])
    assert not shells[1].host.files() & {home}


def test_remote_shell_noise_does_not_hurt(shells, lab):
    """A ~/.bashrc that prints, as many do."""
    rc = lab[0].home / ".bashrc"
    rc.write_text("echo welcome; echo noise >&2\n")
    try:
        result = shells[0].run("--hosts", "node0,node1", "--nproc-per-node", "1", *sh(WHO))
        assert result.code == 0 and len(who(result)) == 2, result
    finally:
        rc.unlink()


def test_plan_shows_and_starts_nothing(shells):
    result = shells[0].run("--hosts", "node0,node1", "--nproc-per-node", "2", "--plan", "true")
    assert result.code == 0 and "node0" in result.text and "node1" in result.text and "ssh" in result.text, result


def test_plan_of_a_job_typed_on_every_node(node0):
    typed = ("--nnodes", "4", "--nproc-per-node", "8", "--rdzv-endpoint", "nowhere.invalid:29400")
    result = node0.run(*typed, "--rdzv-id", "j", "-x", "A=1", "--wdir", "/w", "--plan", "true")
    for part in ("j: 32 workers on 4 nodes\n", "meet at  nowhere.invalid:29400\n", "set      A=1\n", "in       /w\n", "24-31"):
        assert part in result.text, result
    typed = (*typed[:-1], "node0:29400")
    assert re.search(r"\bRANK\b\W+9\b", node0.run(*typed, "--explain-env=9", "true").text)
    assert re.search(r"\bRANK\b\W+16\b", node0.run(*typed, "--node-rank", "2", "--explain-env", "true").text)
    result = node0.run(*typed, "--explain-env=32", "true")
    assert result.code == 2 and "--explain-env: want a rank of 0..31, got 32" in result.errors, result


def test_another_user_of_this_machine_is_reached_over_ssh(node0):
    result = node0.run("--hosts", "nosuchuser@localhost", "id", "-un")
    assert result.code == 1 and result.out == b"" and "nosuchuser@localhost: ssh " in result.errors, result


def test_explain_env(node0):
    result = node0.run("-n", "4", "--explain-env=2", "true")
    assert result.code == 0, result
    for word in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS"):
        assert word in result.text, result
    assert re.search(r"\bRANK\b\W+2\b", result.text), result


def test_mpiexecs_words_for_the_environment(shells):
    """-genvnone: what stands in the environment here and there is not inherited, on any machine."""
    env = {"STRAY": "stray", "OMP_SCHEDULE": "static", "NAMED": "named"}
    show = sh('echo "[$A] [$NAMED] [$STRAY] [$OMP_SCHEDULE] $HOME" | grep -v " $"')
    args = ("-hosts", "node0,node1", "-genv", "A", "two words", "-genvlist", "NAMED", "-n", "2")
    none = shells[0].run(*args, "-genvnone", *show, env=env)
    assert none.code == 0 and none.text.count("[two words] [named] [] [] /") == 2, none
    kept = shells[0].run(*args, *show, env=env)
    assert kept.code == 0 and kept.text.count("[two words] [named] [") == 2 and kept.text.count("[static]") == 2, kept


def test_wrappers_of_some_ranks(shells):
    """On every machine, nested in their order, and the program's words as they were typed."""
    wraps = ("--wrap", "1-2:env A={rank}.{local_rank}", "--wrap", "2:env 'B=on {host}'")
    result = shells[0].run("--hosts", "node0:2,node1:2", "-n", "4", *wraps, "bash", "-c", 'echo "[$A] [$B] $0"', "it's {rank}")
    assert result.code == 0, result
    assert by_rank(result.out) == {i: [f"[{a}] [{b}] it's {{rank}}".encode()] for i, (a, b) in enumerate([("", ""), ("1.1", ""), ("2.0", "on node1"), ("", "")])}


def test_a_prologue_runs_in_each_worker_first(node0):
    words = ["a b", "it's", "two\nlines", '"$HOME"', "", "-e"]
    prologue = "set -- other words\nexport FROM_PROLOGUE='yes it is'\nulimit -n 100"
    show = "import os, resource, sys; print([os.environ['FROM_PROLOGUE'], resource.getrlimit(resource.RLIMIT_NOFILE)[0], *sys.argv[1:]])"
    result = node0.run("-n", "2", "--prologue", prologue, "/usr/bin/python3", "-c", show, *words)
    assert result.code == 0, result
    assert by_rank(result.out) == {rank: [repr(["yes it is", 100, *words]).encode()] for rank in (0, 1)}


@pytest.mark.parametrize(
    "prologue, code, says",
    [
        ("module load cuda", 127, "module: not found"),
        ("true; (exit 7); true", 7, "launch --prologue: ended with status 7"),
        ("exit 0", 0, "launch --prologue: ended with status 0, the program was not started"),
        ("if then", 2, "launch --prologue"),
    ],
)
def test_a_failing_prologue_is_named(node0, prologue, code, says):
    result = node0.run("-n", "1", "--prologue", prologue, *sh("echo the program"))
    assert result.code == code and says in result.errors and b"the program" not in result.out, result


def test_signals_reach_the_program_behind_a_prologue(node0):
    job = node0.start("-n", "1", "--prologue", "true", *sh("trap 'echo got it; exit 9' TERM; echo up; while :; do sleep 0.1; done"))
    job.expect("up")
    job.signal(signal.SIGTERM)
    assert "got it" in job.finish(20).text


def test_a_daemon_serves_many_jobs(shells):
    daemon = shells[2].start("--listen", "10.77.0.3:29500", program=BIN / "muster-rendezvous")
    try:
        jobs = [
            shells[i].start("--nnodes", "2", "--nproc-per-node", "1", "--rdzv-id", name, "--rdzv-endpoint", "node2:29500", *sh(WHO))
            for name in ("one", "two") for i in (0, 1)
        ]
        results = [j.finish() for j in jobs]
        assert [r.code for r in results] == [0] * 4, results
        assert sorted(r for result in results for r in who(result)) == [0, 0, 1, 1], results
        assert daemon.proc.poll() is None
    finally:
        daemon.signal(15)
        daemon.finish()


def test_a_node_that_never_had_a_place_says_so(shells):
    """The same line once more, for a second job, say."""
    words = ["--nnodes", "2", "--nproc-per-node", "1", "--rdzv-endpoint", "node0:29500", *sh("echo up; sleep 3")]
    jobs = [shell.start(*words) for shell in shells[:2]]
    jobs[0].expect("up")
    third = shells[2].start(*words)
    third.expect(r"this node waits as a spare \(for a job of its own: another --rdzv-id\)", stream="err")
    assert [job.finish().code for job in jobs] == [0, 0]
    result = third.finish()
    assert result.code == 1 and "the workers of this node never ran: others had all the places" in result.errors and not result.text, result


def test_non_root_with_its_own_user(node0, scratch):
    """Without any privilege on one machine."""
    result = node0.start("--reuid=65534", "--regid=65534", "--clear-groups", LAUNCH, "-n", "2", *sh("id -u"), program="setpriv", cwd="/", env={"HOME": "/nonexistent"}).finish()
    assert result.code == 0 and by_rank(result.out) == {0: [b"65534"], 1: [b"65534"]}, result
