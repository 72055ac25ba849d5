"""--ship: files of one host come to all nodes, and the workers run where they are. /tmp is each host's own."""

import re
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness import LAUNCH, PYTHON, by_rank, sh, wait_for

HOSTS = ("--hosts", "node0,node1,node2", "--nproc-per-node", "1")
TRAIN = """\
import helper, os
print(os.environ["RANK"], helper.WORD, open("data/x").read(), os.path.realpath("data/link") == os.path.realpath("data/x"),
      os.getcwd() == os.environ["MUSTER_SHIP_DIR"], oct(os.stat("data/run").st_mode & 0o777), flush=True)
"""


@pytest.fixture
def project(shells):
    """A program that only node0 has; afterwards no host has anything more than before."""
    before = [shell.host.files() for shell in shells]
    home = "/tmp/project of mine"
    write = lambda name, text: shells[0].host.check(["bash", "-c", f'cat > "{home}/{name}" <<"END"\n{text}\nEND'])
    shells[0].host.check(["mkdir", "-p", f"{home}/data"])
    write("train.py", TRAIN)
    write("helper.py", 'WORD = "hello"')
    write("data/x", "some data")
    write("data/run", "#!/bin/sh\necho run by $0")
    shells[0].host.check(["bash", "-c", f'cd "{home}/data" && chmod 750 run && ln -s x link'])
    yield home
    shells[0].host.check(["rm", "-rf", home])
    for shell, files in zip(shells, before):
        wait_for(lambda: shell.host.files() <= files, 15, what=lambda: shell.host.files() - files)


def launch(shell, home, *args, **kw):
    return shell.start("-c", 'cd "$0" && exec "$@"', home, LAUNCH, *args, program="bash", **kw)


def taken(host):
    """Bytes that agents of this host have written so far, of the archive above all."""
    written = [Path(f"/proc/{pid}/io").read_text() for pid, line in host.processes().items() if "muster-agent" in line]
    return sum(int(re.search(r"wchar: (\d+)", text)[1]) for text in written)


def folder_of(job):
    return job.expect(r"in (/tmp/muster-ship-\w+)")[0]


def test_what_only_this_host_has_runs_on_all(shells, project):
    result = launch(shells[0], project, *HOSTS, "--ship", "train.py", "--ship", "helper.py", "--ship", "data", "train.py").finish()
    assert result.code == 0, result
    assert by_rank(result.out) == {r: [b"%d hello some data" % r, b" True True 0o750"] for r in range(3)}, result


def test_the_folder_itself_and_a_program_named_by_its_whole_path(shells, project):
    result = launch(shells[0], project, *HOSTS, "--ship", ".", "data/run").finish()
    assert result.code == 0 and result.text.count("run by data/run") == 3, result
    result = shells[0].run(*HOSTS, "--ship", f"{project}/data", f"{project}/data/run", cwd="/")
    assert result.code == 0 and result.text.count("run by data/run") == 3, result


def test_wdir_decides_where_workers_run(shells, project):
    script = 'pwd; cat "$MUSTER_SHIP_DIR/data/x"'
    result = launch(shells[0], project, *HOSTS, "--ship", "data", "--wdir", "/usr", *sh(script)).finish()
    assert result.code == 0 and result.text.count("] /usr\n") == result.text.count("some data") == 3, result
    result = launch(shells[0], project, *HOSTS, "--ship", "data", "--wdir", "data", *sh("cat x")).finish()
    assert result.code == 0 and result.text.count("some data") == 3, result


def test_a_job_file_ships_and_the_plan_shows_it(shells, project):
    shells[0].host.check(["bash", "-c", f'echo "{{hosts: [node0, node1], ship: [data, helper.py], command: [cat, data/x]}}" > "{project}/job.yaml"'])
    result = launch(shells[0], project, "--config", "job.yaml").finish()
    assert result.code == 0 and result.text.count("some data") == 2, result
    result = launch(shells[0], project, "--config", "job.yaml", "--plan").finish()
    assert result.code == 0 and "ship     data helper.py: 5 files and folders, " in result.text, result


def test_standalone_nodes_pass_it_on(shells, project):
    """Each node has a folder of its own; launch sends two copies, the nodes the rest."""
    shells[0].host.check(["dd", "if=/dev/urandom", f"of={project}/big", "bs=1M", "count=20", "status=none"])
    digest = shells[0].host.check(["sha256sum", f"{project}/big"]).split()[0]
    job = launch(shells[0], project, "-v", "--standalone", "--nnodes", "8", "--ship", "big", *sh('sha256sum < big; echo "in $PWD"'))
    result = job.finish()
    assert result.code == 0 and result.text.count(digest) == 8, result
    assert len(set(re.findall(r"in (/tmp/\S+)", result.text))) == 8, result
    sources = re.findall(r"gets the shipped files from (\w+)", result.errors)
    assert len(sources) == 8 and sources.count("here") == 2, result


