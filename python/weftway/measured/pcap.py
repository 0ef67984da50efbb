"""Captures in pcap and pcapng: what TCP carried each way, its handshakes, and what it sent again.

Read by itself: of the libraries, dpkt has had no release since 2022 and Scapy costs a second to load.
"""

import ipaddress
import struct
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from weftway._native import ScenarioError

from .reading import Range, Reading, share, spread

# The four bytes at the beginning, and the unit of fractions of a second in ns (draft-ietf-opsawg-pcap).
PCAP = {b"\xd4\xc3\xb2\xa1": ("<", 1000), b"\xa1\xb2\xc3\xd4": (">", 1000)}
PCAP |= {b"\x4d\x3c\xb2\xa1": ("<", 1), b"\xa1\xb2\x3c\x4d": (">", 1)}
PCAPNG = b"\x0a\x0d\x0d\x0a"
SECTION, INTERFACE, PACKET = 0x0A0D0D0A, 1, 6

# Where the network layer begins, by link type (tcpdump.org/linktypes.html): the offset of an EtherType, or none where
# IP follows at once.
LINKS: dict[int, tuple[int | None, int]] = {1: (12, 14), 113: (14, 16), 276: (0, 20), 101: (None, 0), 12: (None, 0)}
LINKS |= {228: (None, 0), 229: (None, 0), 0: (None, 4), 108: (None, 4)}
IPV4, IPV6, VLAN = 0x0800, 0x86DD, 0x8100
TCP, UDP = 6, 17
FIN, SYN, ACK = 1, 2, 16

WINDOW_S = 1.0
"""Rates are counted in stretches of so long; the busy ones tell what the link can do."""

LOADED = 0.2
"""A direction was loaded if it carried this share of what the other one did."""

BUSY = 0.5
"""A stretch is busy that carries this share of the busiest."""


class Flow(NamedTuple):
    """One direction of a TCP connection."""

    source: str
    source_port: int
    target: str
    target_port: int

    @property
    def reverse(self) -> "Flow":
        return Flow(self.target, self.target_port, self.source, self.source_port)


@dataclass(frozen=True)
class Packet:
    """An IP packet."""

    at: float
    source: str
    target: str
    bytes: int
    flow: Flow | None = None
    """Of TCP."""
    flags: int = 0
    sequence: int = 0
    payload: int = 0


def is_capture(data: bytes) -> bool:
    """Whether it begins like one."""
    return data[:4] in PCAP or data[:4] == PCAPNG


def reads(file: Path, data: bytes) -> Reading:
    """Rates of the busy seconds, the least handshake, and the share of segments that were sent again."""
    frames = _pcapng(data) if data[:4] == PCAPNG else _pcap(data)
    try:
        packets = [packet for at, link, frame in frames if (packet := _packet(at, link, frame)) is not None]
    except struct.error:
        raise ScenarioError(f"{file}: the capture is cut off or damaged; capture again") from None
    if not packets:
        raise ScenarioError(f"{file}: no IP packet in this capture; capture on the interface that carries the traffic")
    user = _user(packets)
    ways = {
        "down": [one for one in packets if one.target == user],
        "up": [one for one in packets if one.source == user],
    }
    carried = {name: sum(one.bytes for one in some) for name, some in ways.items()}
    # What comes back is acknowledgements: they do not tell how fast that way is.
    loaded = [name for name, total in carried.items() if total >= LOADED * max(carried.values())]
    rates = {name: _rate(ways[name], packets[0].at) for name in loaded}
    trips = _handshakes(packets)
    rtt = spread(trips, f"half the median of {len(trips)} TCP handshakes") if trips else None
    return Reading(file, "capture", rtt_ms=rtt, loss=_loss(packets), rates=rates)


def _pcap(data: bytes) -> Iterator[tuple[float, int, bytes]]:
    order, unit = PCAP[data[:4]]
    link = struct.unpack_from(order + "I", data, 20)[0] & 0xFFFF
    at = 24
    while at < len(data):
        seconds, fraction, kept, _ = struct.unpack_from(order + "4I", data, at)
        if at + 16 + kept > len(data):
            raise struct.error("a packet is cut off")
        yield seconds + fraction * unit / 1e9, link, data[at + 16 : at + 16 + kept]
        at += 16 + kept


def _pcapng(data: bytes) -> Iterator[tuple[float, int, bytes]]:
    order, at = "<", 0
    interfaces: list[tuple[int, float]] = []
    while at + 12 <= len(data):
        kind = struct.unpack_from(order + "I", data, at)[0]
        if kind == SECTION:
            order = "<" if data[at + 8 : at + 12] == b"\x4d\x3c\x2b\x1a" else ">"
            interfaces = []
        length = struct.unpack_from(order + "I", data, at + 4)[0]
        if length < 12 or at + length > len(data):
            raise struct.error("a block is cut off")
        body = data[at + 8 : at + length - 4]
        if kind == INTERFACE:
            interfaces.append((struct.unpack_from(order + "H", body)[0], _resolution(body, order)))
        elif kind == PACKET:
            interface, high, low, kept, _ = struct.unpack_from(order + "5I", body)
            if interface >= len(interfaces):
                raise struct.error("an interface is missing")
            link, tick = interfaces[interface]
            yield ((high << 32) | low) * tick, link, body[20 : 20 + kept]
        at += length


