"""Files of captures, pcap and pcapng: their frames, each with its time.

Read by itself. Of the libraries, Scapy costs a second to load. dpkt 1.9.8 (2022, the last one) takes the link type and
clock of the first interface for all, drops blocks that it does not know, and cannot say where a file was cut.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

# The four bytes at the beginning, and the unit of fractions of a second in ns (draft-ietf-opsawg-pcap).
PCAP = {b"\xd4\xc3\xb2\xa1": ("<", 1000), b"\xa1\xb2\xc3\xd4": (">", 1000)}
PCAP |= {b"\x4d\x3c\xb2\xa1": ("<", 1), b"\xa1\xb2\x3c\x4d": (">", 1)}
PCAPNG = b"\x0a\x0d\x0d\x0a"
SECTION, INTERFACE, OBSOLETE, SIMPLE, PACKET = 0x0A0D0D0A, 1, 2, 3, 6

END, IF_NAME, IF_TSRESOL = 0, 2, 9
"""Options of an interface."""

MOST_BYTES = 1 << 24
"""No frame and no block of a sound file is longer."""


class Damaged(Exception):
    """The file does not hold together."""


class Frame(NamedTuple):
    """Captured part of a frame, with its time and its length."""

    at: float
    """Time of capture in seconds."""
    interface: int
    link: int
    """Its link type."""
    bytes: bytes
    length: int
    """Length of the frame as it was on the line."""


@dataclass
class Capture:
    """The frames of a file."""

    frames: list[Frame] = field(default_factory=list)
    is_cut: bool = False
    """The file ends within a frame, as where the capture was killed."""


def is_capture(data: bytes) -> bool:
    """Returns whether the data begin like a capture."""
    return data[:4] in PCAP or data[:4] == PCAPNG


def read(data: bytes) -> Capture:
    """The frames of a capture, to where it was cut off."""
    capture = Capture()
    if not is_capture(data):
        raise Damaged("it does not begin as one")
    try:
        for frame in _pcapng(data) if data[:4] == PCAPNG else _pcap(data):
            if frame is None:
                capture.is_cut = True
            else:
                capture.frames.append(frame)
    except struct.error as error:
        raise Damaged("a block is too short") from error
    return capture


def _pcap(data: bytes) -> Iterator[Frame | None]:
    """Frames; none at the end of a file that is cut."""
    order, unit = PCAP[data[:4]]
    if len(data) < 24:
        raise Damaged("its header is cut off")
    link = struct.unpack_from(order + "I", data, 20)[0] & 0xFFFF
    at = 24
    while at < len(data):
        if at + 16 > len(data):
            yield None
            return
        seconds, fraction, kept, length = struct.unpack_from(order + "4I", data, at)
        if kept > MOST_BYTES or fraction * unit >= 10**9:
            raise Damaged(f"no frame begins at byte {at}")
        if at + 16 + kept > len(data):
            yield None
            return
        yield Frame(seconds + fraction * unit / 1e9, 0, link, data[at + 16 : at + 16 + kept], max(length, kept))
        at += 16 + kept


def _pcapng(data: bytes) -> Iterator[Frame | None]:
    """Frames; none at the end of a file that is cut."""
    order, at = "<", 0
    interfaces: list[tuple[int, float, int]] = []
    known: dict[bytes | int, int] = {}
    while at < len(data):
        if at + 12 > len(data):
            yield None
            return
        kind = struct.unpack_from(order + "I", data, at)[0]
        if kind == SECTION:
            order = "<" if data[at + 8 : at + 12] == b"\x4d\x3c\x2b\x1a" else ">"
            interfaces = []
        length = struct.unpack_from(order + "I", data, at + 4)[0]
        if not 12 <= length <= MOST_BYTES or length % 4:
            raise Damaged(f"no block begins at byte {at}")
        if at + length > len(data):
            yield None
            return
        body = data[at + 8 : at + length - 4]
        if kind == INTERFACE:
            link, (name, tick) = struct.unpack_from(order + "H", body)[0], _options(body, order)
            # An interface that a later section describes again is the same one.
            number = known.setdefault(name or len(interfaces), len(known))
            interfaces.append((link, tick, number))
        elif kind == SIMPLE:
            raise Damaged("its packets have no times, as simple packet blocks are; capture with tcpdump or dumpcap")
        elif kind in (PACKET, OBSOLETE):
            # The obsolete block has a count of drops in the upper half of the first word.
            form = "5I" if kind == PACKET else "HH4I"
            interface, *_, high, low, kept, whole = struct.unpack_from(order + form, body)
            if interface >= len(interfaces):
                raise Damaged(f"the frame at byte {at} is of an interface that the file does not describe")
            if 20 + kept > len(body):
                raise Damaged(f"the frame at byte {at} is longer than its block")
            link, tick, number = interfaces[interface]
            time = ((high << 32) | low) * tick
            yield Frame(time, number, link, body[20 : 20 + kept], max(whole, kept))
        at += length


def _options(body: bytes, order: str) -> tuple[bytes, float]:
    """The name of an interface, if it is told, and the seconds in a tick of its clock, or a microsecond."""
    at, name, tick = 8, b"", 1e-6
    while at + 4 <= len(body):
        code, length = struct.unpack_from(order + "2H", body, at)
        value = body[at + 4 : at + 4 + length]
        if code == END:
            break
        if code == IF_NAME:
            name = value
        elif code == IF_TSRESOL and len(value) == 1:
            tick = 2.0 ** -(value[0] & 0x7F) if value[0] & 0x80 else 10.0 ** -value[0]
        at += 4 + (length + 3) // 4 * 4
    return name, tick
