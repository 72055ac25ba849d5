#!/usr/bin/python3
"""XGBoost on all ranks, each with its share of the rows: launch -n 4 examples/xgboost_train.py

Rank 0 starts XGBoost's tracker, which takes a port of its own, and tells it to the others through libmuster. Needs
python3-xgboost; written for 1.7 (Debian 12's).
"""

import array
import hashlib
import os

import muster
import numpy
import xgboost
from xgboost.tracker import RabitTracker

ROWS = 4000
WANT = {"objective": "binary:logistic", "tree_method": "hist", "max_depth": 3, "nthread": 1}


def main():
    comm = muster.init()
    tracker = None
    if comm.rank == 0:
        tracker = RabitTracker(os.environ["MASTER_ADDR"], comm.size, sortby="task")
        tracker.start(comm.size)
    port = comm.broadcast(array.array("q", [tracker.port if tracker else 0]), root=0)[0]
    rows = numpy.random.default_rng(1).standard_normal((ROWS, 8))
    labels = rows[:, 0] + rows[:, 1] * rows[:, 2] > 0
    mine = slice(comm.rank, None, comm.size)
    where = {"DMLC_TRACKER_URI": os.environ["MASTER_ADDR"], "DMLC_TRACKER_PORT": port, "DMLC_TASK_ID": f"{comm.rank:06}"}
    with xgboost.collective.CommunicatorContext(**where):
        model = xgboost.train(WANT, xgboost.DMatrix(rows[mine], labels[mine]), num_boost_round=20)
        rank, world = xgboost.collective.get_rank(), xgboost.collective.get_world_size()
    wrong = numpy.mean((model.predict(xgboost.DMatrix(rows)) > 0.5) != labels)
    print(f"rank {rank} of {world}: {wrong:.3f} wrong, model {hashlib.sha256(model.save_raw()).hexdigest()[:16]}", flush=True)
    if tracker:
        tracker.join()
    comm.close()


if __name__ == "__main__":
    main()
