"""Where the time of a communicator goes."""

from collections.abc import Callable
from typing import Any, NamedTuple

from ._errors import FailedPrecondition


class Counters(NamedTuple):
    """What a rank has done with a communicator so far.

    Waits are in seconds; one that goes on counts as far as it has come, give or take 50 ms, and those
    that were over after some microseconds are not counted.
    """

    #: Calls that succeeded, those included that the library makes itself: at the beginning, for MUSTER_CHECK, and
    #: to exchange counts.
    calls: int
    #: The `count` elements of each of them; of calls with counts this rank's part, of all_to_all_v what it sends.
    bytes: int
    #: For ranks of this node.
    waited_on_node: float
    #: For messages of other nodes, and to them.
    waited_between_nodes: float


class CounterCalls:
    """What :class:`Communicator` says of itself in any thread, while a call waits too."""

    _library: Any
    _handle: int
    _life: Any  # held while the handle is used in passing, or taken away
    _rank: Callable[[int, str], int]

    def counters(self) -> Counters:
        """Returns what this rank has done so far. It may be asked in any thread, and waits for no call."""
        calls, count, on_node, between = self._look("counters")
        return Counters(calls, count, on_node / 1e9, between / 1e9)

    def waited_for(self, rank: int) -> float:
        """Returns the seconds of :meth:`counters` that were for `rank`: who is behind makes others wait.

        It may be asked in any thread, and while a call waits: for whom that does.
        """
        return float(self._look("waited_for", self._rank(rank, "rank"))) / 1e9

    def _look(self, name: str, *arguments: Any) -> Any:
        with self._life:
            if not self._handle:
                raise FailedPrecondition(f"{name}: the communicator is closed")
            return getattr(self._library, name)(self._handle, *arguments)

    def _take_handle(self) -> int:
        with self._life:
            handle, self._handle = self._handle, 0
        return handle
