#!/usr/bin/python3
"""Time from the command to the first barrier of an MPI program in C: `launch` against the launcher that comes with the
MPI (MPICH: mpiexec.hydra, Open MPI: mpirun), on this machine and on two emulated hosts over ssh. Needs root. The
programs are the same files, and each launcher is told no more than where they run."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pairs import HYDRA, LAUNCH, ROOT, Bench, clean_env

sys.path.insert(0, str(ROOT / "tests/integration/lab"))
from lab import Lab  # noqa: E402

MPIRUN = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"]
PATIENCE_S = 60


def until_barrier(argv, enter=()):
    """Milliseconds; a run that does not come so far ends the benchmark. How it ends behind that is not measured."""
    env = {**clean_env(), "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    began = time.perf_counter()
    run = subprocess.Popen([*enter, *map(str, argv)], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    line = run.stdout.readline()
    took = time.perf_counter() - began
    _, errors = run.communicate(timeout=PATIENCE_S)
    if not line.endswith(b"all are here\n"):
        sys.exit(f"exit {run.returncode}, {line}: {argv}\n{errors.decode(errors='replace')[-2000:]}")
    return 1e3 * took


def built(mpi, folder):
    program = Path(folder) / f"start-{mpi}"
    subprocess.run([f"mpicc.{mpi}", "-O2", "-o", program, ROOT / "tests/bench/mpi_start.c"], check=True)
    return program


def one_host(mpi, program, ranks):
    peer = {"mpich": ["hydra", HYDRA], "openmpi": ["mpirun", *MPIRUN]}[mpi]
    return {
        "muster": lambda: until_barrier([LAUNCH, "-n", ranks, program]),
        peer[0]: lambda: until_barrier([*peer[1:], "-n", ranks, program]),
    }


def two_hosts(mpi, program, per_node, enter):
    hosts = f"node0:{per_node},node1:{per_node}"
    peer = {
        # Without the interface its UCX tries those that lead nowhere, for seconds.
        "mpich": ["hydra", HYDRA, "-launcher", "ssh", "-genv", "UCX_NET_DEVICES", "eth0", "-hosts", hosts, "-n", 2 * per_node],
        "openmpi": ["mpirun", *MPIRUN, "--host", hosts, "-n", 2 * per_node],
    }[mpi]
    return {
        "muster": lambda: until_barrier([LAUNCH, "--hosts", hosts, program], enter),
        peer[0]: lambda: until_barrier([*peer[1:], program], enter),
    }


def main():
    bench = Bench("mpi_start", "ms")
    repeat = 3 if bench.smoke else 15
    with tempfile.TemporaryDirectory() as folder:
        for mpi in ("mpich", "openmpi"):
            for ranks in (2,) if bench.smoke else (2, 16):
                bench.case(f"{mpi} n={ranks}", one_host(mpi, built(mpi, folder), ranks), repeat)
    with Lab(2) as lab:
        enter = lab[0].enter()
        for mpi in ("mpich", "openmpi"):
            for per_node in (1,) if bench.smoke else (1, 4):
                program = built(mpi, lab.state)
                bench.case(f"{mpi} {per_node}+{per_node}", two_hosts(mpi, program, per_node, enter), repeat)
    bench.finish()


if __name__ == "__main__":
    main()
