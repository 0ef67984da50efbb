"""Sockets at interfaces and addresses, which `--path` names as in `weft send` (crates/quic/src/udp/socket.rs)."""

import ipaddress
import os
import socket
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from weftway import transfer
from weftway._native import ScenarioError

PORT = 4434
"""Beside that of `weft recv`."""

BUFFER_BYTES = 4 << 20
BATCH = 256
"""Packets taken from one socket before the others have their turn."""

IPV4_HEADER, IPV6_HEADER = 28, 48
"""Of IP and UDP, in bytes."""

SO_TIMESTAMPNS = 35
"""When the kernel received a packet (socket(7)); Python does not name it."""
IP_PKTINFO = 8
"""To which address a packet was sent (ip(7)); Python names it from 3.12 on."""

Address = tuple[Any, ...]


@dataclass(frozen=True)
class Received:
    """A packet, when the kernel got it, from where, and what sends an answer from where it went to."""

    data: bytes
    arrived_ns: int
    address: Address
    back: list[tuple[int, int, bytes]]


def hurry() -> None:
    """Asks for more of the processor, which root is given: who sends late leaves links idle."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -10)


def header(peer: Address) -> int:
    """What IP and UDP add to a packet to or from this peer; IPv4's may come to a socket of both families.

    >>> header(("192.0.2.1", 1)), header(("::ffff:192.0.2.1", 1)), header(("2001:db8::1", 1))
    (28, 28, 48)
    """
    return IPV6_HEADER if ":" in peer[0] and not peer[0].startswith("::ffff:") else IPV4_HEADER


def addresses(text: str) -> list[Address]:
    """Where HOST[:PORT] may be, best first."""
    return [_address(one) for one in transfer.resolve(*transfer.split(text, PORT), passive=False)]


def _address(text: str) -> Address:
    host, port = transfer.split(text)
    return (host, port)


def at(path: str, peers: list[Address]) -> tuple[socket.socket, Address]:
    """A socket that sends over `path`, an interface or an address of this machine, and the peer's address for it."""
    try:
        own = ipaddress.ip_address(path)
    except ValueError:
        peer = peers[0]
        opened = _opened(_family(peer))
        _bind_device(opened, path)
        return opened, peer
    family = socket.AF_INET6 if own.version == 6 else socket.AF_INET
    fitting = [one for one in peers if _family(one) == family]
    if not fitting:
        raise ScenarioError(f"--path {path}: the peer, {peers[0][0]}, has no address of that family (IPv{own.version})")
    opened = _opened(family)
    try:
        opened.bind((path, 0))
    except OSError:
        opened.close()
        raise ScenarioError(f"--path {path}: no address of this machine; `weft doctor` lists them") from None
    return opened, fitting[0]


def _bind_device(opened: socket.socket, name: str) -> None:
    known = [known for _, known in socket.if_nameindex()]
    try:
        if name not in known:
            raise ScenarioError(f"--path {name}: there is no such interface; there is {', '.join(known)}")
        if not hasattr(socket, "SO_BINDTODEVICE"):
            raise ScenarioError(f"--path {name}: only Linux binds a socket to an interface: give its address")
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, name.encode() + b"\0")
    except OSError as error:
        opened.close()
        raise ScenarioError(f"--path {name}: {error.strerror}: give its address") from None
    except ScenarioError:
        opened.close()
        raise


def listening(text: str) -> socket.socket:
    """A socket at [ADDR:]PORT."""
    host, port = transfer.split_listening(text, PORT)
    (first, *_) = transfer.resolve(host or transfer.all_addresses(), port, passive=True)
    address = _address(first)
    opened = _opened(_family(address))
    try:
        if host is None and opened.family == socket.AF_INET6:
            # Whatever the system's default is, it takes IPv4 as well.
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        opened.bind(address)
    except OSError as error:
        opened.close()
        raise ScenarioError(f"--listen {text}: {error.strerror}") from None
    if sys.platform == "linux":
        with suppress(OSError):
            if opened.family == socket.AF_INET6:
                opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
            else:
                opened.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
    return opened


def _family(address: Address) -> int:
    return socket.AF_INET6 if ":" in address[0] else socket.AF_INET


def _opened(family: int) -> socket.socket:
    opened = socket.socket(family, socket.SOCK_DGRAM)
    opened.setblocking(False)
    # The kernel gives what it allows; less only means more losses.
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        opened.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
    if sys.platform == "linux":
        with suppress(OSError):
            opened.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    return opened


def received(source: socket.socket) -> Iterator[Received]:
    """What has come, up to a number of packets."""
    now_ns = time.monotonic_ns()
    behind_ns = time.time_ns() - now_ns
    for _ in range(BATCH):
        try:
            data, extra, _, address = source.recvmsg(2048, 256)
        except OSError:
            # Nothing more; or an earlier packet found nobody (ICMP), which silence tells as well.
            return
        arrived_ns, back = time.monotonic_ns(), []
        for level, kind, content in extra:
            if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS and len(content) == 16:
                seconds, rest = struct.unpack("qq", content)
                arrived_ns = min(arrived_ns, seconds * 1_000_000_000 + rest - behind_ns)
            elif level == socket.IPPROTO_IP and kind == IP_PKTINFO:
                # The interface is left open; the address that was asked answers.
                back = [(level, kind, struct.pack("i", 0) + content[4:8] + bytes(4))]
            elif level == socket.IPPROTO_IPV6 and kind == getattr(socket, "IPV6_PKTINFO", None):
                back = [(level, kind, content)]
        yield Received(data, arrived_ns, address, back)


def send(source: socket.socket, data: bytes, address: Address, back: list[tuple[int, int, bytes]]) -> bool:
    """Sends; whether the socket took it. What a link that is away does not take is lost, as on its way."""
    try:
        source.sendmsg([data], back, 0, address)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