def _resolution(body: bytes, order: str) -> float:
    """Seconds in a tick of an interface: its option `if_tsresol`, or a microsecond."""
    at = 8
    while at + 4 <= len(body):
        code, length = struct.unpack_from(order + "2H", body, at)
        if code == 9 and length == 1:
            value = body[at + 4]
            return 2.0 ** -(value & 0x7F) if value & 0x80 else 10.0**-value
        if code == 0:
            break
        at += 4 + (length + 3) // 4 * 4
    return 1e-6


def _packet(at: float, link: int, frame: bytes) -> Packet | None:
    """The IP packet in a frame, if there is one and enough of it was kept."""
    if link not in LINKS:
        return None
    typed, start = LINKS[link]
    if typed is not None:
        kind = int.from_bytes(frame[typed : typed + 2])
        while kind == VLAN:
            kind, start = int.from_bytes(frame[start + 2 : start + 4]), start + 4
        if kind not in (IPV4, IPV6):
            return None
    ip = frame[start:]
    if len(ip) < 20:
        return None
    version = ip[0] >> 4
    if version == 4:
        header, length, protocol = (ip[0] & 15) * 4, int.from_bytes(ip[2:4]), ip[9]
        source, target = (str(ipaddress.IPv4Address(ip[n : n + 4])) for n in (12, 16))
    elif version == 6 and len(ip) >= 40:
        header, length, protocol = 40, 40 + int.from_bytes(ip[4:6]), ip[6]
        source, target = (str(ipaddress.IPv6Address(ip[n : n + 16])) for n in (8, 24))
    else:
        return None
    transport = ip[header:]
    if protocol != TCP or len(transport) < 14:
        return Packet(at, source, target, length)
    ports = struct.unpack_from("!2H", transport)
    flow = Flow(source, ports[0], target, ports[1])
    payload = length - header - (transport[12] >> 4) * 4
    return Packet(at, source, target, length, flow, transport[13], int.from_bytes(transport[4:8]), payload)


def _user(packets: list[Packet]) -> str:
    """The user's address: whoever opens connections; without any, the address in most packets."""
    opens = Counter(one.source for one in packets if one.flags & (SYN | ACK) == SYN)
    return (opens or Counter(name for one in packets for name in (one.source, one.target))).most_common(1)[0][0]


def _rate(packets: list[Packet], start: float) -> Range:
    carried: Counter[int] = Counter()
    for one in packets:
        carried[int((one.at - start) / WINDOW_S)] += one.bytes
    most = max(carried.values())
    # A stretch at the edge is not full, and an idle one tells nothing.
    busy = [count * 8 / WINDOW_S / 1e6 for count in carried.values() if count >= BUSY * most]
    return spread(busy, f"at least: what {len(busy)} busy seconds of the capture carried")


def _handshakes(packets: list[Packet]) -> list[float]:
    """From each SYN to the acknowledgement by the same side: a round trip, wherever the capture was made."""
    opened: dict[Flow, float] = {}
    answered: set[Flow] = set()
    trips = []
    for one in packets:
        if one.flow is None:
            continue
        if one.flags & (SYN | ACK) == SYN:
            if one.flow in opened:  # repeated: whose answer comes is not known
                answered.discard(one.flow)
                opened[one.flow] = float("nan")
            else:
                opened[one.flow] = one.at
        elif one.flags & (SYN | ACK) == SYN | ACK and one.flow.reverse in opened:
            answered.add(one.flow.reverse)
        elif one.flow in answered:
            answered.discard(one.flow)
            trips.append((one.at - opened[one.flow]) * 1e3)
    return [trip for trip in trips if trip == trip]


def _loss(packets: list[Packet]) -> Range | None:
    """Between none and the share of segments that were sent again, in the direction that carried more: a capture does
    not tell what was lost on the way from what a full queue dropped, which the scenario's queue does by itself."""
    ends: dict[Flow, int] = {}
    segments: defaultdict[Flow, int] = defaultdict(int)
    again: defaultdict[Flow, int] = defaultdict(int)
    for one in packets:
        if one.flow is None or one.payload <= 0:
            continue
        segments[one.flow] += 1
        # Sequence numbers wrap around at 2³².
        ahead = (one.sequence - ends.get(one.flow, one.sequence)) & 0xFFFFFFFF
        if ahead >= 1 << 31:
            again[one.flow] += 1
        else:
            ends[one.flow] = (one.sequence + one.payload) & 0xFFFFFFFF
    if not segments:
        return None
    busiest = max(segments, key=lambda flow: segments[flow])
    lost, of = again[busiest], segments[busiest]
    why = f"{lost} of {of} segments were sent again; taken to be dropped by a full queue, not lost"
    return Range(0.0, 0.0, share(lost, of, why).high, why)
