"""Stands in for libmuster: one rank of a world whose ranks all hold what this one does."""

import ctypes

SIZES = (1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8)


class FakeLibrary:
    def __init__(self, rank=1, size=4):
        self.calls = []  # (name, arguments but handle)
        self.answer, self.text = 0, b""
        self.during = None  # called in the middle of a call
        self.freed = []
        self.abandoned = []
        self.freed_at_exit = []
        self.started = {}  # handle -> how often it was tested
        self.work_freed = []
        self.sources = {}
        self.ended = False  # what was started
        self.wire = 0
        self.told = []  # what the next broadcast of numbers brings
        self._rank, self._size = rank, size

    def open(self):
        return self.answer, 0 if self.answer else 77

    def split(self, handle, color, key, group):
        if not self.answer and color >= 0:
            group._obj.value = handle + 1
        return self._noted("split", color, key)

    def last_error(self):
        return self.text

    def free(self, handle):
        self.freed.append(handle)

    def abandon(self, handle):
        self.abandoned.append(handle)

    def free_at_exit(self, handle):
        self.freed_at_exit.append(handle)

    def rank(self, handle):
        return self._rank

    def size(self, handle):
        return self._size

    local_rank, local_size = rank, size

    def node_rank(self, handle):
        return 0

    def nodes(self, handle):
        return 1

    def round(self, handle):
        return 3

    def reform(self, handle, next_one):
        if not self.answer:
            next_one._obj.value = handle + 1
        return self._noted("reform")

    def agreed(self, handle):
        return (0, 0, -1, -1, 0) if handle == 77 else (5, 6, 3, 4, 2)

    def is_replacement(self, handle):
        return 0

    def last_call(self, handle):
        return 9

    def commit(self, handle, step):
        return self._noted("commit", step)

    def broadcast_state(self, handle, data, counts, dtypes, buffers):
        ctypes.memset(data[0], 1, 1)
        return self._noted("broadcast_state", list(counts), list(dtypes), buffers)

    def set_timeout(self, handle, seconds):
        self.calls.append(("set_timeout", seconds))

    def set_wire(self, handle, wire):
        self.calls.append(("set_wire", wire))
        self.wire = wire
        return 0

    def get_wire(self, handle):
        return self.wire

    def counters(self, handle):
        return 5, 600, 7_000_000_000, 8_000_000_000

    def waited_for(self, handle, rank):
        return rank * 1_000_000_000

    def _noted(self, name, *arguments):
        self.calls.append((name, *arguments))
        if self.during:
            self.during()
        return self.answer

    def _copy(self, target, source, count, dtype):
        if target and source and not self.answer:
            ctypes.memmove(target, source, count * SIZES[dtype])

    def barrier(self, handle):
        return self._noted("barrier")

    def all_reduce(self, handle, source, target, count, dtype, op):
        self._copy(target, source, count, dtype)
        return self._noted("all_reduce", count, dtype, op)

    def reduce(self, handle, source, target, count, dtype, op, root):
        self._copy(target, source, count, dtype)
        return self._noted("reduce", bool(target), count, dtype, op, root)

    def broadcast(self, handle, data, count, dtype, root):
        if self.told:
            ctypes.memmove(data, (ctypes.c_int64 * count)(*self.told), count * SIZES[dtype])
        return self._noted("broadcast", count, dtype, root)

    def all_gather(self, handle, source, target, count, dtype):
        for r in range(self._size):
            self._copy(target + r * count * SIZES[dtype], source, count, dtype)
        return self._noted("all_gather", count, dtype)

    def gather(self, handle, source, target, count, dtype, root):
        return self._noted("gather", bool(target), count, dtype, root)

    def scatter(self, handle, source, target, count, dtype, root):
        return self._noted("scatter", bool(source), count, dtype, root)

    def reduce_scatter(self, handle, source, target, count, dtype, op):
        self._copy(target, source + self._rank * count * SIZES[dtype], count, dtype)
        return self._noted("reduce_scatter", count, dtype, op)

    def all_to_all(self, handle, source, target, count, dtype):
        self._copy(target, source, count * self._size, dtype)
        return self._noted("all_to_all", count, dtype)

    def all_gather_v(self, handle, source, target, counts, dtype):
        before = 0
        for r in range(self._size):
            if counts[r] == counts[self._rank]:
                self._copy(target + before * SIZES[dtype], source, counts[r], dtype)
            before += counts[r]
        return self._noted("all_gather_v", list(counts), dtype)

    def gather_v(self, handle, source, target, counts, dtype, root):
        return self._noted("gather_v", bool(target), list(counts), dtype, root)

    def scatter_v(self, handle, source, target, counts, dtype, root):
        return self._noted("scatter_v", bool(source), list(counts), dtype, root)

    def reduce_scatter_v(self, handle, source, target, counts, dtype, op):
        before = sum(counts[: self._rank])
        self._copy(target, source + before * SIZES[dtype], counts[self._rank], dtype)
        return self._noted("reduce_scatter_v", list(counts), dtype, op)

    def all_to_all_v(self, handle, source, sends, target, receives, dtype):
        return self._noted("all_to_all_v", list(sends), list(receives), dtype)

    def send(self, handle, data, count, dtype, rank, tag):
        return self._noted("send", count, dtype, rank, tag)

    def recv(self, handle, data, count, dtype, rank, tag):
        return self._noted("recv", count, dtype, rank, tag)

    def __getattr__(self, name):
        if not name.endswith("_async"):
            raise AttributeError(name)

        def start(*arguments):
            code = getattr(self, name.removesuffix("_async"))(*arguments[:-1])
            if not code:
                work = 1000 + len(self.started)
                self.started[work] = 0
                arguments[-1]._obj.value = work
            return code

        return start

    def test(self, work):
        self.started[work] += 1
        return int(self.ended)

    def wait(self, work):
        return self.answer

    def work_source(self, work):
        return self.sources.get(work, -1)

    def work_free(self, work):
        self.work_freed.append(work)
