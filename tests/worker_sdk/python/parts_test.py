#!/usr/bin/env python3
"""Calls whose parts differ from rank to rank: what counts mean, and what is exchanged before."""

import array
import unittest

import numpy
import torch
from case import F32, F64, I64, U8, Case
from fake_library import FakeLibrary

import muster


class GatheredTest(Case):
    def test_counts_are_rows(self):
        x = numpy.arange(6.0).reshape(2, 3)
        got = self.comm.all_gather_v(x, [1, 2, 0, 4])
        self.assertEqual((got.shape, got.dtype.name), ((7, 3), "float64"))
        self.assertEqual(got[1:3].tolist(), x.tolist())
        self.assertEqual(self.comm.gather_v(x, root=1, counts=iter([1, 2, 0, 4])).shape, (7, 3))
        self.assertIsNone(self.comm.gather_v(x, counts=numpy.array([1, 2, 0, 4])))
        self.assertEqual(
            self.fake.calls,
            [
                ("all_gather_v", [3, 6, 0, 12], F64),
                ("gather_v", True, [3, 6, 0, 12], F64, 1),
                ("gather_v", False, [3, 6, 0, 12], F64, 0),
            ],
        )

    def test_counts_that_are_left_out_are_exchanged(self):
        got = self.comm.all_gather_v(torch.ones(2, 5))  # all four have as many
        self.assertEqual((tuple(got.shape), got.sum().item()), ((8, 5), 40))
        self.comm.gather_v(array.array("d", [1.0] * 3))
        self.assertEqual(
            self.fake.calls,
            [
                ("all_gather", 1, I64),
                ("all_gather_v", [10] * 4, F32),
                ("all_gather", 1, I64),
                ("gather_v", False, [3] * 4, F64, 0),
            ],
        )

    def test_every_kind(self):
        counts = [0, 2, 0, 1]
        self.assertEqual(self.comm.all_gather_v(bytearray(b"ab"), counts), bytearray(b"ab\0"))
        self.assertEqual(self.comm.all_gather_v(array.array("h", [1, 2]), counts), array.array("h", [1, 2, 0]))
        self.assertEqual(self.comm.all_gather_v(numpy.array(5), [1, 1, 1, 1]).tolist(), [5] * 4)
        self.assertEqual(self.comm.all_gather_v(numpy.empty((0, 3)), [0] * 4).shape, (0, 3))
        out = numpy.zeros((1, 3))
        self.assertIs(self.comm.all_gather_v(numpy.ones(2), counts, out=out), out)
        self.refused(TypeError, lambda: self.comm.all_gather_v(memoryview(bytearray(2)), counts), "give out=")

    def test_refused(self):
        x = numpy.ones((2, 3))
        self.refused(ValueError, lambda: self.comm.all_gather_v(x, [2, 2, 2]), "counts: want 4 numbers", "got 3")
        self.refused(ValueError, lambda: self.comm.all_gather_v(x, [2, 3, 2, 2]), "counts[1]: want 2, the rows of x, got 3")
        self.refused(ValueError, lambda: self.comm.gather_v(x, counts=[2, 2, -1, 2]), "counts[2]: want 0..", "got -1")
        self.refused(ValueError, lambda: self.comm.gather_v(x, counts=[2**62, 2, 2, 2]), "counts[0]: want 0..3074457345618258602")
        self.refused(TypeError, lambda: self.comm.gather_v(x, counts=2), "counts: want 4 numbers", "got 2")
        self.refused(TypeError, lambda: self.comm.gather_v(x, counts=[2.0] * 4), "float")
        self.refused(ValueError, lambda: self.comm.all_gather_v(x, [2] * 4, out=x), "out: want 24 elements, got 6")
        self.refused(TypeError, lambda: self.comm.all_gather_v(x, async_op=True), "all_gather_v: async_op=True needs counts=")
        self.refused(TypeError, lambda: self.comm.gather_v(x, async_op=True), "gather_v: async_op=True needs counts=")


