"""What compare.py measured, as tables and a plot: from rows `peer,layout,P,bytes,p50_us,p99_us,busbw_GBps,op,mean_us,iters`.

A cell is one op of one size in one layout with P ranks; each tool has the median p50 of its repetitions there.
"""

import csv
import statistics
from collections import defaultdict
from typing import NamedTuple

OURS = "muster"
HEADER = "peer,layout,P,bytes,p50_us,p99_us,busbw_GBps,op,mean_us,iters"
# What the short table shows: (op, bytes).
SHORT = [("allreduce", 8), ("allreduce", 16 << 10), ("allreduce", 1 << 20), ("allreduce", 64 << 20), ("barrier", 0),
         ("bcast", 1 << 20), ("allgather", 1 << 20), ("alltoall", 1 << 20), ("pingpong_rtt", 8),
         ("pingpong_rtt", 1 << 20), ("first_barrier", 0), ("true", 0),
         ("load_wall", 1 << 10), ("load_cpu", 1 << 10), ("load_wall", 1 << 20), ("load_cpu", 1 << 20)]  # fmt: skip
SAY = {"pingpong_rtt": "message there and back", "first_barrier": "start to first barrier", "true": "start of /bin/true", "load_wall": "uneven load, wall", "load_cpu": "uneven load, CPU of all"}


class Key(NamedTuple):
    layout: str
    ranks: int
    op: str
    size: int


class Cell(NamedTuple):
    us: dict[str, float]  # tool -> median p50
    rate: dict[str, float]  # tool -> median bus bandwidth in GB/s

    @property
    def best_peer(self):
        return min((tool for tool in self.us if tool != OURS), key=self.us.get, default=None)

    @property
    def ratio(self):
        """Ours over the best peer's: below 1 we are faster. None where one of them is missing."""
        if OURS not in self.us or self.best_peer is None:
            return None
        return self.us[OURS] / self.us[self.best_peer]


def rounded(op, size, ranks):
    """A size that is cut to a multiple of the ranks counts as the power of two that was meant."""
    meant = 1 << (size - 1).bit_length() if size else 0
    return meant if op in ("allgather", "alltoall") and meant - size < 4 * ranks else size


def read(lines):
    """{Key: Cell}, in the order of the lines; ValueError names a line that makes no sense."""
    us, rates = defaultdict(lambda: defaultdict(list)), defaultdict(lambda: defaultdict(list))
    reader = csv.DictReader(lines)
    if ",".join(reader.fieldnames or []) != HEADER:
        raise ValueError(f"line 1: want {HEADER}, got {','.join(reader.fieldnames or [])}")
    for row in reader:
        try:
            size, ranks = int(row["bytes"]), int(row["P"])
            key = Key(row["layout"], ranks, row["op"], rounded(row["op"], size, ranks))
            time, rate = float(row["p50_us"]), float(row["busbw_GBps"])
        except (TypeError, ValueError) as why:
            raise ValueError(f"line {reader.line_num}: {why}") from None
        us[key][row["peer"]].append(time)
        rates[key][row["peer"]].append(rate)
    medians = lambda of: {tool: statistics.median(values) for tool, values in of.items()}
    return {key: Cell(medians(us[key]), medians(rates[key])) for key in us}


def tools(cells):
    """All, ours first."""
    named = sorted({tool for cell in cells.values() for tool in cell.us} - {OURS})
    return [OURS, *named]


def time_text(us):
    for unit, scale in ("s", 1e6), ("ms", 1e3), ("µs", 1):
        if us >= scale or unit == "µs":
            value = us / scale
            return f"{value:.3g} {unit}" if value < 999.5 else f"{value:.0f} {unit}"


def size_text(size):
    for unit, scale in ("MiB", 1 << 20), ("KiB", 1 << 10):
        if size >= scale:
            return f"{size / scale:g} {unit}"
    return f"{size} B" if size else ""


def call_text(op, size):
    return f"{SAY.get(op, op)} {size_text(size)}".strip()


def ratio_text(ratio):
    return "" if ratio is None else f"{ratio:.2f}"


def _line(words):
    return "| " + " | ".join(words) + " |"


def full_table(cells):
    """Markdown with every tool's median in every cell, and our ratio to the best peer."""
    names = tools(cells)
    lines = [_line(["layout", "P", "call", *names, f"{OURS} / best peer"]), _line(["---"] * (4 + len(names)))]
    for key, cell in cells.items():
        times = [time_text(cell.us[tool]) if tool in cell.us else "" for tool in names]
        lines.append(_line([key.layout, str(key.ranks), call_text(key.op, key.size), *times, ratio_text(cell.ratio)]))
    return "\n".join(lines) + "\n"


def short_table(cells):
    """Markdown: a row for each layout and call of SHORT, a column for each P; ours, and the ratio to the best peer."""
    counts = sorted({key.ranks for key in cells})
    lines = [_line(["layout", "call", *(f"P={count}" for count in counts)]), _line(["---"] * (2 + len(counts)))]
    for layout in dict.fromkeys(key.layout for key in cells):
        for op, size in SHORT:
            row = [_short_text(cells.get(Key(layout, count, op, size))) for count in counts]
            if any(row):
                lines.append(_line([layout, call_text(op, size), *row]))
    return "\n".join(lines) + "\n"


def _short_text(cell):
    if cell is None or OURS not in cell.us:
        return ""
    ratio = cell.ratio
    return time_text(cell.us[OURS]) + ("" if ratio is None else f" ({ratio:.2f} of {cell.best_peer})")


def start_over_true(cells):
    """Lines: how much longer than /bin/true each tool's job takes to its first barrier."""
    lines = []
    for key, cell in cells.items():
        true = cells.get(key._replace(op="true"))
        if key.op == "first_barrier" and true is not None:
            ratios = [f"{tool} {cell.us[tool] / true.us[tool]:.2f}" for tool in cell.us if tool in true.us]
            lines.append(f"first barrier over /bin/true, {key.layout} P={key.ranks}: {', '.join(ratios)}")
    return lines


def replace_marked(text, table):
    """`text` with `table` between its markers; ValueError where they are missing."""
    begin, end = "<!-- bench: begin -->\n", "<!-- bench: end -->"
    head, found, rest = text.partition(begin)
    _, closed, tail = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"no lines '{begin.strip()}' and '{end}' to put the table between")
    return head + begin + table + end + tail
