"""Rank 0 opens a server of its own, as JAX does: at MASTER_PORT of all addresses, with the socket options that gRPC sets. Every rank goes
there, and is told who has come."""

import json
import os
import socket
import threading
import time

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
HOST, PORT = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])


def open_listener():
    listener = socket.socket(socket.AF_INET6)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("::", PORT))
    return listener


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
    listener = open_listener()
    listener.listen(WORLD)
    server = threading.Thread(target=serve, args=[listener])
    server.start()
deadline = time.monotonic() + 30
while True:
    try:
        with socket.create_connection((HOST, PORT), timeout=30) as mine:
            mine.sendall(json.dumps([RANK, WORLD]).encode() + b"\n")
            print("rank", RANK, "met", mine.makefile().readline().strip(), flush=True)
        break
    except ConnectionRefusedError:  # rank 0 is not there yet, which JAX waits for, too
        assert time.monotonic() < deadline, (HOST, PORT)
        time.sleep(0.05)
if server:
    server.join()
