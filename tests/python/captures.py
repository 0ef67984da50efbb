"""Packets and files of captures, made up for tests."""

import struct
from collections.abc import Iterable, Sequence
from ipaddress import ip_address

Frames = Iterable[tuple[float, bytes]]

IPV4, IPV6 = b"\x08\x00", b"\x86\xdd"
MACS = bytes(12)
RAW, ETHERNET = 101, 1

TAGS = {
    "ethernet": b"",
    "802.1Q": b"\x81\x00\x00\x07",
    "802.1ad": b"\x88\xa8\x00\x05\x81\x00\x00\x07",
    "0x9100": b"\x91\x00\x00\x05\x81\x00\x00\x07",
}


def ip(source: str, target: str, transport: bytes, payload: int, protocol: int) -> bytes:
    """A packet whose payload was not captured."""
    ends = [ip_address(source), ip_address(target)]
    addresses = b"".join(end.packed for end in ends)
    if ends[0].version == 6:
        return struct.pack("!IHBB", 6 << 28, len(transport) + payload, protocol, 64) + addresses + transport
    length = 20 + len(transport) + payload
    return struct.pack("!BBHHHBBH", 0x45, 0, length, 0, 0, 64, protocol, 0) + addresses + transport


def tcp(ends: tuple[str, int, str, int], flags: int = 16, sequence: int = 0, payload: int = 0) -> bytes:
    source, source_port, target, target_port = ends
    head = struct.pack("!HHIIBBHHH", source_port, target_port, sequence, 0, 0x50, flags, 0, 0, 0)
    return ip(source, target, head, payload, 6)


def udp(ends: tuple[str, int, str, int], payload: int) -> bytes:
    source, source_port, target, target_port = ends
    return ip(source, target, struct.pack("!4H", source_port, target_port, 8 + payload, 0), payload, 17)


def ethernet(packet: bytes, tags: bytes = b"") -> bytes:
    return MACS + tags + (IPV6 if packet[0] >> 4 == 6 else IPV4) + packet


def cooked(packet: bytes, way: int) -> bytes:
    """As `tcpdump -i any` has it; `way` is 0 for what came in and 4 for what went out."""
    kind = IPV6 if packet[0] >> 4 == 6 else IPV4
    return struct.pack("!3H8x", way, 1, 6) + kind + packet


def behind_extensions(packet: bytes) -> bytes:
    """Packet over IPv6, behind a header for each hop and that of a fragment which is the first."""
    more = struct.pack("!BB6x", 44, 0) + struct.pack("!BBHI", packet[6], 0, 1, 7)
    length = int.from_bytes(packet[4:6]) + len(more)
    return packet[:4] + struct.pack("!HB", length, 0) + packet[7:40] + more + packet[40:]


def pppoe(packet: bytes, tags: bytes = b"") -> bytes:
    kind = b"\x00\x57" if packet[0] >> 4 == 6 else b"\x00\x21"
    return MACS + tags + b"\x88\x64\x11\x00\x00\x01" + struct.pack("!H", len(packet) + 2) + kind + packet


def pcap(frames: Frames, order: str = "<", link: int = RAW) -> bytes:
    out = struct.pack(order + "IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 96, link)
    for at, frame in frames:
        micros = round(at * 1e6)
        out += struct.pack(order + "4I", micros // 10**6, micros % 10**6, len(frame), len(frame)) + frame
    return out


def block(kind: int, body: bytes) -> bytes:
    whole = body + bytes(-len(body) % 4)
    return struct.pack("<2I", kind, 12 + len(whole)) + whole + struct.pack("<I", 12 + len(whole))


def pcapng(
    frames: Frames, kind: int = 6, link: int = ETHERNET, interfaces: Sequence[int] = (0,), name: str = ""
) -> bytes:
    """Blocks of packets: 6; 2, the obsolete ones; 3, the simple ones. Frames go to the interfaces in turn."""
    out = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    called = struct.pack("<HH", 2, len(name)) + name.encode() + bytes(-len(name) % 4) if name else b""
    options = called + struct.pack("<HHB3xHH", 9, 1, 9, 0, 0)
    out += block(1, struct.pack("<HHI", link, 0, 96) + options) * len(interfaces)
    for number, (at, frame) in enumerate(frames):
        interface, nanos = interfaces[number % len(interfaces)], round(at * 1e9)
        times = struct.pack("<4I", nanos >> 32, nanos & 0xFFFFFFFF, len(frame), len(frame))
        heads = {6: struct.pack("<I", interface), 2: struct.pack("<HH", interface, 3)}
        out += block(kind, (struct.pack("<I", len(frame)) if kind == 3 else heads[kind] + times) + frame)
    return out
