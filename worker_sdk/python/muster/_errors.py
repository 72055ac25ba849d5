"""What a collective raises where it could not be done."""

import enum
from typing import Any


class Code(enum.IntEnum):
    """Why a call failed: the numbers of muster_code."""

    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


class Error(RuntimeError):
    """A call that failed. Buffers it should have written are unspecified, the communicator is dead.

    Attributes
    ----------
    code : Code
    """

    code = Code.INTERNAL


class Unavailable(Error):
    """A peer died or cannot be reached."""

    code = Code.UNAVAILABLE


class FailedPrecondition(Error):
    """The ranks disagree on the call, or the communicator is closed."""

    code = Code.FAILED_PRECONDITION


class DeadlineExceeded(Error, TimeoutError):
    """The time given was over."""

    code = Code.DEADLINE_EXCEEDED


class ResourceExhausted(Error, MemoryError):
    """No memory is left."""

    code = Code.RESOURCE_EXHAUSTED


class Unimplemented(Error):
    """Not on this machine."""

    code = Code.UNIMPLEMENTED


_KINDS = {
    kind.code: kind
    for kind in (Unavailable, FailedPrecondition, DeadlineExceeded, ResourceExhausted, Unimplemented, Error)
}


def error_of(code: int, message: str) -> Exception:
    """What to raise for a code of the C ABI; ValueError where the arguments are wrong."""
    if code == Code.INVALID_ARGUMENT:
        return ValueError(message)
    return _KINDS.get(code, Error)(message)


def check(library: Any, code: int) -> None:
    """Raises what a code of the C ABI other than 0 means, with this thread's last error."""
    if code:
        raise error_of(code, library.last_error().decode(errors="replace"))
