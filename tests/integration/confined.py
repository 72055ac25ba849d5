"""confined.py UNIT PROGRAM WORDS...: becomes the program, with the system calls that a unit of systemd's allows, by its
SystemCallFilter, RestrictAddressFamilies and MemoryDenyWriteExecute. Stricter than systemd's in one thing: what the
latter two forbid ends the program (SIGSYS) instead of failing."""

import mmap
import os
import re
import socket
import subprocess
import sys

import seccomp


def values(unit, key):
    """The words of each line with this key."""
    return [line.split() for line in re.findall(rf"^{key}=(.*)$", unit, re.MULTILINE)]


def groups():
    """systemd's groups of system calls: name -> what it names, groups among it."""
    done = subprocess.run(["systemd-analyze", "syscall-filter"], check=True, capture_output=True, text=True)
    out = {}
    for line in done.stdout.splitlines():
        if line.startswith("@"):
            out[line] = group = set()
        elif line.strip() and not line.strip().startswith("#"):
            group.add(line.strip())
    return out


def allowed(unit):
    known = groups()

    def calls(words):
        return set().union(*(calls(known[word]) if word.startswith("@") else {word} for word in words))

    out = calls(["@default"])
    for words in values(unit, "SystemCallFilter"):
        if words[0].startswith("~"):
            out -= calls([words[0][1:], *words[1:]])
        else:
            out |= calls(words)
    return out


def rules(unit):
    """Of each system call that is allowed the conditions, one of which must hold; None: always."""
    out = {call: [None] for call in allowed(unit)}
    (families,) = values(unit, "RestrictAddressFamilies")
    out["socket"] = [seccomp.Arg(0, seccomp.EQ, getattr(socket, name)) for name in families]
    assert values(unit, "MemoryDenyWriteExecute") == [["yes"]]
    writes, executes = mmap.PROT_WRITE, mmap.PROT_EXEC
    out["mmap"] = [seccomp.Arg(2, seccomp.MASKED_EQ, writes | executes, one) for one in (0, writes, executes)]
    for call in ("mprotect", "pkey_mprotect"):
        out[call] = [seccomp.Arg(2, seccomp.MASKED_EQ, executes, 0)]
    return out


def confine(unit):
    confinement = seccomp.SyscallFilter(seccomp.KILL_PROCESS)
    for call, conditions in rules(unit).items():
        number = seccomp.resolve_syscall(seccomp.Arch(), call)
        if number < 0:
            continue  # of another machine, or newer than this library
        for condition in conditions:
            confinement.add_rule(seccomp.ALLOW, number, *([] if condition is None else [condition]))
    confinement.load()  # with no_new_privs


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        confine(file.read())
    os.execv(sys.argv[2], sys.argv[2:])
