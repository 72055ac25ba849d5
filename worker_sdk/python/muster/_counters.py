"""Where the time of a communicator goes."""

from typing import NamedTuple


class Counters(NamedTuple):
    """What a rank has done with a communicator so far.

    Waits are in seconds; those that were over after some microseconds are not counted.
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
