#!/usr/bin/python3
"""Records examples/ddp_elastic.py while one of its ranks is killed, as an SVG file that plays: ddp_elastic.svg.

    tests/bench/recording.py OUT.svg [LAUNCH]

Everything in it is what was shown, when it was shown: a job of 4 ranks in which rank 2 is killed with SIGKILL, and the
same job without that, which must end with the same bits of the parameters.
"""

import os
import re
import signal
import subprocess
import sys
import time
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORDS = ["-n", "4", "--restart=one", "--max-restarts", "10", "examples/ddp_elastic.py"]
STEPS = 600
COLUMNS, LINE, LEFT = 116, 17, 10
COLOURS = {"$": "#7fd17f", "!": "#ff8f8f", " ": "#d8d8d8"}


def rank_of(pid):
    try:
        words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        return int(next(word for word in words if word.startswith(b"RANK="))[5:])
    except (OSError, StopIteration):
        return None


def worker_of(launch, rank):
    """The process of this rank below `launch`: the one whose parent has no rank."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            pass  # it has ended meanwhile
    for pid in parents:
        above = pid
        while above in parents and above != launch:
            above = parents[above]
        if above == launch and rank_of(pid) == rank and rank_of(parents[pid]) is None:
            return pid
    raise RuntimeError(f"no process of rank {rank} below {launch}")


def played(launch, kill_at=None):
    """[(seconds since the start, kind, line)] of a job; rank 2 is killed once `kill_at` has been shown."""
    began = time.monotonic()
    lines = [(0.0, "$", "$ launch " + " ".join([*WORDS, str(STEPS)]))]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "build/release/python"), "PYTHON_EXEC": sys.executable}
    command = [launch, *WORDS, str(STEPS)]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as job:
        for line in job.stdout:
            lines.append((time.monotonic() - began, " ", line.rstrip()))
            if kill_at is not None and kill_at in line:
                victim = worker_of(job.pid, 2)
                os.kill(victim, signal.SIGKILL)
                lines.append((time.monotonic() - began, "!", f"$ kill -9 {victim}     # rank 2, from another terminal"))
                kill_at = None
    if job.returncode != 0 or kill_at is not None:
        raise RuntimeError(f"launch ended with {job.returncode}:\n" + "\n".join(line for _, _, line in lines))
    return lines


def end_of(lines):
    return {match[0] for _, _, line in lines if (match := re.search(r"done: [0-9a-f]+", line))}


def svg(lines):
    """Lines of one look come where they stand, when they came; without animation all are there."""
    high = LINE * len(lines) + 16
    wide = int(COLUMNS * 7.3) + 2 * LEFT
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" font-family="monospace" font-size="12">',
        "<style>@keyframes come{from{visibility:hidden}to{visibility:visible}} text{white-space:pre;animation:come .01s both}</style>",
        f'<rect width="{wide}" height="{high}" rx="6" fill="#1d1f21"/>',
    ]
    for i, (when, kind, words) in enumerate(lines):
        shown = words if len(words) <= COLUMNS else words[: COLUMNS - 1] + "…"
        y = LINE * (i + 1) + 2
        out.append(f'<text x="{LEFT}" y="{y}" fill="{COLOURS[kind]}" style="animation-delay:{when:.2f}s">{escape(shown)}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def thinned(lines):
    """Of the loss lines every fifth, and those around the death."""
    dead = next((i for i, (_, kind, _) in enumerate(lines) if kind == "!"), None)
    kept = []
    for i, line in enumerate(lines):
        step = re.search(r"step (\d+):", line[2])
        if not step or int(step[1]) % 100 == 0 or (dead is not None and abs(i - dead) <= 4):
            kept.append(line)
    return kept


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    launch = sys.argv[2] if len(sys.argv) == 3 else str(ROOT / "build/release/bin/launch")
    with_death, without = played(launch, kill_at="step 250:"), played(launch)
    if len(end_of(with_death)) != 1 or end_of(with_death) != end_of(without):
        sys.exit(f"the two jobs differ: {end_of(with_death)} and {end_of(without)}")
    first = thinned(with_death)
    gap = first[-1][0] + 1.5
    Path(sys.argv[1]).write_text(svg(first + [(gap + when, kind, words) for when, kind, words in thinned(without)]))


if __name__ == "__main__":
    main()
