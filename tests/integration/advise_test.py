"""What launch makes of the time that workers wait for CPUs: --advise, the report, launch sweep."""

import json
import re
import signal

import pytest

from harness import BIN, PYTHON, sh, wait_for

PACKAGE = {"PYTHONPATH": str(BIN.parent / "python")}
# On one thread, for so many seconds of its own time: whatever else runs here, it is CPU time.
SPIN = [PYTHON, "-c", "import sys, time\nwhile time.thread_time() < float(sys.argv[1]): pass"]
COMMITS = """
import muster, sys, time
comm = muster.init()
for step in range(int(sys.argv[1])):
    comm.barrier()
    comm.commit(step)
    time.sleep(0.02)
print("done", flush=True)
"""


def cpus(node0):
    """That the workers may use, by launch's own count."""
    said = node0.run("-n", "1", "--no-prefix", *sh("echo $OMP_NUM_THREADS"))
    return int(said.text)


def test_more_workers_than_cpus(node0, scratch):
    count = cpus(node0)
    report = scratch / "report.json"
    result = node0.run("-n", 4 * count, "--advise", "--report", report, *SPIN, "0.3")
    assert result.code == 0, result
    told = json.loads(report.read_text())
    (use,) = told["uses"]
    assert (use["workers"], use["cpus"]) == (4 * count, count), use
    assert use["waited_share"] > 0.4 and use["waited_s"] > 0, use
    # Each is one thread, whose last times the kernel keeps until it is reaped: nothing is missed.
    assert 0.3 * 4 * count <= use["ran_s"] <= use["cpu_s"] + 0.1, use
    share = round(100 * use["waited_share"])
    assert re.search(rf"^muster: {4 * count} workers on {count} CPUs? waited ({share - 1}|{share}|{share + 1}) % of the time for a CPU: try --nproc-per-node {count}$", result.errors, re.M), result
    assert told["advice"] in result.errors, told


def test_without_the_option_only_the_report_says_it(node0, scratch):
    report = scratch / "report.json"
    result = node0.run("-n", "2", "--report", report, "true")
    assert result.code == 0 and "waited" not in result.errors, result
    told = json.loads(report.read_text())
    assert told["uses"][0]["workers"] == 2 and told["advice"], told


SPINS_AND_STAYS = """
import os, threading, time
def spin():
    while time.thread_time() < 0.3: pass
    print("spun", flush=True)
    time.sleep(1000)
threading.Thread(target=spin, daemon=True).start()
if os.fork() == 0:
    spin()
time.sleep(1000)
"""


def test_threads_and_children_count(node0, scratch):
    """Of those that live when the job is stopped, also a child that the worker has not waited for."""
    report = scratch / "report.json"
    job = node0.start("-n", "1", "--report", report, PYTHON, "-c", SPINS_AND_STAYS)
    job.expect("spun", count=2)
    job.signal(signal.SIGTERM)
    assert job.finish().code == 143
    (use,) = json.loads(report.read_text())["uses"]
    assert use["ran_s"] >= 0.6 and use["lasted_s"] >= 0.3, use


def test_the_worst_of_several_nodes_is_named(shells):
    result = shells[0].run("--hosts", "node0,node1", "--nproc-per-node", "1", "--advise", *SPIN, "0.2")
    assert result.code == 0, result
    assert re.search(r"^muster: node[01], the worst of 2 nodes: 1 worker on \d+ CPUs? waited \d+ % of the time for a CPU: ", result.errors, re.M), result


def test_steps_that_the_sdk_counts(node0, scratch):
    report = scratch / "report.json"
    result = node0.run("-n", "2", "--no-prefix", "--report", report, PYTHON, "-c", COMMITS, "20", env=PACKAGE)
    assert result.code == 0 and result.text.count("done") == 2, result
    (use,) = json.loads(report.read_text())["uses"]
    assert use["steps"] == 19 and 0 < use["steps_per_s"] <= 50, use


def test_a_sweep_by_a_rate_of_the_output(node0):
    result = node0.run("sweep", "--no-prefix", "-n", "1,2", "--rate-regex", "rate=([0-9]+)", *sh("echo rate=$WORLD_SIZE"))
    assert result.code == 0, result
    lines = result.text.splitlines()
    assert lines[0].split() == ["workers", "bind-to", "rate", "waited"], result
    assert [line.split()[:3] for line in lines[1:3]] == [["1", "-", "1"], ["2", "-", "2"]], result
    assert lines[3] == "best: -n 2, 100 % faster than -n 1", result
    assert "run 2 of 2: -n 2" in result.errors, result


