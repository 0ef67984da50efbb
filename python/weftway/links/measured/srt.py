"""Statistics of SRT: `srt-live-transmit -s N -statspf json|csv`, a record for every N packets.

SRT carries a stream of its own rate. What it lost before it repaired it, and its smoothed round trip, tell of the link.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weftway._native import ScenarioError
from weftway.stats.estimates import median

from .course import LEAST_SAMPLES, Course
from .reading import Range, Reading, share, spread
from .values import Place, objects, rows

EXPECTED = "the output of `srt-live-transmit -s 1000 -statspf json` or `csv`"

COLUMNS = {
    ("", "time"): "Time",
    ("", "sid"): "SocketID",
    ("link", "rtt"): "msRTT",
    ("link", "bandwidth"): "mbpsBandwidth",
    ("send", "packets"): "pktSent",
    ("send", "packetsLost"): "pktSndLoss",
    ("recv", "packets"): "pktRecv",
    ("recv", "packetsLost"): "pktRcvLoss",
}
"""Names of a value in JSON, by its object, and its column in CSV."""

BANDWIDTH = "+++/+++SRT BANDWIDTH:"

TOTALS = 1.5
"""Counts that never fall and end this far above their first value are totals (`-f`)."""


@dataclass(frozen=True)
class Sample:
    """A record of one interval."""

    at_s: float
    rtt_ms: float
    received: float
    """Packets that came, those sent again included; of a sender, that left."""
    lost: float


def is_record(text: str) -> bool:
    """Tells if a text is statistics of SRT, as JSON, as CSV or as columns for the eye."""
    head = text.lstrip()[:4096]
    first = head.split("\n", 1)[0]
    return (
        (head.startswith(("{", "[")) and '"sid"' in head and '"packetsLost"' in text)
        or ("SocketID" in first and "msRTT" in first)
        or "SRT STATS: sid=" in head
    )


def reads(file: Path, text: str) -> Reading:
    """Round trips and losses over time, of the direction in which the writer of the file received, or else sent."""
    if "SRT STATS: sid=" in text[:4096]:
        raise ScenarioError(f"{file}: statistics of SRT for the eye; expected {EXPECTED}")
    records = list(_records(file, text))
    if len(records) < 3:
        raise ScenarioError(f"{file}: {len(records)} records of SRT tell nothing of changes; expected {EXPECTED}")
    sids = {record["SocketID"] for _, record in records}
    if len(sids) > 1:
        raise ScenarioError(f"{file}: {len(sids)} SRT connections; save the statistics of each into a file of its own")
    receives = sum(place.number("pktRecv", record["pktRecv"]) for place, record in records)
    sends = sum(place.number("pktSent", record["pktSent"]) for place, record in records)
    if receives and sends:
        raise ScenarioError(f"{file}: SRT sent and received; expected the statistics of one direction")
    if not receives and not sends:
        raise ScenarioError(f"{file}: no packet was sent or received; measure again while a stream flows")
    # The user's side wrote the file: what it received came down.
    way, counted, gone = ("down", "pktRecv", "pktRcvLoss") if receives else ("up", "pktSent", "pktSndLoss")
    samples = [_sample(place, record, counted, gone) for place, record in records]
    for (place, _), before, after in zip(records[1:], samples, samples[1:], strict=False):
        if after.at_s <= before.at_s:
            raise place.error("`Time` is not later than in the record before")
    counts = [sample.received for sample in samples]
    if counts == sorted(counts) and counts[-1] > TOTALS * counts[0]:
        raise ScenarioError(
            f"{file}: totals since the start, not counts of each interval; run it without -f (-fullstats)"
        )
    return _reading(file, samples, way)


def _reading(file: Path, samples: list[Sample], way: str) -> Reading:
    shares = [_share(sample, way) for sample in samples]
    lost = sum(sample.lost for sample in samples)
    originals = sum(sample.received + (sample.lost if way == "down" else 0) for sample in samples)
    why = f"{lost:.0f} of {originals:.0f} SRT packets lost on the way {way}, before repair"
    begins = samples[0].at_s
    known: list[float] = [sample.rtt_ms for sample in samples]
    course = Course(
        [sample.at_s - begins for sample in samples],
        delay_ms=[rtt / 2 for rtt in known],
        loss={way: shares},
    )
    rtt = spread(known, f"half the smoothed round trip of SRT, of {len(known)} records, under its own stream")
    return Reading(
        file,
        "srt",
        rtt_ms=Range(median(known), rtt.low, rtt.high, rtt.why),
        loss=share(round(lost), max(round(originals), 1), why),
        rate_unknown="SRT carries a stream of a given rate, and its `mbpsBandwidth` is a guess from pairs of packets; "
        "`iperf3 --json` tells a rate",
        course=course if len(samples) >= LEAST_SAMPLES else None,
    )


def _share(sample: Sample, way: str) -> float | None:
    """The share of packets that were lost: of a receiver, of those that came or did not; of a sender, of those sent."""
    every = sample.received + (sample.lost if way == "down" else 0)
    return min(sample.lost / every, 1.0) if every else None


def _sample(place: Place, record: dict[str, Any], counted: str, gone: str) -> Sample:
    return Sample(
        place.number("Time", record["Time"]) / 1e3,
        place.number("msRTT", record["msRTT"]),
        place.number(counted, record[counted]),
        place.number(gone, record[gone]),
    )


def _records(file: Path, text: str) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Records by the names of the CSV, from either form. Lines of the option `-r` are left out."""
    if not text.lstrip().startswith(("{", "[")):
        plain = "\n".join("" if line.startswith(BANDWIDTH) else line for line in text.splitlines())
        for place, row in rows(file, plain, EXPECTED):
            for name in COLUMNS.values():
                if name not in row:
                    raise Place(file, "line 1", EXPECTED).error(f"no column `{name}`")
            yield place, row
        return
    for place, outer in objects(file, text, EXPECTED):
        for value in outer if isinstance(outer, list) else [outer]:
            if isinstance(value, dict) and value.keys() == {"bandwidth"}:
                continue
            found = {}
            for (group, name), column in COLUMNS.items():
                parent = place.member(value, group, dict) if group else value
                if not isinstance(parent, dict) or name not in parent:
                    raise place.error(f"`{f'{group}.' if group else ''}{name}` is missing")
                found[column] = parent[name]
            yield place, found
