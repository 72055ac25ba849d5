"""Going on after a rank has died, in a job that ``launch --restart=one`` started."""

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

from ._arguments import between, writable
from ._buffers import view

_STEP_MAX = 2**63 - 1


class Agreed(NamedTuple):
    """Where the program stood when a communicator of all ranks began; the same on every rank.

    A rank has the program's state but where it has just taken another's place, until it calls
    :meth:`Communicator.broadcast_state` or :meth:`Communicator.commit`. In a job's first round
    nothing is completed, and rank 0 has it.
    """

    #: The last collective call, as :meth:`Communicator.last_call` counts them, that is complete on all ranks that
    #: have the state.
    completed: int
    #: The last one that any rank has started. Those in between may be complete on some ranks and not on others.
    started: int
    #: The smallest step that ranks with the state have committed; None: one of them has committed none.
    committed: int | None
    #: The largest; None: none of them has.
    committed_last: int | None
    #: The lowest rank that has the state; None: nobody has, all begin anew.
    holder: int | None


class RoundCalls:
    """The calls of :class:`Communicator` that lead from one round to the next."""

    _library: Any
    _handle: int
    _look: Callable[..., Any]
    _call: Callable[..., None]
    close: Callable[[], None]

    def _enter_round(self) -> None:
        """What is known once the ranks have met."""
        #: Whether this process has taken the place of one that died, and had no state yet.
        self.is_replacement: bool = bool(self._library.is_replacement(self._handle))
        completed, started, *steps = self._library.agreed(self._handle)
        #: Where the survivors stand: an :class:`Agreed`.
        self.agreed = Agreed(completed, started, *(None if one < 0 else one for one in steps))

    def reform(self) -> Any:
        """Leads this rank into the next round, after :class:`Unavailable`: the communicator of all
        ranks is dead, and closed when this returns.

        Waits for the round in which others have taken the places of ranks that died, and until all
        ranks have come into it; where one more dies meanwhile, for the round after that. The
        timeout counts for all of it. Every survivor calls it; a newcomer calls :func:`muster.init`
        as every process does. Until it returns, arrays of a call that failed must stay as they are.
        Groups are dead as well: make them anew with :meth:`split`.

        Returns
        -------
        Communicator
            Of the next round, with the timeout of this one. Its `agreed` says where the survivors
            stand.

        Raises
        ------
        muster.Unavailable
            No round follows: the job stops, or was started without ``--restart=one``.
        muster.FailedPrecondition
            This is a group, or the process was not started by ``launch``.
        muster.DeadlineExceeded
            It may be called again.
        """
        handle = ctypes.c_void_p()
        self._call("reform", ctypes.byref(handle))
        next_one = type(self)(self._library, handle.value)  # type: ignore[call-arg]
        self.close()
        return next_one

    def commit(self, step: int) -> None:
        """Says that this rank has `step` whole: `agreed` counts on it from now on. Local, and cheap."""
        self._call("commit", between(step, "step", 0, _STEP_MAX))

    def broadcast_state(self, *state: Any) -> None:
        """Gives every rank the numbers of ``agreed.holder`` (of rank 0 where that is None), in place.

        Parameters
        ----------
        *state : numbers
            All that a newcomer needs. One collective call, whatever their number.
        """
        if not state:
            raise TypeError("broadcast_state: want at least one array")
        parts = [view(one, f"state[{i}]") for i, one in enumerate(state)]
        for i, part in enumerate(parts):
            writable(part, f"state[{i}]")
        count = len(parts)
        self._call(
            "broadcast_state",
            (ctypes.c_void_p * count)(*(part.address for part in parts)),
            (ctypes.c_int64 * count)(*(part.count for part in parts)),
            (ctypes.c_int * count)(*(part.dtype for part in parts)),
            count,
        )

    def last_call(self) -> int:
        """Returns the number of the last collective call here: 1, 2, ..., the same on every rank.

        One with ``async_op=True`` counts when it is made, and no more when it finds the communicator
        dead. A communicator of the next round counts on from ``agreed.started``. It may be asked in
        any thread, and waits for no call.
        """
        return int(self._look("last_call"))
