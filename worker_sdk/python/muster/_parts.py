"""The calls whose parts differ from rank to rank."""

import ctypes
import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ._arguments import between, op_code, target_of
from ._buffers import Buffer, view

_INT64 = 3  # of muster_dtype
_COUNT_MAX = 2**63 - 1


class _Parts(NamedTuple):
    rows: list[int]  # of each rank's part
    row: tuple[int, ...]  # the shape of one

    def elements(self) -> Any:
        each = math.prod(self.row)
        return _array([rows * each for rows in self.rows])

    def count(self, rank: int) -> int:
        return self.rows[rank] * math.prod(self.row)


class PartsCalls:
    """The calls of :class:`Communicator` whose parts may be of any size."""

    rank: int
    size: int
    _call: Callable[..., None]
    _root: Callable[[int], int]
    _run: Callable[..., Any]

    def all_gather_v(
        self, x: Any, counts: Iterable[int] | None = None, out: Any = None, async_op: bool = False
    ) -> Any:
        """As :meth:`all_gather`, of parts of any size.

        Parameters
        ----------
        x : numbers
            May lie in `out`, at its own place.
        counts : integers, optional
            Rows of each rank's part, the same on every rank. All give them, or nobody does: then
            ranks tell each other how many rows their `x` has, in an `all_gather` before.
        out : numbers, optional
            Of the count of all parts.

        Returns
        -------
        `out`; where none is given, a new one with the rows of rank 0, of rank 1, ...
        """
        source = view(x, "x")
        parts = self._gathered_parts("all_gather_v", source, counts, async_op)
        out, target = _whole(source, parts, out)
        return self._run(
            async_op, out, (source, target),
            "all_gather_v", source.address, target.address, parts.elements(), source.dtype,
        )  # fmt: skip

    def gather_v(
        self, x: Any, root: int = 0, counts: Iterable[int] | None = None, out: Any = None, async_op: bool = False
    ) -> Any:
        """As :meth:`all_gather_v`, but only `root` gets the result.

        Returns
        -------
        As `all_gather_v` on `root`; None on the others, whose `out` is not looked at.
        """
        root = self._root(root)
        source = view(x, "x")
        parts = self._gathered_parts("gather_v", source, counts, async_op)
        if self.rank != root:
            return self._run(
                async_op, None, (source,), "gather_v", source.address, 0, parts.elements(), source.dtype, root
            )
        out, target = _whole(source, parts, out)
        return self._run(
            async_op, out, (source, target),
            "gather_v", source.address, target.address, parts.elements(), source.dtype, root,
        )  # fmt: skip

    def scatter_v(
        self, x: Any = None, counts: Iterable[int] | None = None, root: int = 0, out: Any = None, async_op: bool = False
    ) -> Any:
        """As :meth:`scatter`, of parts of any size.

        Parameters
        ----------
        x : numbers
            On `root`: the rows of rank 0, of rank 1, ... On the others an example of what `root`
            has, of any number of rows (``numpy.empty((0, 3))``); not looked at where `out` is given.
        counts : integers
            Rows of each rank's part. `root` gives them, and tells the others in a `broadcast`
            before; these may leave them out, and what they do give must be the same. With
            ``async_op=True`` nothing is told: every rank gives them, and an `out` that is given has
            rows of the same shape.
        root : int
        out : numbers, optional
            Takes the part; on `root` it may lie in `x`, at its own place.

        Returns
        -------
        `out`; where none is given, a new one as `x` is, with the rows of this rank.
        """
        root = self._root(root)
        if self.rank == root:
            source = view(x, "x")
            parts = self._scattered_parts("scatter_v", source, counts)
            if not async_op:
                self._tell(root, [math.prod(parts.row), *parts.rows])
            out, target = self._part_of(source, parts, out)
            return self._run(
                async_op, out, (source, target),
                "scatter_v", source.address, target.address, parts.elements(), source.dtype, root,
            )  # fmt: skip
        if x is None and out is None:
            raise TypeError(
                f"scatter_v: rank {self.rank} is not the root ({root}): give out=, which takes its part, or an x of the "
                "kind, type and row shape of the root's, of which one is made"
            )
        like = view(x, "x") if out is None else view(out, "out")
        row = _shape(like)[1:]
        rows = None
        if async_op or counts is not None:
            rows = self._numbers(_given("scatter_v", counts), "counts", row)
        if not async_op:
            each, *told = self._tell(root, [0] * (self.size + 1))
            if each != math.prod(row):
                if out is None:
                    raise ValueError(f"x: want rows of {each} elements as the root has, got the shape {_shape(like)}")
                row = (each,)
            rows = told if rows is None else rows
        parts = _Parts(rows, row)
        out, target = self._part_of(like, parts, out)
        return self._run(
            async_op, out, (target,), "scatter_v", 0, target.address, parts.elements(), target.dtype, root
        )

    def reduce_scatter_v(
        self,
        x: Any,
        counts: Iterable[int],
        op: str = "sum",
        out: Any = None,
        wire: str | None = None,
        async_op: bool = False,
    ) -> Any:
        """As :meth:`reduce_scatter`, of parts of any size.

        Parameters
        ----------
        x : numbers
            The part of rank 0, of rank 1, ...
        counts : integers
            Rows of each rank's part, the same on every rank.
        op : str
        out : numbers, optional
            May lie in `x`, at its own place.
        wire : str, optional

        Returns
        -------
        `out`; where none is given, a new one as `x` is, with the rows of this rank.
        """
        code = op_code(op)
        source = view(x, "x")
        parts = self._scattered_parts("reduce_scatter_v", source, counts)
        out, target = self._part_of(source, parts, out)
        return self._run(
            async_op, out, (source, target),
            "reduce_scatter_v", source.address, target.address, parts.elements(), source.dtype, code, wire=wire,
        )  # fmt: skip

    def all_to_all_v(
        self,
        x: Any,
        send_counts: Iterable[int],
        recv_counts: Iterable[int] | None = None,
        out: Any = None,
        async_op: bool = False,
    ) -> Any:
        """As :meth:`all_to_all`, of parts of any size.

        Parameters
        ----------
        x : numbers
            The rows for rank 0, for rank 1, ...
        send_counts : integers
            How many for each rank.
        recv_counts : integers, optional
            How many come from each. All give them, or nobody does: then ranks tell each other, in an
            `all_to_all` before.
        out : numbers, optional
            Of the count of all that comes; has nothing in common with `x`.

        Returns
        -------
        `out`; where none is given, a new one as `x` is, with the rows from rank 0, from rank 1, ...
        """
        source = view(x, "x")
        sent = self._scattered_parts("all_to_all_v", source, send_counts, "send_counts")
        if recv_counts is None:
            _must_block("all_to_all_v", "recv_counts", async_op)
            rows = self._exchange("all_to_all", sent.rows)
        else:
            rows = self._numbers(recv_counts, "recv_counts", sent.row)
        received = _Parts(rows, sent.row)
        out, target = _whole(source, received, out)
        return self._run(
            async_op, out, (source, target),
            "all_to_all_v", source.address, sent.elements(), target.address, received.elements(), source.dtype,
        )  # fmt: skip

    # --- steps of the above ---

    def _gathered_parts(self, call: str, source: Buffer, counts: Iterable[int] | None, async_op: bool) -> _Parts:
        rows, *row = _shape(source)
        if counts is None:
            _must_block(call, "counts", async_op)
            return _Parts(self._exchange("all_gather", [rows]), tuple(row))
        parts = _Parts(self._numbers(counts, "counts", tuple(row)), tuple(row))
        if parts.rows[self.rank] != rows:
            raise ValueError(f"counts[{self.rank}]: want {rows}, the rows of x, got {parts.rows[self.rank]}")
        return parts

    def _scattered_parts(
        self, call: str, source: Buffer, counts: Iterable[int] | None, name: str = "counts"
    ) -> _Parts:
        rows, *row = _shape(source)
        parts = _Parts(self._numbers(_given(call, counts, name), name, tuple(row)), tuple(row))
        if sum(parts.rows) != rows:
            raise ValueError(f"{name}: want {rows} in all, the rows of x, got {sum(parts.rows)}")
        return parts

    def _numbers(self, counts: Iterable[int], name: str, row: tuple[int, ...]) -> list[int]:
        try:
            numbers = list(counts)
        except TypeError:
            raise TypeError(f"{name}: want {self.size} numbers, one for each rank, got {counts!r}") from None
        if len(numbers) != self.size:
            raise ValueError(f"{name}: want {self.size} numbers, one for each rank, got {len(numbers)}")
        most = _COUNT_MAX // max(1, math.prod(row))
        return [between(number, f"{name}[{i}]", 0, most) for i, number in enumerate(numbers)]

    def _exchange(self, call: str, numbers: list[int]) -> list[int]:
        mine, theirs = _array(numbers), _array([0] * self.size)
        self._call(call, ctypes.addressof(mine), ctypes.addressof(theirs), 1, _INT64)
        return list(theirs)

    def _tell(self, root: int, numbers: list[int]) -> list[int]:
        told = _array(numbers)
        self._call("broadcast", ctypes.addressof(told), len(told), _INT64, root)
        return list(told)

    def _part_of(self, like: Buffer, parts: _Parts, out: Any) -> tuple[Any, Buffer]:
        if out is None:
            out = like.make(like.owner, (parts.rows[self.rank], *parts.row))
        return out, target_of(out, like, parts.count(self.rank))


def _whole(source: Buffer, parts: _Parts, out: Any) -> tuple[Any, Buffer]:
    if out is None:
        out = source.make(source.owner, (sum(parts.rows), *parts.row))
    return out, target_of(out, source, sum(parts.rows) * math.prod(parts.row))


def _shape(of: Buffer) -> tuple[int, ...]:
    return of.shape or (1,)  # a number is one row


def _array(numbers: list[int]) -> Any:
    return (ctypes.c_int64 * len(numbers))(*numbers)


def _given(call: str, counts: Iterable[int] | None, name: str = "counts") -> Iterable[int]:
    if counts is None:
        raise TypeError(f"{call}: give {name}=, the rows of each rank's part")
    return counts


def _must_block(call: str, name: str, async_op: bool) -> None:
    if async_op:
        raise TypeError(f"{call}: async_op=True needs {name}=: where it is left out, ranks exchange the numbers first")