def test_a_sweep_says_where_its_regex_finds_no_rate(node0):
    result = node0.run("sweep", "--no-prefix", "-n", "1,2", "--rate-regex", "rate=([0-9]+)", *sh("[ $WORLD_SIZE = 1 ] || echo rate=5"))
    assert result.code == 0 and "best: -n 2" in result.text, result
    assert result.errors.count("has found no rate") == 1 and "-n 1: --rate-regex 'rate=([0-9]+)' has found no rate in its output" in result.errors, result


def test_a_sweep_by_the_steps_of_the_sdk_ends_each_run_in_time(node0):
    """Sixty seconds' worth of steps: the runs are stopped, and what was counted until then is shown."""
    result = node0.run("sweep", "--json", "--sweep-seconds", "8", "-n", "2", "--bind-to", "auto,none", PYTHON, "-c", COMMITS, "3000", env=PACKAGE)
    assert result.code == 0, result
    told = json.loads(result.text)
    assert told["measure"] == "steps/s" and told["best"].startswith("-n 2 --bind-to "), told
    for run, how in zip(told["runs"], ("auto", "none"), strict=True):
        assert (run["workers"], run["bind_to"], run["failed"]) == ("2", how, "") and 0 < run["steps_per_s"] <= 50, told
        assert "took_s" not in run and "waited_share" in run, told


def test_a_sweep_by_the_time_of_a_program_that_ends(node0):
    result = node0.run("sweep", "--json", "-n", "1,2", *sh("exit $((RANK * 3))"))
    assert result.code == 0 and "failed: launch ended with status 3; its last lines:" in result.errors, result
    told = json.loads(result.text)
    assert told["measure"] == "time" and told["best"] == "-n 1" and told["runs"][0]["took_s"] > 0, told
    assert told["runs"][1]["failed"] == "failed: launch ended with status 3", told


def test_a_sweep_that_is_stopped_shows_what_it_has(node0):
    job = node0.start("sweep", "-n", "1,2", *sh("[ $WORLD_SIZE = 1 ] || { echo up >&2; exec sleep 1000; }"))
    job.expect("run 2 of 2", stream="err")
    job.signal(signal.SIGINT)
    result = job.finish()
    assert result.code == 130 and "best: -n 1\n" in result.text, result


def test_a_sweep_that_is_killed_leaves_nothing(node0, lab):
    """A run of its own would have 30 s to end well."""
    job = node0.start("sweep", "-n", "1,2", "--grace", "90", *sh("trap '' TERM INT; while :; do sleep 0.1; done"))
    wait_for(lambda: any("trap '' TERM INT" in line for line in lab[0].processes().values()), 20, what="the worker runs")
    job.signal(signal.SIGKILL)
    lab.expect_quiet(10)


def test_a_sweep_with_nothing_to_compare(node0):
    result = node0.run("sweep", "--sweep-seconds", "1", "-n", "1,2", *sh("exec sleep 1000"))
    assert result.code == 1 and "nothing to compare: the program has counted no steps" in result.text, result


def test_a_sweep_is_stopped_with_what_it_runs(node0):
    job = node0.start("sweep", "-n", "1,2", *sh("echo runs >&2; exec sleep 1000"))
    job.expect("run 1 of 2", stream="err")
    job.signal(signal.SIGINT)
    assert job.finish().code == 130


@pytest.mark.parametrize(
    "words,said",
    [
        (["-n", "4", "true"], "launch sweep: want 2..64 combinations to compare, got 1"),
        (["-n", "4,,8", "true"], "-n: want a list of different values with commas between them, as in 8,16,32, got '4,,8'"),
        (["-n", "1,2", "--sweep-seconds", "soon", "true"], "--sweep-seconds: want 1..86400, got 'soon'"),
        (["-n", "1,2", "--rate-regex", "(", "true"], "--rate-regex: want an extended regular expression"),
        (["-n", "1,2", "--detach", "true"], "launch sweep: --detach has no place here"),
    ],
)
def test_a_sweep_that_makes_no_sense(node0, words, said):
    result = node0.run("sweep", *words)
    assert result.code == 2 and said in result.errors and result.out == b"", result


def test_the_help_of_sweep_has_an_example(node0):
    result = node0.run("sweep", "--help")
    assert result.code == 0 and "launch sweep --nproc-per-node 8,16,32 --bind-to auto,none train.py" in result.text, result
