#!/usr/bin/python3
"""Writes LINES lines of 8000 equal letters (the rank's), each in pieces of its own write(2); WHOLE=1: in one."""
import os

letter = bytes([97 + int(os.environ["RANK"]) % 26])
for _ in range(int(os.environ.get("LINES", "50"))):
    if os.environ.get("WHOLE"):
        os.write(1, letter * 8000 + b"\n")
        continue
    for size in (1, 2499, 2500, 3000):
        os.write(1, letter * size)
    os.write(1, b"\n")
