#!/usr/bin/env python3
"""What the Python package accepts as numbers, what it passes on, and what it says of the rest."""

import array
import copy
import ctypes
import gc
import pickle
import subprocess
import sys
import threading
import unittest
import weakref

import numpy
import torch
from case import F32, F64, I64, U8, Case
from fake_library import FakeLibrary

import muster


class KindsTest(Case):
    def test_every_numpy_type(self):
        names = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16"]
        for code, name in [*enumerate(names), (F32, "float32"), (F64, "float64")]:
            x = numpy.arange(6, dtype=name).reshape(2, 3)
            self.assertIs(self.comm.all_reduce(x), x)
            self.assertEqual(self.fake.calls[-1], ("all_reduce", 6, code, 0))

    def test_every_torch_type(self):
        names = {"int8": 0, "int16": 1, "int32": 2, "int64": 3, "uint8": 4, "float16": 8, "bfloat16": 9}
        for name, code in {**names, "float32": F32, "float64": F64}.items():
            x = torch.ones(5, dtype=getattr(torch, name))
            self.assertIs(self.comm.all_reduce(x, op="max"), x)
            self.assertEqual(self.fake.calls[-1], ("all_reduce", 5, code, 4))

    def test_parameters_are_tensors(self):
        x = torch.nn.Parameter(torch.ones(2, 2))
        self.assertIs(self.comm.broadcast(x), x)
        self.assertEqual(self.fake.calls, [("broadcast", 4, F32, 0)])
        self.assertEqual(tuple(self.comm.all_gather(x).shape), (4, 2, 2))

    def test_buffers(self):
        for letter in "bhilqBHILQfd":
            x = array.array(letter, [1, 2, 3])
            self.comm.all_reduce(x)
            name, count, dtype, _ = self.fake.calls[-1]
            self.assertEqual((count, numpy.dtype(letter).itemsize), (3, x.itemsize))
            self.assertEqual(dtype, {"f": F32, "d": F64}.get(letter, 4 * letter.isupper() + x.itemsize.bit_length() - 1))
        for x in (bytearray(5), memoryview(bytearray(5)), (ctypes.c_uint8 * 5)()):
            self.comm.all_reduce(x)
            self.assertEqual(self.fake.calls[-1], ("all_reduce", 5, U8, 0))
        self.comm.all_reduce((ctypes.c_float * 4)())
        self.assertEqual(self.fake.calls[-1], ("all_reduce", 4, F32, 0))

    def test_dlpack(self):
        class Foreign:
            def __init__(self, array):
                self.array = array

            def __dlpack__(self, **options):
                return self.array.__dlpack__(**options)

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

        out = numpy.zeros(3)
        self.comm.all_reduce(Foreign(numpy.array([1.0, 2.0, 3.0])), out=out)
        self.assertEqual(list(out), [1, 2, 3])

    def test_no_elements(self):
        for x in (numpy.zeros((0, 3), "f"), torch.zeros(0), array.array("d"), bytearray()):
            self.comm.all_reduce(x)
            self.assertEqual(self.fake.calls[-1][1], 0)

    def test_buffers_are_held_during_a_call_and_not_after(self):
        x = array.array("d", [1, 2])

        def grow():
            with self.assertRaises(BufferError):
                x.append(3)

        self.fake.during = grow
        self.comm.all_reduce(x)
        x.append(3)
        self.assertEqual(len(x), 3)


