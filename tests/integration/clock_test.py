"""Wall clocks jump by an hour, forward and back, while a job runs: nothing comes of it. (A jump in the very
milliseconds of a call to etcd is hardly met here.)"""

import time

from etcd_site import Masters
from harness import sh
from master_site import STEPS, Site, undisturbed
from wall_clock import HOUR, WallClock

LEASE = 3
LONGER = LEASE + 3  # than the lease, its slack of 2 s and a beat


def jumping(folder, *names):
    clocks = [WallClock(folder, name) for name in names]
    return clocks, [clock.env for clock in clocks]


def jump_all(clocks, jobs):
    """One after the other, each forward and back; the jobs go on."""
    for job in jobs:
        job.expect("step 5 ")
    for ahead in (HOUR, -HOUR, 0):
        for clock in clocks:
            clock.jump(ahead)
            time.sleep(LONGER / len(clocks))
        for job in jobs:
            job.expect("step ", job.out.data.count(b"step ") + 5)


def nothing_comes_of_it(clocks, site, daemon, both):
    jump_all(clocks, both)
    site.go.touch()
    undisturbed(both)
    daemon.expect("job job ended with 0", stream="err")


def test_of_a_daemon_and_of_both_nodes(shells, scratch):
    clocks, (daemons, *nodes) = jumping(scratch, "daemon", "node1", "node2")
    site = Site(shells, scratch)
    daemon = site.serve(env=daemons)
    both = [site.node(i, STEPS, "--lease", f"{LEASE}s", env=env) for i, env in enumerate(nodes)]
    nothing_comes_of_it(clocks, site, daemon, both)


def test_of_launch_and_of_a_host_of_its_list(shells, scratch):
    clocks, (env,) = jumping(scratch, "all")
    go = scratch / "go"
    script = sh(STEPS.replace("{go}", str(go)))
    job = shells[0].start("--hosts", "node0,node1", "--nproc-per-node", "1", "--no-prefix", "--lease", f"{LEASE}s", *script, env=env)
    jump_all(clocks, [job])
    go.touch()
    result = job.finish()
    assert result.code == 0 and "lost" not in result.errors, result


def test_of_the_masters_that_share_an_etcd(shells, scratch):
    """The lead is kept by a lease in etcd, which is no matter of the wall clock either."""
    clocks, envs = jumping(scratch, "leads", "waits")
    site = Masters(shells, scratch)
    leads, waits = site.pair(envs)
    nothing_comes_of_it(clocks, site, leads, site.job(STEPS))
    assert b"lost the lead" not in leads.err.data and b"leads, in epoch" not in waits.err.data
