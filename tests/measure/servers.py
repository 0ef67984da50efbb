"""What answers at the far end, in the measurements of this folder."""

import socket
import struct
import threading
import time
from collections.abc import Callable

from lab import BULK, ECHO, SINK


def serve_bulk(mbps: float | None = None) -> None:
    """Sends zeros to whoever connects, for as long as that reads: at a rate, or as many as there is room for."""
    zeros = bytes(1 << 18 if mbps is None else 1 << 14)

    def send(client: socket.socket) -> None:
        begin, sent = time.monotonic(), 0
        try:
            while True:
                client.sendall(zeros)
                sent += len(zeros)
                if mbps is not None:
                    time.sleep(max(0.0, begin + sent * 8e-6 / mbps - time.monotonic()))
        except OSError:
            client.close()

    _serve(BULK, send)


def serve_sink() -> None:
    """Takes what comes, and says four times a second how much has come when: ns and bytes."""

    def take(client: socket.socket) -> None:
        buffer, total, told = bytearray(1 << 18), 0, 0.0
        try:
            while got := client.recv_into(buffer):
                total += got
                if (now := time.monotonic()) >= told + 0.25:
                    told = now
                    client.sendall(TAKEN.pack(time.monotonic_ns(), total))
        except OSError:
            pass
        client.close()

    _serve(SINK, take)


TAKEN = struct.Struct("!QQ")
"""What a sink says."""


def _serve(port: int, answer: Callable[[socket.socket], None]) -> None:
    server = socket.create_server(("", port), backlog=2048)
    while True:
        client, _ = server.accept()
        threading.Thread(target=answer, args=(client,), daemon=True).start()


def serve_echo() -> None:
    """Sends each datagram back, with the time of its arrival behind it."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("", ECHO))
    while True:
        data, source = server.recvfrom(2048)
        server.sendto(data + struct.pack("!Q", time.monotonic_ns()), source)
