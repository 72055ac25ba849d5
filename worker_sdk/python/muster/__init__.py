"""Collectives for the processes that ``launch`` started.

>>> import muster
>>> comm = muster.init()
>>> comm.all_reduce(gradients, op="avg")  # in place: a NumPy array, a torch CPU tensor, array.array
>>> everyone = comm.all_gather(numpy.array([loss]))  # everyone[r] is what rank r gave
"""

from ._communicator import Communicator, init
from ._errors import Code, DeadlineExceeded, Error, FailedPrecondition, ResourceExhausted, Unavailable, Unimplemented

__all__ = [
    "Code",
    "Communicator",
    "DeadlineExceeded",
    "Error",
    "FailedPrecondition",
    "ResourceExhausted",
    "Unavailable",
    "Unimplemented",
    "init",
]
