"""Several daemons share an etcd of three members: one leads, and another takes its place."""

import base64
import re
import signal
import time

import pytest

from etcd_site import PORT, Masters
from master_site import DAEMON, SECRET, STEPS, Site, undisturbed


@pytest.fixture
def site(shells, scratch):
    return Masters(shells, scratch)


def epoch(daemon):
    return int(daemon.expect(r"leads, in epoch (\d+)", stream="err")[-1])


def test_another_master_takes_over_and_workers_do_not_notice(site):
    leads, waits = site.pair()
    both = site.job(STEPS)
    for job in both:
        job.expect("step 5 ")
    killed = time.monotonic()
    leads.signal(signal.SIGKILL)
    waits.expect("leads, in epoch .*; 1 job goes on from etcd", stream="err")
    taken = time.monotonic() - killed
    waits.expect("the nodes of round .* are back", stream="err")
    print(f"taken over after {taken:.2f} s, and all back after {time.monotonic() - killed:.2f} s")
    assert taken < 10, "twice the lease in etcd"
    assert epoch(waits) > epoch(leads)
    site.go.touch()
    undisturbed(both)
    waits.expect("job job ended with 0", stream="err")


def test_what_ends_while_nobody_leads_is_reported_once(site):
    leads, waits = site.pair()
    both = site.job(STEPS + "; [ $RANK = 0 ] || { echo ends; exit 7; }; until [ -e {go}2 ]; do sleep 0.05; done")
    for job in both:
        job.expect("step 5 ")
    everything = site.etcd.ctl("get", "--prefix", "")
    assert b"/muster/default/jobs/" in everything and b"node1" in everything
    for form in (SECRET.strip().encode(), base64.b64encode(SECRET.strip().encode()), SECRET.strip().encode().hex().encode()):
        assert form not in everything
    leads.signal(signal.SIGKILL)
    site.go.touch()
    both[1].expect("ends")
    results = [job.finish() for job in both]
    assert [result.code for result in results] == [7, 7], results
    assert "rank 1 on node1" in results[0].errors and "exit code 7" in results[0].errors, results[0]
    waits.expect("job job ended with 7: rank 1 on node1", stream="err")
    waits.signal(signal.SIGTERM)
    assert waits.finish().errors.count("job job ended") == 1


def test_a_master_that_wakes_up_is_believed_no_more(site):
    leads, waits = site.pair()
    both = site.job(STEPS)
    for job in both:
        job.expect("step 5 ")
    leads.signal(signal.SIGSTOP)
    waits.expect("the nodes of round .* are back", stream="err")
    leads.signal(signal.SIGCONT)
    leads.expect("has lost the lead: .*; begins anew as one that waits for it", stream="err")
    leads.expect(f"waits for the lead: {site.places[1]} leads", stream="err")
    site.go.touch()
    undisturbed(both)
    waits.expect("job job ended with 0", stream="err")
    # The other way round, at once, for it ends well.
    waits.signal(signal.SIGTERM)
    assert waits.finish().code == 0
    leads.expect("leads, in epoch", count=2, stream="err")
    assert epoch(leads) > epoch(waits)


def test_the_leader_of_etcd_is_killed_and_jobs_go_on(site):
    leads, _ = site.pair()
    both = site.job("[ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit 0;" + STEPS + "; exit 3", "--max-restarts", "1")
    for job in both:
        job.expect("step 5 ")
    site.etcd.kill(site.etcd.leader())
    site.go.touch()  # the next round has to be durable before anybody hears of it
    assert [job.finish().code for job in both] == [0, 0]
    leads.expect("job job ended with 0", stream="err")
    leads.signal(signal.SIGTERM)
    errors = leads.finish().errors
    assert "lost the lead" not in errors and "no longer survive" not in errors