def test_nodes_that_do_not_reach_each_other_get_it_from_launch(shells, lab, project):
    with lab.closed():
        result = launch(shells[0], project, "-v", *HOSTS, "--ship", "data", "cat", "data/x").finish()
    assert result.code == 0 and result.text.count("some data") == 3, result
    assert len(re.findall(r"gets the shipped files from here", result.errors)) == 3, result
    assert re.search(r"gets the shipped files from node", result.errors), result  # tried in vain


DAMAGED = "the shipped files were damaged on their way: their SHA-256 differs"
FLIPPED = 2 << 20  # the byte that comes as another one, of a file of 8 MiB

# In the place of ssh, which does not wait for its stdout, the same socket as our stdin: neither may we.
DAMAGING_SSH = f"""#!{PYTHON}
import os, select, subprocess, sys
ssh = subprocess.Popen(["ssh", *sys.argv[1:]], stdin=subprocess.PIPE, bufsize=0)
passed = 0
while select.select([0], [], []) and (piece := bytearray(os.read(0, 1 << 16))):
    if 0 <= {FLIPPED} - passed < len(piece):
        piece[{FLIPPED} - passed] ^= 1
    passed += ssh.stdin.write(piece)
ssh.stdin.close()
sys.exit(ssh.wait())
"""


def large(shell, home):
    """The digest of what `project` has in its file `big` then."""
    shell.host.check(["dd", "if=/dev/urandom", f"of={home}/big", "bs=1M", "count=8", "status=none"])
    return shell.host.check(["sha256sum", f"{home}/big"]).split()[0]


def test_what_is_damaged_between_launch_and_a_node_runs_nowhere(shells, project, scratch):
    large(shells[0], project)
    ssh = scratch / "ssh"
    ssh.write_text(DAMAGING_SSH)
    ssh.chmod(0o755)
    result = launch(shells[0], project, "--ssh", ssh, "--hosts", "node1", "--ship", "big", *sh("echo runs")).finish()
    assert result.code == 1 and "runs" not in result.text, result
    assert f"node1: {DAMAGED}" in result.errors, result


# In a host: what comes to any port that is redirected here is passed on to that port, what goes back damaged; until stdin ends.
DAMAGING_DOOR = f"""
import asyncio, socket, struct, sys
async def pipe(reader, writer, flipped):
    passed = 0
    while piece := bytearray(await reader.read(1 << 16)):
        if 0 <= flipped - passed < len(piece):
            piece[flipped - passed] ^= 1
        writer.write(piece)
        passed += len(piece)
        await writer.drain()
    writer.close()
async def door(reader, writer):
    original = writer.get_extra_info("socket").getsockopt(socket.SOL_IP, 80, 16)  # SO_ORIGINAL_DST
    inner, out = await asyncio.open_connection("127.0.0.1", struct.unpack_from("!2xH", original)[0])
    await asyncio.gather(pipe(reader, out, -1), pipe(inner, writer, {FLIPPED}), return_exceptions=True)
async def main():
    await asyncio.start_server(door, port=20599)
    print("up", flush=True)
    await asyncio.to_thread(sys.stdin.read)
asyncio.run(main())
"""


