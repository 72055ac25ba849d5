"""torch's default process group in a job that loses ranks and goes on (``launch --restart=one``)."""

import copy
import gc
import io
import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from . import _torch  # type: ignore[attr-defined]
from ._communicator import Communicator, init
from ._errors import Unavailable
from ._round_store import RoundStore

T = TypeVar("T")

_STORE_TIMEOUT = timedelta(minutes=5)


class ElasticGroup:
    """Trains on when a rank dies: the survivors keep their processes, and a new one takes its place.

    >>> elastic = muster.torch.ElasticGroup(net, optimizer)
    >>> def train():
    ...     replica = DistributedDataParallel(net)
    ...     for step in elastic.steps(1000):
    ...         optimizer.zero_grad()
    ...         loss_of(replica, batch(step)).backward()
    ...         optimizer.step()
    >>> elastic.run(train)

    A step that was cut off is done again by all, from the state that it began with, and without its gradients: nothing
    is counted twice, and replicas keep equal bits. What meets through it needs the agent's store (``--store=agent``,
    if ``launch`` does not serve it by itself), which lives as long as rank 0's machine.

    Parameters
    ----------
    *state : objects with ``state_dict()`` and ``load_state_dict()``
        All that a newcomer needs: modules, optimizers, schedulers. Kept once more in memory, as of the last step.
    """

    def __init__(self, *state: Any) -> None:
        #: Steps that are done.
        self.step = 0
        self._state = state
        self._kept = self._copy()
        self._comm: Communicator | None = None
        self._store: dist.Store | None = None
        self._meeting: RoundStore | None = None  # torch's groups hold no more than its C++ part

    def run(self, train: Callable[[], T]) -> T:
        """Calls `train` as soon as the process group is there, and again after each loss.

        The group ends with it: what is said at the end with ``dist.get_rank()`` belongs into `train`, or goes by
        ``os.environ["RANK"]``.

        Parameters
        ----------
        train : function
            Builds what depends on the process group (DistributedDataParallel, sub-groups) and goes through
            :meth:`steps`. It ends on all ranks after the same step.

        Returns
        -------
        What `train` returns.
        """
        self._comm = init()
        while True:
            _torch.take_lost()
            try:
                return self._round(train)
            except RuntimeError as error:  # torch has none of its own for this
                if not isinstance(error, Unavailable) and not _torch.take_lost():
                    raise
                self._await_calls()
            gc.collect()  # the last replica's hooks on the parameters end with it
            self._comm = self._comm.reform()

    def steps(self, count: int) -> Iterator[int]:
        """Yields the steps from the first that is not done to ``count - 1``; each is done when the next is asked for."""
        assert self._comm is not None, "steps() is for the function that run() calls"
        while self.step < count:
            yield self.step
            self.step += 1
            self._kept = self._copy()
            self._comm.commit(self.step)

    def _round(self, train: Callable[[], T]) -> T:
        """What is left of the last round goes when all survivors are in the next one: nobody takes us for dead."""
        comm = self._comm
        assert comm is not None
        _forget_groups()
        _torch.take_lost()  # calls of sub-groups that were still waiting ended with them
        self._share(comm)
        self._meeting = RoundStore(self._store_of(comm), comm)
        dist.init_process_group("muster", store=self._meeting, rank=comm.rank, world_size=comm.size)
        result = train()
        dist.barrier()  # nobody leaves whom another one needs for the last step
        dist.destroy_process_group()
        comm.close()
        return result

    def _copy(self) -> list[Any]:
        return [copy.deepcopy(one.state_dict()) for one in self._state]

    def _share(self, comm: Communicator) -> None:
        """All ranks have the state of one that has it."""
        holder = comm.agreed.holder or 0
        packed = io.BytesIO()
        if comm.rank == holder:
            torch.save((self.step, self._kept), packed)
        size = torch.tensor([packed.tell()])
        comm.broadcast(size, root=holder)
        data = torch.frombuffer(packed.getbuffer(), dtype=torch.uint8) if comm.rank == holder else torch.empty(size.item(), dtype=torch.uint8)  # fmt: skip
        comm.broadcast_state(data)
        # Whatever a state_dict() may hold, as from a rank of this job.
        self.step, self._kept = torch.load(io.BytesIO(data.numpy().tobytes()), weights_only=False)
        for one, its in zip(self._state, self._kept):
            one.load_state_dict(copy.deepcopy(its))
            _forget_gradients(one)
        comm.commit(self.step)

    def _store_of(self, comm: Communicator) -> dist.Store:
        """The agent's, which outlives each rank, with keys of this round only."""
        if self._store is None:
            if comm.size > 1 or "MASTER_PORT" in os.environ:
                if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
                    raise ValueError("ElasticGroup meets at the agent's store, which is not served here: launch --store=agent")
                address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
                self._store = dist.TCPStore(address, port, is_master=False, timeout=_STORE_TIMEOUT)
            else:
                self._store = dist.HashStore()
        return dist.PrefixStore(f"muster/{comm.round}", self._store)

    def _await_calls(self) -> None:
        """Until none of the group's calls is under way: the group is dead, so they end at once."""
        try:
            if dist.is_initialized():
                dist.barrier()
        except RuntimeError:
            _torch.take_lost()


def _forget_groups() -> None:
    """All of torch's, and how many there were: it counts one that could not be made, too, and names keys by the number."""
    if not dist.is_initialized():
        dist.init_process_group("muster", store=dist.HashStore(), rank=0, world_size=1)
    dist.destroy_process_group()


def _forget_gradients(holder: Any) -> None:
    """Those of a module's parameters, or of all that an optimizer has."""
    parameters = list(holder.parameters()) if isinstance(holder, torch.nn.Module) else []
    for group in holder.param_groups if isinstance(holder, torch.optim.Optimizer) else []:
        parameters.extend(group["params"])
    for parameter in parameters:
        parameter.grad = None
