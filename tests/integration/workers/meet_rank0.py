"""Rank 0 opens a server of its own, as JAX does: at MASTER_PORT of all addresses. Every rank goes there, and is told who has come."""

import json
import os
import threading

from rpc_like import connect, listen

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
HOST, PORT = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])


def serve(listener):
    met = {}
    while len(met) < WORLD:
        client = listener.accept()[0]
        rank, world = json.loads(client.makefile().readline())
        assert world == WORLD and rank not in met, (rank, world, met)
        met[rank] = client
    for client in met.values():
        client.sendall(json.dumps(sorted(met)).encode() + b"\n")


server = None
if RANK == 0:
    server = threading.Thread(target=serve, args=[listen(PORT, WORLD)])
    server.start()
with connect(HOST, PORT) as mine:
    mine.sendall(json.dumps([RANK, WORLD]).encode() + b"\n")
    print("rank", RANK, "met", mine.makefile().readline().strip(), flush=True)
if server:
    server.join()