class RefusedTest(Case):
    def test_not_dense(self):
        whole = numpy.zeros((4, 4), "f")
        self.refused(ValueError, lambda: self.comm.all_reduce(whole[:, 1]), "strides (16,)", "ascontiguousarray(x)")
        self.refused(ValueError, lambda: self.comm.all_reduce(whole[0], out=whole[:, 1]), "out: ", "contiguous")
        self.refused(ValueError, lambda: self.comm.all_reduce(torch.zeros(4, 4).t()), "x.contiguous()")
        self.refused(ValueError, lambda: self.comm.all_reduce(torch.eye(3).to_sparse()), "sparse_coo", "to_dense()")
        self.refused(ValueError, lambda: self.comm.all_reduce(torch._neg_view(torch.ones(2))), "is_neg()", "x.resolve_neg()")
        self.refused(ValueError, lambda: self.comm.all_reduce(memoryview(bytearray(8))[::2]), "C-contiguous")

    def test_not_in_host_memory(self):
        self.refused(ValueError, lambda: self.comm.all_reduce(torch.zeros(2, device="meta")), "on meta", "x.cpu()")

    def test_read_only(self):
        x = numpy.zeros(2)
        x.flags.writeable = False
        self.refused(ValueError, lambda: self.comm.all_reduce(x), "x: read-only", "x.copy()", "out=")
        self.refused(ValueError, lambda: self.comm.broadcast(x), "x: read-only")
        self.refused(ValueError, lambda: self.comm.all_reduce(numpy.ones(2), out=x), "out: read-only")
        self.refused(ValueError, lambda: self.comm.all_reduce(b"abc"), "read-only bytes", "bytearray(x)")
        doubles = memoryview(array.array("d", [1.5, 2.5, 3.5]))
        self.refused(ValueError, lambda: self.comm.all_reduce(doubles.toreadonly()), "array.array('d', x)")
        self.refused(ValueError, lambda: self.comm.all_reduce(doubles[::2]), "C-contiguous", "array.array('d', x)")
        self.refused(ValueError, lambda: self.comm.all_reduce(numpy.float64(1.5)), "numpy.array(x)")
        self.refused(ValueError, lambda: self.comm.all_reduce(numpy.uint8(3)), "numpy.array(x)")  # bytearray(3) is 3 zeros
        self.comm.all_reduce(array.array("d", doubles[::2]))
        self.comm.all_reduce(numpy.array(numpy.float64(1.5)))
        self.comm.all_reduce(x, out=numpy.zeros(2))
        muster.Communicator(FakeLibrary(rank=0)).broadcast(x)

    def test_types(self):
        self.refused(TypeError, lambda: self.comm.all_reduce(numpy.zeros(2, "c16")), "complex128", "view(numpy.float64)")
        self.refused(TypeError, lambda: self.comm.all_reduce(numpy.zeros(2, "?")), "bool", "view(numpy.uint8)")
        self.refused(TypeError, lambda: self.comm.all_reduce(torch.zeros(2).bool()), "type bool", "view(torch.uint8)")
        self.refused(TypeError, lambda: self.comm.all_reduce(torch.zeros(2) * 1j), "complex64", "view_as_real(x)")
        self.refused(TypeError, lambda: self.comm.all_reduce((ctypes.c_bool * 2)()), "format", "int8")
        self.refused(TypeError, lambda: self.comm.all_reduce(numpy.ma.masked_array([1.0, 2.0], [True, False])), "masked array", "x.filled(")
        self.refused(ValueError, lambda: self.comm.all_reduce(numpy.zeros(2, ">f8")), "byte order", "newbyteorder")
        self.refused(ValueError, lambda: self.comm.all_reduce((ctypes.c_float.__ctype_be__ * 2)()), "byte order")
        for x, advice in (([1.0], "numpy.array(x)"), (1.0, "array.array('d', [x])"), (None, "NoneType"), ("text", "str")):
            self.refused(TypeError, lambda: self.comm.all_reduce(x), "want a NumPy array", type(x).__name__, advice)

    def test_nobody_gets_a_second_owner(self):
        work = self.comm.all_reduce(numpy.zeros(2), async_op=True)
        for owner in (self.comm, work):
            for how in (copy.copy, copy.deepcopy, pickle.dumps):
                self.refused(TypeError, lambda: how(owner), "neither copied nor pickled")

    def test_operations_and_roots(self):
        x = numpy.zeros(2)
        self.refused(ValueError, lambda: self.comm.all_reduce(x, op="mean"), "want one of sum, avg", "'mean'")
        self.refused(ValueError, lambda: self.comm.all_reduce(x, wire="fp16"), "wire: want one of full, bf16", "'fp16'")
        self.refused(ValueError, lambda: self.comm.all_reduce(x, op=0), "got 0")
        self.refused(ValueError, lambda: self.comm.broadcast(x, root=4), "root: want 0..3, got 4")
        self.refused(ValueError, lambda: self.comm.reduce(x, root=-1), "got -1")
        self.refused(TypeError, lambda: self.comm.broadcast(x, root=1.0), "root: want an integer, got float")
        for seconds in (-1, float("nan"), float("inf")):
            self.refused(ValueError, lambda: self.comm.set_timeout(seconds), "seconds: ")
        self.refused(TypeError, lambda: self.comm.set_timeout("a"), "seconds: want a number", "'a'")

    def test_out(self):
        x = numpy.zeros(4, "f")
        self.refused(ValueError, lambda: self.comm.all_reduce(x, out=numpy.zeros(4)), "want float32", "got float64")
        self.refused(ValueError, lambda: self.comm.all_reduce(x, out=numpy.zeros(5, "f")), "want 4 elements, got 5")
        self.refused(ValueError, lambda: self.comm.all_gather(x, out=x), "want 16 elements, got 4")
        both = numpy.zeros(6, "f")
        self.refused(ValueError, lambda: self.comm.all_reduce(both[:4], out=both[2:]), "overlap")
        self.refused(TypeError, lambda: self.comm.all_gather(memoryview(bytearray(3))), "give out=", "12 elements")


