"""What a Starlink dish records of itself, once a second.

Read are the JSON of its gRPC service (`grpcurl … get_history`, `get_status`) and the tables of starlink-grpc-tools
(`dish_grpc_text.py bulk_history` or `status`, with the line of names that `-H` writes).
"""

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from weftway._native import ScenarioError
from weftway.stats.estimates import quantile

from .course import LEAST_SAMPLES, Course
from .reading import Range, Reading, one_way, spread
from .values import Place, objects, rows

LATENCY, DROP = "pop_ping_latency_ms", "pop_ping_drop_rate"
USED = {"down": "downlink_throughput_bps", "up": "uplink_throughput_bps"}
TIME = "datetimestamp_utc"

HISTORY, STATUS = "dishGetHistory", "dishGetStatus"
NAMES = {LATENCY: "popPingLatencyMs", DROP: "popPingDropRate"}
NAMES |= {"downlink_throughput_bps": "downlinkThroughputBps", "uplink_throughput_bps": "uplinkThroughputBps"}
"""Names of the same values in the JSON of protobuf."""

JSON = "the JSON of `grpcurl … get_history` or `get_status`, whole"
TABLE = (
    f"a table of dish_grpc_text.py, `bulk_history` or `status`, whose first line (option -H) names {TIME}, {DROP} and "
    f"{LATENCY}"
)


@dataclass
class Samples:
    """Samples of the dish, in order. A latency is none where every ping of its second was lost."""

    at: list[float] = field(default_factory=list)
    drop: list[float] = field(default_factory=list)
    latency: list[float | None] = field(default_factory=list)
    used: dict[str, list[float]] = field(default_factory=lambda: {"down": [], "up": []})

    def add(self, place: Place, at: float, entry: dict[str, Any]) -> None:
        """Adds a sample, by the names of the table."""
        drop = place.number(DROP, entry.get(DROP), 0.0, 1.0)
        latency = entry.get(LATENCY)
        self.at.append(at)
        self.drop.append(drop)
        self.latency.append(None if drop >= 1 or latency in ("", None) else place.number(LATENCY, latency))
        for way, name in USED.items():
            if entry.get(name) not in ("", None):
                self.used[way].append(place.number(name, entry[name]))


def is_record(text: str) -> bool:
    """Tells if a text is JSON of a dish, or a table of starlink-grpc-tools."""
    head = text.lstrip()[:4096]
    first = head.split("\n", 1)[0]
    return (
        (head.startswith(("{", "[")) and (HISTORY in head or STATUS in head)) or TIME in first or _has_no_names(first)
    )


def _has_no_names(first: str) -> bool:
    """Tells if a line is a sample of `bulk_history` without the line of names above it."""
    fields = first.split(",")
    try:
        datetime.fromisoformat(fields[0].strip())
        return len(fields) >= 8 and 0 <= float(fields[1]) <= 1
    except (ValueError, IndexError):
        return False


def reads(file: Path, text: str) -> Reading:
    """Round trips to Starlink's point of presence and losses, over time; rates in use are no rates of the link."""
    samples = _of_json(file, text) if text.lstrip().startswith(("{", "[")) else _of_table(file, text)
    if not samples.at:
        raise ScenarioError(f"{file}: no sample; expected {TABLE}, or {JSON}")
    known = [value for value in samples.latency if value is not None]
    if not known:
        raise ScenarioError(
            f"{file}: every ping to Starlink's point of presence was lost; record while it is connected"
        )
    rtt = spread(known, f"half the round trip to Starlink's point of presence, of {len(known)} samples")
    lost = sum(samples.drop) / len(samples.drop)
    why = f"{lost:.2%} of pings to the point of presence lost, both directions alike"
    loss: Range | None = one_way(Range(lost, lost, lost, why), why)
    unknown = ""
    if len(samples.at) < LEAST_SAMPLES:
        loss, unknown = None, f"{len(samples.at)} samples of a second are too few to tell losses; use `get_history`"
    return Reading(
        file,
        "starlink",
        rtt_ms=rtt,
        loss=loss,
        loss_unknown=unknown,
        rate_unknown=_rate_unknown(samples),
        course=_course(samples),
    )


