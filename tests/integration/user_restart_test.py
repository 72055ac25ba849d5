"""launch restart: all workers of a job start again because the user says so."""

import json

import pytest

from desk import Desk
from harness import sh, wait_for
from master_site import Site

COUNT = "$TORCHELASTIC_RESTART_COUNT"
# Ends by itself only in its second life.
SCRIPT = f"echo life {COUNT} round $MUSTER_ROUND; [ {COUNT} = 1 ] && exit 0; exec sleep 2301"
TWO_HOSTS = ("--hosts", "node0,node1", "--nproc-per-node", "2")


def restart(desk, *words, code=0):
    result = desk.run("restart", *words)
    assert result.code == code, result
    return result


def report_of(desk, job):
    (path,) = desk.folder.glob(f"**/{job}/report.json")
    return json.loads(path.read_text())


@pytest.mark.parametrize("where", [("-n", "4"), TWO_HOSTS, ("--standalone", "--nnodes", "2", "--nproc-per-node", "2")],
                         ids=["one", "two", "standalone"])
def test_all_workers_start_again_free_of_charge(shells, desk, where):
    job = desk.detach(*where, "--restart=never", *sh(SCRIPT))
    wait_for(lambda: desk.run("logs", job).text.count("life 0 ") == 4, 30, 0.2, what="all workers of the first life have spoken")
    assert "is stopped, and another one follows" in restart(desk).errors
    assert desk.ended(job)["exit_code"] == 0
    text = desk.run("logs", job).text
    assert text.count("life 0 ") == 4 and text.count("life 1 ") == 4, text
    report = report_of(desk, job)
    assert (report["restarts"], report["restarts_used"]) == (1, 0), report
    (line,) = report["history"]
    assert line.startswith("round ") and line.endswith(": restarted by the user, free of charge"), line
    assert not [p for s in shells[:2] for p in s.called("sleep 2301")]


def test_the_answer_as_json_and_what_cannot_be_restarted(desk):
    assert "no job of yours runs on this host" in restart(desk, code=2).errors
    job = desk.detach("--name", "night", *sh(SCRIPT))
    other = desk.detach("sleep", "2302")
    errors = restart(desk, code=2).errors
    assert job in errors and other in errors and "name one: launch restart JOB" in errors, errors
    answer = json.loads(restart(desk, "--json", "night").text)
    assert (answer["id"], answer["name"], answer["restarts"]) == (job, "night", True), answer
    assert desk.ended(job)["exit_code"] == 0
    assert f"{job} has ended with 0" in restart(desk, "night", code=1).errors
    desk.run("stop", "--now", other)


def test_a_job_at_a_daemon_is_restarted_from_any_of_its_nodes(shells, scratch):
    site = Site(shells, scratch, keep=[])
    daemon = site.serve()
    other = site.node(0, SCRIPT)
    (scratch / "run").mkdir(mode=0o700)
    desk = Desk(shells[2], scratch / "run")
    job = desk.detach(*site.meeting(), "--node-rank", "1", *sh(SCRIPT))
    assert "the master has been asked to restart the job" in restart(desk, job).errors
    assert desk.ended(job)["exit_code"] == 0
    result = other.finish()
    assert result.code == 0 and result.text.count("life 1 ") == 1, result
    daemon.expect("job job: restarted by the user, free of charge", stream="err")