class CallsTest(Case):
    def test_a_wire_is_that_of_one_call(self):
        x = numpy.ones(4, dtype="float32")
        self.fake.wire = 1  # MUSTER_WIRE
        for call, made in (
            (lambda: self.comm.all_reduce(x, wire="full"), ("all_reduce", 4, F32, 0)),
            (lambda: self.comm.reduce(x, root=1, wire="full"), ("reduce", True, 4, F32, 0, 1)),
            (lambda: self.comm.reduce(x, root=2, wire="full"), ("reduce", False, 4, F32, 0, 2)),
            (lambda: self.comm.reduce_scatter(x, wire="full"), ("reduce_scatter", 1, F32, 0)),
        ):
            self.fake.calls.clear()
            call()
            self.assertEqual(self.fake.calls, [("set_wire", 0), made, ("set_wire", 1)])
        self.fake.answer, self.fake.text = 14, b"rank 2 has died"
        with self.assertRaises(muster.Unavailable):
            self.comm.all_reduce(x, wire="full")
        self.assertEqual(self.fake.wire, 1)

    def test_reduce(self):
        x, out = numpy.ones(3, "f"), numpy.zeros(3, "f")
        self.assertIsNone(self.comm.reduce(x, op="prod", root=2))
        self.assertIs(self.comm.reduce(x, root=1), x)
        self.assertIs(self.comm.reduce(x, root=1, out=out), out)
        self.assertEqual(
            self.fake.calls,
            [("reduce", False, 3, F32, 2, 2), ("reduce", True, 3, F32, 0, 1), ("reduce", True, 3, F32, 0, 1)],
        )

    def test_all_gather_makes_its_output(self):
        got = self.comm.all_gather(numpy.array([[1.0, 2.0]]))
        self.assertEqual((got.shape, got.dtype.name), ((4, 1, 2), "float64"))
        self.assertEqual(got[3].tolist(), [[1, 2]])
        tensor = self.comm.all_gather(torch.tensor([5, 6], dtype=torch.bfloat16))
        self.assertEqual((tuple(tensor.shape), tensor.dtype, tensor[2, 1].item()), ((4, 2), torch.bfloat16, 6))
        self.assertEqual(self.comm.all_gather(array.array("i", [7])), array.array("i", [7] * 4))
        self.assertEqual(self.comm.all_gather(bytearray(b"ab")), bytearray(b"abababab"))
        self.assertEqual(self.comm.all_gather(numpy.array(9)).tolist(), [9] * 4)

    def test_all_gather_from_its_own_place(self):
        out = numpy.zeros((4, 2))
        self.assertIs(self.comm.all_gather(out[1], out=out), out)
        self.refused(ValueError, lambda: self.comm.all_gather(out[2], out=out), "overlap", "element 2 of out")

    def test_gather(self):
        x = numpy.ones(2)
        self.assertIsNone(self.comm.gather(x))
        self.assertEqual(self.comm.gather(x, root=1).shape, (4, 2))
        self.assertEqual(self.fake.calls, [("gather", False, 2, F64, 0), ("gather", True, 2, F64, 1)])

    def test_scatter(self):
        self.assertEqual(self.comm.scatter(numpy.arange(8).reshape(8, 1), root=1).shape, (2, 1))
        out = numpy.zeros(2, "i8")
        self.assertIs(self.comm.scatter(out=out), out)
        self.assertEqual(self.fake.calls, [("scatter", True, 2, I64, 1), ("scatter", False, 2, I64, 0)])
        self.refused(TypeError, lambda: self.comm.scatter(), "rank 1 is not the root (0)", "out=")

    def test_reduce_scatter(self):
        self.assertEqual(self.comm.reduce_scatter(numpy.arange(8.0)).tolist(), [2, 3])
        out = numpy.zeros(1)
        self.assertIs(self.comm.reduce_scatter(numpy.arange(4.0).reshape(2, 2), op="min", out=out), out)
        self.assertEqual(self.fake.calls[-1], ("reduce_scatter", 1, F64, 3))
        self.refused(ValueError, lambda: self.comm.reduce_scatter(numpy.zeros(6)), "4 ranks can share", "6")
        self.refused(ValueError, lambda: self.comm.reduce_scatter(numpy.zeros((2, 2))), "first axis", "give out=")

    def test_all_to_all(self):
        got = self.comm.all_to_all(torch.arange(8.0).reshape(4, 2))
        self.assertEqual(tuple(got.shape), (4, 2))
        x = numpy.zeros(4)
        self.assertIs(self.comm.all_to_all(x, out=x), x)
        self.assertEqual(self.fake.calls, [("all_to_all", 2, F32), ("all_to_all", 1, F64)])

    def test_messages(self):
        x = numpy.ones(4)
        self.assertIsNone(self.comm.send(x, 2, tag=7))
        self.assertIs(self.comm.recv(x, src=3), x)
        self.assertIsNone(self.comm.send(x, 2, async_op=True).wait())
        self.assertIs(self.comm.recv(x, 3, 9, async_op=True).wait(), x)
        expected = [("send", 4, F64, 2, 7), ("recv", 4, F64, 3, 0), ("send", 4, F64, 2, 0), ("recv", 4, F64, 3, 9)]
        self.assertEqual(self.fake.calls, expected)
        self.fake.calls.clear()
        self.assertIs(self.comm.recv(x), x)
        work = self.comm.recv(x, tag=9, async_op=True)
        self.assertEqual(self.fake.calls, [("recv", 4, F64, -1, 0), ("recv", 4, F64, -1, 9)])
        self.assertIsNone(work.source)
        self.fake.sources[work.handle.value] = 3
        work.wait()
        self.assertEqual(work.source, 3)
        self.refused(ValueError, lambda: self.comm.send(x, 4), "dst: want 0..3, got 4")
        self.refused(ValueError, lambda: self.comm.recv(x, -1), "src: want 0..3, got -1")
        self.refused(ValueError, lambda: self.comm.recv(x, 1, 2**31), "tag: want 0..2147483647, got 2147483648")
        self.refused(TypeError, lambda: self.comm.send(x, 1, "a"))
        x.flags.writeable = False
        self.refused(ValueError, lambda: self.comm.recv(x, 1), "x: read-only")

    def test_counters(self):
        self.assertEqual(self.comm.counters(), muster.Counters(5, 600, waited_on_node=7.0, waited_between_nodes=8.0))
        self.assertEqual(self.comm.waited_for(3), 3.0)
        self.refused(ValueError, lambda: self.comm.waited_for(4), "rank: want 0..3, got 4")
        self.comm.close()
        self.refused(muster.FailedPrecondition, self.comm.counters, "counters: the communicator is closed")

    def test_what_it_is(self):
        of = self.comm
        self.assertEqual((of.rank, of.size, of.local_rank, of.local_size), (1, 4, 1, 4))
        self.assertEqual((of.node_rank, of.nodes, of.round), (0, 1, 3))
        self.assertEqual(repr(of), "<muster.Communicator rank 1 of 4, round 3>")
        of.set_timeout(None)
        of.set_timeout(2)
        self.assertEqual(self.fake.calls, [("set_timeout", 0.0), ("set_timeout", 2.0)])

    def test_split(self):
        group = self.comm.split(3, key=-5)
        self.assertEqual(self.fake.calls, [("split", 3, -5)])
        self.assertEqual((group.rank, group.size), (1, 4))
        self.assertIsNone(self.comm.split(None))
        self.assertIsNone(self.comm.split(numpy.int64(-7), 2**63 - 1))
        self.assertEqual(self.fake.calls[1:], [("split", -1, 0), ("split", -7, 2**63 - 1)])
        self.refused(TypeError, lambda: self.comm.split(1.5), "float")
        self.refused(ValueError, lambda: self.comm.split(2**63), "color: want -9223372036854775808..9223372036854775807, got 9223372036854775808")
        self.refused(ValueError, lambda: self.comm.split(0, -(2**63) - 1), "key: want")
        self.comm.close()
        self.refused(muster.FailedPrecondition, lambda: self.comm.split(0), "split: the communicator is closed")
        group.barrier()
        group.close()
        self.assertEqual(self.fake.freed, [77, 78])

    def test_split_that_fails(self):
        self.fake.answer, self.fake.text = 14, b"rank 3 died"
        with self.assertRaises(muster.Unavailable):
            self.comm.split(0)
        self.comm = None
        gc.collect()
        self.assertEqual(self.fake.freed, [77])


