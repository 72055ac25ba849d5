"""Data-parallel training with NumPy: each rank has its own part of the data, gradients are averaged.

    launch -n 4 allreduce_sgd.py

The loss that rank 0 prints has the same bits run after run.
"""

import muster
import numpy as np

FEATURES, SAMPLES, STEPS = 8, 4096, 50

with muster.init() as comm:
    everything = np.random.default_rng(7)
    x = everything.uniform(-1, 1, (SAMPLES, FEATURES))
    y = x @ np.arange(1.0, FEATURES + 1) + 0.5
    x, y = x[comm.rank :: comm.size], y[comm.rank :: comm.size]

    weights = np.zeros(FEATURES + 1)
    comm.broadcast(weights)
    for step in range(1, STEPS + 1):
        error = x @ weights[:-1] + weights[-1] - y
        sums = np.concatenate([x.T @ error, [error.sum(), error @ error]])
        comm.all_reduce(sums)
        weights -= sums[:-1] / SAMPLES
        if comm.rank == 0 and step % 10 == 0:
            print(f"step {step}: loss {sums[-1] / SAMPLES!r}")
