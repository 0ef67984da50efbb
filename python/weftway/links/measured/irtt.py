"""The JSON of `irtt client -o FILE.json`: a round trip for each packet, and in which direction a lost one was lost."""

from pathlib import Path
from statistics import pstdev
from typing import Any

from weftway._native import ScenarioError
from weftway.stats.estimates import median

from .course import LEAST_SAMPLES, Course
from .reading import Range, Reading, one_way, share, spread
from .values import Place, objects

EXPECTED = "the whole output of `irtt client -o FILE.json HOST`, of its JSON format 1"

NS_PER_MS, NS_PER_S = 1e6, 1e9

LEAST_BIN_NS, PACKETS_OF_A_BIN = 1_000_000_000, 10
"""Losses over time are shares of this long, or of so many packets."""

LOST = {"false": None, "true": "unknown", "true_up": "up", "true_down": "down"}


def is_report(text: str) -> bool:
    """Tells if a text is a report of irtt."""
    return text.lstrip().startswith("{") and '"round_trips"' in text and '"irtt"' in text


def reads(file: Path, text: str) -> Reading:
    """Round trips, their variation and the losses of each direction, over time. irtt does not load a link."""
    reports = list(objects(file, text, EXPECTED))
    if len(reports) != 1:
        raise ScenarioError(f"{file}: {len(reports)} reports of irtt; save each into a file of its own")
    place, report = reports[0]
    version = place.member(report, "version", dict)
    if (form := version.get("json_format")) != 1:
        raise place.error(f"`json_format` is {form}")
    trips = place.member(report, "round_trips", list)
    if not trips:
        raise place.error("`round_trips` is empty")
    return _reading(file, place, trips)


def _reading(file: Path, place: Place, trips: list[Any]) -> Reading:
    sent_ns: list[int] = []
    rtt_ms: list[float | None] = []
    lost: list[str | None] = []
    for number, trip in enumerate(trips):
        where = Place(file, f"round trip {number}", EXPECTED)
        stamps = where.member(where.member(where.member(trip, "timestamps", dict), "client", dict), "send", dict)
        sent_ns.append(int(where.number("monotonic", stamps.get("monotonic"))))
        word = str(trip.get("lost")).lower()
        if word not in LOST:
            raise where.error(f"`lost` is `{word[:40]}`, not one of {', '.join(LOST)}")
        lost.append(LOST[word])
        delay = where.member(trip, "delay", dict)
        rtt_ms.append(None if LOST[word] else where.number("rtt", delay.get("rtt")) / NS_PER_MS)
        if number and sent_ns[-1] < sent_ns[-2]:
            raise where.error("it was sent before the one above it")
    known = [value for value in rtt_ms if value is not None]
    if not known:
        raise ScenarioError(f"{file}: no packet of irtt came back; measure again")
    count = len(lost)
    why = f"{sum(map(bool, lost))} of {count} packets of irtt lost"
    # Where the server did not tell which direction lost a packet, both are taken to lose alike.
    told = "unknown" not in lost
    both = one_way(share(sum(map(bool, lost)), count, why), f"{why}, both directions alike")
    if told and any(lost):
        up, down = lost.count("up"), lost.count("down")
        why = f"{up} of {count} packets of irtt lost on the way up, {down} of {count - up} down; the mean of both"
        ways = (share(up, count, why), share(down, max(count - up, 1), why))
        value, low, high = (
            sum(ends) / 2 for ends in zip(*((way.value, way.low, way.high) for way in ways), strict=True)
        )
        both = Range(value, low, high, why)
    bins = _bins(sent_ns)
    return Reading(
        file,
        "irtt",
        rtt_ms=spread(known, f"half the round trip of irtt, of {len(known)} packets"),
        jitter_ms=_jitter(bins, rtt_ms),
        loss=both,
        rate_unknown="irtt sends small packets in even steps; `iperf3 --json` tells a rate",
        course=_course(bins, sent_ns, rtt_ms, lost, told),
    )


def _bins(sent_ns: list[int]) -> list[range]:
    """Packets by stretches of time of even length, in their order. A last one that is short goes to its neighbour."""
    lasts = sent_ns[-1] - sent_ns[0]
    length = max(LEAST_BIN_NS, PACKETS_OF_A_BIN * lasts // max(len(sent_ns) - 1, 1))
    edges = [0]
    for number, at in enumerate(sent_ns):
        if at - sent_ns[0] >= len(edges) * length:
            edges.append(number)
    if len(edges) > 1 and lasts - (len(edges) - 1) * length < length // 2:
        edges.pop()
    return [range(begin, end) for begin, end in zip(edges, [*edges[1:], len(sent_ns)], strict=True) if begin < end]


def _jitter(bins: list[range], rtt_ms: list[float | None]) -> float | None:
    """The standard deviation within a stretch of time, of the median stretch: what is slower is in the course."""
    every = [[value for number in part if (value := rtt_ms[number]) is not None] for part in bins]
    spreads = [pstdev(values) for values in every if len(values) > 1]
    return median(spreads) if spreads else None


def _course(
    bins: list[range], sent_ns: list[int], rtt_ms: list[float | None], lost: list[str | None], told: bool
) -> Course | None:
    if len(bins) < LEAST_SAMPLES:
        return None
    delays: list[float | None] = []
    loss: dict[str, list[float | None]] = {"down": [], "up": []}
    for part in bins:
        known = [value for number in part if (value := rtt_ms[number]) is not None]
        delays.append(median(known) / 2 if known else None)
        if told:
            up, down = (sum(lost[number] == way for number in part) for way in ("up", "down"))
            loss["up"].append(up / len(part))
            loss["down"].append(down / (len(part) - up) if len(part) > up else None)
        else:
            gone = sum(bool(lost[number]) for number in part) / len(part)
            for way in loss.values():
                way.append(one_way(Range(gone, gone, gone, ""), "").value)
    return Course([(sent_ns[part[0]] - sent_ns[0]) / NS_PER_S for part in bins], delay_ms=delays, loss=dict(loss))
