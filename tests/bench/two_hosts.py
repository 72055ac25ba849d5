#!/usr/bin/python3
"""Time of 16 + 16 /bin/true on two emulated hosts over ssh, against mpiexec.hydra over the same ssh. Needs root."""

import sys

from pairs import HYDRA, LAUNCH, ROOT, Bench, seconds_of

sys.path.insert(0, str(ROOT / "tests/integration/lab"))
from lab import Lab  # noqa: E402


def main():
    bench = Bench("two_hosts", "ms")
    with Lab(2) as lab:
        enter = [*lab[0]._command([], "/"), "env", f"HOME={lab[0].home}"]
        hydra = [HYDRA, "-launcher", "ssh", "-hosts", "node0,node1", "-ppn"]
        for per_node in (16,) if bench.smoke else (1, 16):
            tools = {
                "muster": lambda: 1e3 * seconds_of(
                    [LAUNCH, "--hosts", "node0,node1", "--nproc-per-node", per_node, "/bin/true"], enter),
                "hydra": lambda: 1e3 * seconds_of([*hydra, per_node, "-n", 2 * per_node, "/bin/true"], enter),
                "ssh alone": lambda: 1e3 * seconds_of(["ssh", "node1", "/bin/true"], enter),
            }
            bench.case(f"true {per_node}+{per_node}", tools, 5 if bench.smoke else 21)
    bench.finish()


if __name__ == "__main__":
    main()
