"""Collectives for the processes that ``launch`` started.

>>> import muster
>>> comm = muster.init()
>>> comm.all_reduce(gradients, op="avg")  # in place: a NumPy array, a torch CPU tensor, array.array
>>> work = comm.all_reduce(gradients, async_op=True)  # beside what follows, until work.wait()
>>> everyone = comm.all_gather(numpy.array([loss]))  # everyone[r] is what rank r gave
"""

from ._communicator import Communicator, init
from ._counters import Counters
from ._errors import Code, DeadlineExceeded, Error, FailedPrecondition, ResourceExhausted, Unavailable, Unimplemented
from ._rounds import Agreed
from ._work import Work

__all__ = [
    "Agreed",
    "Code",
    "Communicator",
    "Counters",
    "DeadlineExceeded",
    "Error",
    "FailedPrecondition",
    "ResourceExhausted",
    "Unavailable",
    "Unimplemented",
    "Work",
    "init",
]
