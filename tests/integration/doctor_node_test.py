"""launch doctor on emulated hosts: what a node is by itself, and where it differs from others, each with its fix."""

import os
import re
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

from doctor_site import HOSTS, doctor, only_red, red, rows_of, the_row
from harness import BIN, LAUNCH, wait_for

MIB = 1 << 20


@pytest.fixture
def in_cgroup(lab, restart_sshd):
    """Puts logins at node1 into a cgroup of their own, with these limits."""
    made = []

    def put(controller, **limits):
        group = Path("/sys/fs/cgroup") / controller / lab.name
        group.mkdir()
        made.append(group)
        for file, value in limits.items():
            (group / file.replace("__", ".")).write_text(f"{value}\n")
        restart_sshd(before=["bash", "-c", f"echo $$ > {group}/cgroup.procs; exec \"$@\"", "-"])

    yield put
    restart_sshd()
    for group in made:
        wait_for(lambda: not (group / "cgroup.procs").read_text(), what="the cgroup is empty")
        group.rmdir()


def test_few_open_files_of_which_a_job_may_take_more(node0, restart_sshd):
    """The fix that is told is one."""
    restart_sshd(before=["prlimit", "--nofile=300:4096", "--"])
    seen, fix = the_row(doctor(node0, *HOSTS), "bad", "limits", "node1")
    assert seen == "ulimit -n is 300 for a worker, want 1024 or more" and "for one job: --prologue 'ulimit -n 1024'" in fix, fix
    doctor(node0, *HOSTS, "--prologue", "ulimit -n 1024", code=0)


def test_few_processes(node0):
    """Of a user: root has no such limit."""
    limited = ["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups", "prlimit", "--nproc=500:500", "env", "HOME=/tmp"]
    result = node0.run(*limited[1:], LAUNCH, "doctor", "--json", "--standalone", "--nnodes", "1", program=limited[0], cwd="/tmp")
    seen, fix = the_row(rows_of(result.text, 1), "bad", "limits", "node0")
    assert seen == "ulimit -u is 500 for a worker, want 1024 or more: threads count", seen
    assert fix == "nproc in /etc/security/limits.conf of node0", fix


def test_little_memory_to_pin_where_there_is_rdma(lab, node0, restart_sshd):
    restart_sshd(before=["prlimit", f"--memlock={8 * MIB}:{8 * MIB}", "--"])
    lab[1].check(["bash", "-c", "mount -t tmpfs tmpfs /sys/class && mkdir -p /sys/class/infiniband/mlx5_0"])
    try:
        seen, fix = the_row(doctor(node0, *HOSTS), "bad", "limits", "node1")
    finally:
        lab[1].check(["umount", "/sys/class"])
    assert "ulimit -l is 8.0 MiB, and there is RDMA" in seen and "LimitMEMLOCK=infinity" in fix, (seen, fix)


