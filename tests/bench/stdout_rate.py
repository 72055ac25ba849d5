#!/usr/bin/python3
"""Forwarded stdout into a pipe: 1 rank x 200 MB and 16 x 20 MB, with and without prefix, against mpiexec.hydra (and
its -prepend-rank); and torn lines of 16 ranks that write 8000-byte lines whole and in pieces."""

import collections
import os
import re
import subprocess
import sys
import time

from pairs import HYDRA, LAUNCH, Bench, clean_env

LINE = "0123456789" * 7
PIECES = """import os, sys
letter = bytes([97 + int(os.environ.get('RANK') or os.environ['PMI_RANK'])])
for i in range(100):
    for size in ([8000] if sys.argv[1] == 'whole' else [1, 2499, 2500, 3000]):
        os.write(1, letter * size + (b'\\n' if size == 8000 else b''))
    if sys.argv[1] != 'whole':
        os.write(1, b'\\n')
"""


def through(argv, keep=False):
    """(bytes received, seconds from the first byte to the end, the bytes if `keep`)."""
    began = None
    with subprocess.Popen(
        [str(a) for a in argv], env=clean_env(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as p:
        total, kept = 0, []
        while piece := os.read(p.stdout.fileno(), 1 << 20):
            began = began or time.perf_counter()
            total += len(piece)
            if keep:
                kept.append(piece)
        took = time.perf_counter() - (began or 0)
        errors = p.stderr.read()
    if p.returncode != 0:
        sys.exit(f"exit {p.returncode}: {argv}\n{errors.decode(errors='replace')[-2000:]}")
    return total, took, b"".join(kept)


def rate(argv, want):
    total, took, _ = through(argv)
    if total < want:
        sys.exit(f"{argv}: {total} of {want} bytes arrived")
    return want / took / 1e6


def torn(argv):
    _, _, data = through(argv, keep=True)
    prefix = re.compile(rb"^\[[^\]]*\] ?")
    lines = [prefix.sub(b"", l) for l in data.split(b"\n")]
    whole = collections.Counter(l[:1] for l in lines if len(l) == 8000 and l == l[:1] * 8000)
    return 1600 - sum(min(whole[bytes([97 + r])], 100) for r in range(16))


def main():
    bench = Bench("stdout_rate", "MB/s", more_is_better=True)
    faults = []
    for ranks, whole, prefixed in ((1, 200_000_000, False), (1, 200_000_000, True), (16, 20_000_000, False), (16, 20_000_000, True)):
        # The smoke test takes a quarter, but not of 16 ranks: that they do not start at one time would be most of it. (With
        # a prefix the peer takes ten times as long, so that it does not matter.)
        size = whole // 4 if bench.smoke and (ranks == 1 or prefixed) else whole
        program = ["sh", "-c", f"yes {LINE} | head -c {size}"]
        want = ranks * size
        if prefixed:
            tools = {
                "muster --log-prefix": lambda: rate([LAUNCH, "-n", ranks, "--log-prefix", "[{rank}] ", *program], want),
                "hydra -prepend-rank": lambda: rate([HYDRA, "-n", ranks, "-prepend-rank", *program], want),
            }
            bench.case(f"{ranks} x {size // 1000000} MB prefixed", tools, 1 if bench.smoke else 5)
        else:
            tools = {
                "muster": lambda: rate([LAUNCH, "-n", ranks, "--no-prefix", *program], want),
                "hydra": lambda: rate([HYDRA, "-n", ranks, *program], want),
            }
            bench.case(f"{ranks} x {size // 1000000} MB", tools, 3 if bench.smoke else 7)
    for mode in ("whole", "pieces"):
        program = ["/usr/bin/python3", "-c", PIECES, mode]
        for name, argv in (("muster", [LAUNCH, "-n", 16]), ("muster --no-prefix", [LAUNCH, "-n", 16, "--no-prefix"]), ("hydra", [HYDRA, "-n", 16])):
            if bench.smoke and name == "hydra":
                continue
            count = torn([*argv, *program])
            bench._row(f"stdout_rate,16 ranks x 100 lines in {mode},{name},{count},torn lines,{count},{count},1,")
            if count and name != "hydra":
                faults.append(f"{name}: {count} torn or lost lines ({mode})")
    bench.finish(faults)


if __name__ == "__main__":
    main()
