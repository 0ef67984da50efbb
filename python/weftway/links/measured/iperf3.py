"""The output of `iperf3 --json`: rates, and round trips under load. The client is taken to be the user's side.

Its round trips are TCP's smoothed ones at the ends of intervals. What waits in a queue is in the least of them too.
"""

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from weftway._native import ScenarioError
from weftway.stats.estimates import median

from .reading import Range, Reading, Undecided, share, spread
from .sides import is_in

Report = dict[str, Any]

TCP_PAYLOAD, UDP_PAYLOAD = 1448, 1472
"""Bytes that iperf3 counts of a full packet over IPv4: without the headers of IP and of TCP with timestamps, or UDP."""

PACKET, TCP_HEADERS, UDP_HEADERS, MORE_IN_IPV6 = 1500, 52, 28, 20

WARM_UP_S = 1.0
"""Slow start: intervals that end before are left out where there are others."""

OVERLOAD = 0.05
"""UDP that loses more than this share was sent faster than the link is: its rate is known then, its loss is not."""

BLOCK = 131072
"""TCP is counted in blocks of so many bytes, if the report says nothing else."""

FINE = 10
"""Blocks in an interval that tell its rate."""

ALIKE = 0.1
"""Largest difference, as a share, between two figures that are taken to be alike."""

SPACE = re.compile(r"\s*")

REVERSE = "_bidir_reverse"
"""Ends the names of what the server sends while the client sends as well, whichever of them wrote the report."""

TEXT = re.compile(r"^\[ *ID\] Interval|^(?:Client|Server) (?:connecting|listening)|^Connecting to host ", re.MULTILINE)
WARNING = re.compile(r"^(?:iperf3: )?warning: .*$", re.MULTILINE | re.IGNORECASE)
"""Warnings, which go to the terminal, or with `&>` into the file."""

FAILED = re.compile(r"^iperf3?: (?:error|interrupt) - (.*)$", re.MULTILINE)

INTERRUPTED = "interrupt - "
"""Beginning of the error where somebody ended iperf3: the test is shorter than it was to be."""

NO_NUMBER = re.compile(r"(?<=[:\[,])(\s*)[-+]?(?:nan(?:\([^)]*\))?|inf(?:inity)?)(?=\s*[,}\]])", re.IGNORECASE)
"""Words that iperf3 writes for a number where it divided by zero (esnet/iperf#613). JSON has no such thing."""


class RepeatedValues(list[Any]):
    """The values of a key that stands twice in an object, as iperf3 before 3.11 writes `--bidir`."""


@dataclass
class Direction:
    """Part of a report that is about one direction."""

    name: str
    """`up` is from the client to the server."""
    is_sent: bool
    """The writer of the report sent this way, so that intervals count what left it, not what arrived."""
    intervals: list[Report] = field(default_factory=list)
    sent: Report = field(default_factory=dict)
    received: Report = field(default_factory=dict)
    whole: Report = field(default_factory=dict)
    """Summary of the whole test; of UDP alone, with the losses."""


def is_report(text: str) -> bool:
    """Returns whether a text is a report of iperf3, as JSON or as text."""
    return (
        WARNING.sub("", text).lstrip().startswith("{")
        or '"test_start"' in text
        or bool(TEXT.search(text) or FAILED.search(text))
    )


def reads(file: Path, text: str, local: Sequence[str] = ()) -> Reading:
    """Reads the JSON of a test. A report that is whole counts, though iperf3 ended with an error after it."""
    failed = FAILED.search(text)
    if failed and (INTERRUPTED in failed[0] or '"end"' not in text):
        raise ScenarioError(f"{file}: iperf3 failed: {failed[1]}; measure again, with `iperf3 --json`")
    if TEXT.search(text) and '"test_start"' not in text:
        raise ScenarioError(f"{file}: iperf as text; run `iperf3 --json`, and save its whole output")
    plain, without = NO_NUMBER.subn(r"\1null", FAILED.sub("", WARNING.sub("", text)))
    report, ended = _report(file, list(_values(file, plain)))
    try:
        reading = _read(file, report, local)
        ended = ended or (failed[1] if failed else "")
        return _with_a_word(reading, f"; iperf3 ended with an error after it: {ended}") if ended else reading
    except ScenarioError:  # is a ValueError
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        if without:
            wrote = "iperf3 wrote `nan` in place of a number that is needed: that is its own fault"
            raise ScenarioError(f"{file}: {wrote}; measure again, for longer, or with another version of it") from None
        missing = f"`{error.args[0]}` is missing" if isinstance(error, KeyError) else "a value is of another type"
        raise ScenarioError(f"{file}: {missing}; expected the output of `iperf3 --json`") from None