def test_shared_memory_that_cannot_be_written(lab, node0):
    lab[1].check(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", "/dev/shm"])
    try:
        seen, fix = the_row(doctor(node0, *HOSTS), "bad", "shared memory", "node1")
    finally:
        lab[1].check(["umount", "/dev/shm"])
    assert seen == "/dev/shm: Read-only file system" and fix == "on node1: mount -t tmpfs -o mode=1777 tmpfs /dev/shm", (seen, fix)


@contextmanager
def read_only(host, folder):
    host.check(["mount", "-t", "tmpfs", "-o", "ro,mode=1777", "tmpfs", folder])
    try:
        yield
    finally:
        host.check(["umount", folder])


def test_a_working_folder_that_cannot_be_written_is_a_warning(lab, node0, scratch):
    """A program may well run where it is installed, and writes elsewhere; it is not asked for room there."""
    folder = scratch / "installed"
    folder.mkdir(mode=0o755)
    fix_of = "if the program writes files there, name another folder: --wdir; or {}".format
    with read_only(lab[1], folder):
        seen, fix = the_row(doctor(node0, *HOSTS, "--wdir", folder, code=0), "warn", "disks", "node1")
        assert node0.run("--no-python", *HOSTS, "--wdir", folder, "pwd").code == 0
    assert seen == f"working folder {folder} cannot be written: Read-only file system", seen
    assert fix == fix_of(f"mount on node1 what holds it for writing: `findmnt -T {folder}`"), fix
    nobody = ["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups", "env", "HOME=/tmp"]
    result = node0.run(*nobody[1:], LAUNCH, "doctor", "--json", "--standalone", "--nnodes", "1", program=nobody[0], cwd=folder)
    seen, fix = the_row(rows_of(result.text, 0), "warn", "disks", "node0")
    assert seen == f"working folder {folder} cannot be written: Permission denied", seen
    assert fix == fix_of(f"let uid 12345 write to it on node0: `ls -ld {folder}`"), fix


def test_a_working_folder_that_cannot_be_entered(node0, scratch):
    folder = scratch / "closed"
    folder.mkdir(mode=0o700)
    nobody = ["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups", "env", "HOME=/tmp"]
    args = ["doctor", "--json", "--standalone", "--nnodes", "1", "--wdir", folder]
    result = node0.run(*nobody[1:], LAUNCH, *args, program=nobody[0], cwd="/tmp")
    seen, fix = the_row(rows_of(result.text, 1), "bad", "disks", "node0")
    assert seen == f"working folder {folder}: Permission denied", seen
    assert fix == f"let uid 12345 enter it on node0 (`namei -l {folder}` tells what is in the way), or name another: --wdir", fix


def test_a_temporary_folder_that_cannot_be_written(lab, node0):
    with read_only(lab[1], "/tmp"):
        seen, fix = the_row(doctor(node0, *HOSTS), "bad", "disks", "node1")
        doctor(node0, *HOSTS, "-x", "TMPDIR=/var/tmp", code=0)
    assert seen == "temporary folder /tmp cannot be written: Read-only file system", seen
    assert fix == "name another folder: -x TMPDIR=FOLDER; or mount on node1 what holds it for writing: `findmnt -T /tmp`", fix


def test_a_disk_that_is_almost_full_is_a_warning(lab, node0):
    lab[1].check(["mount", "-t", "tmpfs", "-o", "size=500M,mode=1777", "tmpfs", "/tmp"])
    try:
        seen, fix = the_row(doctor(node0, *HOSTS, code=0), "warn", "disks", "node1")
    finally:
        lab[1].check(["umount", "/tmp"])
    assert seen == "temporary folder /tmp: 500.0 MiB free" and fix == "make room on node1: `df -h /tmp`", (seen, fix)


def test_a_cgroup_with_little_memory(node0, in_cgroup):
    in_cgroup("memory", memory__limit_in_bytes=400 * MIB)
    seen, fix = the_row(doctor(node0, *HOSTS), "bad", "cgroups", "node1")
    assert seen.startswith("its cgroup allows 3") and seen.endswith(" MiB more memory, want 512.0 MiB or more"), seen
    assert fix == "ask the scheduler for more, or raise the limit of the container or of the login (memory.max)", fix


def test_fewer_cpus_than_were_allocated(lab, node0, restart_sshd):
    """As where srun has bound the step, and the scheduler's variable tells of more."""
    first = min(os.sched_getaffinity(0))
    restart_sshd(before=["taskset", "-c", str(first)], options=["-o", f"SetEnv=HOME={lab[1].home} NCPUS=2"])
    seen, fix = the_row(doctor(node0, *HOSTS), "bad", "CPUs", "node1")
    assert seen == "the CPU mask has 1 CPU of the 2 that were allocated: all workers share these", seen
    assert "start without what binds on node1" in fix and "--cpu-bind" in fix, fix


def test_as_many_cpus_as_were_allocated(lab, node0, restart_sshd):
    first = min(os.sched_getaffinity(0))
    restart_sshd(before=["taskset", "-c", str(first)], options=["-o", f"SetEnv=HOME={lab[1].home} NCPUS=1"])
    assert not red(doctor(node0, *HOSTS, code=0))


def test_a_quota_of_fewer_cpus_is_a_warning(node0, in_cgroup):
    in_cgroup("cpu", cpu__cfs_quota_us=150000)
    seen, fix = the_row(doctor(node0, *HOSTS, code=0), "warn", "CPUs", "node1")
    assert seen == f"the cgroup's quota is 1.5 of {len(os.sched_getaffinity(0))} CPUs" and "cpu.max" in fix, (seen, fix)


@pytest.fixture
def gpus(lab):
    """Says how many GPUs the driver of node1 has; whether the others have any is the machine's matter."""

    def put(count):
        folders = " ".join(f"/proc/driver/nvidia/gpus/0000:{i:02x}:00.0" for i in range(count))
        lab[1].check(["bash", "-c", f"mount -t tmpfs tmpfs /proc/driver && mkdir -p {folders}"])

    yield put
    lab[1].check(["umount", "/proc/driver"])


def nvidia_smi(folder, script):
    """The environment in which this stands for nvidia-smi."""
    tool = folder / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    return {"PATH": f"{folder}:/usr/sbin:/usr/bin:/sbin:/bin"}


def test_gpus_that_do_not_answer_and_that_others_do_not_have(node0, scratch, gpus):
    gpus(63)
    checks = doctor(node0, *HOSTS, env=nvidia_smi(scratch, "exit 9"))
    sick, fewer = checks["GPUs"][0], checks["GPUs"][-1]
    only_red(checks, "GPUs")
    assert (sick["where"], sick["seen"]) == ("node1", "GPUs are there, but nvidia-smi ended with status 9"), sick
    assert sick["fix"] == "see `nvidia-smi` and `dmesg | grep -i nvrm` on node1", sick
    assert fewer["seen"].startswith("the number of GPUs differs: ") and "63 on node1" in fewer["seen"], fewer
    assert "CUDA_VISIBLE_DEVICES" in fewer["fix"], fewer


def test_another_driver(node0, scratch):
    answer = 'case $1 in *driver*) [ $(hostname) = node1 ] && echo 535.2 || echo 550.1;; esac'
    seen, fix = the_row(doctor(node0, *HOSTS, env=nvidia_smi(scratch, answer)), "bad", "GPUs", "")
    assert seen == "the NVIDIA driver differs: 550.1 on node0, node2; 535.2 on node1", seen
    assert fix == "update the driver where it is older, or leave the node out: --exclude", fix


def test_another_torch(node0, scratch, in_environment):
    (scratch / "torch").mkdir()
    (scratch / "torch/version.py").write_text("__version__ = '9.8.7'\n")
    in_environment(PYTHONPATH=scratch)
    seen, fix = the_row(doctor(node0, *HOSTS), "bad", "versions", "")
    assert seen.startswith("torch differs: ") and "9.8.7 on node1" in seen, seen
    assert fix.startswith("use one environment on all nodes: PYTHON_EXEC=/path/of/python3"), fix


def test_a_python_that_does_not_run(lab, node0, scratch):
    """On node1 alone, so that the versions differ, too."""
    python = scratch / "python3"
    python.write_text("#!/bin/sh\n[ $(hostname) = node1 ] && exit 3\necho 3.9.1\n")
    python.chmod(0o755)
    checks = doctor(node0, *HOSTS, env={"PYTHON_EXEC": str(python)})
    assert f"{python} ended with status 3" in only_red(checks, "versions")[0], checks
    assert checks["versions"][0]["where"] == "node1" and "PYTHON_EXEC=" in checks["versions"][0]["fix"], checks


def other_agent(folder):
    """A muster-agent of another build: ours, under a name of the same length."""
    agent, version = folder / "muster-agent", lambda path: subprocess.run([path, "--build"], capture_output=True, check=True).stdout.strip()
    ours = version(BIN / "muster-agent")
    other = b"0.0.1-".ljust(len(ours), b"0")
    agent.write_bytes((BIN / "muster-agent").read_bytes().replace(ours, other))
    agent.chmod(0o755)
    assert version(agent) == other
    return agent, ours.decode(), other.decode()


@contextmanager
def installed_on(host, agent):
    host.check(["mount", "--bind", agent, BIN / "muster-agent"])
    try:
        yield
    finally:
        host.check(["umount", BIN / "muster-agent"])


def test_an_agent_of_another_build_gives_way_to_ours_which_ssh_brings(lab, node0, scratch):
    agent, ours, other = other_agent(scratch)
    with installed_on(lab[1], agent):
        assert lab[1].check([BIN / "muster-agent", "--build"]).strip() == other
        assert doctor(node0, *HOSTS, code=0)["start"][0]["seen"] == f"3 nodes answer, build {ours}"


def test_an_agent_of_another_build_that_slurm_starts(slurm):
    """Nothing can bring ours there."""
    agent, ours, other = other_agent(slurm.folder)
    with installed_on(slurm.lab[1], agent):
        job = slurm.submit(f"exec {LAUNCH} doctor --json 2> errors", "-N2", "-w", "node0,node1")
        assert slurm.wait(job)["ExitCode"] == "1:0", slurm.output(job)
    seen, fix = the_row(rows_of(slurm.output(job), 1), "bad", "start", "node1")
    assert f"the agent there is muster {other}, this is {ours}: install the same build" in seen, seen
    by_hand = f"srun --overlap -N1 -n1 -w node1 {BIN}/muster-agent --build"
    assert fix == f"install the same build of muster on node1, at the same path as here; `{by_hand}` tells which is there", fix


def test_an_agent_that_a_scheduler_does_not_find(slurm, pbs):
    """The line that the fix tells says why, or does not fail."""
    for batch, job, by_hand in (
        (slurm, ["-N2", "-w", "node0,node1"], f"srun --overlap -N1 -n1 -w node1 {BIN}/muster-agent --build"),
        (pbs, ["-l", "select=2"], f"pbsdsh -h node1 -- {BIN}/muster-agent --build"),
    ):
        batch.lab[1].check(["mount", "-t", "tmpfs", "tmpfs", BIN])
        try:
            number = batch.submit(f"{LAUNCH} doctor --json 2> /dev/null", *job)
            batch.wait(number)
        finally:
            batch.lab[1].check(["umount", BIN])
        _, fix = the_row(rows_of(batch.output(number), 1), "bad", "start", "node1")
        assert f"`{by_hand}`" in fix and "ssh" not in fix, fix
        told = batch.run(by_hand, *job)
        assert re.search(r"^\d+\.\d+\.\d+-\w+", told, re.M), told
