#!/usr/bin/python3
"""Ours beside Open MPI, MPICH and gloo, in turns: rows.csv, table.md and plot.svg in --out; see deploy/bench --help."""

import argparse
import os
import platform
import re
import subprocess
import sys
import time
from pathlib import Path

import plot
import tables
from collectives import OMPI
from collectives_hosts import starters
from pairs import BIN, HYDRA, LAUNCH, ROOT, clean_env, seconds_of

sys.path.insert(0, str(ROOT / "tests/integration/lab"))
from lab import Lab  # noqa: E402

OPS = "allreduce,barrier,bcast,allgather,alltoall,pingpong"
PEERS = Path(__file__).resolve().parent / "peers"
OMPI_DRIVER, MPICH_DRIVER = BIN.parent / "tests/perf-ompi", BIN.parent / "tests/perf-mpich"
OURS, GLOO = BIN / "muster-perf", PEERS / "gloo.py"
REPETITIONS = 3
MACHINE = "machine.txt"  # beside rows.csv
README_PLOT = Path(__file__).resolve().parent / "readme.svg"
SECONDS_MAX = 600  # of one run of one tool: spinning peers whose ranks outnumber the cores take long
SPINNING_MAX = 1 << 20  # bytes, of a peer that spins where ranks outnumber the cores


def prepare():
    """Packages, our programs, and the driver for each MPI."""
    targets = ["launch", "muster-agent", "muster-perf"]
    for argv in (["deploy/install-packages", "build", "run", "bench"], ["cmake", "--preset", "release"],
                 ["cmake", "--build", "--preset", "release", "--target", *targets]):  # fmt: skip
        subprocess.run(argv, cwd=ROOT, stdout=sys.stderr, check=True)
    for compiler, driver in ("mpicxx.openmpi", OMPI_DRIVER), ("mpicxx.mpich", MPICH_DRIVER):
        subprocess.run([compiler, "-O2", "-std=c++20", f"-I{ROOT}", PEERS / "mpi.cc", "-o", driver], check=True)


class Runner:
    """Runs tools in turns and keeps what they print; one that fails is left out there, and told at the end."""

    def __init__(self, out, repetitions):
        self.rows, self.repetitions, self.faults = out, repetitions, []
        print(tables.HEADER, file=self.rows, flush=True)

    def turns(self, where, tools):
        """`tools`: {name: argv, or a function that runs it and returns rows}"""
        for turn in range(self.repetitions):
            order = list(tools.items())
            for tool, how in order if turn % 2 == 0 else reversed(order):
                print(f"# {time.strftime('%T')} {where}, turn {turn + 1}: {tool}", file=sys.stderr, flush=True)
                try:
                    rows = how() if callable(how) else output(how)
                except subprocess.CalledProcessError as why:
                    self.faults.append(f"{tool}, {where}: exit {why.returncode}: {why.stderr.strip()[-500:]}")
                    continue
                except subprocess.TimeoutExpired as why:
                    self.faults.append(f"{tool}, {where}: {why}")
                    continue
                self.rows.write("".join(line + "\n" for line in rows.splitlines() if line.startswith(f"{tool},")))
                self.rows.flush()


