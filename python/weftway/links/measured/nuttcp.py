"""The text of `nuttcp -i1`: a rate for each second, and with `-u` the losses of it."""

import re
from dataclasses import dataclass
from pathlib import Path

from weftway._native import ScenarioError

from .course import LEAST_SAMPLES, Course
from .iperf3 import OVERLOAD, TCP_HEADERS, TCP_PAYLOAD, UDP_HEADERS, UDP_PAYLOAD
from .mahimahi import direction
from .reading import Range, Reading, share, spread
from .values import Place

EXPECTED = "lines of `nuttcp -i1 HOST`, such as `109.9375 MB /   1.00 sec =  922.2327 Mbps     0 retrans`"

INTERVAL = re.compile(
    r"^\s*(?P<mb>\d+\.\d+) MB /\s*(?P<s>\d+\.\d+) sec =\s*(?P<mbps>\d+\.\d+) Mbps"
    r"(?P<udp>\s+(?P<drop>-?\d+) /\s*(?P<packets>\d+) ~drop/pkt\s+\S+ ~%loss)?"
    r"(?P<tcp>\s+\d+ (?:host-)?retrans(?:\s+\d+ KB-cwnd)?)?\s*$"
)
SUMMARY = re.compile(r"^\s*\d+\.\d+ MB /\s*\d+\.\d+ sec =\s*\d+\.\d+ Mbps\s+\d+ %TX \d+ %RX\b(?P<rest>.*)$")
RTT = re.compile(r"(?<![\d.])(\d+\.\d+) msRTT")
LIMIT = re.compile(r"rate limit = ([\d.]+ \S+)")
LINES = re.compile(r"^\s*\d+\.\d+ MB /\s*\d+\.\d+ sec =", re.MULTILINE)
PARSED = re.compile(r"^megabytes=", re.MULTILINE)
"""The form that `-fparse` writes."""

MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Second:
    """An interval."""

    length_s: float
    mbps: float
    """Of payload."""
    drop: int
    packets: int
    """Sent in it, with UDP."""
    size: float
    """Bytes of payload in a datagram of UDP."""
    is_udp: bool
    """The line counts datagrams."""


def is_output(text: str) -> bool:
    """Tells if a text is the output of nuttcp."""
    return bool(LINES.search(text) or PARSED.search(text))


def reads(file: Path, text: str) -> Reading:
    """Rates over time of the direction that the file's name says: `up`, or else `down`."""
    if PARSED.search(text):
        raise ScenarioError(f"{file}: nuttcp with -fparse; expected {EXPECTED}")
    seconds, rtts = _seconds(file, text)
    if not seconds:
        raise ScenarioError(f"{file}: no interval; expected {EXPECTED}")
    is_udp = seconds[0].is_udp
    # nuttcp says who sends, never which end wrote the file.
    way = direction(file)
    word = "" if way else "assumed, as the name says no direction (.down, .up): "
    way = way or "down"
    # The first second is that of slow start.
    kept = seconds if is_udp or len(seconds) < 3 else seconds[1:]
    rates = [second.mbps * _headers(second) for second in kept]
    lost, sent = sum(max(second.drop, 0) for second in seconds), sum(second.packets for second in seconds)
    option = LIMIT.search(text)
    limit = f"-R {option[1]} limits it" if option else ""
    if is_udp and not lost:
        limit = limit or "of UDP nothing was lost"
    kind = "UDP" if is_udp else "TCP"
    # What -R limits, or what fits whole, is the sender's rate and not a link's over time.
    course = None if limit or len(kept) < LEAST_SAMPLES else _course(kept, rates, way, is_udp)
    loss, unknown = None, "TCP sends again what it holds to be lost; `nuttcp -u` counts losses"
    if is_udp:
        why = f"{lost} of {sent} datagrams of UDP lost on the way {way}"
        loss, unknown = share(lost, max(sent, 1), why), ""
        if lost > OVERLOAD * sent:
            loss, unknown = None, f"{lost / sent:.0%} of UDP was lost, as more was sent than the link carries"
    why = f"{word}{kind}, {len(kept)} intervals of nuttcp" + (f", at least: {limit}" if limit else "")
    rtt = (
        Range(rtts[0], rtts[0], rtts[0], f"half the round trip of nuttcp's handshake ({rtts[0]:g} ms)")
        if rtts
        else None
    )
    rate = spread(rates, why)
    if rate.value <= 0:
        raise ScenarioError(f"{file}: half of the intervals carried nothing, so no rate is known; measure again")
    return Reading(file, "nuttcp", rtt_ms=rtt, loss=loss, loss_unknown=unknown, rates={way: rate}, course=course)


def _course(seconds: list[Second], rates: list[float], way: str, is_udp: bool) -> Course:
    at_s = [0.0]
    for second in seconds[:-1]:
        at_s.append(round(at_s[-1] + second.length_s, 2))
    lost = [max(second.drop, 0) / second.packets if second.packets else None for second in seconds]
    counts = is_udp and sum(second.drop for second in seconds) <= OVERLOAD * sum(second.packets for second in seconds)
    return Course(at_s, mbps={way: rates}, loss={way: lost} if counts else {})


def _headers(second: Second) -> float:
    """IP bytes for a byte of payload. TCP fills packets; a datagram longer than a packet goes in fragments."""
    if not second.packets:
        return (TCP_PAYLOAD + TCP_HEADERS) / TCP_PAYLOAD
    fragments = max(-(-second.size // UDP_PAYLOAD), 1)
    return (second.size + UDP_HEADERS + 20 * (fragments - 1)) / second.size if second.size else 1.0


def _seconds(file: Path, text: str) -> tuple[list[Second], list[float]]:
    """The intervals, and the round trips that its summary tells."""
    found: list[Second] = []
    rtts: list[float] = []
    summaries = 0
    for number, line in enumerate(text.splitlines(), 1):
        place = Place(file, f"line {number}", EXPECTED)
        if not LINES.match(line):
            # Of the other lines, which -v writes, some tell the round trip; none counts bytes.
            if not line.strip() or line.startswith("nuttcp") or SUMMARY.match(line):
                continue
            raise place.error(f"`{line.strip()[:60]}` is no line of nuttcp")
        if summary := SUMMARY.match(line):
            summaries += 1
            rtts += [float(value) for value in RTT.findall(summary["rest"])]
            continue
        if summaries:
            raise ScenarioError(f"{file}: line {number}: a second run of nuttcp; save each into a file of its own")
        match = INTERVAL.match(line)
        if match is None:
            raise place.error(f"`{line.strip()[:80]}` is half understood")
        length, mbps, mb = float(match["s"]), float(match["mbps"]), float(match["mb"])
        # An interval's three figures agree, or its units are others.
        if length <= 0 or abs(mb * MEBIBYTE * 8 / 1e6 / length - mbps) > max(0.02 * mbps, 0.01) * max(1.0, 1 / length):
            raise place.error(f"{mb:g} MB in {length:g} s are not {mbps:g} Mbit/s")
        drop, packets = int(match["drop"] or 0), int(match["packets"] or 0)
        is_udp = match["packets"] is not None
        if found and is_udp != found[0].is_udp:
            raise place.error("TCP and UDP in one file")
        came = packets - drop
        found.append(Second(length, mbps, drop, packets, mb * MEBIBYTE / came if came > 0 else 0.0, is_udp))
    return found, rtts
