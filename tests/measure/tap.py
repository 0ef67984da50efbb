"""Datagrams of a program as they pass the loopback interface at both ends: which came, and how long each took.

Both ends are on one machine and have one clock. The kernel stamps the times, so that they hold when this is late.
"""

import hashlib
import socket
import struct
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

TO, FROM = 0, 1
"""Ways of a datagram: to the port, and from it."""
_RECORD = struct.Struct("<QQHB")
_ETHERTYPE_IP = 0x0800
_SO_RCVBUFFORCE, _SO_TIMESTAMPNS = 33, 35
_SOL_PACKET, _PACKET_IGNORE_OUTGOING = 263, 23


def listen(port: int, file: Path) -> None:
    """Writes time, hash, length and way of each datagram to or from a port, until this program ends."""
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETHERTYPE_IP))
    tap.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
    tap.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 1 << 25)
    tap.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    tap.bind(("lo", _ETHERTYPE_IP))
    threading.Thread(target=_write, args=(tap, port, file), daemon=True).start()


def _write(tap: socket.socket, port: int, file: Path) -> None:
    with file.open("wb", buffering=0) as records:
        while True:
            packet, extra, _, _ = tap.recvmsg(1 << 16, 64)
            if packet[9] != socket.IPPROTO_UDP:
                continue
            head = (packet[0] & 15) * 4
            source, target = struct.unpack_from("!HH", packet, head)
            if port not in (source, target):
                continue
            seconds, ns = struct.unpack("qq", extra[0][2])
            data = packet[head + 8 :]
            digest = int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")
            way = TO if target == port else FROM
            records.write(_RECORD.pack(seconds * 10**9 + ns, digest, len(data), way))


def _records(file: Path, way: int) -> Iterator[tuple[int, int, int]]:
    data = file.read_bytes()
    for when, digest, length, went in _RECORD.iter_unpack(data[: len(data) // _RECORD.size * _RECORD.size]):
        if went == way:
            yield when, digest, length


def followed(sent: Path, came: Path, way: int, in_time: int) -> list[tuple[int, int | None, int]]:
    """Each datagram that was sent: when, in ns, how long it took, none if it did not come, and its length.

    Of equal ones (SRT sends again) it is the first that came within `in_time`, in ns, otherwise the last.
    """
    records = list(_records(sent, way))
    waiting: dict[int, list[int]] = defaultdict(list)
    for at, (_, digest, _) in enumerate(records):
        waiting[digest].append(at)
    took: list[int | None] = [None] * len(records)
    for arrival, digest, _ in _records(came, way):
        before = [at for at in waiting[digest] if records[at][0] <= arrival]
        soon = [at for at in before if records[at][0] >= arrival - in_time]
        if before:
            its = soon[0] if soon else before[-1]
            waiting[digest].remove(its)
            took[its] = arrival - records[its][0]
    return [(when, took[at], length) for at, (when, _, length) in enumerate(records)]
