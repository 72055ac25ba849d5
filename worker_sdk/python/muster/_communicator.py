"""The communicator: argument checks here, the work in libmuster."""

import atexit
import ctypes
import math
import threading
import weakref
from types import TracebackType
from typing import Any, TypeVar

from . import _ffi
from ._arguments import apart, between, elsewhere, in_place, op_code, tag_number, target_of, wire_code, writable
from ._buffers import Buffer, view
from ._counters import CounterCalls
from ._errors import FailedPrecondition, check
from ._parts import PartsCalls
from ._rounds import RoundCalls
from ._work import Work

T = TypeVar("T")

_LOOK_AT_MIN = 16
_ANY_RANK = -1
_INT64 = (-(2**63), 2**63 - 1)


_open: "weakref.WeakSet[Communicator]" = weakref.WeakSet()


@atexit.register  # now: what programs register later comes before, and may use theirs
def _leave_all() -> None:
    for comm in list(_open):
        comm._leave_at_exit()


class Communicator(CounterCalls, PartsCalls, RoundCalls):
    """The ranks of a job, and what they do together; :func:`muster.init` makes one, :meth:`split`
    those of groups.

    Every rank makes the same calls in the same order. A call blocks until its own part is done and
    lets other Python threads run, but on the same communicator only :meth:`counters`,
    :meth:`waited_for` and :meth:`last_call`. With ``async_op=True`` it
    returns a :class:`Work` at once and goes on beside the program, behind those that were started
    before it; a call that blocks waits for those.

    ``with muster.init() as comm:`` closes it at the end of the block. Where an exception ends the
    block, this rank has failed: calls of the others raise :class:`muster.Unavailable`, and with
    ``--restart=one`` they go on with its successor. A child by ``os.fork()`` is no rank.

    Numbers are given as NumPy arrays, torch CPU tensors, or objects with a writable buffer
    (``array.array``, ``bytearray``, ``memoryview``): dense, in host memory, of type int8 to int64,
    uint8 to uint64, float16, bfloat16, float32 or float64. Where no ``out`` is given, results are
    of the same kind: of the same shape where nothing else is said, flat for ``array.array`` and
    ``bytearray``. An ``out`` that is given may have any shape of the right count.

    A call whose name ends in ``_v`` is that of the same name without it, of parts that may be of any
    size. Their counts are of rows: the entries of the first axis, which are the elements of what has
    one axis only. Rows have the same shape on all ranks.

    `op` is one of "sum", "avg" (integers: towards zero, of a sum that wraps around, so that of int8
    and the like it is the mean only where the sum fits), "prod", "min", "max", and for integers
    "band", "bor", "bxor".

    `wire` says what travels between nodes in a reduction of float32 by "sum" or "avg": "full", or
    "bf16" for half the bytes; where it is left out, MUSTER_WIRE does ("full" by default). Every rank
    still ends with the same bits; SetWire in `muster/communicator.h` says how far they may be off.

    Raises
    ------
    TypeError, ValueError
        Arguments that can never work; the communicator can still be used.
    muster.FailedPrecondition
        The ranks disagree on the call; both sides are named.
    muster.Unavailable
        A peer died or cannot be reached.
    muster.DeadlineExceeded
        The timeout was over.
    muster.ResourceExhausted
        No memory is left on a rank.

    After the last four, outputs are unspecified and each later call raises the same; in a job with
    ``--restart=one`` :meth:`reform` leads on.
    """

    def __init__(self, library: Any, handle: int = 0) -> None:
        self._library = library
        self._handle = handle
        self._life = threading.Lock()
        self._busy = threading.Lock()
        self._started: set[Work] = set()
        self._look_at = _LOOK_AT_MIN  # so many started, and we look which of them have ended
        if not handle:
            code, self._handle = library.open()
            check(library, code)
        #: This process among all, 0 .. size - 1.
        self.rank: int = library.rank(self._handle)
        #: Processes in all.
        self.size: int = library.size(self._handle)
        #: This process among those of this node.
        self.local_rank: int = library.local_rank(self._handle)
        #: Processes of this node.
        self.local_size: int = library.local_size(self._handle)
        #: This node among all.
        self.node_rank: int = library.node_rank(self._handle)
        #: Nodes in all.
        self.nodes: int = library.nodes(self._handle)
        #: Grows with each start of the job's processes.
        self.round: int = library.round(self._handle)
        self._enter_round()
        _open.add(self)

    def __repr__(self) -> str:
        closed = "" if self._handle else ", closed"
        return f"<muster.Communicator rank {self.rank} of {self.size}, round {self.round}{closed}>"

    def __enter__(self) -> "Communicator":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if kind is not None and not (isinstance(error, SystemExit) and not error.code):
            self._abandon()
        self.close()

    def _abandon(self) -> None:
        """Leaves as a rank that has failed."""
        with self._busy:
            if self._handle:
                self._library.abandon(self._handle)

    def _leave_at_exit(self) -> None:
        """Closes it when the process ends, by the status of that: as a rank that has failed, or not."""
        if self._busy.acquire(blocking=False):  # else a thread is in a call, and there it ends
            handle = self._take_handle()
            if handle:
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._started))  # calls may still use its buffers
                self._library.free_at_exit(handle)
            self._busy.release()

    def __reduce__(self) -> Any:
        raise TypeError("a communicator belongs to one process and has one owner: it can be neither copied nor pickled")

    def __del__(self) -> None:
        if getattr(self, "_handle", 0):
            self.close()

    def close(self) -> None:
        """Leaves the job's collectives, once what was started has ended; a second time does nothing."""
        with self._busy:
            handle = self._take_handle()
            if handle:
                self._library.free(handle)
            self._started.clear()

    def split(self, color: int | None, key: int = 0) -> "Communicator | None":
        """Makes a communicator of all ranks that give the same color; every rank calls it.

        Parameters
        ----------
        color : int or None
            None, or below 0: this rank takes part, and gets no group.
        key : int
            Ranks of a group are ordered by it; by their ranks here where it is equal.

        Returns
        -------
        The group, with ranks and sizes of its own and the timeout of this communicator, which it
        may outlive; or None.
        """
        color = -1 if color is None else between(color, "color", *_INT64)
        group = ctypes.c_void_p()
        self._call("split", color, between(key, "key", *_INT64), ctypes.byref(group))
        return Communicator(self._library, group.value) if group.value else None

    def set_timeout(self, seconds: float | None) -> None:
        """Sets how long each later call may take.

        Parameters
        ----------
        seconds : float or None
            None, or 0: without limit.
        """
        try:
            seconds = 0.0 if seconds is None else float(seconds)
        except (TypeError, ValueError):
            raise TypeError(f"seconds: want a number from 0, or None for no limit; got {seconds!r}") from None
        if not seconds >= 0 or math.isinf(seconds):
            raise ValueError(f"seconds: want a number from 0, or None for no limit; got {seconds}")
        self._call("set_timeout", seconds)

    def barrier(self, async_op: bool = False) -> Work | None:
        """Returns when every rank has called it."""
        return self._run(async_op, None, (), "barrier")

    def all_reduce(self, x: T, op: str = "sum", out: Any = None, wire: str | None = None, async_op: bool = False) -> Any:
        """Combines the numbers of all ranks, element by element; all get the same bits.

        Parameters
        ----------
        x : numbers
            Becomes the result where no `out` is given.
        op : str
        out : numbers, optional
            Takes the result; of the count and type of `x`.
        wire : str, optional

        Returns
        -------
        `out`, or `x`.
        """
        code = op_code(op)
        source = view(x, "x")
        target = in_place(source) if out is None else elsewhere(out, source)
        result = x if out is None else out
        return self._run(
            async_op, result, (source, target),
            "all_reduce", source.address, target.address, source.count, source.dtype, code, wire=wire,
        )  # fmt: skip

    def reduce(self, x: T, op: str = "sum", root: int = 0, out: Any = None, wire: str | None = None, async_op: bool = False) -> Any:
        """As :meth:`all_reduce`, but only `root` gets the result; `x` of the others stays as it is.

        Returns
        -------
        `out`, or `x`, on `root`; None on the others, whose `out` is not looked at.
        """
        code, root = op_code(op), self._root(root)
        source = view(x, "x")
        if self.rank != root:
            return self._run(
                async_op, None, (source,),
                "reduce", source.address, 0, source.count, source.dtype, code, root, wire=wire,
            )  # fmt: skip
        target = in_place(source) if out is None else elsewhere(out, source)
        result = x if out is None else out
        return self._run(
            async_op, result, (source, target),
            "reduce", source.address, target.address, source.count, source.dtype, code, root, wire=wire,
        )  # fmt: skip

    def broadcast(self, x: T, root: int = 0, async_op: bool = False) -> Any:
        """Gives every rank the numbers of `root`, in place.

        Returns
        -------
        `x`.
        """
        root = self._root(root)
        data = view(x, "x")
        if self.rank != root:
            writable(data, "x")
        return self._run(async_op, x, (data,), "broadcast", data.address, data.count, data.dtype, root)

    def all_gather(self, x: Any, out: Any = None, async_op: bool = False) -> Any:
        """Puts the numbers of all ranks behind one another, in the order of ranks.

        Parameters
        ----------
        x : numbers
            May lie in `out`, at its own place.
        out : numbers, optional
            `size` times the count of `x`.

        Returns
        -------
        `out`; where none is given, a new one of shape ``(size, *x.shape)``.
        """
        source = view(x, "x")
        out, target = self._gathered(source, out)
        return self._run(
            async_op, out, (source, target), "all_gather", source.address, target.address, source.count, source.dtype
        )

    def gather(self, x: Any, root: int = 0, out: Any = None, async_op: bool = False) -> Any:
        """As :meth:`all_gather`, but only `root` gets the result.

        Returns
        -------
        As `all_gather` on `root`; None on the others, whose `out` is not looked at.
        """
        root = self._root(root)
        source = view(x, "x")
        if self.rank != root:
            return self._run(
                async_op, None, (source,), "gather", source.address, 0, source.count, source.dtype, root
            )
        out, target = self._gathered(source, out)
        return self._run(
            async_op, out, (source, target), "gather", source.address, target.address, source.count, source.dtype, root
        )

    def scatter(self, x: Any = None, root: int = 0, out: Any = None, async_op: bool = False) -> Any:
        """Gives each rank its part of what `root` has.

        Parameters
        ----------
        x : numbers
            On `root`: the part of rank 0, of rank 1, ... Not looked at on the others.
        root : int
        out : numbers
            Takes the part. May be left out on `root`, where `x` says what a part is.

        Returns
        -------
        `out`; where none is given, a new one: the first axis of `x` split among the ranks.
        """
        root = self._root(root)
        if self.rank != root:
            if out is None:
                raise TypeError(f"scatter: rank {self.rank} is not the root ({root}): give out=, which takes its part")
            target = view(out, "out")
            writable(target)
            return self._run(
                async_op, out, (target,), "scatter", 0, target.address, target.count, target.dtype, root
            )
        source = view(x, "x")
        out, target = self._part(source, out)
        return self._run(
            async_op, out, (source, target), "scatter", source.address, target.address, target.count, target.dtype, root
        )

    def reduce_scatter(self, x: Any, op: str = "sum", out: Any = None, wire: str | None = None, async_op: bool = False) -> Any:
        """Combines the numbers of all ranks and gives each rank its part of the result.

        Parameters
        ----------
        x : numbers
            The part of rank 0, of rank 1, ...: `size` times the count of `out`.
        op : str
        out : numbers, optional
        wire : str, optional

        Returns
        -------
        `out`; where none is given, a new one: the first axis of `x` split among the ranks.
        """
        code = op_code(op)
        source = view(x, "x")
        out, target = self._part(source, out)
        return self._run(
            async_op, out, (source, target),
            "reduce_scatter", source.address, target.address, target.count, target.dtype, code, wire=wire,
        )  # fmt: skip

    def all_to_all(self, x: Any, out: Any = None, async_op: bool = False) -> Any:
        """Sends the j-th part of `x` to rank j; the part that comes from rank i is the i-th of `out`.

        Parameters
        ----------
        x : numbers
            `size` parts of equal count.
        out : numbers, optional
            Of the count of `x`.

        Returns
        -------
        `out`; where none is given, a new one of the shape of `x`.
        """
        source = view(x, "x")
        count = self._share(source)
        if out is None:
            out = source.make(source.owner, source.shape)
        target = elsewhere(out, source)
        return self._run(
            async_op, out, (source, target), "all_to_all", source.address, target.address, count, source.dtype
        )

    def send(self, x: Any, dst: int, tag: int = 0, async_op: bool = False) -> Any:
        """Sends numbers to one other rank, which calls :meth:`recv`.

        Returns when `x` may be written to again, which says nothing of the receiver; it may wait for
        the receiver, and does with more than 32 KiB, or where 16 MiB to it have not been asked for. What it
        returns for comes to the other rank, whatever this one does then. Messages of one `tag` between two
        ranks arrive in the order in which they were sent. A type or count that
        differs raises :class:`FailedPrecondition`, and leaves later messages intact.
        """
        dst, tag = self._rank(dst, "dst"), tag_number(tag)
        data = view(x, "x")
        return self._run(async_op, None, (data,), "send", data.address, data.count, data.dtype, dst, tag)

    def recv(self, x: T, src: int | None = None, tag: int = 0, async_op: bool = False) -> Any:
        """Puts what rank `src` sends into `x`, which has its type and count.

        Without `src` it takes what any rank sends first with this `tag`, and connects this rank with all
        others; :attr:`Work.source` of one that was started (``async_op=True``) says whose it was.

        Returns
        -------
        `x`.
        """
        src, tag = _ANY_RANK if src is None else self._rank(src, "src"), tag_number(tag)
        data = view(x, "x")
        writable(data, "x")
        return self._run(async_op, x, (data,), "recv", data.address, data.count, data.dtype, src, tag)

    # --- steps of the above ---

    def _run(
        self, async_op: bool, result: Any, buffers: tuple[Any, ...], name: str, *arguments: Any, wire: str | None = None
    ) -> Any:
        code = None if wire is None else wire_code(wire)
        if not async_op:
            return self._call(name, *arguments, wire=code) or result
        if len(self._started) >= self._look_at:
            for one in list(self._started):
                one.test()
            self._look_at = max(_LOOK_AT_MIN, 2 * len(self._started))
        work = Work(self._library, result, buffers, self._started)  # holds them before the call begins
        try:
            self._call(name + "_async", *arguments, ctypes.byref(work.handle), wire=code)
        finally:
            work.begun()
        return work

    def _call(self, name: str, *arguments: Any, wire: int | None = None) -> None:
        if wire is None:
            return check(self._library, self._ask(name, *arguments) or 0)
        usual = self._ask("get_wire")
        self._ask("set_wire", wire)
        try:
            check(self._library, self._ask(name, *arguments))
        finally:
            self._ask("set_wire", usual)

    def _ask(self, name: str, *arguments: Any) -> Any:
        if not self._busy.acquire(blocking=False):
            raise FailedPrecondition(f"{name}: another thread is in a call of this communicator: make one at a time")
        try:
            if not self._handle:
                raise FailedPrecondition(f"{name}: the communicator is closed")
            return getattr(self._library, name)(self._handle, *arguments)
        finally:
            self._busy.release()

    def _rank(self, rank: int, name: str) -> int:
        return between(rank, name, 0, self.size - 1)

    def _root(self, root: int) -> int:
        return self._rank(root, "root")

    def _share(self, source: Buffer) -> int:
        count, rest = divmod(source.count, self.size)
        if rest:
            raise ValueError(f"x: want a count that {self.size} ranks can share evenly, got {source.count}")
        return count

    def _gathered(self, source: Buffer, out: Any) -> tuple[Any, Buffer]:
        if out is None:
            out = source.make(source.owner, (self.size, *source.shape))
        target = target_of(out, source, source.count * self.size)
        if source.address != target.address + self.rank * source.bytes:
            apart(source, target, f"; its own place is element {self.rank * source.count} of out")
        return out, target

    def _part(self, source: Buffer, out: Any) -> tuple[Any, Buffer]:
        count = self._share(source)
        if out is None:
            rows = source.shape[0] if source.shape else 0
            if rows % self.size or not source.shape:
                raise ValueError(
                    f"x: the first axis of shape {source.shape} cannot be split among {self.size} ranks: give out="
                )
            out = source.make(source.owner, (rows // self.size, *source.shape[1:]))
        target = target_of(out, source, count)
        apart(source, target)
        return out, target


def init() -> Communicator:
    """The ranks of the job that ``launch`` started; a world of one without it.

    Blocks until every rank has called it. Signals, Ctrl-C among them, are seen by Python when a
    call returns: set a timeout, here by MUSTER_TIMEOUT in seconds, where that matters.

    Returns
    -------
    Communicator

    Raises
    ------
    OSError
        libmuster.so is not found, or cannot be loaded.
    ValueError
        A variable of the environment makes no sense.
    muster.Error
        As for each call.
    """
    return Communicator(_ffi.load())
