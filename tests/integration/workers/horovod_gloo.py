"""What hvd.init() does with horovodrun's variables where its controller is gloo, twice, as after an hvd.shutdown(): the ranks of all, of this
host and of this local rank meet at the HTTP store, each group in its scope; all connect to all and delete their key, some while others
still ask for it. (Later versions have a barrier before that.)
(horovod/common/gloo/gloo_context.cc, http_store.cc; gloo/rendezvous/context.cc)."""

import fcntl
import http.client
import os
import socket
import struct
import time

ENV = os.environ
SIOCGIFADDR = 0x8915


def number(name):
    return int(ENV[f"HOROVOD_{name}"])


def own_address():
    """gloo's device: the first address of HOROVOD_GLOO_IFACE."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        told = fcntl.ioctl(any_socket, SIOCGIFADDR, struct.pack("256s", ENV["HOROVOD_GLOO_IFACE"].encode()))
    return socket.inet_ntoa(told[20:24])


def ask(method, scope, key, body=None):
    """A connection for each request; (status, body)."""
    store = http.client.HTTPConnection(ENV["HOROVOD_GLOO_RENDEZVOUS_ADDR"], number("GLOO_RENDEZVOUS_PORT"), timeout=30)
    store.request(method, f"/{scope}/{key}", body)
    answer = store.getresponse()
    text = answer.read()
    store.close()
    assert answer.status in (200, 404), (method, scope, key, answer.status)
    return answer.status, text


def address_of(scope, rank):
    deadline = time.monotonic() + 30
    while True:
        status, text = ask("GET", scope, rank)
        if status == 200:
            host, port = text.decode().rsplit(":", 1)
            return host, int(port)
        assert time.monotonic() < deadline, (scope, rank)
        time.sleep(0.01)


def barrier(others):
    for other in others.values():
        other.sendall(b"b")
    for other in others.values():
        assert other.recv(1) == b"b"


def rendezvous(scope, rank, size):
    """The global ranks of the group, in its order."""
    with socket.create_server((own_address(), 0), backlog=size) as listener:
        listener.settimeout(30)
        ask("PUT", scope, rank, f"{listener.getsockname()[0]}:{listener.getsockname()[1]}")
        others = {}
        for other in range(rank):
            others[other] = socket.create_connection(address_of(scope, other), timeout=30)
            others[other].sendall(struct.pack("ii", rank, number("RANK")))
        met = {rank: number("RANK")}
        while len(others) < size - 1:
            client = listener.accept()[0]
            client.settimeout(30)
            other, met[other] = struct.unpack("ii", client.recv(8, socket.MSG_WAITALL))
            client.sendall(struct.pack("i", number("RANK")))
            others[other] = client
        for other in range(rank):
            (met[other],) = struct.unpack("i", others[other].recv(4, socket.MSG_WAITALL))
    for other in range(rank + 1, size):
        address_of(scope, other)  # gloo reads what everyone has put
    ask("DELETE", scope, rank)
    barrier(others)  # as in hvd.shutdown()
    for other in others.values():
        other.close()
    return [met[other] for other in range(size)]


assert ENV["HOROVOD_CONTROLLER"] == ENV["HOROVOD_CPU_OPERATIONS"] == "gloo"
for _ in range(2):
    everyone = rendezvous("global", number("RANK"), number("SIZE"))
    local = rendezvous("local_" + ENV["HOROVOD_HOSTNAME"], number("LOCAL_RANK"), number("LOCAL_SIZE"))
    cross = rendezvous(f"cross_{number('LOCAL_RANK')}", number("CROSS_RANK"), number("CROSS_SIZE"))
    print("rank", number("RANK"), "of", everyone, "local", local, "cross", cross, flush=True)
