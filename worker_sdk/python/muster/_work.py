"""A call that goes on beside the program."""

import ctypes
from typing import Any

from ._errors import check


class Work:
    """A call that was started (``async_op=True``).

    Its arrays belong to the call until it has ended: neither write to them nor read what it
    returns. A work that is forgotten goes on.
    """

    def __init__(self, library: Any, result: Any, buffers: tuple[Any, ...], started: set["Work"]) -> None:
        self.handle = ctypes.c_void_p()  # for the call that starts
        self._library = library
        self._result = result
        self._buffers = buffers
        self._started = started  # holds us, and the buffers by us, until the call has ended
        started.add(self)

    def begun(self) -> None:
        """Lets go of a call that could not be started."""
        if not self.handle:
            self._end()

    def __reduce__(self) -> Any:
        raise TypeError("a work has one owner: it can be neither copied nor pickled")

    def __del__(self) -> None:
        if self.handle:
            self._library.work_free(self.handle.value)

    def test(self) -> bool:
        """Whether the call has ended."""
        if not self.handle or self._library.test(self.handle.value):
            self._end()
            return True
        return False

    def wait(self) -> Any:
        """Blocks until the call has ended; other Python threads run meanwhile.

        Returns
        -------
        What the call returns without ``async_op``; raises what it raises.
        """
        code = self._library.wait(self.handle.value)
        self._end()
        check(self._library, code)
        return self._result

    @property
    def source(self) -> int | None:
        """Of a receive that has ended: the rank whose message it has got; else ``None``."""
        rank: int = self._library.work_source(self.handle.value)
        return rank if rank >= 0 else None

    def _end(self) -> None:
        self._buffers = ()
        self._started.discard(self)
