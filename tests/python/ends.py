"""Both ends of a transfer, as processes of this machine, and what may be between them."""

import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

BOTH = ("--path", "127.0.0.1", "--path", "127.0.0.2")
PARTIAL = ".weft-partial"
PATIENCE_S = 60

Start = Callable[..., subprocess.Popen[str]]
Narrow = Callable[[str], "Bottleneck"]


PORTS = range(10_000, 32_000)
"""Below those that Linux gives to sockets which ask for none: no connection takes one before it is listened at."""

_drawn: list[socket.socket] = []
_candidates = iter(sorted(PORTS, key=lambda number: hash((os.getpid(), number))))


def port() -> int:
    """A port that is free for UDP and for TCP, and that no other test of this machine draws while this process runs."""
    return next(number for number in _candidates if _is_ours(number) and _is_free(number))


def _is_ours(number: int) -> bool:
    """A name that only one process can have at a time stands for the port, between this look and its use as well."""
    if sys.platform != "linux":
        return True
    name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        name.bind(f"\0weftway-test-port-{number}")
    except OSError:
        name.close()
        return False
    _drawn.append(name)
    return True


def _is_free(number: int) -> bool:
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
        with socket.socket(socket.AF_INET, kind) as free:
            try:
                free.bind(("0.0.0.0", number))
            except OSError:
                return False
    return True


def same(one: Path, other: Path) -> bool:
    """Tells if two trees hold the same files with the same bytes."""

    def held(root: Path) -> dict[str, bytes | None]:
        return {str(path.relative_to(root)): path.read_bytes() if path.is_file() else None for path in root.rglob("*")}

    return held(one) == held(other)


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    output, complaints = process.communicate(timeout=PATIENCE_S)
    return process.returncode, output, complaints


def partial(target: Path) -> int:
    """Bytes that are partly there."""
    return sum(file.stat().st_size for file in (target / PARTIAL).glob("*.part"))


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.002)


class Bottleneck:
    """A way to the end at `server` that carries some data at once and then a megabyte a second, until it is `opened`.

    However fast the machine is, the rest of a transfer is on its way for a while.
    """

    AT_ONCE_BYTES = 20_000_000
    BYTES_A_SECOND = 1_000_000

    def __init__(self, server: str) -> None:
        host, number = server.split(":")
        self._server = (host, int(number))
        self._inside = _datagrams()
        self._inside.bind(("127.0.0.1", port()))
        self.address = "{}:{}".format(*self._inside.getsockname())
        self._carried = 0
        self._is_open = threading.Event()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._forward)
        self._thread.start()

    def open(self) -> None:
        self._is_open.set()

    def close(self) -> None:
        self._is_over.set()
        self._is_open.set()
        self._thread.join()
        self._inside.close()

    def _forward(self) -> None:
        # Each address of a client has a socket of its own, as a server sees several paths by their addresses.
        outside: dict[tuple[str, int], socket.socket] = {}
        while not self._is_over.is_set():
            ready = select.select([self._inside, *outside.values()], [], [], 0.05)[0]
            if self._inside in ready:
                for data, client in _waiting(self._inside):
                    if client not in outside:
                        outside[client] = _datagrams()
                    self._carry(outside[client], data, self._server)
            for client, to_server in outside.items():
                if to_server in ready:
                    for data, _ in _waiting(to_server):
                        self._carry(self._inside, data, client)
        for one in outside.values():
            one.close()

    def _carry(self, way: socket.socket, data: bytes, to: tuple[str, int]) -> None:
        self._carried += len(data)
        if self._carried > self.AT_ONCE_BYTES:
            self._is_open.wait(len(data) / self.BYTES_A_SECOND)
        with suppress(OSError):  # nobody is there now, or there is no room: it is lost
            way.sendto(data, to)


def _datagrams() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.setblocking(False)
    return made


def _waiting(sock: socket.socket) -> Iterator[tuple[bytes, tuple[str, int]]]:
    """Some of the datagrams that have come, with who sent them."""
    for _ in range(16):
        try:
            yield sock.recvfrom(1 << 16)
        except BlockingIOError:
            return
        except OSError:  # what was sent before has reached nobody
            continue