@contextmanager
def damaging(host):
    """Whoever takes more than 2 MiB from a port of 20500-20598 of this host has one bit wrong."""
    rules = "table ip damaging { chain pre { type nat hook prerouting priority -100; iifname eth0 tcp dport 20500-20598 redirect to :20599; }; }"
    door = host.popen([PYTHON, "-c", DAMAGING_DOOR], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert door.stdout.readline() == b"up\n"
        host.check(["nft", rules])
        yield
    finally:
        host.run(["nft", "delete table ip damaging"])
        door.communicate()


def test_what_is_damaged_between_two_nodes_comes_from_launch(shells, project):
    digest = large(shells[0], project)
    with damaging(shells[0].host), damaging(shells[1].host), damaging(shells[2].host):
        options = ["-v", *HOSTS, "--port-range", "20500-20598", "--ship", "big"]
        result = launch(shells[0], project, *options, *sh("sha256sum < big")).finish()
    assert result.code == 0 and result.text.count(digest) == 3, result
    assert re.search(rf"node\d: 10\.77\.0\.\d:205\d\d: {DAMAGED}", result.errors), result
    assert len(re.findall("gets the shipped files from here", result.errors)) == 3, result


def test_what_workers_wrote_stays(shells, project):
    job = launch(shells[0], project, "--hosts", "node1", "--ship", "data", *sh('echo "in $PWD"; echo weights > data/model; echo new > data/x; sync'))
    result = job.finish()
    folder = folder_of(job)
    assert result.code == 0 and f"node1: what workers wrote stays in {folder} there" in result.errors, result
    wait_for(lambda: f"{folder}/data/run" not in shells[1].host.files(), 15)
    assert shells[1].host.files() >= {f"{folder}/data/model", f"{folder}/data/x"}
    shells[1].host.check(["rm", "-rf", folder])


@pytest.mark.parametrize("victim", ["muster-agent", "muster-shepherd"])
def test_a_killed_agent_leaves_nothing(shells, project, victim):
    job = launch(shells[0], project, "--hosts", "node1", "--ship", "data", *sh('echo "in $PWD"; exec sleep 1060'))
    folder = folder_of(job)
    assert folder in shells[1].host.files()
    shells[1].host.check(["pkill", "-KILL", "-x", victim])
    assert job.finish().code != 0
    wait_for(lambda: folder not in shells[1].host.files(), 15)


def test_nothing_is_said_where_nothing_stays(shells, project):
    result = launch(shells[0], project, "--hosts", "node1", "--ship", "data", *sh("cat data/x")).finish()
    assert result.code == 0 and not result.errors, result


def test_a_stopped_launch_leaves_nothing(shells, project):
    job = launch(shells[0], project, *HOSTS, "--ship", "data", *sh('echo "in $PWD"; exec sleep 1061'))
    job.expect("in /tmp/muster-ship", count=3)
    job.signal(9)
    job.finish()


def test_a_full_disk_is_that_nodes_failure(shells, project):
    shells[0].host.check(["dd", "if=/dev/zero", f"of={project}/big", "bs=1M", "count=8", "status=none"])
    shells[1].host.check(["bash", "-c", "mkdir /tmp/small && mount -t tmpfs -o size=2m none /tmp/small"])
    shells[0].host.check(["mkdir", "/tmp/small"])
    shells[2].host.check(["mkdir", "/tmp/small"])
    try:
        result = launch(shells[0], project, *HOSTS, "-x", "TMPDIR=/tmp/small", "--ship", "big", "true").finish()
        assert result.code == 1, result
        assert re.search(r"node1: no room for the shipped files \(\d+ bytes, twice\) in /tmp/small: No space left on device; name a larger folder: -x TMPDIR=", result.errors), result
    finally:
        shells[1].host.check(["umount", "/tmp/small"])
        for shell in shells:
            wait_for(lambda: shell.host.run(["rmdir", "/tmp/small"]).returncode == 0, 15)


def test_a_host_that_stands_still_in_the_middle_of_a_transfer_is_named(shells, lab, project):
    """On a line so slow that it cannot have all of it by then."""
    shells[0].host.check(["dd", "if=/dev/urandom", f"of={project}/big", "bs=1M", "count=40", "status=none"])
    lab[1].limit("20mbit")
    try:
        job = launch(shells[0], project, "-v", *HOSTS, "--ship", "big", *sh("echo runs"))
        job.expect("node1 gets the shipped files from", stream="err")
        wait_for(lambda: taken(shells[1].host) > 1 << 20, 30, what="node1 has a part of it")
        lab[1].freeze()
        result = job.finish()
    finally:
        lab[1].thaw()
        lab[1].limit("none")
    assert result.code == 1 and "runs" not in result.text, result
    assert "node1: its agent has said nothing for 30.0 s while it was to get the shipped files" in result.errors, result
    lab.expect_quiet()  # and `project` looks at what is left


def test_what_cannot_be_shipped_is_said_before_anything_starts(shells, project):
    for args, says in (
        (["--ship", "nothing.py", *HOSTS], "--ship: nothing.py: No such file or directory: is it written as it is from here?"),
        (["--ship", "data", "--nnodes", "2"], "--ship data: launch ships files to nodes that it starts itself"),
        (["--ship", "", *HOSTS], "--ship: want a file or a folder, got ''"),
        (["--ship", "/dev/null", *HOSTS], "--ship: /dev/null is neither a file nor a folder nor a link"),
    ):
        result = launch(shells[0], project, *args, "true").finish()
        assert result.code == 2 and says in result.errors, result


def test_with_a_restart_the_files_are_still_there(shells, project):
    job = launch(shells[0], project, "--hosts", "node1", "--max-restarts", "1", "--ship", "data", *sh('cat data/x; [ $TORCHELASTIC_RESTART_COUNT = 1 ]'))
    result = job.finish()
    assert result.code == 0 and result.text.count("some data") == 2, result


def test_an_agent_that_is_started_again_has_the_files_again(shells, project):
    job = launch(shells[0], project, "--hosts", "node0,node1", "--nproc-per-node", "1", "--max-restarts", "1", "--ship", "data",
                 *sh('echo "$(cat data/x) $TORCHELASTIC_RESTART_COUNT on $(hostname) in $PWD"; exec sleep 1062'))  # fmt: skip
    job.expect("some data 0 on node", 2)
    shells[1].host.check(["pkill", "-KILL", "-x", "muster-agent"])
    job.expect("some data 1 on node", 2)
    first, second = re.findall(r"on node1 in (\S+)", job.out.data.decode())
    assert first != second
    job.signal(15)
    assert job.finish().code == 143


def test_one_machine_runs_in_a_folder_of_the_job_too(node0, project):
    result = launch(node0, project, "--ship", "data", *sh("ls; rm data/x")).finish()
    assert result.code == 0 and result.text == "data\n", result
    assert "some data" in node0.host.check(["cat", f"{project}/data/x"])
