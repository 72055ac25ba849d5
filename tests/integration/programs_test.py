"""Several programs in one job, and ranks placed one by one."""

import json
import re
import signal

from harness import by_rank, sh

WHO = 'echo "$0 rank $RANK of $WORLD_SIZE local $LOCAL_RANK/$LOCAL_WORLD_SIZE node $GROUP_RANK at $(hostname) in $PWD V=$V G=$G"'


def named(name):
    """The program as a word behind the script: bash calls it $0."""
    return [*sh(WHO), name]


def who(result):
    """{rank: (name, local, node, host, folder, V, G)}"""
    row = r"(\w+) rank (\d+) of (\d+) local (\d+)/\d+ node (\d+) at (\S+) in (\S+) V=(\w*) G=(\w*)"
    return {int(m[2]): (m[1], int(m[4]), int(m[5]), m[6], m[7], m[8], m[9]) for m in re.finditer(row, result.text)}


MIXED = ("-genv", "G", "1", "-n", "2", *named("a"), ":", "-n", "3", "-x", "V=2", "--wdir", "/", *named("b"))


def check_mixed(rows):
    assert [rows[r][0] for r in range(5)] == ["a", "a", "b", "b", "b"], rows
    assert all(row[4:] == ("/", "2", "1") if row[0] == "b" else row[4] != "/" and row[5:] == ("", "1") for row in rows.values()), rows


def test_on_one_machine(shells):
    result = shells[0].run(*MIXED)
    assert result.code == 0, result
    rows = who(result)
    check_mixed(rows)
    assert {r: row[1] for r, row in rows.items()} == {r: r for r in range(5)}
    assert set(by_rank(result.out)) == set(range(5))


def test_the_jobs_id_is_there_for_every_program(shells):
    result = shells[0].run("-n", "1", *sh('echo "id $TORCHELASTIC_RUN_ID"'), ":", "-n", "1", *sh('echo "id $TORCHELASTIC_RUN_ID"'))
    ids = re.findall(r"id (job-\w+)", result.text)
    assert result.code == 0 and len(ids) == 2 and len(set(ids)) == 1, result


def test_on_standalone_nodes(shells):
    result = shells[0].run("--standalone", "--nnodes", "2", *MIXED)
    assert result.code == 0, result
    check_mixed(who(result))
    assert [who(result)[r][2] for r in range(5)] == [0, 0, 0, 1, 1]


def test_on_hosts(shells):
    result = shells[0].run("--hosts", "node0:3,node1:2", *MIXED)
    assert result.code == 0, result
    check_mixed(who(result))
    assert [who(result)[r][3] for r in range(5)] == ["node0"] * 3 + ["node1"] * 2


def test_each_on_hosts_of_its_own(shells):
    """Also one that stands in two lists: its ranks do not follow each other."""
    result = shells[0].run("-n", "1", "--hosts", "node1", *named("a"), ":", "-n", "2", "--hosts", "node0:2", *named("b"), ":", "-n", "1", "--hosts", "node1", *named("c"))
    assert result.code == 0, result
    rows = {r: row[:4] for r, row in who(result).items()}
    assert rows == {0: ("a", 0, 0, "node1"), 1: ("b", 0, 1, "node0"), 2: ("b", 1, 1, "node0"), 3: ("c", 1, 0, "node1")}, result


def test_typed_on_every_node(shells):
    args = ("--nnodes", "2", "--rdzv-endpoint", "node0:29431", "-n", "2", *named("a"), ":", "-n", "2", *named("b"))
    jobs = [s.start(*args) for s in shells[:2]]
    results = [job.finish() for job in jobs]
    assert [r.code for r in results] == [0, 0], results
    assert {r: row[0] for result in results for r, row in who(result).items()} == {0: "a", 1: "a", 2: "b", 3: "b"}


def test_differing_programs_are_refused_by_name(shells):
    args = ("--nnodes", "2", "--rdzv-endpoint", "node0:29432", "-n", "1", "true", ":", "-n", "1")
    jobs = [s.start(*args, program) for s, program in zip(shells, ("true", "false"))]
    result = jobs[1].finish()
    assert result.code == 1 and "program: node0 has '-n 1 true : -n 1 true', node1 has '-n 1 true : -n 1 false'" in result.errors, result
    jobs[0].signal(signal.SIGINT)
    assert jobs[0].finish(15).code == 130


