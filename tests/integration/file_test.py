"""Nodes that meet through a shared file: --rdzv-endpoint file:///path."""

import contextlib
import json
import os
import re
import subprocess

import pytest

from harness import LAUNCH, kill_all, sh

WHO = 'echo "rank $RANK of $WORLD_SIZE at $(hostname)"'


def typed(shells, path, *args):
    return [s.start("--nnodes", str(len(shells)), "--nproc-per-node", "1", "--rdzv-endpoint", f"file://{path}", *args) for s in shells]


def ranks(results):
    return sorted(int(r) for result in results for r in re.findall(r"rank (\d+) of 3", result.text))


@pytest.mark.parametrize("turn", range(3))
def test_one_of_three_is_elected_and_the_file_goes_with_the_job(shells, scratch, turn):
    results = [job.finish() for job in typed(shells, scratch / "job1", *sh(WHO))]
    assert [r.code for r in results] == [0, 0, 0], results
    assert ranks(results) == [0, 1, 2]
    assert list(scratch.iterdir()) == []


def test_the_file_is_the_owners_alone_and_carries_what_a_node_needs(shells, scratch):
    jobs = typed(shells, scratch / "job1", *sh("echo up; exec sleep 1050"))
    for job in jobs:
        job.expect("up")
    assert (scratch / "job1").stat().st_mode & 0o777 == 0o600
    point = json.loads((scratch / "job1").read_text())
    assert point["host"] in ("node0", "node1", "node2") and point["address"].startswith("10.77.0."), point
    assert len(point["secret"]) == 64 and len(point["nonce"]) == 64, point
    for pid in [job.pid for job in jobs]:
        with contextlib.suppress(ProcessLookupError):  # the first one ends all
            os.kill(pid, 2)
    assert [job.finish().code for job in jobs] == [130] * 3
    assert list(scratch.iterdir()) == []


def test_a_dead_jobs_file_is_replaced(shells, scratch, lab):
    path = scratch / "job1"
    jobs = typed(shells, path, *sh("echo up; exec sleep 1051"))
    for job in jobs:
        job.expect("up")
    dead = path.read_text()
    # The one that serves first: it would take its file away when another one is lost.
    serves = json.loads(dead)["host"]
    kill_all([job.pid for _, job in sorted(zip(shells, jobs, strict=True), key=lambda one: one[0].host.name != serves)])
    for job in jobs:
        job.finish()
    lab.expect_quiet(15)
    assert path.read_text() == dead
    results = [job.finish() for job in typed(shells, path, *sh(WHO))]
    assert [r.code for r in results] == [0, 0, 0], results
    assert ranks(results) == [0, 1, 2]
    took = [r for r in results if "was left by a job that is gone" in r.errors]
    assert len(took) == 1, results
    assert list(scratch.iterdir()) == []


def test_another_program_at_a_dead_masters_port_is_no_master(shells, scratch):
    build = subprocess.run([LAUNCH, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    path = scratch / "job1"
    path.write_text(json.dumps({
        "format": "muster-rendezvous-1", "job_id": "default", "build": build, "host": "node2", "address": "10.77.0.3",
        "port": 22, "nonce": "ab" * 32, "secret": "cd" * 32}))
    path.chmod(0o600)
    results = [job.finish() for job in typed(shells, path, *sh(WHO))]
    assert [r.code for r in results] == [0, 0, 0], results
    assert sum("was left by a job that is gone" in r.errors for r in results) == 1, results


def test_somebodys_file_is_left_alone(node0, scratch):
    path = scratch / "thesis"
    path.write_text("chapter 1\n")
    path.chmod(0o600)
    result = node0.run("--nnodes", "2", "--rdzv-endpoint", f"file://{path}", "true")
    assert result.code == 1 and "not a rendezvous file of muster" in result.errors and "give a path where no file is" in result.errors, result
    assert path.read_text() == "chapter 1\n"


def test_a_missing_folder_is_named(node0, scratch):
    result = node0.run("--nnodes", "2", "--rdzv-endpoint", f"file://{scratch}/none/job1", "true")
    assert result.code == 1 and f"{scratch}/none/job1" in result.errors and "No such file" in result.errors, result


def test_two_jobs_at_one_path_are_told_apart(shells, scratch):
    first = shells[0].start("--nnodes", "2", "--rdzv-id", "a", "--rdzv-endpoint", f"file://{scratch}/job", *sh("echo up; exec sleep 1052"))
    first.expect("waiting for 1 of 2 nodes", stream="err")
    other = shells[1].run("--nnodes", "2", "--rdzv-id", "b", "--rdzv-endpoint", f"file://{scratch}/job", "true")
    assert other.code == 1 and "job 'a'" in other.errors and "--rdzv-id" in other.errors, other
    first.signal(2)
    assert first.finish().code == 130
    assert list(scratch.iterdir()) == []


def test_files_of_two_machines_of_one_name(shells):
    """/tmp is each host's own: both serve, and each says what may be wrong."""
    jobs = [shell.start("--nnodes", "2", "--rdzv-endpoint", "file:///tmp/job", "true") for shell in shells[:2]]
    for job in jobs:
        job.expect(r"/tmp/job is on a file system of this machine \(\w+\): do the other nodes see it", stream="err")
        job.signal(2)
    assert [job.finish().code for job in jobs] == [130, 130]


def test_a_link_to_nowhere_and_a_right_that_nobody_gave_back_have_an_end(node0, scratch):
    (scratch / "nowhere").symlink_to(scratch / "none")
    limit = ("--nnodes", "2", "--rdzv-conf", "join_timeout=3")
    result = node0.run(*limit, "--rdzv-endpoint", f"file://{scratch}/nowhere", "true")
    assert result.code == 1 and "neither be read nor made" in result.errors, result
    path = scratch / "job1"
    path.write_text(json.dumps({
        "format": "muster-rendezvous-1", "job_id": "default", "build": "b", "host": "node2", "address": "127.0.0.1", "port": 9,
        "nonce": "ab" * 32, "secret": ""}))
    path.chmod(0o600)
    (scratch / ("job1.replaces-" + "ab" * 8)).touch()
    result = node0.run(*limit, "--rdzv-endpoint", f"file://{path}", "true")
    assert result.code == 1 and f"{path}.replaces-*" in result.errors and "remove" in result.errors, result
