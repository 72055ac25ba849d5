"""Sums all the time; says when it is in its first sum of a communicator, and when it hears that a rank has died."""

import time

import muster
import numpy as np

comm = muster.init()
said = None
while True:
    try:
        comm.all_reduce(np.ones(8))
        if said is not comm:
            said = comm
            print(f"world {comm.size} at {time.time():.6f}", flush=True)
        time.sleep(0.01)
    except muster.Unavailable:
        print(f"told {time.time():.6f}", flush=True)
        comm = comm.reform()