def _rate_unknown(samples: Samples) -> str:
    busiest = [
        f"{quantile(used, 0.99) / 1e6:.3g} Mbit/s {way}" for way, used in samples.used.items() if used and max(used) > 0
    ]
    most = f" (in the busiest seconds {', '.join(busiest)})" if busiest else ""
    return f"a dish records what was used{most}, not what the link can carry"


def _course(samples: Samples) -> Course | None:
    if len(samples.at) < LEAST_SAMPLES:
        return None
    share = [1 - math.sqrt(1 - drop) for drop in samples.drop]
    return Course(
        samples.at,
        delay_ms=[None if value is None else value / 2 for value in samples.latency],
        loss={"down": share, "up": share},
    )


def _of_json(file: Path, text: str) -> Samples:
    samples = Samples()
    histories = 0
    for place, outer in objects(file, text, JSON):
        for value in outer if isinstance(outer, list) else [outer]:
            if isinstance(value, dict) and HISTORY in value:
                histories += 1
                _add_history(samples, place, place.member(value, HISTORY, dict))
            elif isinstance(value, dict) and STATUS in value:
                status = place.member(value, STATUS, dict)
                # Protobuf leaves out what is zero. An answer tells no time: they are taken to be a second apart.
                entry = {name: status.get(other, 0.0) for name, other in NAMES.items()}
                if NAMES[LATENCY] not in status:
                    raise place.error(
                        f"`{NAMES[LATENCY]}` is missing: the dish is not connected, or has another version"
                    )
                samples.add(place, float(len(samples.at)), entry)
            else:
                raise place.error("JSON of something else")
    if histories > 1 or (histories and histories < _answers(file, text)):
        raise ScenarioError(f"{file}: several answers of the dish, whose samples overlap; save one `get_history` alone")
    return samples


def _answers(file: Path, text: str) -> int:
    return sum(len(value) if isinstance(value, list) else 1 for _, value in objects(file, text, JSON))


def _add_history(samples: Samples, place: Place, history: dict[str, Any]) -> None:
    """Adds the ring of samples, oldest first: `current` counts those since the dish started."""
    current = int(place.number("current", history.get("current"), 1))
    columns = {name: place.member(history, NAMES[name], list) for name in (DROP, LATENCY)}
    columns |= {name: history[NAMES[name]] for name in USED.values() if isinstance(history.get(NAMES[name]), list)}
    length = len(columns[DROP])
    for name, column in columns.items():
        if len(column) != length or not length:
            raise place.error(f"`{NAMES[name]}` has {len(column)} values, `{NAMES[DROP]}` {length}")
    count = min(length, current)
    for index, at in enumerate(range(current - count, current)):
        where = Place(place.file, f"{place.at}: value {at % length} of the history", place.expected)
        samples.add(where, float(index), {name: column[at % length] for name, column in columns.items()})


def _of_table(file: Path, text: str) -> Samples:
    first = text.split("\n", 1)[0]
    names = [name.strip() for name in first.split(",")]
    for name in (TIME, DROP, LATENCY):
        if name not in names:
            raise Place(file, "line 1", TABLE).error(f"no column `{name}`")
    samples = Samples()
    begins: float | None = None
    for place, row in rows(file, text, TABLE):
        if row.get("state") == "DISH_UNREACHABLE" or row[DROP] == "":
            continue
        at = _seconds(place, row[TIME])
        begins = at if begins is None else begins
        if samples.at and at - begins <= samples.at[-1]:
            raise place.error(f"`{TIME}` is not later than on the line before")
        samples.add(place, at - begins, row)
    return samples


def _seconds(place: Place, text: str) -> float:
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise place.error(f"`{TIME}` is `{text[:40]}`, not such as 2026-01-31T12:00:00") from None
