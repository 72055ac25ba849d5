#!/usr/bin/python3
"""Time of `launch --hosts ... true` on N emulated hosts that have no Muster, from a machine whose uplink carries 100 Mbit/s:
the nodes pass the agent on, against the same where they cannot connect to each other, so that each gets it from launch.

Needs root: the hosts are network namespaces with an sshd each.
"""

import sys
import time

from pairs import BIN, ROOT, Bench

sys.path.insert(0, str(ROOT / "tests/integration"))
from harness import clean_env  # noqa: E402
from lab import Lab  # noqa: E402

HOME = "/tmp/only-here"  # /tmp is each host's own
UPLINK = ["tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "100mbit", "burst", "256kb", "latency", "400ms"]


def main():
    bench = Bench("agent_program", "s")
    for count in (4,) if bench.smoke else (8, 32):
        with Lab(count + 1) as lab:
            lab[0].check(["bash", "-c", f"mkdir {HOME} && cp {BIN}/launch {BIN}/muster-agent {HOME}/"])
            lab[0].check(UPLINK)
            nodes = list(lab)[1:]
            names = ",".join(host.name for host in nodes)

            def seconds():
                began = time.perf_counter()
                done = lab[0].run([f"{HOME}/launch", "--hosts", names, "--nproc-per-node", "1", "true"], env=clean_env(), timeout=300)
                if done.returncode != 0:
                    sys.exit(f"exit {done.returncode}: {done.stderr.decode(errors='replace')[-2000:]}")
                return time.perf_counter() - began

            def closed():
                with lab.closed(hosts=nodes):
                    return seconds()

            bench.case(f"no muster on {count} hosts", {"muster": seconds, "all from launch": closed}, 3)
    bench.finish()


if __name__ == "__main__":
    main()
