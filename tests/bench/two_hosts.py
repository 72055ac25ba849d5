#!/usr/bin/python3
"""Time of 16 + 16 /bin/true on two emulated hosts over ssh, against mpiexec.hydra over the same ssh. Needs root.
Emulated hosts share all cores, real ones do not: the last case gives each a core of its own."""

import os
import subprocess
import sys

from pairs import HYDRA, LAUNCH, ROOT, Bench, seconds_of

sys.path.insert(0, str(ROOT / "tests/integration/lab"))
from lab import Lab  # noqa: E402


def tools(enter, per_node):
    # Hydra was seen to die of SIGPIPE, once in some hundred runs.
    hydra = [HYDRA, "-launcher", "ssh", "-hosts", "node0,node1", "-ppn", per_node, "-n", 2 * per_node]
    ours = [LAUNCH, "--hosts", "node0,node1", "--nproc-per-node", per_node]
    return {
        "muster": lambda: 1e3 * seconds_of([*ours, "/bin/true"], enter),
        "hydra": lambda: 1e3 * seconds_of([*hydra, "/bin/true"], enter, tries=3),
        "ssh alone": lambda: 1e3 * seconds_of(["ssh", "node1", "/bin/true"], enter),
    }


def pin(host, core):
    """What runs on the host, and with it all that sshd will start there."""
    for pid in host.processes():
        subprocess.run(["taskset", "-a", "-p", "-c", str(core), str(pid)], check=True, stdout=subprocess.DEVNULL)


def main():
    bench = Bench("two_hosts", "ms")
    repeat = 5 if bench.smoke else 21
    cores = sorted(os.sched_getaffinity(0))
    with Lab(2) as lab:
        enter = lab[0].enter()
        for per_node in (16,) if bench.smoke else (1, 16):
            bench.case(f"true {per_node}+{per_node}", tools(enter, per_node), repeat)
        if len(cores) > 1:
            for host, core in zip(lab, cores):
                pin(host, core)
            bench.case("true 16+16 a core each", tools(["taskset", "-c", str(cores[0]), *enter], 16), repeat)
    bench.finish()


if __name__ == "__main__":
    main()
