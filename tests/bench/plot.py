"""Bus bandwidth of all-reduce over its size, a panel for each layout and P, as one SVG file."""

import math
from html import escape

from tables import size_text, tools

COLOURS = ["#0b61a4", "#d1495b", "#edae49", "#3c9d6b", "#7b4ea3", "#555555"]
WIDE, HIGH = 340, 260  # of a panel
LEFT, RIGHT, TOP, BOTTOM = 48, 12, 28, 36  # around its axes
COLUMNS = 3
LEGEND = 30


def panels(cells):
    """{(layout, P): {tool: [(bytes, GB/s)]}} of at least two sizes."""
    found = {}
    for key, cell in cells.items():
        if key.op == "allreduce":
            for tool, rate in cell.rate.items():
                if rate > 0:
                    found.setdefault((key.layout, key.ranks), {}).setdefault(tool, []).append((key.size, rate))
    return {where: lines for where, lines in found.items() if max(map(len, lines.values())) > 1}


class Scale:
    """Logarithmic: from `low`..`high` to `begin`..`end`."""

    def __init__(self, values, begin, end):
        low, high = min(values), max(values)
        self.low, self.begin = math.log(low), begin
        self.factor = (end - begin) / (math.log(high) - self.low or 1)

    def __call__(self, value):
        return round(self.begin + (math.log(value) - self.low) * self.factor, 1)


def text(x, y, words, anchor="middle", colour="#333"):
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{colour}">{escape(words)}</text>'


def line(x1, y1, x2, y2):
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#ddd"/>'


def panel(title, lines, colours):
    points = [point for line_points in lines.values() for point in line_points]
    sizes, rates = [p[0] for p in points], [p[1] for p in points]
    across = Scale(sizes, LEFT, WIDE - RIGHT)
    up = Scale(rates, HIGH - BOTTOM, TOP)
    out = [text(WIDE / 2, 18, title)]
    for size in sorted(set(sizes))[::2]:
        out += [line(across(size), TOP, across(size), HIGH - BOTTOM), text(across(size), HIGH - BOTTOM + 16, size_text(size))]
    for power in range(math.ceil(math.log10(min(rates))), math.floor(math.log10(max(rates))) + 1):
        out += [line(LEFT, up(10**power), WIDE - RIGHT, up(10**power)), text(LEFT - 4, up(10**power) + 4, f"{10**power:g}", "end")]
    for tool, line_points in lines.items():
        path = " ".join(f"{across(size)},{up(rate)}" for size, rate in sorted(line_points))
        out.append(f'<polyline points="{path}" fill="none" stroke="{colours[tool]}" stroke-width="2"/>')
    return out


def svg(cells):
    """The whole file; ValueError where there is nothing to show."""
    shown = panels(cells)
    if not shown:
        raise ValueError("no all-reduce of more than one size: nothing to plot")
    colours = {tool: COLOURS[i % len(COLOURS)] for i, tool in enumerate(tools(cells))}
    columns = min(COLUMNS, len(shown))
    width, height = columns * WIDE, math.ceil(len(shown) / columns) * HIGH + LEGEND
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" font-family="sans-serif" font-size="11">']
    out.append(f'<rect width="{width}" height="{height}" fill="white"/>')
    out.append(text(8, 18, "all-reduce, bus bandwidth in GB/s by bytes:", "start"))
    for i, (tool, colour) in enumerate(colours.items()):
        out.append(text(260 + 80 * i, 18, tool, "start", colour))
    for i, ((layout, ranks), lines) in enumerate(shown.items()):
        out.append(f'<g transform="translate({i % columns * WIDE},{i // columns * HIGH + LEGEND})">')
        out += [*panel(f"{layout}, P={ranks}", lines, colours), "</g>"]
    return "\n".join([*out, "</svg>"]) + "\n"
