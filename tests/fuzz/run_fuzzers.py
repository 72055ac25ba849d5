#!/usr/bin/env python3
"""Runs the fuzzers that `cmake --build --preset fuzz` made. For each:

1. from its seeds, for a fixed number of runs with a fixed seed (or --seconds): nothing may be found;
2. the lines of its parser that were reached: at least 80 % (clang's source-based coverage);
3. its twin with a planted mistake: the seeds do not show it, the fuzzer finds it within two minutes.

A find is kept in BUILD/found/NAME-*: `BUILD/bin/fuzz-NAME FILE` shows it again. Once it is mended, it belongs into the
Seeds() of its target. With --seconds, what was learnt is kept in BUILD/corpus and is where the next run begins.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

LINES_MIN = 80.0  # percent
BUG_SECONDS = 120
ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMITS = ["-seed=1", "-max_len=2048", "-timeout=600", "-rss_limit_mb=2048", "-malloc_limit_mb=256", "-verbosity=0", "-print_final_stats=1"]


def tool(name):
    path = shutil.which(f"{name}-14") or shutil.which(name)
    assert path, f"{name} is missing: run deploy/install-packages test"
    return path


def execute(arguments, folder, profile="/dev/null", **more):
    options = "abort_on_error=0:detect_leaks=0"  # leak checking needs ptrace, which some containers refuse
    environment = dict(os.environ, LLVM_PROFILE_FILE=str(profile), ASAN_OPTIONS=options, UBSAN_OPTIONS="print_stacktrace=1", **more)
    return subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)


def story(text):
    """What a fuzzer said at its end, without its list of new functions."""
    return "\n".join(line for line in text.splitlines() if "NEW_FUNC" not in line)[-5000:]


class Target:
    def __init__(self, build, seconds, name, runs, *parser):
        self.build, self.name, self.runs, self.parser, self.seconds = build, name, runs, parser, seconds
        self.program = build / "bin" / f"fuzz-{name}"
        self.found = build / "found"

    def fuzz(self, program, folder, amount, corpus, profile="/dev/null"):
        limits = LIMITS + [f"-artifact_prefix={self.found}/{program.name[5:]}-", f"-dict={self.program}.dict"]
        if self.program.with_suffix(".dict").read_text().count("\n") < 2:
            limits.pop()  # libFuzzer refuses a dictionary without a word
        return execute([program, *limits, *amount, *corpus], folder, profile)

    def run(self):
        """What is wrong, one text each; and a line of figures."""
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            seeds, grown = folder / "seeds", folder / "grown"
            seeds.mkdir()
            grown.mkdir()
            execute([self.program], folder, MUSTER_SEEDS=str(seeds))
            if not any(seeds.iterdir()):
                return [f"{self.name}: wrote no seeds"], ""
            return self.examine(folder, seeds, grown)

    def examine(self, folder, seeds, grown):
        amount = [f"-runs={self.runs}"]
        if self.seconds:
            amount = [f"-max_total_time={self.seconds}"]
            grown = self.build / "corpus" / self.name
            grown.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        done = self.fuzz(self.program, folder, amount, [grown, seeds], folder / "raw")
        took = time.monotonic() - began
        if done.returncode != 0:
            return [f"{self.name}: found something\n{story(done.stderr)}"], ""
        runs = re.search(r"number_of_executed_units: (\d+)", done.stderr)
        wrong = []
        lines = self.coverage(folder)
        if lines < LINES_MIN:
            wrong.append(f"{self.name}: {lines:.1f} % of the lines of {' '.join(self.parser)} were reached, want {LINES_MIN} %: add seeds")
        bug, bug_seconds = self.find_bug(folder, seeds)
        if bug:
            wrong.append(f"{self.name}: {bug}")
        return wrong, f"{self.name:18} {int(runs[1]):>9} runs {took:6.1f} s   {lines:5.1f} % of lines   planted mistake {bug_seconds:5.1f} s"

    def coverage(self, folder):
        subprocess.run([tool("llvm-profdata"), "merge", "-o", folder / "merged", folder / "raw"], check=True)
        out = subprocess.run(
            [tool("llvm-cov"), "export", "-summary-only", f"-instr-profile={folder / 'merged'}", self.program, *[ROOT / p for p in self.parser]],
            check=True, capture_output=True, text=True)  # fmt: skip
        lines = json.loads(out.stdout)["data"][0]["totals"]["lines"]
        return lines["percent"] if lines["count"] else 0.0

    def find_bug(self, folder, seeds):
        program = self.program.with_name(self.program.name + "-bug")
        shown = self.fuzz(program, folder, ["-runs=0"], [seeds])
        if shown.returncode != 0:
            return f"the seeds alone show the planted mistake\n{story(shown.stderr)}", 0.0
        began = time.monotonic()
        found = self.fuzz(program, folder, [f"-max_total_time={BUG_SECONDS}"], [seeds])
        if found.returncode == 0:
            return f"the planted mistake was not found in {BUG_SECONDS} s", 0.0
        for left in self.found.glob(f"{program.name[5:]}-*"):
            left.unlink()
        return "", time.monotonic() - began


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build/asan", help="the build folder (build/asan)")
    parser.add_argument("--seconds", type=int, default=0, help="for each fuzzer, in place of its fixed number of runs")
    parser.add_argument("names", nargs="*", help="only these")
    options = parser.parse_args()
    build = pathlib.Path(options.build).resolve()
    (build / "found").mkdir(exist_ok=True)
    lines = (build / "bin" / "fuzzers.txt").read_text().splitlines()
    targets = [Target(build, options.seconds, *line.split()) for line in lines]
    targets = [t for t in targets if not options.names or t.name in options.names]
    passed = failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for wrong, figures in pool.map(Target.run, targets):
            passed, failed = passed + (not wrong), failed + bool(wrong)
            print("\n".join(wrong + ([figures] if figures else [])), flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
