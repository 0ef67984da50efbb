"""`weft new scenario`: from what was measured of links, or from answers, to a scenario file.

Each value carries a comment: from which file it comes, or that it is assumed.
"""

import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from weftway._native import Scenario, ScenarioError
from weftway.files import toml
from weftway.links.measured import Range, Reading
from weftway.links.measured.mahimahi import direction
from weftway.links.new_scenario_courses import SIDES, Courses, courses_of, mbps_of, places, table
from weftway.links.new_scenario_links import Ask, Link, link_name, links_of

FOR_LOSS = ("irtt", "ping", "iperf3", "nuttcp", "capture", "srt", "starlink")
FOR_DELAY = ("irtt", "ping", "capture", "speedtest", "nuttcp", "starlink", "srt")
"""Kinds of measurements, best first: `irtt` and `ping` measure without load."""

DELAY = "20 ms"
QUEUE = "100 packets"
UP_SHARE = 0.25
"""Share of the rate down that the rate up is, where only the first is known: most access lines are asymmetric."""

LEAST_JITTER_MS = 1.0
"""Smaller deviations are of the machine that measures."""

LEAST_LOSS, OPEN_LOSS = 0.0001, 0.01
"""Less than the first is none. Few packets leave much open: the range ends at the second or at twice what was found."""

PACKET_BITS = 1500 * 8
LEAST_QUEUE = 20
"""A queue that seems to hold fewer was not full."""

WORKLOADS = {
    "bulk": 'kind  = "bulk"\nbytes = "20 MB"',
    "web": 'kind     = "web"\ndocument = "60 kB"\nthink    = "10 ms"\n'
    'objects  = [{ name = "script", bytes = "150 kB" }, { bytes = "60 kB", count = 12 }, '
    '{ bytes = "20 kB", count = 4, after = "script" }]',
    "stream": 'kind     = "stream"\nrate     = "4 Mbit/s"\nperiod   = "33 ms"\ndeadline = "200 ms"\nduration = "20 s"',
    "voip": 'kind     = "voip"\nsize     = "172 B"\nperiod   = "20 ms"\ndeadline = "150 ms"\nduration = "30 s"',
    "call": 'kind     = "call"\nrate     = "1.5 Mbit/s"\nperiod   = "40 ms"\ndeadline = "200 ms"\nduration = "20 s"',
}
"""Workloads that `--workload` can name."""


@dataclass
class NewScenario:
    """Scenario file that was written, its links, and what was assumed for it."""

    file: Path
    links: list[str]
    assumed: list[str]


def from_measurements(name: str, arguments: Sequence[str], workload: str | None, ask: Ask | None = None) -> NewScenario:
    """A scenario from files of measurements, `LINK=FILE` or `FILE`, and from values, `LINK.KEY=VALUE`.

    What no file tells, such as which address is the user's, is asked if there is somebody to ask.
    """
    target = target_of(name, workload or "bulk")
    links = links_of(arguments, ask)
    return _write(
        target, links, workload or "bulk", "as asked for" if workload else "assumed: --workload gives another"
    )


def from_answers(name: str, workload: str | None, ask: Ask) -> NewScenario:
    """A scenario from answers to questions."""
    target = target_of(name, workload or "bulk")
    links: list[Link] = []
    while len(links) < 2 or ask("Another link? (y/n)", "n").lower().startswith("y"):
        default = ("wifi", "lte", "dsl")[len(links)] if len(links) < 3 else f"link{len(links) + 1}"
        link = Link(link_name(ask(f"Name of link {len(links) + 1}", default)), origin="answered")
        if link.name in {other.name for other in links}:
            raise ScenarioError(f"two links are called `{link.name}`")
        link.given["rate.down"] = ask("  Rate down", "20 Mbit/s")
        link.given["rate.up"] = ask("  Rate up", "5 Mbit/s")
        link.given["delay"] = _half(ask("  Round trip without load", "40 ms"))
        link.given["loss"] = ask("  Packets lost", "0 %")
        links.append(link)
    return _write(target, links, workload or ask(f"Workload ({', '.join(WORKLOADS)})", "bulk"), "as asked for")


def _half(text: str) -> str:
    match = re.fullmatch(r"\s*([\d.]+)\s*(ms|s|us)\s*", text)
    if match is None:
        raise ScenarioError(f"`{text}` is not a time; expected one such as `40 ms`")
    return f"{float(match[1]) / 2:g} {match[2]}"


