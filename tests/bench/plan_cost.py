#!/usr/bin/python3
"""What it costs a start to find out where each worker runs (reading the node from /sys, and the plan), and what is wrong with the node.

here  this machine, a worker for each CPU
big   a node of 2 x 64 cores with two threads each, 8 NUMA nodes and 8 GPUs, as files in /dev/shm; 128 workers
look  what each node of several looks at before it joins

The limits of 5 ms, and of 10 ms for the look, hold for the medians; twice that with --smoke, beside other work.
"""

import subprocess
import tempfile

from pairs import LIMIT, ROOT, Bench

LIMITS_MS = {"here": 5.0, "big": 5.0, "look": 10.0}


def main():
    bench = Bench("plan_cost", "ms")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        times = bench.options.repeat or (11 if bench.smoke else 101)
        argv = [ROOT / "build/release/tests/plan-cost", str(times), folder]
        said = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=300).stdout
    faults = []
    for case, limit_ms in LIMITS_MS.items():
        took = sorted(float(line.split()[1]) for line in said.splitlines() if line.startswith(f"{case} "))
        bench.values(case, [{"look" if case == "look" else "plan": one} for one in took], {})
        median, limit = took[len(took) // 2], limit_ms * (LIMIT if bench.smoke else 1)
        if median > limit:
            faults.append(f"{case}: {median:.2f} ms, the limit is {limit:g}")
    bench.finish(faults)


if __name__ == "__main__":
    main()