def test_from_lines_and_from_a_job_file(shells, scratch):
    lines = scratch / "jobs"
    lines.write_text(f"# two programs\n-n 1 bash -c '{WHO}' a\n-n 2 \\\n  -x V=2 bash -c '{WHO}' b\n")
    result = shells[0].run("-genv", "G", "1", "-configfile", lines)
    assert result.code == 0 and {r: row[0] + row[5] + row[6] for r, row in who(result).items()} == {0: "a1", 1: "b21", 2: "b21"}, result
    plan = json.loads(shells[0].run("--plan", "--json", "-configfile", lines).out)
    assert [(p["rank_first"], p["workers"]) for p in plan["programs"]] == [(0, 1), (1, 2)]
    written = scratch / "job.yaml"
    written.write_bytes(shells[0].run("--plan", "--yaml", "-genv", "G", "1", "-configfile", lines).out)
    again = shells[0].run("--config", written)
    assert again.code == 0 and who(again) == who(result), (written.read_text(), again)


def test_a_failure_names_the_program_rank_and_stops_the_others(shells):
    result = shells[0].run("--hosts", "node0,node1", "-n", "1", *sh("exec sleep 1061"), ":", "-n", "1", *sh("exit 7"))
    assert result.code == 7 and "rank 1 on node1" in result.errors, result


def test_explained_for_the_program_of_a_rank(shells):
    result = shells[0].run("--explain-env=1", "--json", "-n", "1", "true", ":", "-n", "1", "-x", "OMP_NUM_THREADS=3", "true")
    kept = json.loads(result.out)["kept"]
    assert [k["value"] for k in kept if k["name"] == "OMP_NUM_THREADS"] == ["3"], result


def test_a_rank_file_is_followed_exactly(shells, scratch):
    ranks = scratch / "ranks"
    ranks.write_text("rank 0=node1 slot=0\nrank 1=+n0\nrank 2=node1 slot=1\nrank 3=node0\nrank 4=node1\n")
    args = ("--hosts", "node0,node1", "--rankfile", ranks)
    result = shells[0].run(*args, *sh(WHO), "a")
    assert result.code == 0 and "slot= has no effect" in result.errors, result
    rows = who(result)
    assert {r: row[1:4] for r, row in rows.items()} == {
        0: (0, 0, "node1"), 2: (1, 0, "node1"), 4: (2, 0, "node1"), 1: (0, 1, "node0"), 3: (1, 1, "node0")}, result
    assert "0,2,4" in shells[0].run("--plan", *args, "true").text


def test_input_reaches_a_rank_wherever_it_is(shells, scratch):
    ranks = scratch / "ranks"
    ranks.write_text("rank 0=node0\nrank 1=node1\nrank 2=node0\n")
    words = scratch / "words"
    words.write_text("to the third\n")
    with words.open() as stdin:
        result = shells[0].run("--rankfile", ranks, "--stdin", "2", *sh('read line && echo "$RANK got $line" || echo $RANK none'), stdin=stdin)
    assert result.code == 0 and by_rank(result.out) == {0: [b"0 none"], 1: [b"1 none"], 2: [b"2 got to the third"]}, result


def test_ranks_keep_their_places_over_a_restart(shells, scratch):
    ranks = scratch / "ranks"
    ranks.write_text("rank 0=node0\nrank 1=node1\nrank 2=node0\n")
    script = WHO + '; [ $TORCHELASTIC_RESTART_COUNT = 1 ] || [ $RANK != 1 ] || exit 3'
    result = shells[0].run("--rankfile", ranks, "--max-restarts", "1", *sh(script), "a")
    assert result.code == 0, result
    hosts = [(int(r), h) for r, h in re.findall(r"rank (\d+) of 3 .* at (\S+) in", result.text)]
    assert set(hosts) == {(0, "node0"), (1, "node1"), (2, "node0")} and hosts.count((1, "node1")) == 2, result


def test_a_torch_job_of_two_programs_meets(shells):
    code = "import torch, torch.distributed as d; d.init_process_group('gloo'); t = torch.ones(1); d.all_reduce(t); print(NAME, int(t))"
    programs = [["-n", "1", "/usr/bin/python3", "-c", code.replace("NAME", repr(n))] for n in ("a", "b")]
    result = shells[0].run("--hosts", "node0,node1", *programs[0], ":", *programs[1])
    assert result.code == 0 and by_rank(result.out) == {0: [b"a 2"], 1: [b"b 2"]}, result