def _values(file: Path, text: str) -> Iterator[Any]:
    """The JSON values that follow one another in the file."""
    decoder = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_constant)
    at = _next(text, 0)
    while at < len(text):
        try:
            value, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            place = f"line {error.lineno}, column {error.colno}"
            raise ScenarioError(f"{file}: no JSON at {place}; save the whole output of `iperf3 --json`") from None
        except (RecursionError, ValueError):
            raise ScenarioError(f"{file}: no JSON of iperf3; save the whole output of `iperf3 --json`") from None
        yield value
        at = _next(text, at)


def _next(text: str, at: int) -> int:
    space = SPACE.match(text, at)
    return space.end() if space else at


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")


def _object(pairs: list[tuple[str, Any]]) -> Report:
    """An object of which no value is dropped."""
    members: Report = {}
    for name, value in pairs:
        if name not in members:
            members[name] = value
        elif isinstance(members[name], RepeatedValues):
            members[name].append(value)
        else:
            members[name] = RepeatedValues([members[name], value])
    return members


def _with_a_word(reading: Reading, word: str) -> Reading:
    """Adds a word to how each rate was found."""
    return replace(reading, rates={way: replace(rate, why=rate.why + word) for way, rate in reading.rates.items()})


def _is_whole(report: Report) -> bool:
    """Tells if a report has figures of the whole test, which iperf3 writes at its end."""
    end = report.get("end")
    return isinstance(end, dict) and any(name in end for name in ("sum", "sum_sent", "sum_received"))


def _report(file: Path, values: list[Any]) -> tuple[Report, str]:
    """The one report in the file, put together from the events of `--json-stream`, and the error that follows it."""
    if not all(isinstance(value, dict) for value in values):
        raise ScenarioError(f"{file}: a value is of another type; expected the output of `iperf3 --json`")
    errors = [value.get("error") or (value.get("event") == "error" and value.get("data")) or "" for value in values]
    failed = next((str(error) for error in errors if error), "")
    every = [value for value in values if "event" not in value]
    # iperf3 3.16 and 3.17 may write the same report twice (esnet/iperf#1688).
    whole = [value for at, value in enumerate(every) if value not in every[:at]]
    events = [value for value in values if "event" in value]
    named = {
        kind: [event.get("data") for event in events if event["event"] == kind] for kind in ("start", "interval", "end")
    }
    if len(whole) > 1 or len(named["start"]) > 1:
        raise ScenarioError(f"{file}: several runs of iperf3 in one file; save each into a file of its own")
    last = whole[0] if whole else {"end": next(iter(named["end"]), None)}
    if failed and (INTERRUPTED in failed or not _is_whole(last)):
        raise ScenarioError(f"{file}: iperf3 failed: {failed}; measure again")
    if whole and "start" not in whole[0]:
        raise ScenarioError(f"{file}: JSON of another program than iperf3; expected the output of `iperf3 --json`")
    if whole:
        return dict(whole[0]), failed
    for kind in ("start", "end"):
        if not named[kind]:
            raise ScenarioError(f"{file}: the event `{kind}` of iperf3 is missing; save its whole output")
    return {"start": named["start"][0], "intervals": named["interval"], "end": named["end"][0]}, failed


def _read(file: Path, report: Report, local: Sequence[str]) -> Reading:
    protocol = str(report["start"]["test_start"]["protocol"]).upper()
    if protocol not in ("TCP", "UDP"):
        raise ScenarioError(f"{file}: iperf3 over {protocol}; measure over TCP or UDP, which are understood")
    is_client = "accepted_connection" not in report["start"]
    is_user_client = _is_user_client(file, report, is_client, local)
    ways = _ways(file, report, is_client)
    factor, block = _factor(report, protocol) / 1e6, _block(report)
    # With -b, the link may carry more.
    option = _limit(report)
    limit = f", at least: {option} limits it" if option else ""
    names = {"up": "up", "down": "down"} if is_user_client else {"up": "down", "down": "up"}
    rates = {
        names[way.name]: _udp_rate(file, way, factor)
        if protocol == "UDP"
        else _tcp_rate(file, way, factor, block, limit)
        for way in ways
    }
    if not all(0 < rate.value < math.inf for rate in rates.values()):
        raise ScenarioError(f"{file}: nothing was transferred; measure again")
    if protocol == "UDP":
        loss, why = _loss(file, ways)
        return Reading(file, "iperf3", loss=loss, loss_unknown=why, rates=rates)
    least, most = _round_trips(report["end"])
    # It was the writer's sending that filled a queue.
    loaded, unknown = (most, _unfilled(report["end"], option)) if is_client == is_user_client else (None, "")
    return Reading(
        file, "iperf3", rates=rates, rtt_at_most_ms=least, rtt_loaded_ms=loaded, queue_unknown=unknown if loaded else ""
    )


