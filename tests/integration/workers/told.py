"""Writes what it is sent to told.RANK; SIGTERM: saves for 2 s, then ends. argv[1]: the folder."""

import os
import signal
import sys
import time

told = open(f"{sys.argv[1]}/told.{os.environ['RANK']}", "a", buffering=1)


def on_signal(number, _frame):
    told.write(f"{signal.Signals(number).name}\n")
    if number == signal.SIGTERM:
        time.sleep(2)
        told.write("saved\n")
        sys.exit(0)


for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, on_signal)
print("runs", flush=True)
while True:
    signal.pause()
