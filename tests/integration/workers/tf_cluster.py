"""What TensorFlow's MultiWorkerMirroredStrategy does with TF_CONFIG: each worker opens a server at its own port, with the socket options that
gRPC sets, and all connect to all. With an argument the first life of rank 1 ends badly after that."""

import json
import os
import socket
import sys
import threading
import time

CONFIG = json.loads(os.environ["TF_CONFIG"])
WORKERS = CONFIG["cluster"]["worker"]
INDEX = CONFIG["task"]["index"]
assert CONFIG["task"]["type"] == "worker" and INDEX == int(os.environ["RANK"]) and len(WORKERS) == int(os.environ["WORLD_SIZE"]), CONFIG


def host_and_port(text):
    host, port = text.rsplit(":", 1)
    return host.strip("[]"), int(port)


def serve(listener):
    for _ in WORKERS:
        client = listener.accept()[0]
        client.sendall(b"%d\n" % INDEX)
        client.close()


def index_of(worker):
    deadline = time.monotonic() + 30
    while True:
        try:
            with socket.create_connection(host_and_port(worker), timeout=30) as mine:
                return int(mine.makefile().readline())
        except ConnectionRefusedError:  # it is not there yet
            assert time.monotonic() < deadline, worker
            time.sleep(0.02)


listener = socket.socket(socket.AF_INET6)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("::", host_and_port(WORKERS[INDEX])[1]))
listener.listen(len(WORKERS))
server = threading.Thread(target=serve, args=[listener])
server.start()
print("rank", INDEX, "met", [index_of(worker) for worker in WORKERS], "at", *WORKERS, flush=True)
server.join()
sys.exit(len(sys.argv) > 1 and INDEX == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0")
