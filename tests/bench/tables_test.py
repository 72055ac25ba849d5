#!/usr/bin/env python3
"""tables.py and plot.py on rows that compare.py has recorded."""

import argparse
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path

import compare
import plot
import tables
from tables import Key

ROWS = (Path(__file__).resolve().parent / "recorded.csv").read_text().splitlines()
CELLS = tables.read(ROWS)


def rows(*lines):
    return tables.read([tables.HEADER, *lines])


class Reading(unittest.TestCase):
    def test_the_median_of_the_repetitions_counts(self):
        cell = rows("muster,host,2,8,9,0,0.1,allreduce,0,1", "muster,host,2,8,1,0,0.3,allreduce,0,1", "muster,host,2,8,2,0,0.2,allreduce,0,1")
        self.assertEqual(cell[Key("host", 2, "allreduce", 8)], tables.Cell({"muster": 2}, {"muster": 0.2}))

    def test_the_ratio_is_to_the_best_peer(self):
        lines = ["muster,host,2,8,3,0,0,allreduce,0,1", "a,host,2,8,2,0,0,allreduce,0,1", "b,host,2,8,6,0,0,allreduce,0,1"]
        (cell,) = rows(*lines).values()
        self.assertEqual((cell.best_peer, cell.ratio), ("a", 1.5))
        (alone,) = rows(lines[0]).values()
        (without_us,) = rows(lines[1]).values()
        self.assertEqual((alone.ratio, without_us.ratio), (None, None))

    def test_a_size_cut_to_the_ranks_is_the_one_that_was_meant(self):
        self.assertEqual(list(rows("muster,host,3,16380,1,0,0,alltoall,0,1")), [Key("host", 3, "alltoall", 16384)])
        self.assertEqual(list(rows("muster,host,3,1000,1,0,0,alltoall,0,1")), [Key("host", 3, "alltoall", 1000)])

    def test_wrong_lines_are_named(self):
        for lines, told in (["peer,P"], "line 1: want peer,layout"), ([tables.HEADER, "muster,host,two,8,1,1,1,x,1,1"], "line 2: "), ([tables.HEADER, "muster"], "line 2: "):
            with self.assertRaisesRegex(ValueError, told):
                tables.read(lines)

    def test_every_recorded_cell_has_us_and_a_peer(self):
        self.assertGreater(len(CELLS), 20)
        self.assertEqual([key for key, cell in CELLS.items() if cell.ratio is None], [])


class Tables(unittest.TestCase):
    def test_texts(self):
        self.assertEqual([tables.time_text(us) for us in (0.42, 999.4, 1000, 12345.6, 2.5e6, 999999.9, 2.5e9)], ["0.42 µs", "999 µs", "1 ms", "12.3 ms", "2.5 s", "1000 ms", "2500 s"])
        self.assertEqual([tables.size_text(size) for size in (0, 8, 1024, 64 << 20)], ["", "8 B", "1 KiB", "64 MiB"])

    def test_the_full_table_has_a_line_for_every_cell(self):
        lines = tables.full_table(CELLS).splitlines()
        self.assertEqual(lines[0], "| layout | P | call | muster | gloo | mpich | openmpi | muster / best peer |")
        self.assertEqual(len(lines), len(CELLS) + 2)
        self.assertEqual({line.count("|") for line in lines}, {9})

    def test_the_short_table_has_a_column_for_every_number_of_ranks(self):
        cells = rows("muster,host,2,0,2,0,0,barrier,0,1", "a,host,2,0,4,0,0,barrier,0,1", "muster,host,8,0,3000,0,0,barrier,0,1")
        self.assertEqual(tables.short_table(cells).splitlines()[2:], ["| host | barrier | 2 µs (0.50 of a) | 3 ms |"])
        self.assertIn("| layout | call | P=2 | P=4 | P=8 |", tables.short_table(CELLS))

    def test_the_start_is_compared_with_true(self):
        (line,) = tables.start_over_true(CELLS)
        self.assertRegex(line, r"^first barrier over /bin/true, start P=4: muster [\d.]+, openmpi [\d.]+, mpich [\d.]+$")

    def test_a_table_goes_between_the_markers(self):
        text = "a\n<!-- bench: begin -->\nold\n<!-- bench: end -->\nb\n"
        once = tables.replace_marked(text, "new\n")
        self.assertEqual(once, "a\n<!-- bench: begin -->\nnew\n<!-- bench: end -->\nb\n")
        self.assertEqual(tables.replace_marked(once, "old\n"), text)
        with self.assertRaisesRegex(ValueError, "no lines"):
            tables.replace_marked("a\n", "new\n")


class Plot(unittest.TestCase):
    def test_a_panel_for_each_layout_and_a_line_for_each_tool(self):
        root = xml.fromstring(plot.svg(CELLS))
        name = "{http://www.w3.org/2000/svg}"
        panels = root.findall(f"{name}g")
        self.assertEqual([panel.find(f"{name}text").text for panel in panels], ["host, P=2", "host, P=8", "two, P=4"])
        self.assertEqual([len(panel.findall(f"{name}polyline")) for panel in panels], [4, 4, 4])

    def test_more_bandwidth_is_higher_and_more_bytes_are_further_right(self):
        line = plot.panel("x", {"muster": [(8, 0.1), (1024, 10)]}, {"muster": "black"})[-1]
        self.assertIn(f'points="{plot.LEFT}.0,{plot.HIGH - plot.BOTTOM}.0 {plot.WIDE - plot.RIGHT}.0,{plot.TOP}.0"', line)

    def test_nothing_to_plot_is_said(self):
        with self.assertRaisesRegex(ValueError, "nothing to plot"):
            plot.svg(rows("muster,host,2,8,3,0,1,allreduce,0,1"))


class Options(unittest.TestCase):
    def test_numbers_of_ranks(self):
        self.assertEqual(compare.ranks_of("2,32"), [2, 32])
        for text in "1", "257", "2,", "two", "-4", "":
            with self.assertRaisesRegex(argparse.ArgumentTypeError, f"want numbers of ranks, 2..256, got '{text}'"):
                compare.ranks_of(text)

    def test_ops(self):
        self.assertEqual(compare.ops_of("barrier,bcast"), "barrier,bcast")
        with self.assertRaisesRegex(argparse.ArgumentTypeError, "want some of allreduce,.*, got 'sum'"):
            compare.ops_of("barrier,sum")

    def test_a_peer_that_spins_gets_no_large_buffers_where_ranks_outnumber_the_cores(self):
        most = lambda ranks: {tool: argv[argv.index("--max") + 1] for tool, argv in compare.with_words(compare.on_host(ranks), "host", 2, ranks, [], 64 << 20).items()}
        self.assertEqual(most(2), dict.fromkeys(["muster", "openmpi", "mpich", "gloo"], 64 << 20))
        self.assertEqual(most(4), {**most(2), "mpich": compare.SPINNING_MAX})


if __name__ == "__main__":
    unittest.main()
