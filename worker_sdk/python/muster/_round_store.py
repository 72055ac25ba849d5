"""Where the ranks of a round meet for torch's groups: a store whose waits end when the round does."""

import time
from datetime import timedelta

import torch
import torch.distributed as dist

from ._communicator import Communicator
from ._errors import DeadlineExceeded

_IS_SET = "/is set"
_NAP_MIN, _NAP_MAX = 0.001, 0.05


class RoundStore(dist.Store):
    """Another store, for as long as nobody is lost: then whoever waits gets Unavailable, and not what torch's own do,
    which wait for minutes.

    Parameters
    ----------
    store : torch.distributed.Store
        Of this round only.
    comm : Communicator
        Of all ranks of the round.
    """

    def __init__(self, store: dist.Store, comm: Communicator) -> None:
        super().__init__()
        self._store = store
        self._comm = comm

    def set(self, key: str, value: bytes) -> None:
        self._store.set(key, value)
        self._store.add(key + _IS_SET, 1)

    def get(self, key: str) -> bytes:
        self.wait([key])
        return self._store.get(key)

    def add(self, key: str, amount: int) -> int:
        self._look()  # torch counts ranks until all are there
        return self._store.add(key, amount)

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        limit = timeout or self.timeout
        ends = time.monotonic() + limit.total_seconds()
        for key in keys:
            nap = _NAP_MIN
            while not self._store.add(key + _IS_SET, 0):
                self._look()
                if time.monotonic() > ends:
                    raise DeadlineExceeded(f"ElasticGroup: no rank has set {key} in the store within {limit}")
                time.sleep(nap)
                nap = min(2 * nap, _NAP_MAX)

    def _look(self) -> None:
        """Raises what ends every message when the round is over, one to oneself, too."""
        data, me = torch.empty(1), self._comm.rank
        asked = self._comm.recv(data, src=me, async_op=True)
        if not asked.test():
            self._comm.send(torch.zeros(1), dst=me)
        asked.wait()
