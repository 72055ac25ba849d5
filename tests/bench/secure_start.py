#!/usr/bin/python3
"""What its security costs a start: 16 + 16 /bin/true on two emulated hosts, where the command is typed on each of them,
with the user's secret (TLS, and both sides' proofs) and with --insecure, from the first command to the end of both. Needs
root. Fails where security costs more than 10 % and more than 20 ms; with --smoke, more than both together.
"""

import subprocess
import sys
import time

from pairs import LAUNCH, ROOT, Bench, clean_env

sys.path.insert(0, str(ROOT / "tests/integration/lab"))
from lab import Lab  # noqa: E402

EACH = 16
SHARE_MAX, MS_MAX = 0.10, 20


def milliseconds_of(lab, *words):
    """Of a job that meets at the first host."""
    argv = [LAUNCH, "--nnodes", len(lab), "--nproc-per-node", EACH, "--rdzv-endpoint", "node0:29400", *words, "/bin/true"]
    began = time.perf_counter()
    jobs = [host.popen(argv, cwd="/", env=clean_env() | {"HOME": str(host.home)}, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for host in lab]  # fmt: skip
    errors = [job.communicate(timeout=120)[1].decode(errors="replace") for job in jobs]
    took = time.perf_counter() - began
    if any(job.returncode != 0 for job in jobs):
        sys.exit(f"exit {[job.returncode for job in jobs]}: {argv}\n{''.join(errors)[-2000:]}")
    return 1e3 * took


def main():
    bench = Bench("secure_start", "ms")
    tools = {"secret": lambda: milliseconds_of(lab), "insecure": lambda: milliseconds_of(lab, "--insecure")}
    with Lab(2, ssh=False) as lab:
        median = bench.case(f"true {EACH}+{EACH} typed", tools, 21 if bench.smoke else 41)
    if not median:
        bench.finish()
    share, fixed = SHARE_MAX * median["insecure"], MS_MAX
    cost, most = median["secret"] - median["insecure"], share + fixed if bench.smoke else max(share, fixed)
    bench.finish([f"security costs {cost:.1f} ms; the limit is {most:.1f}"] if cost > most else [])


if __name__ == "__main__":
    main()
