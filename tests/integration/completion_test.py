"""Completion as it is typed: an interactive bash on a terminal, and its TAB key."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from pathlib import Path

import pytest

from harness import BIN, LAUNCH, PATIENCE, clean_env

COMPLETION = Path(__file__).resolve().parents[2] / "deploy/completion/launch"
# With one TAB all that is offered is listed; Ctrl-G shows the line as it stands then.
SET_UP = (
    f". {COMPLETION}",
    "bind 'set show-all-if-ambiguous on'",
    "bind 'set completion-query-items 0'",
    "bind 'set page-completions off'",
    "bind 'set bell-style none'",
    "bind 'set enable-bracketed-paste off'",
    r"""bind -x '"\C-g": printf "\nline<%s>\n" "$READLINE_LINE"'""",
    "HOSTFILE=/dev/null",
    "echo re''ady",
)


class Typed:
    """A bash that waits for keys."""

    def __init__(self, home):
        self.keys, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 200, 1000, 0, 0))
        env = clean_env({"HOME": str(home), "PS1": "", "TERM": "dumb", "INPUTRC": "/dev/null"})
        env["PATH"] = f"{BIN}:{env['PATH']}"
        self.bash = subprocess.Popen(["bash", "--norc", "--noprofile", "-i"], stdin=terminal, stdout=terminal, stderr=terminal, env=env, start_new_session=True)
        os.close(terminal)
        self.type("\r".join(SET_UP) + "\r")
        self.read(r"\nready\r")

    def type(self, text):
        os.write(self.keys, text.encode())

    def read(self, until):
        seen, end = "", time.monotonic() + PATIENCE
        while not re.search(until, seen):
            assert select.select([self.keys], [], [], max(0, end - time.monotonic()))[0], (until, seen)
            seen += os.read(self.keys, 1 << 16).decode()
        return seen

    def tab(self, line):
        """The line behind a TAB, and what bash lists if that is not all."""
        self.type("\x15" + line + "\t\x07")
        seen = self.read(r"line<[^>]*>\r?\n")
        shown = seen.split("line<")[0].split("\n")[1:-3]  # the list, which stands before the line once more and an empty one
        return re.search(r"line<(.*?)>", seen)[1], " ".join(shown).split()

    def close(self):
        os.close(self.keys)  # a hang-up
        self.bash.wait(PATIENCE)


@pytest.fixture(scope="module")
def bash(tmp_path_factory):
    typed = Typed(tmp_path_factory.mktemp("home"))
    yield typed
    typed.close()


@pytest.mark.parametrize(
    "typed, line",
    [
        ("launch swe", "launch sweep "),
        ("launch chaos fr", "launch chaos freeze "),
        ("launch chaos kill ra", "launch chaos kill rank "),
        ("launch chaos --for 5s kill ma", "launch chaos --for 5s kill master "),
        ("launch chaos --for=5s sl", "launch chaos --for=5s slow "),
        ("launch stop --signal T", "launch stop --signal TERM "),
        ("launch stop --signal=Q", "launch stop --signal=QUIT "),
        ("launch stop --grace 5s -s H", "launch stop --grace 5s -s HUP "),
        ("launch logs --ta", "launch logs --tail "),
        ("launch logs --tail al", "launch logs --tail all "),
        ("launch attach --since st", "launch attach --since start "),
        ("launch sweep --sw", "launch sweep --sweep-seconds "),
        ("launch sweep --sweep-seconds 5 --rate", "launch sweep --sweep-seconds 5 --rate-regex "),
        ("launch sweep --bind-to core,pack", "launch sweep --bind-to core,package "),
        ("launch --dialect deep", "launch --dialect deepspeed "),
        ("launch --dialect ompi,slurm-k", "launch --dialect ompi,slurm-keep "),
        ("launch --propagate core,sigp", "launch --propagate core,sigpending "),
        ("launch doctor --iface l", "launch doctor --iface lo "),
    ],
)
def test_what_is_begun_is_completed(bash, typed, line):
    assert bash.tab(typed)[0] == line


@pytest.mark.parametrize(
    "typed, offered",
    [
        ("launch chaos ", "cut freeze kill slow"),
        ("launch chaos kill ", "master rank"),
        ("launch stop --signal ", "HUP INT QUIT TERM"),
        ("launch stop --signal=", "HUP INT QUIT TERM"),
        ("launch --mpi ", "auto none pmi1 pmix"),
        ("launch chaos freeze node1 ", ""),
        ("launch chaos --for ", ""),
        ("launch stop no-such-job ", ""),
    ],
)
def test_what_may_stand_there_is_listed(bash, typed, offered):
    assert bash.tab(typed) == (typed, offered.split())


def test_each_dialect_is_offered(bash):
    known = subprocess.run([LAUNCH, "--plan", "--dialect", "?", "true"], capture_output=True, text=True, timeout=PATIENCE).stderr
    want = set(re.search(r"a list of (.*), got", known)[1].split(", "))
    assert set(bash.tab("launch --dialect ")[1]) == want
