"""The packets of `weft record`: a head that all have, then what their kind says, in network byte order.

The first six bytes, magic number, version and kind, are the same in every version, so that two versions can tell.
"""

import hashlib
import hmac
import struct
from dataclasses import astuple, dataclass
from enum import IntEnum

from weftway._native import ScenarioError

MAGIC = b"weft"
VERSION = 1

FULL_BYTES = 1200
"""Payload of a packet of load or of a train: what crosses every path unbroken (RFC 9000, section 14)."""

HELLO_BYTES = 64
"""No answer to a peer whose address is not verified is longer than what it sent."""

COOKIE_BYTES = 16
SESSION_BYTES = 8

HEAD = struct.Struct(f">4sBBB{SESSION_BYTES}s")
PLAN = struct.Struct(f">{COOKIE_BYTES}sBBIQ")
READY = struct.Struct(">Q")
PROBE = struct.Struct(">IQIQ")
LOAD = struct.Struct(">IQ")
FEEDBACK = struct.Struct(">BQIIQQ?")
ASK = struct.Struct(">BI")
RECORD = struct.Struct(">BQIIH")
RECORDS_PER_PACKET = (FULL_BYTES - HEAD.size - ASK.size) // RECORD.size


class Kind(IntEnum):
    """What a packet is."""

    HELLO = 1
    """May I? Anybody may send it; padded."""
    COOKIE = 2
    """What only the peer's true address receives."""
    START = 3
    """The cookie again, and what is asked for."""
    READY = 4
    """It was granted, and when the listening end began, by its clock."""
    REFUSED = 5
    """It was not, and why."""
    PROBE = 6
    LOAD = 7
    FEEDBACK = 8
    """What came of the load."""
    ASK = 9
    """The records of some path, from this one on, please."""
    RECORDS = 10
    BYE = 11
    OTHER_VERSION = 12
    """The answer to a packet of another version."""


@dataclass(frozen=True)
class Packet:
    """A packet, taken apart as far as all have the same."""

    kind: Kind
    path: int
    session: bytes
    body: bytes


@dataclass(frozen=True)
class Plan:
    """What the end with the links asks for."""

    paths: int
    seconds: int
    load: bool
    cap: int
    """The most that either end sends on a path, in bytes of IP packets."""

    def pack(self, cookie: bytes) -> bytes:
        """The body of a START."""
        return PLAN.pack(cookie, self.paths, self.load, self.seconds, self.cap)

    @staticmethod
    def unpack(body: bytes) -> "tuple[bytes, Plan] | None":
        """Cookie and plan of a START."""
        if len(body) < PLAN.size:
            return None
        cookie, paths, load, seconds, cap = PLAN.unpack_from(body)
        return cookie, Plan(paths, seconds, bool(load), cap)


@dataclass(frozen=True)
class Probe:
    """The probe with this number left at `sent_ns`, by its sender's clock; and the newest that its sender has got."""

    number: int
    sent_ns: int
    echo: int
    """1 more than the number of that one; 0 if there is none."""
    echo_arrived_ns: int

    def pack(self) -> bytes:
        """As bytes."""
        return PROBE.pack(self.number, self.sent_ns, self.echo, self.echo_arrived_ns)

    @staticmethod
    def unpack(body: bytes) -> "Probe | None":
        """From bytes."""
        return Probe(*PROBE.unpack_from(body)) if len(body) >= PROBE.size else None


@dataclass(frozen=True)
class Feedback:
    """What an end has got of the load on a path. It comes over all paths: the way back on that one may fail."""

    path: int
    now_ns: int
    """By its own clock."""
    count: int
    """So many packets."""
    expected: int
    """1 more than the number of the newest one."""
    sent_ns: int
    """When that one left, by its sender's clock."""
    queue_ns: int
    """For how long it waited on its way, compared with the one that was fastest."""
    is_spent: bool
    """Whether this end has sent all that the cap allows."""

    def pack(self) -> bytes:
        """As bytes."""
        return FEEDBACK.pack(*astuple(self))

    @staticmethod
    def unpack(body: bytes) -> "Feedback | None":
        """From bytes."""
        return Feedback(*FEEDBACK.unpack_from(body)) if len(body) >= FEEDBACK.size else None


def packed(kind: Kind, path: int, session: bytes, body: bytes = b"", size: int = 0) -> bytes:
    """A packet, with zeros at its end up to `size` bytes."""
    return (HEAD.pack(MAGIC, VERSION, kind, path, session) + body).ljust(size, b"\0")


def unpacked(data: bytes) -> Packet | None:
    """The packet in `data`; nothing if it is none of ours.

    Of another version it is told by `other_version`.
    """
    if len(data) < HEAD.size or data[:4] != MAGIC or data[4] != VERSION:
        return None
    _, _, kind, path, session = HEAD.unpack_from(data)
    try:
        return Packet(Kind(kind), path, session, data[HEAD.size :])
    except ValueError:
        return None


def other_version(data: bytes) -> int | None:
    """The version of a packet of `weft record`, if it is not this one."""
    return data[4] if len(data) >= HEAD.size and data[:4] == MAGIC and data[4] != VERSION else None


class Cookies:
    """Shows that a peer receives what is sent to its address, without keeping anything of those who ask."""

    SLOT_NS = 10_000_000_000
    """A cookie is valid in the ten seconds in which it was made, and in the ten after."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def bake(self, now_ns: int, address: str, session: bytes, path: int) -> bytes:
        """The cookie of an address, for a path of a session."""
        return self._of(now_ns // self.SLOT_NS, address, session, path)

    def is_valid(self, cookie: bytes, now_ns: int, address: str, session: bytes, path: int) -> bool:
        """Whether the peer at this address was given it of late."""
        slot = now_ns // self.SLOT_NS
        return any(hmac.compare_digest(cookie, self._of(one, address, session, path)) for one in (slot, slot - 1))

    def _of(self, slot: int, address: str, session: bytes, path: int) -> bytes:
        text = f"{slot} {address} {path} ".encode() + session
        return hmac.new(self._secret, text, hashlib.sha256).digest()[:COOKIE_BYTES]


def versions_differ(theirs: int) -> ScenarioError:
    """What is said where the two ends do not understand each other."""
    return ScenarioError(
        f"the other end's `weft record` speaks version {theirs} of its packets, this one {VERSION}: "
        "use the same release of Weftway at both ends"
    )
