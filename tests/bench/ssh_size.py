#!/usr/bin/python3
"""Time of `launch --hosts ... true` on N emulated hosts over ssh against `xargs -P 64` over plain `ssh HOST true`, N = 16, 64.

Needs root: the hosts are network namespaces with an sshd each. Both use the same 64 connections at once.
"""

import sys
import time

from pairs import LAUNCH, ROOT, Bench

sys.path.insert(0, str(ROOT / "tests/integration"))
from harness import clean_env  # noqa: E402
from lab import Lab  # noqa: E402


def seconds_in(host, argv):
    began = time.perf_counter()
    done = host.run(argv, env=clean_env(), timeout=300)
    took = time.perf_counter() - began
    if done.returncode != 0:
        sys.exit(f"exit {done.returncode}: {argv}\n{done.stderr.decode(errors='replace')[-2000:]}")
    return took


def main():
    bench = Bench("ssh_size", "s")
    for count in (4,) if bench.smoke else (16, 64):
        with Lab(count + 1) as lab:  # launch's own host is none of them
            hosts = [host.name for host in lab][1:]
            plain = f"printf '%s\\n' {' '.join(hosts)} | xargs -P 64 -I HOST ssh -o BatchMode=yes HOST true"
            tools = {
                "muster": lambda: seconds_in(lab[0], [LAUNCH, "--hosts", ",".join(hosts), "--nproc-per-node", 1, "true"]),
                "xargs ssh": lambda: seconds_in(lab[0], ["bash", "-o", "pipefail", "-c", plain]),
            }
            bench.case(f"true on {count} hosts", tools, 3 if bench.smoke else 5)
    bench.finish()


if __name__ == "__main__":
    main()