def _limit(report: Report) -> str:
    """The option that has limited the rate, if one has."""
    places = (report["start"]["test_start"], report["start"])
    for option, names in (("-b", ("target_bitrate",)), ("--fq-rate", ("fqrate", "fq_rate"))):
        if any(place.get(name) for place in places for name in names):
            return option
    return ""


def _is_user_client(file: Path, report: Report, is_client: bool, local: Sequence[str]) -> bool:
    """Returns whether the user is the client: so it is where the client wrote the report, if nothing else is said."""
    here, there = _addresses(report, "local_host"), _addresses(report, "remote_host")
    is_here, is_there = (any(is_in(address, local) for address in ends) for ends in (here, there))
    if is_here != is_there:
        return is_client == is_here
    if is_client:
        return True
    if not here | there:
        raise ScenarioError(f"{file}: written by the server of iperf3; save what the client writes")
    raise Undecided(
        file, "written by the server of iperf3, which may be on either side", [*sorted(there), *sorted(here)]
    )


def _addresses(report: Report, end: str) -> set[str]:
    """Addresses of one end of the connections."""
    addresses = [connection.get(end) for connection in report["start"].get("connected") or []]
    return {str(address).removeprefix("::ffff:") for address in addresses if address}


def _ways(file: Path, report: Report, is_client: bool) -> list[Direction]:
    """The directions of the test."""
    test, end = report["start"]["test_start"], report["end"]
    first = "down" if test.get("reverse") else "up"
    ways: dict[str, Direction] = {}

    def parts(where: Report, name: str) -> Iterator[tuple[Direction, Report]]:
        is_both = f"{name}{REVERSE}" in where
        for key, side in ((name, "up" if is_both else first), (f"{name}{REVERSE}", "down")):
            entries = where.get(key, [])
            for entry in entries if isinstance(entries, RepeatedValues) else [entries] if entries else []:
                if isinstance(entries, RepeatedValues):
                    if "sender" not in entry:
                        raise ScenarioError(f"{file}: `{key}` stands there twice; use iperf3 3.11 or later for --bidir")
                    side = "up" if entry["sender"] == is_client else "down"
                yield ways.setdefault(side, Direction(side, is_sent=(side == "up") == is_client)), entry

    for interval in report["intervals"]:
        for way, entry in parts(interval, "sum"):
            way.intervals.append(entry)
    for way, entry in parts(end, "sum_sent"):
        way.sent = entry
    for way, entry in parts(end, "sum_received"):
        way.received = entry
    for way, entry in parts(end, "sum"):
        way.whole = entry
    if len(ways) < (2 if test.get("bidir") else 1):
        raise ScenarioError(f"{file}: `sum` is missing; expected the output of `iperf3 --json`")
    return list(ways.values())


def _factor(report: Report, protocol: str) -> float:
    """A full packet over the payload that iperf3 counts."""
    more = MORE_IN_IPV6 if any(":" in address for address in _addresses(report, "remote_host")) else 0
    if protocol == "TCP":
        payload = int(report["start"].get("tcp_mss") or report["start"].get("tcp_mss_default") or 0)
        if payload > 0:
            return (payload + TCP_HEADERS + more) / payload
        return PACKET / (TCP_PAYLOAD - more)
    size = _block(report)
    return (size + UDP_HEADERS + more) / size if size <= UDP_PAYLOAD else PACKET / (UDP_PAYLOAD - more)


def _block(report: Report) -> int:
    size = int(report["start"]["test_start"].get("blksize") or BLOCK)
    if size <= 0:
        raise ValueError("a block has no bytes")
    return size


def _steady(way: Direction) -> list[float]:
    """Bits per second of the intervals that count."""
    sums = [interval for interval in way.intervals if not interval.get("omitted")]
    longest = max(map(_length, sums), default=0.0)
    whole = [interval for interval in sums if _length(interval) >= longest / 2]
    steady = [interval for interval in whole if float(interval["start"]) >= WARM_UP_S] or whole
    return [float(interval["bits_per_second"]) for interval in steady if interval["bits_per_second"] is not None]


def _length(interval: Report) -> float:
    return float(interval["end"]) - float(interval["start"])