class StartedTest(Case):
    def test_every_call(self):
        x, out, all_out = numpy.ones(4), numpy.zeros(4), numpy.zeros(16)
        comm = self.comm
        for started, result, call in (
            (comm.barrier(async_op=True), None, ("barrier",)),
            (comm.all_reduce(x, async_op=True), x, ("all_reduce", 4, F64, 0)),
            (comm.all_reduce(x, "max", out, async_op=True), out, ("all_reduce", 4, F64, 4)),
            (comm.reduce(x, root=0, async_op=True), None, ("reduce", False, 4, F64, 0, 0)),
            (comm.reduce(x, root=1, async_op=True), x, ("reduce", True, 4, F64, 0, 1)),
            (comm.broadcast(x, async_op=True), x, ("broadcast", 4, F64, 0)),
            (comm.all_gather(x, all_out, async_op=True), all_out, ("all_gather", 4, F64)),
            (comm.gather(x, async_op=True), None, ("gather", False, 4, F64, 0)),
            (comm.gather(x, 1, all_out, async_op=True), all_out, ("gather", True, 4, F64, 1)),
            (comm.scatter(out=out, async_op=True), out, ("scatter", False, 4, F64, 0)),
            (comm.scatter(all_out, 1, out, async_op=True), out, ("scatter", True, 4, F64, 1)),
            (comm.reduce_scatter(all_out, out=out, async_op=True), out, ("reduce_scatter", 4, F64, 0)),
            (comm.all_to_all(all_out, async_op=True), None, ("all_to_all", 4, F64)),
        ):
            got = started.wait()
            self.assertIn(call, self.fake.calls)
            if call[0] != "all_to_all":
                self.assertIs(got, result)

    def test_buffers_are_held_until_the_call_has_ended(self):
        for end in (lambda work: work.wait(), lambda work: work.test()):
            x = array.array("d", [1, 2])
            self.fake.ended = False
            self.comm.all_reduce(x, async_op=True)  # forgotten
            work = self.comm.all_reduce(x, async_op=True)
            with self.assertRaises(BufferError):
                x.append(3)
            self.assertFalse(work.test())
            self.fake.ended = True
            self.comm.close()
            end(work)
            x.append(3)
            self.setUp()

    def test_what_has_ended_is_let_go(self):
        self.fake.ended = True
        for _ in range(1000):
            self.comm.barrier(async_op=True)
        self.assertGreater(len(self.fake.work_freed), 900)
        self.assertEqual(len(self.fake.work_freed), len(set(self.fake.work_freed)))

    def test_errors(self):
        work = self.comm.barrier(async_op=True)
        self.fake.answer, self.fake.text = 14, b"rank 2 has died"
        with self.assertRaisesRegex(muster.Unavailable, "rank 2"):
            work.wait()
        with self.assertRaisesRegex(muster.Unavailable, "rank 2"):
            self.comm.barrier(async_op=True)
        self.refused(TypeError, lambda: self.comm.all_reduce([1.0], async_op=True), "x")


