"""Where the time of a communicator goes."""

from typing import NamedTuple


class Counters(NamedTuple):
    """What a rank has done with a communicator so far.

    Waits are in seconds; those that were over after some microseconds are not counted.
    """

    #: Calls that succeeded, one at the beginning and those of MUSTER_CHECK included.
    calls: int
    #: The `count` elements of each of them.
    bytes: int
    #: For ranks of this node.
    waited_on_node: float
    #: For messages of other nodes, and to them.
    waited_between_nodes: float