def _tcp_rate(file: Path, way: Direction, factor: float, block: int, limit: str) -> Range:
    """The rate on the wire: the median over the intervals, or the mean of what arrived where they do not tell it.

    A sender counts whole blocks when its socket takes them, long before they arrive over a slow link.
    """
    steady = _steady(way)
    sent, arrived = (float(total.get("bits_per_second") or 0) for total in (way.sent, way.received))
    middle = median(steady) if steady else 0.0
    is_fine = middle * max(map(_length, way.intervals), default=0.0) / 8 >= FINE * block
    if is_fine and (not way.is_sent or not arrived or sent <= (1 + ALIKE) * arrived):
        return _median(steady, factor, f"TCP, with headers{limit}")
    if arrived > 0:
        value = arrived * factor
        return Range(value, value, value, f"mean of what arrived, as iperf3 over TCP counts it, with headers{limit}")
    mean = sum(steady) / len(steady) if steady else 0.0
    if abs(middle - mean) > ALIKE * mean:
        raise ScenarioError(
            f"{file}: the intervals of iperf3 differ too much to tell a rate; measure longer, with -t 60"
        )
    return _median(steady, factor, f"TCP, with headers{limit}") if steady else Range(0, 0, 0, "")


def _udp_rate(file: Path, way: Direction, factor: float) -> Range:
    """Rate that arrived: where intervals count what was sent, without what was lost."""
    steady = _steady(way)
    if not steady:
        raise ScenarioError(f"{file}: no interval of iperf3 counts; measure with intervals of a second, -i 1")
    lost, packets = _lost(file, way)
    # A receiver that counts what arrived counts beside it what it misses.
    if not any(interval.get("sender") is False or "lost_packets" in interval for interval in way.intervals):
        factor *= 1 - lost / packets
    return _median(steady, factor, "UDP, at least: what was sent and arrived")


def _median(bits: list[float], factor: float, what: str) -> Range:
    return spread([rate * factor for rate in bits], f"median of {len(bits)} intervals of iperf3 over {what}")


def _lost(file: Path, way: Direction) -> tuple[int, int]:
    lost, packets = int(way.whole["lost_packets"]), int(way.whole["packets"])
    percent = way.whole.get("lost_percent")
    stated_share = 100 * lost / max(packets, 1) if percent is None else float(percent)
    if packets <= 0 and any(float(interval["bits_per_second"] or 0) > 0 for interval in way.intervals):
        raise ScenarioError(f"{file}: it does not say how many packets arrived; save what the client of iperf3 writes")
    if packets <= 0:
        raise ScenarioError(f"{file}: nothing was transferred; measure again")
    if not 0 <= lost <= packets or abs(stated_share - 100 * lost / packets) > 1:
        raise ScenarioError(
            f"{file}: {lost} of {packets} packets lost ({stated_share:g} %) do not add up; measure again"
        )
    return lost, packets


def _loss(file: Path, ways: list[Direction]) -> tuple[Range | None, str]:
    """The share that was lost, over the directions that tell it; or why it is not known."""
    counts = [_lost(file, way) for way in ways]
    slow = [(lost, packets) for lost, packets in counts if lost / packets <= OVERLOAD]
    if not slow:
        worst = max(lost / packets for lost, packets in counts)
        return None, f"{worst * 100:.3g} % of UDP was lost, as more was sent than the link carries; `ping` tells losses"
    lost, packets = (sum(both) for both in zip(*slow, strict=True))
    return share(lost, packets, f"{lost} of {packets} UDP packets lost"), ""


def _round_trips(end: dict[str, Any]) -> tuple[float | None, float | None]:
    """The least round trip in ms, and the longest while the writer sent; Linux tells them."""
    ends = [stream.get("sender", {}) for stream in end.get("streams", [])]
    least = [float(sender["min_rtt"]) / 1e3 for sender in ends if sender.get("min_rtt")]
    most = [float(sender["max_rtt"]) / 1e3 for sender in ends if sender.get("max_rtt") and sender.get("sender", True)]
    return min(least, default=None), max(most, default=None)


def _unfilled(end: dict[str, Any], option: str) -> str:
    """Why the writer may never have filled the queue; nothing if it did, as packets that found no place tell."""
    senders = [stream.get("sender", {}) for stream in end.get("streams", [])]
    if option:
        return f"{option} limits the rate, so the queue may never have been full"
    if str(end.get("sender_tcp_congestion", "")).startswith("bbr"):
        return "bbr sent, which fills no queue; `iperf3 -C cubic` does"
    if not any(int(sender.get("retransmits") or 0) > 0 for sender in senders if sender.get("sender", True)):
        return "nothing was sent again, so the queue may never have been full; `iperf3 -t 30` fills it"
    return ""