def test_jobs_outlive_an_etcd_of_which_nothing_runs(site):
    leads, _ = site.pair()
    both = site.job(STEPS + "; [ $RANK = 0 ] || exit 0; until [ -e {go}2 ]; do sleep 0.05; done; exit 4")
    for job in both:
        job.expect("step 5 ")
    for member in range(3):
        site.etcd.kill(member)
    site.go.touch()
    # This takes longer than the lease in etcd, which ends meanwhile if it can.
    leads.expect("job job: this job can no longer survive a master restart: no etcd member has answered; .*2[3-5]79", stream="err")
    site.go.with_name("go2").touch()
    assert [job.finish().code for job in both] == [4, 4]
    leads.expect("job job ended with 4", stream="err")
    for member in range(3):
        site.etcd.start(member)
    site.etcd.leader()
    leads.signal(signal.SIGTERM)
    result = leads.finish()
    assert "lost the lead" not in result.errors and result.errors.count("no longer survive") == 1


def test_each_master_names_one_member_and_that_of_the_leader_dies(site):
    site.etcd.leader()
    members = site.etcd.store.removeprefix("etcd://").split(",")
    site.keep = ["--rdzv-store", f"etcd://{members[0]}"]
    leads = site.serve(0, site.places[0])
    leads.expect("leads, in epoch", stream="err")
    leads.expect("--rdzv-store names 1 of the 3 members of etcd: .*name all of them", stream="err")
    site.keep = ["--rdzv-store", f"etcd://{members[1]}"]
    waits = site.serve(1, site.places[1])
    waits.expect(f"waits for the lead: {site.places[0]} leads", stream="err")
    both = site.job(STEPS)
    for job in both:
        job.expect("step 5 ")
    site.etcd.kill(0)
    # One of them leads, and it is the one that has an etcd.
    leads.expect("has lost the lead: its lease in etcd has ended", stream="err")
    waits.expect("leads, in epoch .*; 1 job goes on from etcd", stream="err")
    waits.expect("the nodes of round .* are back", stream="err")
    site.go.touch()
    undisturbed(both)
    waits.expect("job job ended with 0", stream="err")


def test_a_job_that_ends_while_etcd_is_full_does_not_come_back(site):
    leads, waits = site.pair()
    both = site.job(STEPS)
    for job in both:
        job.expect("step 5 ")
    site.etcd.be_full()
    site.go.touch()
    undisturbed(both)
    leads.expect("job job ended with 0", stream="err")
    leads.signal(signal.SIGTERM)
    assert leads.finish().code == 0
    assert site.etcd.ctl("alarm", "disarm") is not None
    waits.expect("leads, in epoch", stream="err")
    waits.signal(signal.SIGTERM)
    assert "goes on from etcd" not in waits.finish().errors


def test_what_is_none_of_ours_is_named(site):
    key = "/muster/default/jobs/mine"
    site.etcd.leader()
    assert site.etcd.ctl("put", key, "x") is not None
    result = site.serve(0, site.places[0]).finish()
    assert result.code == 1 and f"--rdzv-store: etcd: {key} is not of a journal; remove it" in result.errors, result


def test_bad_values_teach(shells):
    for words, why in (
        (["--rdzv-store", "10.77.0.3:2379"], "--rdzv-store: '10.77.0.3:2379': not an etcd cluster; want etcd://HOST:PORT"),
        (["--rdzv-store", "etcd://a,b"], "'a' is not HOST:PORT"),
        (["--rdzv-store", ""], "--rdzv-store: want etcd://HOST:PORT"),
        (["--rdzv-store", "etcd://a:1", "--journal", "j"], "--journal and --rdzv-store: give one of them"),
    ):
        result = shells[0].run(*words, program=DAEMON)
        assert result.code == 2 and why in result.errors, result


def test_without_etcd_a_daemon_says_so_and_each_endpoint_is_named(shells, scratch):
    site = Site(shells, scratch, ["--rdzv-store", "etcd://10.77.0.3:1"])
    place, nobody = f"{shells[0].host.addr}:{PORT}", f"10.77.0.2:{PORT}"
    daemon = site.serve(0, place)
    daemon.expect("waits for the lead: no etcd member has answered; 10.77.0.3:1: ", stream="err")
    result = shells[1].run(*site.meeting(f"{place},{nobody}"), "--rdzv-conf", "join_timeout=10", "true")
    assert result.code == 1, result
    assert re.search(f"what was tried last: .*{place} does not lead: no etcd member has answered", result.errors), result
    assert re.search(f"{nobody}: .*refused", result.errors), result
