"""A PMI-1 client: puts as many values as its argument says, three times over with a barrier each, and reads those of all ranks."""

import os
import signal
import socket
import sys

count = int(sys.argv[1]) if len(sys.argv) > 1 else 1
rank, size = int(os.environ["PMI_RANK"]), int(os.environ["PMI_SIZE"])
link = socket.socket(fileno=int(os.environ["PMI_FD"])).makefile("rw", newline="\n")


def ask(line):
    link.write(f"cmd={line}\n")
    link.flush()
    answer = link.readline()
    assert " rc=0" in answer, (line, answer)
    return dict(word.split("=", 1) for word in answer.split())


def value(of, i, turn):
    return f"{of}-{i}-{turn}".ljust(400, "v")


ask("init pmi_version=1 pmi_subversion=1")
name = ask("get_my_kvsname")["kvsname"]
mapping = ask(f"get kvsname={name} key=PMI_process_mapping")["value"]
app = ask("get_appnum")["appnum"]
for turn in range(3):
    for i in range(count):
        ask(f"put kvsname={name} key=k{rank}-{i}-{turn} value={value(rank, i, turn)}")
    ask("barrier_in")
    known = sum(ask(f"get kvsname={name} key=k{of}-{i}-{turn}")["value"] == value(of, i, turn) for of in range(size) for i in range(count))
if "stop" in sys.argv:  # ends in good order once it is told to
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    print(f"rank {rank} works", flush=True)
    signal.sigwait({signal.SIGTERM})
ask("barrier_in")
ask("finalize")
print(f"rank {rank} knows {known}, mapping {mapping}, app {app}", flush=True)
