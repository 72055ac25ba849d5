"""A call that goes on beside the program."""

from typing import Any

from ._errors import check


class Work:
    """A call that was started (``async_op=True``).

    Its arrays belong to the call until it has ended: neither write to them nor read what it
    returns. A work that is forgotten goes on.
    """

    def __init__(self, library: Any, handle: int, result: Any, buffers: tuple[Any, ...], started: set["Work"]) -> None:
        self._library, self._handle = library, handle
        self._result = result
        self._buffers = buffers
        self._started = started  # holds us, and the buffers by us, until the call has ended
        started.add(self)

    def __del__(self) -> None:
        self._library.work_free(self._handle)

    def test(self) -> bool:
        """Whether the call has ended."""
        if self._library.test(self._handle):
            self._end()
            return True
        return False

    def wait(self) -> Any:
        """Blocks until the call has ended; other Python threads run meanwhile.

        Returns
        -------
        What the call returns without ``async_op``; raises what it raises.
        """
        code = self._library.wait(self._handle)
        self._end()
        check(self._library, code)
        return self._result

    def _end(self) -> None:
        self._buffers = ()
        self._started.discard(self)
