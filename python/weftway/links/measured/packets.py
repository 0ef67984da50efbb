"""IP packets in captured frames, below whatever a line puts in front of them: VLAN, 802.1ad, PPPoE."""

import ipaddress
import struct
from collections import Counter
from functools import lru_cache
from typing import NamedTuple

from .frames import Capture, Frame

# Offsets of the network layer by link type (tcpdump.org/linktypes.html): the offset of an EtherType, or none where
# IP follows at once.
LINKS: dict[int, tuple[int | None, int]] = {1: (12, 14), 113: (14, 16), 276: (0, 20), 101: (None, 0), 12: (None, 0)}
LINKS |= {228: (None, 0), 229: (None, 0), 0: (None, 4), 108: (None, 4)}
COOKED, COOKED_2 = 113, 276
"""Link types of `tcpdump -i any`. The second says in each frame which interface it came from."""
OUTGOING = 4
"""Packet type, in both, of a frame that this machine sent."""

IPV4, IPV6, PPPOE = 0x0800, 0x86DD, 0x8864
TAGS = (0x8100, 0x88A8, 0x9100, 0x9200)
"""802.1Q, 802.1ad, and what was there before it."""
PPP = {0x0021: IPV4, 0x0057: IPV6}
CONTROL = {0x0806, 0x8035, 0x8863, 0x888E, 0x88CC, 0x8809, 0x88E1, 0x893A}
"""ARP, PPPoE discovery and the like: a line has them beside its traffic."""
LENGTH = 0x0600
"""A smaller EtherType is a length: spanning tree and the like."""

TCP, UDP = 6, 17
UDP_HEADER = 8
ICMP = (1, 58)
EXTENSIONS = {0, 43, 60}
"""Headers of IPv6 between its own and that of the transport: hop by hop, routing, destination."""
FRAGMENT = 44

MUCH = 0.05
"""Largest share of bytes not understood with which a capture is."""


class Flow(NamedTuple):
    """A direction of a connection over TCP or UDP."""

    source: str
    source_port: int
    target: str
    target_port: int

    @property
    def reverse(self) -> "Flow":
        return Flow(self.target, self.target_port, self.source, self.source_port)


class Packet(NamedTuple):
    """An IP packet."""

    at: float
    interface: int
    source: str
    target: str
    bytes: int
    flow: Flow | None = None
    is_tcp: bool = False
    flags: int = 0
    sequence: int = 0
    payload: int = 0
    """Bytes behind the headers, of ICMP none."""
    cooked: int | None = None
    """Packet type in a capture on `any`: how the frame came to this machine, or left it."""


def packets(capture: Capture) -> tuple[list[Packet], str]:
    """The IP packets that crossed a link, in the order of their times; and what hides too much of the capture."""
    ip_packets: list[Packet] = []
    hidden: Counter[str] = Counter()
    for frame in capture.frames:
        kind, start = _network(frame)
        packet = _packet(frame, start) if kind in (IPV4, IPV6) else None
        if packet is not None:
            if not _stays(packet):
                ip_packets.append(packet)
        elif isinstance(kind, str):
            hidden[kind] += frame.length
        elif kind in (IPV4, IPV6):
            hidden["frames of which too little was kept"] += frame.length
        elif kind not in CONTROL and kind >= LENGTH:
            hidden[f"frames of type 0x{kind:04x}"] += frame.length
    whole = sum(packet.bytes for packet in ip_packets) + hidden.total()
    why = ""
    if hidden.total() > MUCH * whole:
        what, count = hidden.most_common(1)[0]
        why = f"{count * 100 // whole} % of its bytes are in {what}"
    return sorted(ip_packets, key=lambda packet: packet.at), why


def _network(frame: Frame) -> tuple[int | str, int]:
    """The kind of what the frame carries, an EtherType or words, and where it begins."""
    if frame.link not in LINKS:
        return f"frames of link type {frame.link}", 0
    data, (typed, start) = frame.bytes, LINKS[frame.link]
    if typed is None:
        version = data[start] >> 4 if len(data) > start else 0
        return {4: IPV4, 6: IPV6}.get(version, 0), start
    kind = int.from_bytes(data[typed : typed + 2])
    while kind in TAGS:
        kind, start = int.from_bytes(data[start + 2 : start + 4]), start + 4
    if kind == PPPOE:
        inner = int.from_bytes(data[start + 6 : start + 8])
        # Its own control messages are no traffic.
        return PPP.get(inner, 0), start + 8
    return kind, start


def _packet(frame: Frame, start: int) -> Packet | None:
    """The IP packet in a frame, if enough of it was kept."""
    ip = frame.bytes[start:]
    if len(ip) < 20:
        return None
    is_first = True
    if ip[0] >> 4 == 4:
        header, length, protocol = (ip[0] & 15) * 4, int.from_bytes(ip[2:4]), ip[9]
        source, target = (_text(ip[n : n + 4]) for n in (12, 16))
        is_first = int.from_bytes(ip[6:8]) & 0x1FFF == 0
    elif ip[0] >> 4 == 6 and len(ip) >= 40:
        header, length, protocol = 40, int.from_bytes(ip[4:6]), ip[6]
        length += 40 if length else 0
        source, target = (_text(ip[n : n + 16]) for n in (8, 24))
        header, protocol, is_first = _behind_extensions(ip, protocol)
    else:
        return None
    # A network card that splits segments itself is handed packets that say no length.
    length = length or frame.length - start
    interface = int.from_bytes(frame.bytes[4:8]) if frame.link == COOKED_2 else frame.interface
    cooked = int.from_bytes(frame.bytes[:2]) if frame.link == COOKED else None
    transport = ip[header:]
    if protocol not in (TCP, UDP) or not is_first or len(transport) < (14 if protocol == TCP else 4):
        payload = 0 if protocol in ICMP else length - header
        return Packet(frame.at, interface, source, target, length, payload=payload, cooked=cooked)
    ports = struct.unpack_from("!2H", transport)
    flow = Flow(source, ports[0], target, ports[1])
    if protocol == UDP:
        payload = length - header - UDP_HEADER
        return Packet(frame.at, interface, source, target, length, flow, payload=payload, cooked=cooked)
    payload, sequence = length - header - (transport[12] >> 4) * 4, int.from_bytes(transport[4:8])
    return Packet(frame.at, interface, source, target, length, flow, True, transport[13], sequence, payload, cooked)


def _behind_extensions(ip: bytes, protocol: int) -> tuple[int, int, bool]:
    """Offset of the transport in a packet of IPv6, its protocol, and whether it begins in this fragment."""
    at, is_first = 40, True
    while (protocol in EXTENSIONS or protocol == FRAGMENT) and at + 8 <= len(ip):
        length = 8 if protocol == FRAGMENT else (ip[at + 1] + 1) * 8
        if protocol == FRAGMENT:
            is_first = int.from_bytes(ip[at + 2 : at + 4]) >> 3 == 0
        protocol, at = ip[at], at + length
    return at, protocol, is_first


def _stays(packet: Packet) -> bool:
    """Returns whether a packet is for this machine or its network only: loopback, multicast, broadcast."""
    return _is_own(packet.source) or _is_own(packet.target)


@lru_cache(maxsize=4096)
def _text(address: bytes) -> str:
    return str(ipaddress.ip_address(address))


@lru_cache(maxsize=4096)
def _is_own(address: str) -> bool:
    ip = ipaddress.ip_address(address)
    return ip.is_loopback or ip.is_multicast or ip.is_unspecified or address == "255.255.255.255"
