#!/usr/bin/python3
"""Time of a fixed amount of work, with launch's placement, without any, and with mpirun's default.

compute  in registers; memory  a triad over arrays that no cache holds; with half as many workers as cores, as many, and
twice as many. Threads as OMP_NUM_THREADS says (launch sets it), else one for each CPU that a process may use.

The peer is the better of `--bind-to none` and mpirun. Meant for a machine of 16 cores or more; `--smoke` runs anywhere.
"""

import os

from pairs import LAUNCH, ROOT, Bench, seconds_of

PROGRAM = ROOT / "build/release/tests/pinning"
UNITS = {"compute": 16000, "memory": 19200}  # some seconds on 16 cores
SMOKE_UNITS = {"compute": 100, "memory": 48}


def main():
    bench = Bench("pinning", "ms")
    cores = len(os.sched_getaffinity(0))
    for kind, units in (SMOKE_UNITS if bench.smoke else UNITS).items():
        for workers in sorted({max(cores // 2, 1), cores, 2 * cores}):
            program = [PROGRAM, kind, str(units)]
            mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", workers]
            tools = {
                "muster": lambda: 1e3 * seconds_of([LAUNCH, "-n", workers, "--oversubscribe", *program]),
                "unbound": lambda: 1e3 * seconds_of([LAUNCH, "-n", workers, "--oversubscribe", "--bind-to", "none", *program]),
                "mpirun": lambda: 1e3 * seconds_of([*mpirun, *program]),
            }
            bench.case(f"{kind} n={workers}", tools, 2 if bench.smoke else 11, peer="best")
    bench.finish()


if __name__ == "__main__":
    main()
