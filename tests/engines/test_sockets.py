"""Ending the connections of a server in this process."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from speceyes.engines.sockets import end_service


def test_ending_a_service_leaves_other_ports_alone() -> None:
    def serve() -> bytes:
        with accepted:
            return accepted.recv(1)  # a server that closes when it sees that its client is gone

    with socket.create_server(("127.0.0.1", 0)) as ours, socket.create_server(("127.0.0.1", 0)) as other:
        address = ours.getsockname()
        client = socket.create_connection(address, timeout=5)
        neighbour = socket.create_connection(other.getsockname(), timeout=5)
        accepted, kept = ours.accept()[0], other.accept()[0]
        with client, neighbour, kept, ThreadPoolExecutor(1) as pool:
            served = pool.submit(serve)
            assert end_service(address[1], 5)
            assert served.result(5) == client.recv(1) == b""
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(address)
            kept.sendall(b"x")
            assert neighbour.recv(1) == b"x"


def test_ending_a_service_that_does_not_care() -> None:
    with socket.create_server(("127.0.0.1", 0)) as ours, socket.create_connection(ours.getsockname()) as client:
        with ours.accept()[0]:
            assert not end_service(ours.getsockname()[1], 0.05)
        client.settimeout(5)
        assert client.recv(1) == b""
