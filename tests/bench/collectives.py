#!/usr/bin/python3
"""Collectives of libmuster on one host against Open MPI (which yields where ranks outnumber cores), p50 of each cell."""

import csv
import io
import subprocess

from pairs import BIN, LAUNCH, ROOT, Bench, clean_env

DRIVER = BIN.parent / "tests/perf-ompi"
OMPI = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"]


def output(argv):
    done = subprocess.run([*map(str, argv)], env=clean_env(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise SystemExit(f"exit {done.returncode}: {argv}\n{done.stderr[-2000:]}")
    return done.stdout


def cells(argv):
    """{"op bytes": p50 in us}"""
    return {f"{row[7]} {row[3]}": float(row[4]) for row in csv.reader(io.StringIO(output(argv)))}


def build_peer():
    output(["mpicxx.openmpi", "-O2", "-std=c++20", f"-I{ROOT}", ROOT / "tests/bench/peers/mpi.cc", "-o", DRIVER])


def main():
    bench = Bench("collectives", "us")
    build_peer()
    words = ["--ops", "allreduce,barrier,bcast,allgather,alltoall,pingpong"]
    if bench.smoke:
        words = ["--ops", "allreduce,barrier", "--max", 1 << 20, "--seconds", 0.1]
    for ranks in (8,) if bench.smoke else (2, 4, 8, 16, 32):
        bench.cells(f"P={ranks}", {
            "muster": lambda: cells([LAUNCH, "-n", ranks, "--no-prefix", BIN / "muster-perf", *words]),
            "openmpi": lambda: cells([*OMPI, "-n", ranks, DRIVER, *words]),
        }, 3)
    bench.finish()


if __name__ == "__main__":
    main()
