#!/usr/bin/env python3
"""Records what torch's own TCPStore client and server say to each other.

    /usr/bin/python3 record.py OUT.txt SCENARIO [libuv|threads]

A proxy stands between real clients and a real server (both from the torch installed here) and
writes one line for each piece, in the order in which it went through: `1 > 00ff` is from client 1,
`1 < 00ff` is the server's answer, `1 !` the end of the connection. It lets one piece through at a
time and waits for the answers, so that the order in the file is the order in the server. The last
word chooses which of torch 2.x's two servers answers; torch 1.13 has one.
"""
import os
import selectors
import socket
import subprocess
import sys
import time

SERVER = """
import sys, torch.distributed as dist
kind = {} if len(sys.argv) < 2 else {"use_libuv": sys.argv[1] == "libuv"}
store = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False, **kind)
print(store.port, flush=True)
sys.stdin.read()
"""

SCENARIOS = {
    # Every call of the Python API, one client after the other, and a wait that times out.
    "calls": (1, """
import datetime, torch.distributed as dist, os
store = dist.TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]), 2, False)
other = dist.TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]), 2, False)
store.set("key", "value")
assert other.get("key") == b"value"
assert store.add("count", 5) == 5
assert other.add("count", -7) == -2
assert store.compare_set("cas", "no", "x") == b"no"
assert store.compare_set("cas", "", "first") == b"first"
assert other.compare_set("cas", "first", "second") == b"second"
assert other.compare_set("cas", "first", "third") == b"second"
other.set("late", b"\\0\\1\\2")
store.wait(["key", "late"])
try:
    store.wait(["never"], datetime.timedelta(milliseconds=200))
    raise SystemExit("no time-out")
except RuntimeError:
    pass
assert other.num_keys() == 6 - 1
assert other.delete_key("key") is True
assert other.delete_key("key") is False
other.set("empty", "")
assert other.get("empty") == b""
"""),
    # What torch 2.x's Python has beyond that, and what it does otherwise: a wait that times out is
    # cancelled, also that within get and multi_get.
    "calls_2": (1, """
import datetime, torch.distributed as dist, os
store = dist.TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]), 2, False)
other = dist.TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]), 2, False)
short, long = datetime.timedelta(milliseconds=200), datetime.timedelta(seconds=60)

def times_out(call, *arguments):
    try:
        call(*arguments)
    except dist.DistStoreError:
        return
    raise SystemExit("no time-out")

store.set("key", "value")
assert other.get("key") == b"value"
assert store.add("count", 5) == 5
assert other.add("count", -7) == -2
assert store.get("count") == b"-2"
assert store.compare_set("cas", "no", "x") == b"no"
assert store.compare_set("cas", "", "first") == b"first"
assert other.compare_set("cas", "first", "second") == b"second"
assert other.compare_set("cas", "first", "third") == b"second"
other.set("late", b"\\0\\1\\2")
store.wait(["key", "late"])
assert store.check(["key", "late"]) is True
assert store.check(["key", "never"]) is False
assert store.check([]) is True
times_out(store.wait, ["key", "never"], short)
assert store.add("count", 0) == -2
assert store.has_extended_api()
store.append("list", "one")
assert store.check(["list"])
other.append("list", "two")
assert store.get("list") == b"onetwo"
store.multi_set(["a", "b", "empty"], ["1", "22", ""])
assert other.multi_get(["b", "empty", "a"]) == [b"22", b"", b"1"]
store.set_timeout(short)
times_out(store.get, "never")
times_out(store.multi_get, ["a", "never"])
store.set_timeout(long)
assert store.get("empty") == b""
assert dist.PrefixStore("in", store).add("count", 1) == 1
assert other.num_keys() == 10  # with the clients' own init/
assert other.delete_key("key") is True
assert other.delete_key("key") is False
assert store.num_keys() == 9
"""),
    # Three ranks, gloo, agent store: init, all_reduce, a group of two, destroy. (A second init in the
    # same processes fails with torch's own store: it finds the keys of the first.)
    "gloo": (3, """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
t = torch.ones(4) * (dist.get_rank() + 1)
dist.all_reduce(t)
assert t.tolist() == [6.0] * 4
group = dist.new_group([1, 2])
dist.barrier()
dist.destroy_process_group()
"""),
}


class Proxy:
    def __init__(self, server_port, out):
        self.server_port = server_port
        self.out = out
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.pairs = {}  # id -> (client, server)
        self.ends = selectors.DefaultSelector()
        self.ends.register(self.listener, selectors.EVENT_READ, None)
        self.next = 1

    def port(self):
        return self.listener.getsockname()[1]

    def run_once(self):
        for key, _ in self.ends.select(0.05):
            if key.data is None:
                client, _ = self.listener.accept()
                server = socket.create_connection(("127.0.0.1", self.server_port))
                self.pairs[self.next] = (client, server)
                self.ends.register(client, selectors.EVENT_READ, (self.next, ">"))
                self.ends.register(server, selectors.EVENT_READ, (self.next, "<"))
                self.next += 1
                continue
            if not self.forward(*key.data):
                continue
            if key.data[1] == ">":
                self.answers()

    def answers(self):
        """Lets everything from the server through before the next piece of a client."""
        until = time.monotonic() + 0.02
        while time.monotonic() < until:
            for key, _ in self.ends.select(0.005):
                if key.data is not None and key.data[1] == "<":
                    self.forward(*key.data)

    def forward(self, number, way):
        if number not in self.pairs:
            return False
        client, server = self.pairs[number]
        source, sink = (client, server) if way == ">" else (server, client)
        try:
            data = source.recv(1 << 20)
        except ConnectionError:
            data = b""
        if data:
            self.out.write(f"{number} {way} {data.hex()}\n")
            self.out.flush()
            sink.sendall(data)
            return True
        self.out.write(f"{number} !\n")
        for end in self.pairs.pop(number):
            self.ends.unregister(end)
            end.close()
        return False


def main():
    import torch
    path, scenario, *kind = sys.argv[1:]
    ranks, program = SCENARIOS[scenario]
    server = subprocess.Popen([sys.executable, "-c", SERVER, *kind], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    with open(path, "w") as out:
        out.write(f"# torch {torch.__version__}, client and server, scenario "
                  f"'{' '.join([scenario, *kind])}' of record.py\n")
        proxy = Proxy(int(server.stdout.readline()), out)
        workers = []
        for rank in range(ranks):
            env = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1",
                       MASTER_PORT=str(proxy.port()), TORCHELASTIC_USE_AGENT_STORE="True",
                       TORCHELASTIC_RESTART_COUNT="0", GLOO_SOCKET_IFNAME="lo",
                       OMP_NUM_THREADS="1")
            workers.append(subprocess.Popen([sys.executable, "-c", program], env=env))
        while any(worker.poll() is None for worker in workers) or proxy.pairs:
            proxy.run_once()
    server.stdin.close()
    server.wait()
    return max(worker.returncode for worker in workers)


if __name__ == "__main__":
    sys.exit(main())
