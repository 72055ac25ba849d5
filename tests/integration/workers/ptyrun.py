#!/usr/bin/python3
"""ptyrun.py CMD...: runs CMD in a session of its own on a new terminal; stdin and stdout are the terminal's other side."""
import os
import pty
import sys

sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])) % 256)
