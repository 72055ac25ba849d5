"""Where workers run: the CPUs that the kernel says each has, read back by the workers themselves."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from harness import LAUNCH, PYTHON, by_rank, sh

ASK = sh('sed -n "s/^Cpus_allowed_list:\\t//p" /proc/self/status; echo $OMP_NUM_THREADS')


def numbers(text):
    """'0-2,5' as a set."""
    ends = [part.split("-") for part in text.strip().split(",")]
    return frozenset(cpu for one in ends for cpu in range(int(one[0]), int(one[-1]) + 1))


# Two packages of a core each, their NUMA nodes numbered 0 and 3.
PACKAGE = """<object type="Package" os_index="{p}" cpuset="{set}" complete_cpuset="{set}" nodeset="{nodes}" complete_nodeset="{nodes}" gp_index="{p}1">
<object type="NUMANode" os_index="{numa}" cpuset="{set}" complete_cpuset="{set}" nodeset="{nodes}" complete_nodeset="{nodes}" gp_index="{p}2" local_memory="1073741824"/>
<object type="Core" os_index="0" cpuset="{set}" complete_cpuset="{set}" nodeset="{nodes}" complete_nodeset="{nodes}" gp_index="{p}3">
<object type="PU" os_index="{p}" cpuset="{set}" complete_cpuset="{set}" nodeset="{nodes}" complete_nodeset="{nodes}" gp_index="{p}4"/></object></object>"""
XML = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0"><object type="Machine" os_index="0" cpuset="0x3" complete_cpuset="0x3" allowed_cpuset="0x3" nodeset="0x9" complete_nodeset="0x9" allowed_nodeset="0x9" gp_index="1">
""" + PACKAGE.format(p=0, numa=0, set="0x1", nodes="0x1") + PACKAGE.format(p=1, numa=3, set="0x2", nodes="0x8") + "</object></topology>"

MASK = frozenset(os.sched_getaffinity(0))
SYS = Path("/sys/devices/system")
CORES = {numbers((SYS / f"cpu/cpu{cpu}/topology/thread_siblings_list").read_text()) & MASK for cpu in MASK}
NODES = {numbers(list_.read_text()) & MASK for list_ in SYS.glob("node/node*/cpulist") if list_.read_text().strip()} or {MASK}


def bound(result):
    """What each rank may run on, and its OMP_NUM_THREADS."""
    assert result.code == 0, result
    rows = by_rank(result.out)
    return [(numbers(rows[rank][0].decode()), int(rows[rank][1])) for rank in sorted(rows)]


@pytest.mark.parametrize("workers", [1, 2, 3, 32])
def test_a_share_for_each_or_a_numa_node_for_several(node0, workers):
    rows = bound(node0.run("-n", str(workers), "--log-prefix", "[{rank}@{host}] ", *ASK))
    assert len(rows) == workers
    sets = [cpus for cpus, _ in rows]
    if workers == 1:
        assert sets == [MASK]
    elif workers <= len(CORES):
        assert sum(map(len, sets)) == len(frozenset().union(*sets)), "two on one core"
        assert all(any(cpus <= node for node in NODES) for cpus in sets) or workers < len(NODES)
        assert [threads for _, threads in rows] == [len({core for core in CORES if core & cpus}) for cpus in sets]
    else:
        assert set(sets) == NODES and all(threads >= 1 for _, threads in rows)


def test_what_is_asked_for(node0):
    first, last = min(MASK), max(MASK)
    assert [cpus for cpus, _ in bound(node0.run("-n", "2", "--bind-to", "none", *ASK))] == [MASK, MASK]
    rows = bound(node0.run("-n", "2", "--cpu-list", str(last), *ASK))
    assert rows == [(frozenset([last]), 1)] * 2
    rows = bound(node0.run("-n", "2", "--bind-to", "hwthread:overload-allowed", "--cpu-list", str(first), *ASK))
    assert [cpus for cpus, _ in rows] == [frozenset([first])] * 2
    rows = bound(node0.run("-n", "1", "--bind-to", "core", "--log-prefix", "[{rank}@{host}] ", *ASK))
    assert rows[0][0] in CORES and rows[0][1] == 1


