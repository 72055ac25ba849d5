"""What TensorFlow's MultiWorkerMirroredStrategy does with TF_CONFIG: each worker opens a server at its own port, and all connect to all. With an
argument the first life of rank 1 ends badly after that, when all have said whom they met."""

import json
import os
import sys
import threading

from rpc_like import connect, listen

CONFIG = json.loads(os.environ["TF_CONFIG"])
WORKERS = CONFIG["cluster"]["worker"]
INDEX = CONFIG["task"]["index"]
assert CONFIG["task"]["type"] == "worker" and INDEX == int(os.environ["RANK"]) and len(WORKERS) == int(os.environ["WORLD_SIZE"]), CONFIG


def host_and_port(text):
    host, port = text.rsplit(":", 1)
    return host.strip("[]"), int(port)


def serve(listener):
    for _ in 2 * WORKERS:
        client = listener.accept()[0]
        client.sendall(b"%d\n" % INDEX)
        client.close()


def index_of(worker):
    with connect(*host_and_port(worker)) as mine:
        return int(mine.makefile().readline())


server = threading.Thread(target=serve, args=[listen(host_and_port(WORKERS[INDEX])[1], 2 * len(WORKERS))])
server.start()
print("rank", INDEX, "met", [index_of(worker) for worker in WORKERS], "at", *WORKERS, flush=True)
for worker in WORKERS:
    index_of(worker)  # who is asked a second time knows that this one has printed
server.join()
sys.exit(len(sys.argv) > 1 and INDEX == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0")
