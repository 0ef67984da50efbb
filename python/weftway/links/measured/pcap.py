"""Captures in pcap and pcapng: what was carried each way, TCP's handshakes, and what TCP sent again."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from weftway._native import ScenarioError

from . import frames, sides
from .frames import is_capture
from .packets import OUTGOING, Flow, Packet, packets
from .reading import Range, Reading, share, spread
from .sides import ACK, SYN

__all__ = ["is_capture", "reads"]

STRETCHES_S = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02)
"""Rates are counted in stretches of so long: in the longest of which enough are full."""

ENOUGH = 3
"""Full stretches that tell a rate, of `FEW_PACKETS` packets each on the mean."""
FEW_PACKETS = 5

BUSY = 0.5
"""A stretch is busy that carries this share of the busiest."""

LOADED = 0.2
"""A direction was loaded if it carried this share of what the other one did."""
CARRIED = 2 / 3
"""And if more than this share of its bytes was payload: of acknowledgements, those of QUIC included, less is."""

BACK_S = 0.1
"""Frames are written that much out of order at most."""

MUCH = 0.05
"""Largest share of bytes on a second interface with which the capture is of one link."""

OFTEN = 0.2
"""Share of segments that are there twice, one behind the other, above which it was the capture that saw them twice."""
AT_ONCE_S = 0.0002
"""No sender repeats a segment so soon."""

ACKNOWLEDGED = "hardly any payload, only acknowledgements and the like, which tell no rate"

CUT = "; the file ends within a packet"


def reads(file: Path, data: bytes, local: Sequence[str] = ()) -> Reading:
    """Rates of the busy times, the least handshake, and the share of segments that were sent again."""
    try:
        capture = frames.read(data)
    except frames.Damaged as error:
        raise ScenarioError(f"{file}: the capture is damaged: {error}; capture again") from None
    _in_order(file, capture)
    ip_packets, hidden = packets(capture)
    if hidden:
        raise ScenarioError(
            f"{file}: {hidden}, which are not understood; capture on an interface that carries plain IP"
        )
    if not ip_packets:
        reason = "is cut off before its first packet" if capture.is_cut else "has no IP packet"
        raise ScenarioError(f"{file}: the capture {reason}; capture on the interface that carries the traffic")
    _one_link(file, ip_packets)
    _seen_once(file, ip_packets)
    user = sides.users(file, ip_packets, local)
    _one_address(file, ip_packets, user)
    ways = {
        "down": [packet for packet in ip_packets if packet.target in user and packet.source not in user],
        "up": [packet for packet in ip_packets if packet.source in user and packet.target not in user],
    }
    carried = {name: sum(packet.bytes for packet in some) for name, some in ways.items()}
    # Acknowledgements come back: they do not tell how fast that way is, even where nothing else was captured.
    busy = [name for name, total in carried.items() if total >= LOADED * max(carried.values())]
    end = CUT if capture.is_cut else ""
    seen = {name: rate for name in busy if (rate := _rate(ways[name], end)) is not None}
    rates = {
        name: rate
        for name, rate in seen.items()
        if sum(packet.payload for packet in ways[name]) > CARRIED * carried[name]
    }
    crossed = [packet for packet in ip_packets if (packet.source in user) != (packet.target in user)]
    trips = _handshakes(crossed)
    if seen and not rates and not trips:
        raise ScenarioError(f"{file}: it has {ACKNOWLEDGED}; capture both directions of a download of 5 s or more")
    if not rates and not trips:
        raise ScenarioError(
            f"{file}: the capture is too short to tell anything{end}; capture a download of 5 s or more"
        )
    rtt = spread(trips, f"half the median of {len(trips)} TCP handshakes") if trips else None
    unknown = "" if rates else f"it has {ACKNOWLEDGED}" if seen else "too short to tell a rate"
    return Reading(file, "capture", rtt_ms=rtt, loss=_loss(crossed), rates=rates, rate_unknown=unknown)


def _in_order(file: Path, capture: frames.Capture) -> None:
    """Refuses times that go back: what was sent at two times would count as sent at once."""
    latest: dict[int, float] = {}
    for frame in capture.frames:
        back = latest.get(frame.interface, frame.at) - frame.at
        if back > BACK_S:
            raise ScenarioError(
                f"{file}: its times go back by {back:.2g} s: the clock was set, or files were joined; capture again, "
                "or join files with `mergecap`"
            )
        latest[frame.interface] = max(frame.at, latest.get(frame.interface, frame.at))


def _one_link(file: Path, packets: Sequence[Packet]) -> None:
    carried: Counter[int] = Counter()
    for packet in packets:
        carried[packet.interface] += packet.bytes
    (_, most), *others = carried.most_common()
    if others and others[0][1] > MUCH * most:
        raise ScenarioError(f"{file}: captured on {len(carried)} interfaces; capture each by itself, as with -i wlan0")


def _one_address(file: Path, packets: Sequence[Packet], user: set[str]) -> None:
    """Refuses two links in a capture on `any` that does not say which interface a frame came from: each has its
    address."""
    carried: defaultdict[bool, Counter[str]] = defaultdict(Counter)
    for packet in packets:
        for address in {packet.source, packet.target} & user if packet.cooked is not None else ():
            carried[":" in address][address] += packet.bytes
    for counts in carried.values():
        (_, most), *others = counts.most_common()
        if others and others[0][1] > MUCH * most:
            named = " and ".join(address for address, _ in counts.most_common(2))
            raise ScenarioError(
                f"{file}: captured on all interfaces, and {named} are on this side; capture each by itself, as with "
                "-i wlan0"
            )


def _seen_once(file: Path, packets: Sequence[Packet]) -> None:
    """Refuses a capture that has packets twice: rates would be double, and every segment sent again."""
    last: dict[Flow, tuple[int, int, float]] = {}
    segments = twice = 0
    ways: defaultdict[tuple[str, str], Counter[bool]] = defaultdict(Counter)
    for packet in packets:
        if packet.cooked is not None:
            ways[packet.source, packet.target][packet.cooked == OUTGOING] += packet.bytes
        if packet.flow is None or not packet.is_tcp or packet.payload <= 0:
            continue
        segments += 1
        sequence, payload, at = last.get(packet.flow, (-1, 0, 0.0))
        twice += (sequence, payload) == (packet.sequence, packet.payload) and packet.at - at < AT_ONCE_S
        last[packet.flow] = packet.sequence, packet.payload, packet.at
    forwarded = sum(min(counts[True], counts[False]) for counts in ways.values())
    if twice > OFTEN * segments or forwarded > MUCH * sum(packet.bytes for packet in packets):
        raise ScenarioError(
            f"{file}: it has packets twice, as they came in and as they went out; capture on one interface, as with "
            "-i wlan0, or remove them with `editcap -d`"
        )


def _rate(some: Sequence[Packet], end: str) -> Range | None:
    """Rate that one direction carried while it was busy; none if that was too short."""
    for length in STRETCHES_S:
        carried: Counter[int] = Counter()
        counts: Counter[int] = Counter()
        for packet in some:
            number = int((packet.at - some[0].at) / length)
            carried[number] += packet.bytes
            counts[number] += 1
        least = BUSY * max(carried.values())
        # A stretch between two busy ones is full; an idle one tells nothing.
        full = [n for n in carried if all(carried[near] >= least for near in (n - 1, n, n + 1))]
        if len(full) >= ENOUGH and sum(counts[n] for n in full) >= FEW_PACKETS * len(full):
            mbps = [carried[n] * 8 / length / 1e6 for n in full]
            return spread(mbps, f"at least: what {len(full)} busy stretches of {length:g} s carried{end}")
    return None


def _handshakes(packets: list[Packet]) -> list[float]:
    """Times from each SYN to the acknowledgement by the same side: a round trip, wherever the capture was made."""
    opened: dict[Flow, float] = {}
    answered: set[Flow] = set()
    trips = []
    for packet in packets:
        if packet.flow is None or not packet.is_tcp:
            continue
        if packet.flags & (SYN | ACK) == SYN:
            if packet.flow in opened:  # repeated: whose answer comes is not known
                answered.discard(packet.flow)
                opened[packet.flow] = float("nan")
            else:
                opened[packet.flow] = packet.at
        elif packet.flags & (SYN | ACK) == SYN | ACK and packet.flow.reverse in opened:
            answered.add(packet.flow.reverse)
        elif packet.flow in answered:
            answered.discard(packet.flow)
            trips.append((packet.at - opened[packet.flow]) * 1e3)
    return [trip for trip in trips if trip == trip]


def _loss(packets: list[Packet]) -> Range | None:
    """Between none and the share of segments that were sent again, in the direction that carried more: a capture does
    not tell what was lost on the way from what a full queue dropped, which the scenario's queue does by itself."""
    ends: dict[Flow, int] = {}
    segments: defaultdict[Flow, int] = defaultdict(int)
    again: defaultdict[Flow, int] = defaultdict(int)
    for packet in packets:
        if packet.flow is None or not packet.is_tcp or packet.payload <= 0:
            continue
        segments[packet.flow] += 1
        # Sequence numbers wrap around at 2³².
        ahead = (packet.sequence - ends.get(packet.flow, packet.sequence)) & 0xFFFFFFFF
        if ahead >= 1 << 31:
            again[packet.flow] += 1
        else:
            ends[packet.flow] = (packet.sequence + packet.payload) & 0xFFFFFFFF
    if not segments:
        return None
    busiest = max(segments, key=lambda flow: segments[flow])
    lost, of = again[busiest], segments[busiest]
    why = f"{lost} of {of} segments were sent again; taken to be dropped by a full queue, not lost"
    return Range(0.0, 0.0, share(lost, of, why).high, why)