@pytest.mark.parametrize("where", [[], ["--hosts", "node0"], ["--hosts", "node1"]], ids=["here", "hosts", "elsewhere"])
def test_too_many_for_the_cores_is_said_before_anything_runs(shells, where):
    count = len(CORES) + 1
    result = shells[0].run(*where, "-n", str(count), "--oversubscribe", "--bind-to", "core", "echo", "ran")
    assert result.code != 0 and result.out == b"", result
    assert f"--bind-to core: {count} workers want 1 core each" in result.errors and "overload-allowed" in result.errors, result


def test_a_list_without_one_of_our_cpus(node0):
    result = node0.run("-n", "1", "--cpu-list", "60000", "true")
    assert result.code == 2 and "--cpu-list 60000: the workers of this node may use CPUs" in result.errors, result


def test_on_each_host(shells):
    """Agents elsewhere bind theirs; nodes that are one machine share it, and auto leaves it to the kernel."""
    core = ["--bind-to", "hwthread", *ASK]
    for where in (["--hosts", "node0,node1"], ["--standalone", "--nnodes", "2"]):
        rows = bound(shells[0].run(*where, "--nproc-per-node", "2", *core)) if len(MASK) > 1 else []
        assert all(len(cpus) == 1 for cpus, _ in rows) and len({cpus for cpus, _ in rows}) == min(2, len(MASK)), rows
    rows = bound(shells[0].run("--standalone", "--nnodes", "2", "--nproc-per-node", "2", *ASK))
    assert [cpus for cpus, _ in rows] == [MASK] * 4


def test_on_nodes_that_are_typed_each_its_own_list(shells):
    """What a node's workers may use is that node's matter, as its CPUs are."""
    lists = [min(MASK), max(MASK)]
    meet = ["--nnodes", "2", "--nproc-per-node", "2", "--rdzv-endpoint", "node0:29423"]
    jobs = [shell.start(*meet, "--cpu-list", str(cpu), "--log-prefix", "[{rank}@{host}] ", *ASK) for shell, cpu in zip(shells[:2], lists)]
    rows = [row for job in jobs for row in bound(job.finish())]
    assert rows == [(frozenset([cpu]), 1) for cpu in lists for _ in range(2)], rows


def test_one_cpu_by_accident_is_noticed(node0):
    if len(MASK) == 1:
        pytest.skip("this machine has one CPU")
    result = node0.run("-c", f"exec taskset -c {max(MASK)} \"$0\" \"$@\"", LAUNCH, "-n", "2", *ASK, program="bash")
    assert [cpus for cpus, _ in bound(result)] == [frozenset([max(MASK)])] * 2
    assert f"workers may use CPU {max(MASK)} alone" in result.errors, result


def test_threads_tied_to_cpus_that_workers_share_are_noticed(node0):
    """Where each has CPUs of its own, OMP_PROC_BIND keeps to those."""
    said = "OMP_PROC_BIND=true ties the threads of all 2 workers to the same CPUs"
    for bind, shared in ((["--bind-to", "none"], True), ([], len(MASK) == 1)):
        result = node0.run("-n", "2", *bind, "true", env={"OMP_PROC_BIND": "true"})
        assert result.code == 0 and (said in result.errors) == shared, result


CPUSET = Path("/sys/fs/cgroup/cpuset")


@pytest.fixture
def cpuset():
    """A cgroup (v1) with the last CPU alone."""
    if not (CPUSET / "cpuset.cpus").exists() or not os.access(CPUSET, os.W_OK):
        pytest.skip("no cpuset hierarchy here in which a cgroup can be made")
    folder = CPUSET / f"muster-{os.getpid()}"
    folder.mkdir()
    (folder / "cpuset.cpus").write_text(str(max(MASK)))
    (folder / "cpuset.mems").write_text("0")
    yield folder
    folder.rmdir()


@pytest.mark.parametrize("workers", [1, 2, 3, 32])
def test_in_a_cpuset(node0, cpuset, workers):
    into = f'echo $$ > {cpuset}/cgroup.procs; exec "$0" "$@"'
    rows = bound(node0.run("-c", into, LAUNCH, "-n", str(workers), "--log-prefix", "[{rank}@{host}] ", *ASK, program="bash"))
    assert rows == [(frozenset([max(MASK)]), 1)] * workers