def target_of(name: str, workload: str) -> Path:
    """The file of a scenario with this name, if it can be written."""
    if workload not in WORKLOADS:
        raise ScenarioError(f"--workload {workload}: there is {', '.join(WORKLOADS)}")
    target = Path(name if name.endswith(".toml") else f"{name}.toml")
    if target.exists() or target.is_symlink():
        raise ScenarioError(f"{target} exists already; give another name, or move it away")
    if not target.parent.is_dir():
        raise ScenarioError(f"{target.parent}: no such folder")
    return target


def _write(target: Path, links: list[Link], workload: str, why: str) -> NewScenario:
    if workload not in WORKLOADS:
        raise ScenarioError(f"workload `{workload}`: there is {', '.join(WORKLOADS)}")
    courses = {link.name: found for link in links if (found := courses_of(link)).of}
    drives = places(target) if courses else {}
    text, assumed, rates = _compose(target, links, workload, why, courses)
    written: list[Path] = []
    try:
        for side, place in drives.items():
            constant = {name: mbps_of(rates[name, side]) for name in courses if (name, side) in rates}
            content = table(side, courses, constant)
            with place.open("x", encoding="utf-8") as out:
                written.append(place)
                out.write(content)
        write(text, target)
    except BaseException:
        for place in written:
            place.unlink(missing_ok=True)
        raise
    return NewScenario(target, [link.name for link in links], assumed)


