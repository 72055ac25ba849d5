"""Paired measurements: ours and the peer take turns in one run, so that the machine's other load hits both.

A benchmark yields cases; for each, `measure` gives one number per call. Output is CSV:
bench,case,tool,median,unit,min,max,repetitions,ours_over_peer   (the last for ours; below 1 is better than the peer)
`--smoke` repeats little and fails where ours is more than LIMIT times worse than the peer.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BIN = Path(os.environ.get("MUSTER_BIN", ROOT / "build/release/bin"))
LAUNCH = str(BIN / "launch")
HYDRA = "mpiexec.hydra"
LIMIT = 2.0


def clean_env():
    """No identity of an outer launcher, and only the system's programs (a shim before them would be measured)."""
    drop = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "TORCHELASTIC", "PMI", "OMPI", "SLURM", "PET_")
    env = {k: v for k, v in os.environ.items() if not k.startswith(drop)}
    env["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return env


def seconds_of(argv, enter=(), timeout=120, tries=1):
    """Wall-clock seconds of one run; a failed run ends the benchmark (`tries`: of a peer that fails now and then)."""
    while True:
        began = time.perf_counter()
        done = subprocess.run(
            [*enter, *map(str, argv)], env=clean_env(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, timeout=timeout,
        )
        took = time.perf_counter() - began
        if done.returncode == 0:
            return took
        print(f"exit {done.returncode}: {argv}\n{done.stderr.decode(errors='replace')[-2000:]}", file=sys.stderr)
        tries -= 1
        if tries == 0:
            sys.exit(1)


class Bench:
    """name; cases: [(case, {tool: callable -> number})], the first tool is ours; more_is_better for rates."""

    def __init__(self, name, unit, more_is_better=False):
        parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
        parser.add_argument("--smoke", action="store_true", help=f"few repetitions; fails above {LIMIT:g} x the peer")
        parser.add_argument("--repeat", type=int, help="repetitions of each")
        parser.add_argument("--only", default="", metavar="WORDS", help="only cases with these words in their name")
        parser.add_argument("--csv", help="append the rows to this file, too")
        self.options = parser.parse_args()
        self.name, self.unit, self.more_is_better = name, unit, more_is_better
        self.worst = 0.0
        self.cases = []  # by name, those left out as well
        self._row("bench,case,tool,median,unit,min,max,repetitions,ours_over_peer")

    @property
    def smoke(self):
        return self.options.smoke

    def wants(self, case):
        """Whether --only leaves it in."""
        self.cases.append(case)
        return self.options.only in case

    def _row(self, text):
        print(text, flush=True)
        if self.options.csv:
            with open(self.options.csv, "a") as f:
                f.write(text + "\n")

    def _take_turns(self, tools, repeat):
        repeat = self.options.repeat or repeat
        values = {tool: [] for tool in tools}
        for _ in range(1 if repeat > 3 else 0):  # the first runs fill caches
            for measure in tools.values():
                measure()
        for turn in range(repeat):
            order = list(tools.items())
            for tool, measure in order if turn % 2 == 0 else reversed(order):
                values[tool].append(measure())
        return values

    def case(self, case, tools, repeat, peer=None):
        """Interleaves `tools`; `peer` names the one that counts (default: the second; "best": the best of the others).
        The medians; {} where --only leaves the case out."""
        if not self.wants(case):
            return {}
        median, worse = self._rows(case, self._take_turns(tools, repeat), peer)
        self.worst = max(self.worst, worse)
        return median

    def cells(self, case, tools, repeat):
        """The same where a run measures many things: {name: number}. The limit holds for their geometric mean: of one
        alone, a few calls long, it would hold for what else the machine did in that moment."""
        if not self.wants(case):
            return
        runs = self._take_turns(tools, repeat)
        worse = [
            self._rows(f"{case} {name}", {tool: [one[name] for one in v] for tool, v in runs.items()}, None)[1]
            for name in next(iter(runs.values()))[0]
        ]
        self.worst = max(self.worst, statistics.geometric_mean(worse))

    def _rows(self, case, values, peer):
        ours, *others = values
        peer = peer or (others[0] if others else None)
        median = {tool: statistics.median(v) for tool, v in values.items()}
        if peer == "best":
            peer = (max if self.more_is_better else min)(others, key=median.get)
        worse = 0.0  # than the peer, if there is one
        for tool, v in values.items():
            ratio = ""
            if tool == ours and peer:
                worse = median[peer] / median[ours] if self.more_is_better else median[ours] / median[peer]
                ratio = f"{median[ours] / median[peer]:.2f}"
            numbers = f"{median[tool]:.2f},{self.unit},{min(v):.2f},{max(v):.2f},{len(v)}"
            self._row(f"{self.name},{case},{tool},{numbers},{ratio}")
        return median, worse

    def values(self, case, runs, units):
        """Rows without a peer: `runs` are dicts of the same values; their unit is in `units`, else the benchmark's."""
        for name in runs[0]:
            v = [one[name] for one in runs]
            unit = units.get(name, self.unit)
            self._row(f"{self.name},{case} {name},muster,{statistics.median(v):.2f},{unit},{min(v):.2f},{max(v):.2f},{len(v)},")

    def finish(self, faults=()):
        only = self.options.only
        if only and not any(only in case for case in self.cases):
            sys.exit(f"{self.name}: --only '{only}': no case has that in its name; there are: {', '.join(self.cases) or 'none to choose from'}")
        for fault in faults:
            print(f"{self.name}: {fault}", file=sys.stderr)
        if self.smoke and self.worst > LIMIT:
            print(f"{self.name}: {self.worst:.2f} times worse than the peer; the limit is {LIMIT:g}", file=sys.stderr)
        sys.exit(1 if faults or (self.smoke and self.worst > LIMIT) else 0)