@pytest.mark.parametrize("workers", [1, 2])
def test_a_start_never_loads_hwloc(node0, workers):
    """The worker looks above its parent, the shepherd: there is the reaper, and then launch."""
    looks = "reaper=$(cut -d' ' -f4 /proc/$PPID/stat); launch=$(cut -d' ' -f4 /proc/$reaper/stat); cat /proc/$launch/comm; grep -c hwloc /proc/$launch/maps || true"
    result = node0.run("-n", str(workers), "--no-prefix", *sh(looks))
    assert result.code == 0 and sorted(result.text.split()) == ["0"] * workers + ["launch"] * workers, result


def test_a_worker_of_torch_has_the_threads_of_its_share(node0):
    asks = "import os, torch; print(torch.get_num_threads(), os.environ['OMP_NUM_THREADS'], flush=True)"
    rows = by_rank(node0.run("-n", "2", PYTHON, "-c", asks).out)
    share = max(1, len(CORES) // 2)
    assert [rows[rank] for rank in (0, 1)] == [[b"%d %d" % (share, share)]] * 2, rows


def test_so_many_to_an_object_are_so_many_workers(node0):
    """As with mpirun; --nproc-per-node may say fewer, not more."""
    assert len(bound(node0.run("--map-by", "ppr:2:package", "--log-prefix", "[{rank}@{host}] ", *ASK))) % 2 == 0
    said = node0.run("--plan", "--json", "--map-by", "ppr:3:numa", "prog", env={"HWLOC_SYNTHETIC": "pack:2 numa:2 core:4 pu:1"})
    assert said.code == 0 and len(json.loads(said.text)["bindings"][0]) == 12, said
    fewer = node0.run("--plan", "-n", "5", "--map-by", "ppr:3:numa", "prog", env={"HWLOC_SYNTHETIC": "pack:2 numa:2 core:4 pu:1"})
    assert fewer.code == 0 and "5 workers" in fewer.text, fewer
    more = node0.run("--plan", "-n", "13", "--map-by", "ppr:3:numa", "prog", env={"HWLOC_SYNTHETIC": "pack:2 numa:2 core:4 pu:1"})
    assert more.code == 2 and "--map-by ppr:3: 13 workers want 5 of these, and this node's workers may use 4" in more.errors, more


def test_memory_of_named_nodes(node0):
    """The kernel's word for it: numa_maps has the policy of every mapping."""
    if not Path("/proc/self/numa_maps").exists():
        pytest.skip("this kernel knows no NUMA nodes")
    looks = sh("grep -m1 -o 'bind:[0-9,-]*\\|interleave:[0-9,-]*' /proc/self/numa_maps; true")
    for how, want in (("0", "bind:0"), ("bind:0", "bind:0"), ("interleave:all", "interleave:0")):
        result = node0.run("-n", "1", "--no-prefix", "--membind", how, *looks)
        assert result.code == 0 and result.text.startswith(want), (how, result)
    result = node0.run("-n", "1", "--membind", "0,61", "true")
    assert result.code == 2 and "--membind 0,61: this node's NUMA nodes with CPUs are " in result.errors, result


def test_the_report_has_a_picture_and_the_kernels_word(shells):
    """Each node's workers, and a thread that has moved itself is named."""
    moves = "import os, time; os.sched_setaffinity(0, {%d}); time.sleep(60 if os.environ['RANK'] == '0' else 0)" % min(MASK)
    job = shells[0].start("--hosts", "node0,node1", "--nproc-per-node", "1", "--bind-to", "none", "--report-bindings", PYTHON, "-c", moves)
    if len(MASK) > 1:
        job.expect("a library has moved them: thread", stream="err")
    for rank in (0, 1):
        job.expect(f"bindings on node{rank}: 1 worker, ", stream="err")
    job.signal(signal.SIGTERM)
    said = job.finish().errors
    for rank in (0, 1):
        assert f"bindings on node{rank}: 1 worker, " in said and f"rank {rank}: CPUs " in said, said
        assert re.search(rf"node{rank}: rank {rank} \(pid \d+\): 1 thread on CPUs [0-9,-]+, as planned", said) or "not on CPUs" in said, said


def test_a_worker_that_had_ended_is_in_the_report_too(node0):
    result = node0.run("-n", "2", "--oversubscribe", "--report-bindings", "true")
    for rank in (0, 1):
        assert re.search(rf"rank {rank} \(pid \d+\): (1 thread on CPUs|it had ended before it was looked at)", result.errors), result


def test_what_a_worker_has_started_is_looked_at_too(node0):
    """A script's Python, and its threads; where all is as planned, that is said once libraries have theirs."""
    threads = "import threading, time; [threading.Thread(target=time.sleep, args=(60,), daemon=True).start() for _ in range(3)]; time.sleep(60)"
    moves = "import os, time; os.sched_setaffinity(0, {%d}); time.sleep(60)" % min(MASK)
    for program, want in ((threads, r"rank 0 \(pid \d+\): 5 threads on CPUs [0-9,-]+, as planned"), (moves, "1 of 2 threads not on CPUs")):
        if program == moves and len(MASK) == 1:
            continue
        job = node0.start("-n", "1", "--bind-to", "none", "--report-bindings", *sh(f"{PYTHON} -c '{program}'; true"))
        job.expect(want, stream="err")
        job.signal(signal.SIGTERM)
        job.finish()


def test_the_plan_of_a_machine_elsewhere(node0, scratch):
    """As hwloc describes it; nothing of this machine counts."""
    def plan(*words, **variables):
        return node0.run("--plan", *words, "prog", env=variables)

    said = plan("-n", "16", HWLOC_SYNTHETIC="pack:2 numa:4 core:8 pu:2")
    assert said.code == 0 and "  package 1  NUMA node 7  [14 14 14 14 15 15 15 15]\n" in said.text, said
    assert "  rank 15: CPUs 120-127, 4 cores, memory of NUMA node 7\n" in said.text, said
    bindings = json.loads(plan("-n", "2", "--json", "--bind-to", "core", HWLOC_SYNTHETIC="numa:2 core:2 pu:1").text)["bindings"]
    assert [worker["cpus"] for worker in bindings[0]] == ["0", "1"]
    xml = scratch / "node.xml"
    xml.write_text(XML)
    said = plan("-n", "2", HWLOC_XMLFILE=str(xml))
    assert "  package 0  NUMA node 0  [0]\n  package 1  NUMA node 3  [1]\n" in said.text, said
    assert "16 workers" in plan("--nproc-per-node", "cpu", HWLOC_SYNTHETIC="numa:2 core:4 pu:2").text
    said = plan("--nproc-per-node", "gpu", HWLOC_SYNTHETIC="numa:2 core:4 pu:2")
    assert said.code != 0 and "--nproc-per-node gpu: the node that is described has no GPU" in said.errors, said
    for name, value in (("HWLOC_SYNTHETIC", "pack:x"), ("HWLOC_XMLFILE", "/nonexistent.xml")):
        said = plan("-n", "2", **{name: value})
        assert said.code == 2 and f"{name}={value}: want " in said.errors, said


def test_jobs_beside_each_other_get_cpus_of_their_own(node0):
    """While there are enough; who gets another's is told so, and a job that ended has none."""
    if len(MASK) == 1:
        pytest.skip("this machine has one CPU")
    bind = ["--bind-to", "hwthread", "--log-prefix", "[{rank}@{host}] "]
    said = "node0: other workers of yours are bound to CPU"
    many = str(len(MASK) - 1)
    first = node0.start("-n", many, *bind, *sh(ASK[-1] + "; [ $RANK != 0 ] || cat"), stdin=subprocess.PIPE)
    first.expect(r"\[0@node0\] 1\n")
    own = bound(node0.run("-n", "1", *bind, *ASK))
    crowded = node0.run("-n", str(len(MASK)), *bind, *ASK)
    first.proc.stdin.close()
    held = bound(first.finish())
    assert frozenset().union(*(cpus for cpus, _ in held + own)) == MASK and len(own[0][0]) == 1, (held, own)
    assert len(frozenset(cpus for cpus, _ in bound(crowded))) == len(MASK) and said in crowded.errors, crowded
    again = node0.run("-n", many, *bind, *ASK)
    assert bound(again) == held and said not in again.errors, again
