#!/usr/bin/python3
"""Collectives of libmuster between emulated hosts against Open MPI, p50 of each cell: on the bare link, and with 1 Gbit/s
a host, where the bound 2(n-1)/n * bytes / rate stands beside them; beside MUSTER_WIRE=bf16, too. Needs root. Emulated
hosts share all cores."""

import sys

from collectives import DRIVER, OMPI, build_peer, cells
from pairs import BIN, LAUNCH, ROOT, Bench

sys.path.insert(0, str(ROOT / "tests/integration/lab"))
from lab import Lab  # noqa: E402

RATE = 125e6  # bytes/s of 1 Gbit/s


def starters(hosts, per_host):
    """{tool: the words before its driver}. Each host thinks that it has all cores for itself: bound to some, ranks of two
    hosts would share one, and Open MPI would wait busily for others of the same core."""
    names = [host.name for host in hosts]
    return {
        "muster": [*hosts[0].enter(), LAUNCH, "--hosts", ",".join(names), "--nproc-per-node", per_host, "--bind-to", "none", "--no-prefix"],
        "openmpi": [
            *hosts[0].enter(), *OMPI, "--bind-to", "none", "--mca", "plm_rsh_agent", "ssh",
            "--mca", "btl_tcp_if_include", "eth0", "--mca", "oob_tcp_if_include", "eth0", "--mca", "mpi_yield_when_idle", "1",
            "--host", ",".join(f"{name}:{per_host}" for name in names), "-n", len(names) * per_host,
        ],
    }  # fmt: skip


def tools(hosts, per_host, words, own=()):
    before = starters(hosts, per_host)
    return {
        "muster": lambda: cells([*before["muster"], *own, BIN / "muster-perf", *words]),
        "openmpi": lambda: cells([*before["openmpi"], DRIVER, *words]),
    }


def bound(hosts):
    def measure():
        sizes = [1 << 20, 16 << 20, 64 << 20]
        return {f"allreduce {size}": 2e6 * (hosts - 1) / hosts * size / RATE for size in sizes}

    return measure


def main():
    bench = Bench("collectives_hosts", "us")
    build_peer()
    every = ["--ops", "allreduce,barrier,bcast,allgather,alltoall,pingpong"]
    with Lab(2 if bench.smoke else 4) as lab:
        hosts = list(lab)
        if bench.smoke:  # a core for each rank: with more of them, it is the scheduler of the machine that is measured
            bench.cells("1+1", tools(hosts, 1, ["--ops", "allreduce,barrier", "--max", 1 << 16, "--seconds", 0.1]), 5)
        else:
            for per_host in 1, 2, 16:
                bench.cells(f"{per_host}+{per_host}", tools(hosts[:2], per_host, every), 3)
            for host in hosts:
                host.limit("1gbit")
            large = ["--ops", "allreduce", "--min", 1 << 20, "--seconds", 1]
            for count in 2, 4:
                for per_host in 1, 2, 4:
                    both = tools(hosts[:count], per_host, large)
                    bench.cells(f"1 Gbit/s {count} x {per_host}", {"muster": both["muster"], "bound": bound(count), "openmpi": both["openmpi"]}, 3)
                    narrow = tools(hosts[:count], per_host, large, ["-x", "MUSTER_WIRE=bf16"])
                    bench.cells(f"1 Gbit/s {count} x {per_host} bf16", {"muster": narrow["muster"], "bound": bound(count)}, 3)
    bench.finish()


if __name__ == "__main__":
    main()
