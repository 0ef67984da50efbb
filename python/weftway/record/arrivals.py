"""What came on a path, as short records: a probe each, and of everything else a sum for each 10 ms."""

from collections.abc import Sequence
from dataclasses import dataclass

from .wire import ASK, RECORD, RECORDS_PER_PACKET

BIN_NS = 10_000_000
LATE_NS = 50_000_000
"""After this time nothing more is expected in a bin."""

PROBE, BIN = 0, 1

MOST_LOST = 2**16 - 1
MOST_QUEUE_US = 2**32 - 1


@dataclass(frozen=True)
class Record:
    """A probe that came, or what came within 10 ms. `size` is in bytes of IP packets."""

    kind: int
    arrived_ns: int
    """By the receiver's clock; of a bin its begin."""
    size: int
    number: int
    """Of a probe its number; of a bin the least time that load waited on its way, in µs."""
    lost: int = 0
    """Packets of load that are missing before those in the bin."""

    def pack(self) -> bytes:
        """As bytes."""
        return RECORD.pack(self.kind, self.arrived_ns, self.size, self.number, self.lost)


def packed(path: int, first: int, records: Sequence[Record]) -> bytes:
    """The records of a path from `first` on, as many as a packet holds."""
    some = records[first : first + RECORDS_PER_PACKET]
    return ASK.pack(path, first) + b"".join(record.pack() for record in some)


def unpacked(body: bytes) -> tuple[int, int, list[Record]] | None:
    """Of what path the records in a packet are, the number of the first, and the records."""
    if len(body) < ASK.size or (len(body) - ASK.size) % RECORD.size:
        return None
    path, first = ASK.unpack_from(body)
    return path, first, [Record(*one) for one in RECORD.iter_unpack(body[ASK.size :])]


class Arrivals:
    """The records of one path at one end."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._begin_ns: int | None = None
        self._bytes = 0
        self._queue_us = MOST_QUEUE_US
        self._lost = 0

    def add_probe(self, arrived_ns: int, number: int, size: int) -> None:
        """A probe came."""
        self.records.append(Record(PROBE, arrived_ns, size, number))

    def add(self, arrived_ns: int, size: int, queue_us: int = MOST_QUEUE_US, lost: int = 0) -> None:
        """Something else came: load waited for `queue_us`, and `lost` packets before it are missing."""
        begin = arrived_ns // BIN_NS * BIN_NS
        if self._begin_ns is not None and begin > self._begin_ns:
            self.close()
        if self._begin_ns is None:
            self._begin_ns = begin
        self._bytes += size
        self._queue_us = min(self._queue_us, queue_us)
        self._lost = min(self._lost + lost, MOST_LOST)

    def close(self, now_ns: int | None = None) -> None:
        """Ends the bin that is open, if nothing more is expected in it by now."""
        begin = self._begin_ns
        if begin is None or (now_ns is not None and now_ns < begin + BIN_NS + LATE_NS):
            return
        self.records.append(Record(BIN, begin, self._bytes, self._queue_us, self._lost))
        self._begin_ns, self._bytes, self._queue_us, self._lost = None, 0, MOST_QUEUE_US, 0
