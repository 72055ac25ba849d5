"""Servers and clients as gRPC opens them."""

import socket
import time


def listen(port, backlog):
    """At all addresses, with the socket options that gRPC sets."""
    listener = socket.socket(socket.AF_INET6)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("::", port))
    listener.listen(backlog)
    return listener


def connect(host, port):
    """Waits for a server that is not there yet."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return socket.create_connection((host, port), timeout=30)
        except ConnectionRefusedError:
            assert time.monotonic() < deadline, (host, port)
            time.sleep(0.02)