def output(argv):
    """What it prints; with 124 where it was still running after SECONDS_MAX."""
    limited = ["timeout", "-k", "5", str(SECONDS_MAX), *map(str, argv)]
    done = subprocess.run(limited, env={**clean_env(), "PYTHON_EXEC": "/usr/bin/python3"}, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    done.check_returncode()
    return done.stdout


def on_host(ranks):
    """{tool: how its driver is started with that many ranks}"""
    return {
        "muster": [LAUNCH, "-n", ranks, "--no-prefix", OURS],
        "openmpi": [*OMPI, "-n", ranks, OMPI_DRIVER],  # yields by itself where ranks outnumber the cores
        "mpich": [HYDRA, "-n", ranks, MPICH_DRIVER],
        "gloo": [LAUNCH, "-n", ranks, "--no-prefix", GLOO],
    }


def on_hosts(hosts, ranks):
    each = ranks // len(hosts)
    before = starters(hosts, each)
    return {
        "muster": [*before["muster"], OURS],
        "openmpi": [*before["openmpi"], OMPI_DRIVER],
        # It must be told which device to take.
        "mpich": [*hosts[0].enter(), HYDRA, "-launcher", "ssh", "-hosts", ",".join(host.name for host in hosts), "-iface", "eth0",
                  "-genv", "UCX_NET_DEVICES", "eth0", "-ppn", each, "-n", ranks, MPICH_DRIVER],
        "gloo": [*before["muster"], GLOO],
    }  # fmt: skip


def with_words(tools, layout, cores, ranks, words, size_max):
    """The tools with the driver's options."""
    def full(tool, argv):
        size = min(size_max, SPINNING_MAX) if tool == "mpich" and ranks > cores else size_max
        return [*argv, "--peer", tool, "--layout", layout, "--max", size, *words]

    return {tool: full(tool, argv) for tool, argv in tools.items()}


def words_of(options, least=8):
    return ["--ops", options.ops, "--min", least, "--seconds", 0.05 if options.quick else 0.3]


def host(runner, options):
    for ranks in options.ranks or ((2, 8) if options.quick else (2, 4, 8, 16, 32)):
        runner.turns(f"host P={ranks}", with_words(on_host(ranks), "host", options.cores, ranks, words_of(options), options.size_max))


def two(runner, options, rate=None):
    layout = "two-" + rate if rate else "two"
    with Lab(2) as lab:
        for host in lab if rate else ():
            host.limit(rate)
        for ranks in options.ranks or ((4,) if options.quick else (4, 8) if rate else (2, 4, 32)):
            if ranks % 2:
                sys.exit(f"bench: --ranks: want an even number for two hosts, got {ranks}")
            words = words_of(options, 1 << 20 if rate else 8)
            runner.turns(f"{layout} P={ranks}", with_words(on_hosts(list(lab), ranks), layout, options.cores, ranks, words, options.size_max))


def two_1gbit(runner, options):
    two(runner, options, "1gbit")


def load(runner, options):
    """Ranks that outnumber the cores compute unevenly: who waits for them busily takes their time away."""
    steps = 10 if options.quick else 200
    for ranks in options.ranks or ((8,) if options.quick else (32,)):
        tools = on_host(ranks)
        tools["openmpi"][1:1] = ["--mca", "mpi_yield_when_idle", "1"]
        del tools["mpich"]  # spins: every step takes seconds
        words = ["--steps", steps]
        runner.turns(f"load P={ranks}", with_words(tools, "load", options.cores, ranks, words, options.size_max))


def start(runner, options):
    """From the launcher's exec to the first barrier, and of /bin/true until all have ended."""
    tools = lambda ranks: {tool: argv for tool, argv in on_host(ranks).items() if tool in ("muster", "openmpi", "mpich")}

    def timed(tool, ranks, argv):
        us = seconds_of([*argv[:-1], "/bin/true"]) * 1e6  # mpirun was seen to hang with many short programs
        barrier = output([*argv, "--peer", tool, "--layout", "start", "--began", f"{time.monotonic():.9f}"])
        return f"{tool},start,{ranks},0,{us:.2f},{us:.2f},0,true,{us:.2f},1\n{barrier}"

    for ranks in options.ranks or ((16,) if options.quick else (16, 32)):
        calls = {tool: lambda tool=tool, argv=argv, ranks=ranks: timed(tool, ranks, argv) for tool, argv in tools(ranks).items()}
        runner.turns(f"start P={ranks}", calls)


LAYOUTS = {"host": host, "two": two, "two-1gbit": two_1gbit, "load": load, "start": start}
NEED_ROOT = ("two", "two-1gbit")


def arguments():
    parser = argparse.ArgumentParser(prog="bench", description="Measures Muster beside Open MPI, MPICH and gloo, in turns, and writes rows.csv, table.md and plot.svg.")
    parser.add_argument("--quick", action="store_true", help="few ranks, small sizes, one turn: to see that it works")
    parser.add_argument("--layout", action="append", choices=list(LAYOUTS), help="only this one; may be given again (default: all)")
    parser.add_argument("--ranks", type=ranks_of, help="numbers of ranks, for example 2,8 (default: those of the layout)")
    parser.add_argument("--ops", default=OPS, type=ops_of, help=f"of {OPS} (default: all)")
    parser.add_argument("--out", type=Path, default=ROOT / "build/bench", help="folder of the results (build/bench)")
    parser.add_argument("--from", dest="rows", type=Path, help="measure nothing: tables and plot of this rows.csv")
    parser.add_argument("--readme", action="store_true", help="put the short table and the plot between README.md's markers")
    options = parser.parse_args()
    options.size_max = 1 << 20 if options.quick else 64 << 20
    options.cores = len(os.sched_getaffinity(0))
    if os.getuid() != 0 and not options.rows:
        if any(layout in NEED_ROOT for layout in options.layout or ()):
            parser.error(f"--layout: {' and '.join(NEED_ROOT)} emulate hosts, which needs root")
        options.layout = options.layout or [layout for layout in LAYOUTS if layout not in NEED_ROOT]
    return options


def ops_of(text):
    if unknown := set(text.split(",")) - set(OPS.split(",")):
        raise argparse.ArgumentTypeError(f"want some of {OPS}, got '{sorted(unknown)[0]}'")
    return text


def ranks_of(text):
    ranks = [int(part) for part in text.split(",") if part.isdecimal()]
    if len(ranks) != len(text.split(",")) or not all(2 <= count <= 256 for count in ranks):
        raise argparse.ArgumentTypeError(f"want numbers of ranks, 2..256, got '{text}'")
    return ranks


def machine(options):
    """What the figures depend on, in a line."""
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    version = output([LAUNCH, "--version"]).strip()
    cpu = found[1] if found else platform.machine()
    return f"{version}; {options.cores} cores of {cpu}, Linux {platform.release()}; {time.strftime('%F')}\n"


def measure(options):
    """rows.csv and machine.txt; what went wrong."""
    prepare()
    (options.out / MACHINE).write_text(machine(options))
    with open(options.out / "rows.csv", "w") as rows:
        runner = Runner(rows, 1 if options.quick else REPETITIONS)
        for layout in options.layout or LAYOUTS:
            LAYOUTS[layout](runner, options)
    return runner.faults


def show(options, rows):
    cells = tables.read(rows.read_text().splitlines())
    beside = rows.with_name(MACHINE)
    where = beside.read_text() if beside.exists() else ""
    ratios = "".join(f"\n{line}\n" for line in tables.start_over_true(cells))
    text = f"{tables.full_table(cells)}{ratios}\n{where}"
    print(text, end="")
    (options.out / "table.md").write_text(text)
    picture = plot.svg(cells) if plot.panels(cells) else None
    if picture is not None:
        (options.out / "plot.svg").write_text(picture)
    if options.readme:
        short = f"{tables.short_table(cells)}\n{where}"
        if picture is not None:
            README_PLOT.write_text(picture)
            short += f"\n![All-reduce, bus bandwidth over size]({README_PLOT.relative_to(ROOT)})\n"
        readme = ROOT / "README.md"
        readme.write_text(tables.replace_marked(readme.read_text(), short))


def main():
    options = arguments()
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        faults = measure(options) if not options.rows else []
        show(options, options.rows or options.out / "rows.csv")
    except (OSError, ValueError, subprocess.CalledProcessError) as why:
        sys.exit(f"bench: {why}")
    for fault in faults:
        print(f"bench: {fault}", file=sys.stderr)
    sys.exit(1 if any(fault.startswith(tables.OURS) for fault in faults) else 0)


if __name__ == "__main__":
    main()
