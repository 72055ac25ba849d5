#!/usr/bin/python3
"""Time to take N workers of a torch job through init against our torch store, and against torch's own server: connect,
hello, set a key, wait for a common key. 8,192 workers must take at most 2 s."""

import subprocess

from pairs import BIN, LIMIT, Bench

TESTS = BIN.parent / "tests"
LIMIT_MS = 2000
TORCH = """
import sys, torch.distributed as dist
store = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
print("port", store.port, flush=True)
sys.stdin.read()
"""


def init_ms(server, clients, connections):
    """A fresh server each time."""
    with subprocess.Popen(server, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        port = process.stdout.readline().split()[1]
        done = subprocess.run([TESTS / "store-init", port, str(clients), str(connections)], stdout=subprocess.PIPE,
                              check=True, text=True, timeout=300)
        process.stdin.close()
    return float(done.stdout)


def main():
    bench = Bench("store_init", "ms")
    ours = [str(TESTS / "store-tool"), "--world", "1000000"]
    torch = ["/usr/bin/python3", "-c", TORCH]
    repeat = 3 if bench.smoke else 11
    for clients in (512,) if bench.smoke else (512, 2048):
        bench.case(f"clients={clients}", {
            "muster": lambda: init_ms(ours, clients, 1),
            "torch-1.13": lambda: init_ms(torch, clients, 1),
        }, repeat)
    slack = LIMIT if bench.smoke else 1  # with few repetitions none may meet a quiet machine
    faults = []
    for connections in (1, 2):  # torch 1.13 opens two for each worker
        taken = []

        def measure():
            taken.append(init_ms(ours, 8192, connections))
            return taken[-1]

        bench.case(f"clients=8192 connections={8192 * connections}", {"muster": measure}, repeat)
        if min(taken) > slack * LIMIT_MS:  # the best: the machine's other load is not ours
            faults.append(f"8,192 clients took {min(taken):.0f} ms; the limit is {slack * LIMIT_MS:.0f}")
    bench.finish(faults)


if __name__ == "__main__":
    main()