def write(text: str, target: Path) -> None:
    """Writes a scenario, if it is one and nothing is there."""
    _validate(text, target)
    try:
        # "x": what another program has put there since is not overwritten.
        with target.open("x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError:
        raise ScenarioError(f"{target} exists already; give another name, or move it away") from None
    except OSError:
        target.unlink(missing_ok=True)
        raise


def _validate(text: str, target: Path) -> None:
    """Reads the scenario as if it lay where it will: beside the target, as traces are looked for from there."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=target.parent, prefix=".", suffix=".toml") as draft:
        draft.write(text)
        draft.flush()
        try:
            Scenario.load(draft.name, [])
        except ScenarioError as error:
            raise ScenarioError(str(error).replace(draft.name, str(target))) from None


def _compose(
    target: Path, links: list[Link], workload: str, why: str, courses: Mapping[str, Courses]
) -> tuple[str, list[str], dict[tuple[str, str], str]]:
    """The scenario, what is assumed in it, and constant rates of links in `courses`, by link and direction."""
    names = " and ".join([", ".join(link.name for link in links[:-1]), links[-1].name])
    ranges: list[str] = []
    assumed: list[str] = []
    rates: dict[tuple[str, str], str] = {}
    parts = [
        f'title     = "{names}: {workload}"',
        'transport = "mptcp"            # assumed',
        'stack     = "linux-v1"         # assumed: MPTCP of today\'s Linux',
        'scheduler = "linux-v1"         # the only one that Linux has',
        'cc        = "cubic"            # what Linux has if nobody changed it',
        'direction = "download"         # assumed',
        'seeds     = "0..5"',
        "",
        *(_drive(target, courses) if courses else []),
        "# The connection begins on the first path; assumed in the order in which the links were named.",
    ]
    for link in links:
        lines, open_values = _path(link, target, assumed, courses.get(link.name, Courses()), rates)
        parts += [f"[path.{link.name}]", *lines, ""]
        ranges += open_values
    parts += [f"{'[workload]':<31}# {why}; sizes and rates are assumed"]
    parts += [WORKLOADS[workload], ""]
    if ranges:
        parts += ["# Between which values it lay when it was measured; `weft advise` tries some of them.", "[range]"]
        parts += [*ranges, ""]
    assumed += ["transport, direction, workload" if why.startswith("assumed") else "transport, direction"]
    return "\n".join(parts), assumed, rates


def _drive(target: Path, courses: Mapping[str, Courses]) -> list[str]:
    """The table of the drive files, which `places` names."""
    file = ", ".join(f"{side} = {quoted(place.name)}" for side, place in places(target).items())
    lines = ["# At its end the recording begins anew."]
    if len({reading.file for found in courses.values() for reading, _ in found.of.values()}) > 1:
        lines = ["# Recordings of several files, which begin together here and end with the shortest, then begin anew."]
    return [*lines, "[drive]", f"file = {{ {file} }}", ""]


def _path(
    link: Link, target: Path, assumed: list[str], courses: Courses, constant: dict[tuple[str, str], str]
) -> tuple[list[str], list[str]]:
    """The keys of a path, and what is open of them. A rate that a drive file takes goes into `constant`."""
    lines: list[str] = []
    ranges: list[str] = []

    def write_line(entry: str, why: str) -> None:
        comment = "".join(letter if letter.isprintable() else "?" for letter in why)
        lines.append(f"{entry:<30} # {comment}")

    def put(key: str, value: str, why: str) -> None:
        write_line(f"{key:<10} = {quoted(value)}", why)
        if why.startswith("assumed"):
            assumed.append(f"{link.name}.{key.split('.')[0]}")

    def leave_open(key: str, low: str, high: str) -> None:
        if low != high:
            ranges.append(f'"path.{link.name}.{key}" = "{low}..{high}"')

    def put_rate(key: str, value: str, why: str) -> None:
        if not courses.of:
            put(key, value, why)
            return
        for side in SIDES:
            if key in ("rate", f"rate.{side}") and not courses.has(side, "mbps"):
                constant[link.name, side] = value
                write_line(f"# rate.{side} is {value}", why)
                if why.startswith("assumed") and f"{link.name}.rate" not in assumed:
                    assumed.append(f"{link.name}.rate")

    def leave_rate(key: str, low: str, high: str) -> None:
        if not courses.of:
            leave_open(key, low, high)

    if courses.of:
        write_line(f"drive      = {quoted(link.name)}", courses.told())
    _rates(link, target, put_rate, leave_rate)
    _delay(link, put, leave_open, over_time=courses.has("down", "delay_ms"))
    recorded = [side for side in SIDES if courses.has(side, "loss_percent")]
    if recorded:
        for side in SIDES:
            if side not in recorded and (loss := _loss(link)):
                put(f"loss.{side}", _percent(loss.value), f"assumed: as in the other direction: {loss.why}")
    elif "loss" in link.given:
        put("loss", link.given["loss"], link.origin)
    elif loss := _loss(link):
        value = 0.0 if loss.value < LEAST_LOSS else loss.value
        put("loss", _percent(value), loss.why)
        leave_open("loss", _percent(loss.low), _percent(min(loss.high, max(OPEN_LOSS, 2 * loss.value))))
    elif unknown := next((reading for reading in link.readings if reading.loss_unknown), None):
        put("loss", "0 %", f"assumed: {unknown.file.name}: {unknown.loss_unknown}")
    else:
        put("loss", "0 %", "assumed: no measurement tells of losses")
    _queue(link, put)
    return lines, ranges


def _best_first(link: Link, kinds: Sequence[str]) -> list[Reading]:
    """Measurements of these kinds, in their order."""
    return [reading for kind in kinds for reading in link.readings if reading.kind == kind]


def _loss(link: Link) -> Range | None:
    """Loss over all measurements of the best kind."""
    lossy = [(reading, reading.loss) for reading in _best_first(link, FOR_LOSS) if reading.loss]
    same = [(reading, loss) for reading, loss in lossy if reading.kind == lossy[0][0].kind]
    if not same:
        return None
    mean = sum(loss.value for _, loss in same) / len(same)
    why = "; ".join(f"{reading.file.name}: {loss.why}" for reading, loss in same)
    return Range(mean, min(loss.low for _, loss in same), max(loss.high for _, loss in same), why)


def _rates(link: Link, target: Path, put: Callable[[str, str, str], None], leave: Callable[..., None]) -> None:
    known: dict[str, Range] = {}
    traces: dict[str, tuple[Reading, float]] = {}
    for reading in link.readings:
        for side, rate in reading.rates.items():
            # Two measurements of one direction: what a link was seen to carry, it can carry.
            if side not in known or rate.value > known[side].value:
                known[side] = Range(rate.value, rate.low, rate.high, f"{reading.file.name}: {rate.why}")
        for side, mean in reading.traces.items():
            traces[side] = (reading, mean)
    if "rate" in link.given:
        put("rate", link.given["rate"], link.origin)
        return
    for side in ("down", "up"):
        other = "up" if side == "down" else "down"
        if f"rate.{side}" in link.given:
            put(f"rate.{side}", link.given[f"rate.{side}"], link.origin)
        elif side in traces:
            reading, mean = traces[side]
            place = os.path.relpath(reading.file, target.parent)
            why = f"{reading.kind}, {mbps_text(mean)} on the mean"
            if direction(reading.file) is None:
                why = f"assumed, as the name says no direction (.down, .up): {why}"
            put(f"trace.{side}", place, why)
        elif side in known:
            put(f"rate.{side}", mbps_text(known[side].value), known[side].why)
            leave(f"rate.{side}", mbps_text(known[side].low), mbps_text(known[side].high))
        elif other in traces or other in known:
            mean = traces[other][1] if other in traces else known[other].value
            share = UP_SHARE if side == "up" else 1.0
            why = "assumed: a quarter of the rate down" if side == "up" else "assumed: as the rate up"
            put(f"rate.{side}", mbps_text(mean * share), why)
        else:
            unknown = "".join(
                f" ({reading.file.name}: {reading.rate_unknown})" for reading in link.readings if reading.rate_unknown
            )
            raise ScenarioError(
                f"link `{link.name}`: no measurement gives its rate {side}{unknown}; add the output of "
                f'`iperf3 --json`, a capture or a Mahimahi trace, or say {link.name}.rate="20 Mbit/s"'
            )


def _delay(
    link: Link, put: Callable[[str, str, str], None], leave: Callable[..., None], over_time: bool = False
) -> None:
    """The delay, which a drive file has where it was recorded over time, and the jitter."""
    if "delay" in link.given:
        put("delay", link.given["delay"], link.origin)
        return
    unloaded = _unloaded(link)
    if unloaded is None:
        loaded = [(reading.rtt_at_most_ms, reading.file.name) for reading in link.readings if reading.rtt_at_most_ms]
        if loaded:
            most, name = min(loaded)
            why = f"at most: {name}: half the least round trip ({most:.3g} ms), measured under load; `ping` tells it"
            put("delay", _ms(most / 2), f"assumed, {why}")
        else:
            put("delay", DELAY, "assumed: no measurement tells a round trip; one way")
        return
    reading, rtt = unloaded
    half = rtt.scaled(0.5, rtt.why)
    if not over_time:
        put("delay", _ms(half.value), f"one way; {reading.file.name}: {rtt.why}")
        leave("delay", _ms(half.low), _ms(half.high))
    # Both directions vary alike and by themselves: variances add up.
    if reading.jitter_ms is not None and (jitter := reading.jitter_ms / 2**0.5) >= LEAST_JITTER_MS:
        put(
            "jitter",
            f"normal {_ms(jitter)}",
            f"{reading.file.name}: round trips differ by {reading.jitter_ms:.1f} ms",
        )


def _unloaded(link: Link) -> tuple[Reading, Range] | None:
    """The round trip without load, and what tells it."""
    return next(((reading, reading.rtt_ms) for reading in _best_first(link, FOR_DELAY) if reading.rtt_ms), None)


def _queue(link: Link, put: Callable[[str, str, str], None]) -> None:
    if "queue" in link.given:
        put("queue", link.given["queue"], link.origin)
        return
    unloaded = _unloaded(link)
    unknown = ""
    for reading in link.readings:
        # iperf3 tells round trips where it sends: what waited, waited on the way up.
        if reading.rtt_loaded_ms is None or "up" not in reading.rates:
            continue
        why = reading.queue_unknown
        if not why and unloaded is None:
            why = "how much waits shows only beside a round trip without load; `ping` tells it"
        if not why and unloaded:
            least, most = unloaded[1].value, reading.rtt_loaded_ms
            packets = round((most - least) * reading.rates["up"].value * 1e3 / PACKET_BITS)
            evidence = f"round trips of {most:.3g} ms under load, {least:.3g} ms without ({unloaded[0].file.name})"
            if packets >= LEAST_QUEUE:
                put("queue.up", f"{packets} packets", f"{reading.file.name}: {evidence}")
                put("queue.down", QUEUE, "assumed: no measurement tells how much waits on the way down")
                return
            why = f"{evidence}: the queue was not full"
        unknown = unknown or f"{reading.file.name}: {why}"
    put("queue", QUEUE, f"assumed: {unknown or 'no measurement tells how much waits'}")


def mbps_text(value: float) -> str:
    """A rate, in a unit in which it is easy to read.

    >>> mbps_text(1234.5), mbps_text(29.99), mbps_text(0.5078), mbps_text(0.000046)
    ('1234 Mbit/s', '30 Mbit/s', '0.508 Mbit/s', '46 bit/s')
    """
    for unit, size in (("Mbit/s", 0.1), ("kbit/s", 1e-3)):
        if value >= size:
            return f"{_plain(value if unit == 'Mbit/s' else value * 1e3)} {unit}"
    return f"{_plain(value * 1e6)} bit/s"


def _ms(value: float) -> str:
    """
    >>> _ms(1234.5), _ms(20.04), _ms(0.00004)
    ('1234 ms', '20 ms', '0.04 us')
    """
    return f"{_plain(value)} ms" if value >= 0.01 or value == 0 else f"{_plain(value * 1e3)} us"


def _plain(value: float) -> str:
    """Three digits, and never an exponent."""
    return (
        f"{value:.0f}" if value >= 1000 else f"{value:.3g}" if value >= 1e-3 else f"{value:.6f}".rstrip("0").rstrip(".")
    )


def quoted(text: str) -> str:
    """A text in quotation marks, as TOML has it."""
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ScenarioError(f"{text!r}: this name is not UTF-8, so no scenario can have it; rename the file")
    return toml.quoted(text)


def _percent(value: float) -> str:
    return f"{round(value * 100, 2):g} %"