class ScatteredTest(Case):
    def test_the_root_tells_the_counts(self):
        self.assertEqual(self.comm.scatter_v(numpy.ones((5, 2)), [1, 3, 0, 1], root=1).shape, (3, 2))
        self.assertEqual(self.fake.calls, [("broadcast", 5, I64, 1), ("scatter_v", True, [2, 6, 0, 2], F64, 1)])

    def test_the_others_are_told(self):
        self.fake.told = [2, 1, 3, 0, 1]  # elements of a row, then rows
        got = self.comm.scatter_v(numpy.empty((0, 2), "f"))
        self.assertEqual((got.shape, got.dtype.name), ((3, 2), "float32"))
        out = numpy.empty(6)
        self.assertIs(self.comm.scatter_v(out=out), out)
        self.comm.scatter_v(counts=[1, 3, 0, 2], out=out)  # what the library then says is told to all
        told, call = ("broadcast", 5, I64, 0), ("scatter_v", False, [2, 6, 0, 2], F64, 0)
        self.assertEqual(
            self.fake.calls,
            [told, ("scatter_v", False, [2, 6, 0, 2], F32, 0), told, call, told, ("scatter_v", False, [2, 6, 0, 4], F64, 0)],
        )
        with self.assertRaisesRegex(ValueError, "out: want 6 elements, got 5"):
            self.comm.scatter_v(out=numpy.empty(5))
        with self.assertRaisesRegex(ValueError, r"x: want rows of 2 elements as the root has, got the shape \(0, 3\)"):
            self.comm.scatter_v(numpy.empty((0, 3)))
        self.refused(TypeError, lambda: self.comm.scatter_v(), "rank 1 is not the root (0)", "out=")

    def test_nothing_is_told_of_what_is_started_only(self):
        out = numpy.empty((3, 2))
        self.assertIs(self.comm.scatter_v(counts=[1, 3, 0, 1], out=out, async_op=True).wait(), out)
        x = numpy.ones((5, 2))
        self.assertEqual(self.comm.scatter_v(x, [1, 3, 0, 1], 1, async_op=True).wait().shape, (3, 2))
        calls = [("scatter_v", False, [2, 6, 0, 2], F64, 0), ("scatter_v", True, [2, 6, 0, 2], F64, 1)]
        self.assertEqual(self.fake.calls, calls)
        self.refused(TypeError, lambda: self.comm.scatter_v(out=out, async_op=True), "scatter_v: give counts=")

    def test_reduce_scatter_v(self):
        got = self.comm.reduce_scatter_v(numpy.arange(10.0).reshape(5, 2), [1, 3, 0, 1], op="max")
        self.assertEqual(got.tolist(), [[2, 3], [4, 5], [6, 7]])
        out = torch.zeros(3)
        self.assertIs(self.comm.reduce_scatter_v(torch.arange(5.0), [1, 3, 0, 1], out=out, wire="bf16"), out)
        self.assertEqual(
            self.fake.calls,
            [
                ("reduce_scatter_v", [2, 6, 0, 2], F64, 4),
                ("set_wire", 1),
                ("reduce_scatter_v", [1, 3, 0, 1], F32, 0),
                ("set_wire", 0),
            ],
        )
        started = self.comm.reduce_scatter_v(numpy.ones(5), [1, 3, 0, 1], async_op=True)
        self.assertEqual(started.wait().tolist(), [1, 1, 1])

    def test_refused(self):
        x = numpy.ones((5, 2))
        self.refused(ValueError, lambda: self.comm.reduce_scatter_v(x, [1, 1, 1, 1]), "counts: want 5 in all", "got 4")
        self.refused(ValueError, lambda: self.comm.scatter_v(x, [5, 5, 0, 0], 1), "counts: want 5 in all", "got 10")
        self.refused(TypeError, lambda: self.comm.scatter_v(x, root=1), "scatter_v: give counts=")
        self.refused(ValueError, lambda: self.comm.reduce_scatter_v(x, [1, 3, 1, 0], op="mean"), "op: want one of")
        self.refused(ValueError, lambda: self.comm.reduce_scatter_v(x, [1, 3, 1, 0], out=numpy.ones(5)), "want 6 elements")


class AllToAllTest(Case):
    def test_counts_of_both_sides(self):
        x = numpy.ones((5, 2))
        got = self.comm.all_to_all_v(x, [1, 3, 0, 1], [2, 3, 4, 0])
        self.assertEqual(got.shape, (9, 2))
        out = bytearray(4)
        work = self.comm.all_to_all_v(bytearray(3), [0, 1, 2, 0], [1] * 4, out, async_op=True)
        self.assertIs(work.wait(), out)
        calls = [("all_to_all_v", [2, 6, 0, 2], [4, 6, 8, 0], F64), ("all_to_all_v", [0, 1, 2, 0], [1] * 4, U8)]
        self.assertEqual(self.fake.calls, calls)

    def test_what_comes_is_exchanged(self):
        got = self.comm.all_to_all_v(torch.ones(6, 2), [1, 3, 0, 2])  # the fake: as much as is sent
        self.assertEqual(tuple(got.shape), (6, 2))
        self.assertEqual(self.fake.calls, [("all_to_all", 1, I64), ("all_to_all_v", [2, 6, 0, 4], [2, 6, 0, 4], F32)])

    def test_refused(self):
        x = numpy.ones(4)
        self.refused(ValueError, lambda: self.comm.all_to_all_v(x, [1, 1, 1, 2]), "send_counts: want 4 in all", "got 5")
        self.refused(ValueError, lambda: self.comm.all_to_all_v(x, [1] * 4, [1, 1, 1, -1]), "recv_counts[3]: want 0..")
        self.refused(TypeError, lambda: self.comm.all_to_all_v(x, [1] * 4, async_op=True), "needs recv_counts=")
        self.refused(TypeError, lambda: self.comm.all_to_all_v(x, None), "all_to_all_v: give send_counts=")


class ErrorsTest(Case):
    def test_what_the_library_says(self):
        self.fake.answer, self.fake.text = 9, b"rank 2 sends 5 elements to rank 0, which expects 6"
        with self.assertRaisesRegex(muster.FailedPrecondition, "rank 2 sends 5"):
            self.comm.all_to_all_v(numpy.ones(4), [1] * 4, [1] * 4)

    def test_alone(self):
        comm = muster.Communicator(FakeLibrary(rank=0, size=1))
        self.assertEqual(comm.all_gather_v(numpy.ones((2, 2))).tolist(), [[1, 1], [1, 1]])
        self.assertEqual(comm.reduce_scatter_v(numpy.ones(3), [3]).tolist(), [1, 1, 1])


if __name__ == "__main__":
    unittest.main()
