"""`srun launch` on hosts that share no home directory: the tasks have one secret by Slurm's munge."""

import re
import shlex
import signal

from harness import LAUNCH

SAYS_UP = 'echo "up $RANK/$WORLD_SIZE"'
OWN_HOME = "export HOME=$(mktemp -d)"  # /tmp is each host's own
HIDE_MUNGE = "if [ $SLURM_NODEID = 1 ]; then mount -t tmpfs none /run/munge; fi"


def task(*before, worker=SAYS_UP):
    """A task a node that does `before` and becomes launch."""
    words = "; ".join([*before, f"exec {LAUNCH} --nproc-per-node 1 bash -c '{worker}'"])
    return f"srun -K1 --ntasks-per-node=1 unshare --mount bash -c {shlex.quote(words)}"


def test_two_homes_are_one_job(slurm):
    result = slurm.alloc(task(OWN_HOME), "-N2")
    assert result.code == 0 and sorted(re.findall(r"up \d/\d", result.text)) == ["up 0/2", "up 1/2"], result


def test_without_munge_two_homes_are_two_secrets(slurm):
    """The control; and a host without munge is no worse off than before."""
    result = slurm.alloc(task(HIDE_MUNGE, OWN_HOME), "-N2")
    assert result.code != 0 and "scp -p" in result.errors, result
    result = slurm.alloc(task(HIDE_MUNGE), "-N2")
    assert result.code == 0 and result.text.count("/2") == 2, result


def test_what_a_stranger_gets_is_worth_nothing(slurm, slurm_lab):
    running = slurm.start("salloc", "-Q", "-N2", "-w", "node0,node1", "bash", "-c", task(OWN_HOME, worker="echo up; exec sleep 1000"))
    running.expect("up", 2)
    serving, other = slurm_lab[0], slurm_lab[1]
    listening = serving.run(["bash", "-c", "ss -Hltnp | grep '\"launch\"'"]).stdout.decode()
    answers = []
    for port in set(re.findall(r":(\d+)\s+\S+\s+users:", listening)):
        ask = f"exec 3<>/dev/tcp/{serving.addr}/{port} && echo muster-munge >&3 && timeout 5 cat <&3"
        answers.append(other.run(["bash", "-c", ask]).stdout.decode().strip())
    (credential,) = [answer for answer in answers if answer.startswith("MUNGE:")]
    refused = other.run(["bash", "-c", f"echo {credential} | setpriv --reuid=65534 --clear-groups unmunge"])
    assert refused.returncode != 0 and b"nauthorized" in refused.stderr and b"muster-secret" not in refused.stdout, refused
    user = other.run(["bash", "-c", f"echo {credential} | unmunge"])
    assert re.search(rb"muster-secret [0-9a-f]{64} ", user.stdout), user  # the control
    running.signal(signal.SIGTERM)
    running.finish()
