"""allreduce_sgd.py, for a job that loses ranks and goes on.

    launch -n 4 --restart=one --max-restarts 10 elastic_sgd.py

Kill any of its processes, at any time: another one takes its place, and the loss that rank 0 prints has the same bits
as if nothing had happened. A line may come twice, as rank 0 may have died before or after it had printed it.
"""

import sys

import muster
import numpy as np

FEATURES, SAMPLES, RATE = 8, 4096, 0.001  # it learns on for a hundred thousand steps
STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 50


class State:
    """All that must not be lost with a rank."""

    def __init__(self, step=0, loss=0.0, weights=None):
        self.step = np.array([step])
        self.loss = np.array([loss])
        self.weights = np.zeros(FEATURES + 1) if weights is None else weights

    def say(self):
        if self.step[0] > 0 and self.step[0] % 10 == 0:
            print(f"step {self.step[0]}: loss {float(self.loss[0])!r}", flush=True)


class Model:
    def __init__(self):
        self.now = State()
        self.before = self.now  # the last step: not all may have made it

    def train(self, comm, x, y):
        """Until it is done, or a rank dies."""
        # A survivor may be one step ahead of another: all go on from the step that all have.
        agreed = comm.agreed.committed
        if not comm.is_replacement and agreed is not None and self.now.step[0] > agreed:
            self.now = self.before
        comm.broadcast_state(self.now.step, self.now.loss, self.now.weights)
        comm.commit(self.now.step[0])
        if comm.rank == 0 and comm.is_replacement:
            self.now.say()  # who was here before may not have come to it
        while self.now.step[0] < STEPS:
            weights = self.now.weights
            error = x @ weights[:-1] + weights[-1] - y
            sums = np.concatenate([x.T @ error, [error.sum(), error @ error]])
            comm.all_reduce(sums)
            self.before = self.now
            self.now = State(self.now.step[0] + 1, sums[-1] / SAMPLES, weights - RATE * sums[:-1] / SAMPLES)
            comm.commit(self.now.step[0])
            if comm.rank == 0:
                self.now.say()
        comm.barrier()  # nobody leaves whom another one needs for the last step


def main():
    comm = muster.init()
    everything = np.random.default_rng(7)
    x = everything.uniform(-1, 1, (SAMPLES, FEATURES))
    y = x @ np.arange(1.0, FEATURES + 1) + 0.5
    x, y = x[comm.rank :: comm.size], y[comm.rank :: comm.size]
    model = Model()
    while True:
        try:
            return model.train(comm, x, y)
        except muster.Unavailable:
            comm = comm.reform()


if __name__ == "__main__":
    main()
