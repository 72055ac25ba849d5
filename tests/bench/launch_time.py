#!/usr/bin/python3
"""Time of `launch -n N /bin/true` against MPICH's mpiexec.hydra, N = 1, 16, 64, 256."""

from pairs import HYDRA, LAUNCH, Bench, seconds_of


def main():
    bench = Bench("launch_time", "ms")
    for n in (1, 16, 64) if bench.smoke else (1, 16, 64, 256):
        tools = {
            "muster": lambda: 1e3 * seconds_of([LAUNCH, "-n", n, "/bin/true"]),
            "hydra": lambda: 1e3 * seconds_of([HYDRA, "-n", n, "/bin/true"]),
        }
        bench.case(f"true n={n}", tools, 5 if bench.smoke else 21)
    bench.finish()


if __name__ == "__main__":
    main()