class ErrorsTest(Case):
    def test_kinds(self):
        kinds = {
            3: (ValueError, None),
            4: (muster.DeadlineExceeded, TimeoutError),
            8: (muster.ResourceExhausted, MemoryError),
            9: (muster.FailedPrecondition, muster.Error),
            12: (muster.Unimplemented, muster.Error),
            13: (muster.Error, RuntimeError),
            14: (muster.Unavailable, muster.Error),
            99: (muster.Error, RuntimeError),
        }
        for code, (kind, base) in kinds.items():
            self.fake.answer, self.fake.text = code, b"rank 3 died"
            with self.assertRaises(kind) as caught:
                self.comm.barrier()
            self.assertEqual((type(caught.exception), str(caught.exception)), (kind, "rank 3 died"))
            if base:
                self.assertIsInstance(caught.exception, base)
                self.assertEqual(caught.exception.code, code if code != 99 else muster.Code.INTERNAL)

    def test_init_that_fails(self):
        self.fake.answer, self.fake.text = 14, b"the agent is gone"
        with self.assertRaises(muster.Unavailable):
            muster.Communicator(self.fake)
        gc.collect()
        self.assertEqual(self.fake.freed, [])

    def test_close(self):
        with self.comm as comm:
            comm.barrier()
        self.assertEqual(self.fake.freed, [77])
        comm.close()
        self.refused(muster.FailedPrecondition, comm.barrier, "barrier: the communicator is closed")
        self.assertIn("closed", repr(comm))
        self.comm = comm = None
        gc.collect()
        self.assertEqual(self.fake.freed, [77])

    def test_an_error_is_no_farewell(self):
        for error, abandons in ((KeyError("x"), True), (SystemExit(3), True), (SystemExit(0), False), (SystemExit(), False)):
            fake = FakeLibrary()
            with self.assertRaises(type(error)):
                with muster.Communicator(fake):
                    raise error
            self.assertEqual((fake.abandoned, fake.freed), ([77] * abandons, [77]), error)

    def test_what_is_open_when_the_interpreter_ends_goes_with_the_process(self):
        x = numpy.ones(3)
        work = self.comm.all_reduce(x, async_op=True)
        muster._communicator._leave_all()
        self.assertEqual((self.fake.freed_at_exit, self.fake.freed), ([77], []))
        self.refused(muster.FailedPrecondition, self.comm.barrier, "barrier: the communicator is closed")
        held = weakref.ref(work)
        self.comm = work = None
        gc.collect()
        self.assertEqual(self.fake.freed, [])
        self.assertIsNotNone(held())

    def test_forgotten(self):
        self.comm = None
        gc.collect()
        self.assertEqual(self.fake.freed, [77])

    def test_one_call_at_a_time(self):
        errors = []

        def other_thread():
            try:
                self.comm.barrier()
            except muster.FailedPrecondition as error:
                errors.append(str(error))

        def during():
            thread = threading.Thread(target=other_thread)
            thread.start()
            thread.join()

        self.fake.during = during
        self.comm.barrier()
        self.assertEqual(self.fake.calls, [("barrier",)])
        self.assertIn("another thread", errors[0])


class ImportTest(unittest.TestCase):
    def run_python(self, script, **env):
        return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env={**ENV, **env})

    def test_nothing_is_imported(self):
        done = self.run_python("import muster, sys; print([m for m in ('numpy', 'torch') if m in sys.modules])")
        self.assertEqual(done.stdout, "[]\n", done.stderr)

    def test_library_that_is_named_but_not_there(self):
        done = self.run_python("import muster; muster.init()", MUSTER_LIB="/nowhere/libmuster.so")
        self.assertIn("OSError: /nowhere/libmuster.so", done.stderr)

    def test_library_that_is_nowhere(self):
        done = self.run_python("import muster._ffi as f; f._NAME = 'libmuster-none.so'; f.load()")
        self.assertIn("libmuster-none.so is neither beside the package", done.stderr)
        self.assertIn("set MUSTER_LIB", done.stderr)


ENV = {"PYTHONPATH": ":".join(p for p in sys.path if p), "PYTHONDONTWRITEBYTECODE": "1"}

if __name__ == "__main__":
    unittest.main()
