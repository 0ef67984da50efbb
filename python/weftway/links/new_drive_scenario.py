"""`weft new scenario NAME --drive FILE`: a scenario of links measured on one clock, and of what was not measured.

Each assumed value carries a comment that says so.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from weftway._native import ScenarioError, drive_runs
from weftway.files import reading
from weftway.links.measured.mahimahi import direction
from weftway.links.new_scenario import DELAY, UP_SHARE, WORKLOADS, NewScenario, mbps_text, quoted, target_of, write
from weftway.links.new_scenario_links import link_name

SIDES = ("down", "up")

QUEUE = "1 BDP"
"""Queue by the run's mean rate: links of such different rates have no common number of packets."""

SCHEDULERS = ("min-rtt", "round-robin", "blest", "earliest-delivery")
"""The default of Linux and of most stacks, the plainest, a published rule for unequal links, and ours."""

KEYS = ("rate", "rate.down", "rate.up", "delay", "delay.down", "delay.up", "loss", "loss.down", "loss.up", "queue")
"""Keys of a link that can be given as values."""

COLUMNS = {"rate": "mbps", "delay": "delay_ms", "loss": "loss_percent"}
"""Columns of a drive, by the key of a link."""

LOSS = "0 %"


@dataclass(frozen=True)
class Drive:
    """A run of a file."""

    file: Path
    run: int
    runs: int
    mean_bps: Mapping[str, int]
    """Mean rate of each link in bit/s."""
    columns: frozenset[str]


@dataclass(frozen=True)
class Drives:
    """Measurements of each direction; one file may be both."""

    of: Mapping[str, Drive]
    assumed: Sequence[str] = ()

    def has(self, side: str, link: str, column: str) -> bool:
        """Returns whether the file of a direction has this column of a link."""
        return side in self.of and f"{link}_{column}" in self.of[side].columns


def from_drive(
    name: str,
    files: Sequence[Path],
    run: int | None,
    workload: str | None,
    values: Sequence[str] = (),
) -> NewScenario:
    """A scenario from drive files, the run of this number, and values that are said outright, `LINK.KEY=VALUE`."""
    target = target_of(name, workload or "bulk")
    drives = _drives(files, run)
    links = list(next(iter(drives.of.values())).mean_bps)
    given = _given(values, links, drives)
    text, assumed = _compose(target, drives, links, workload, given)
    write(text, target)
    return NewScenario(target, links, [*drives.assumed, *assumed])


def _drives(files: Sequence[Path], run: int | None) -> Drives:
    by_direction: dict[str, Drive] = {}
    assumed = []
    for file in files:
        drive = _read(file, run)
        side = direction(file)
        if side is None and len(files) > 1:
            raise ScenarioError(f"{file}: of two drives, each has its direction in its name, as in commute.down.csv")
        if side is None:
            assumed.append("drive for both directions")
        for way in [side] if side else SIDES:
            if way in by_direction:
                raise ScenarioError(f"{file}: {by_direction[way].file} has the direction {way} already")
            by_direction[way] = drive
    if len(by_direction) == 2 and set(by_direction["down"].mean_bps) != set(by_direction["up"].mean_bps):
        sides = "; ".join(f"{drive.file}: {', '.join(drive.mean_bps)}" for drive in by_direction.values())
        raise ScenarioError(f"the two drives are of different links: {sides}")
    if not by_direction:
        raise ScenarioError("--drive names no file")
    return Drives(by_direction, assumed)


def _read(file: Path, run: int | None) -> Drive:
    text = reading.text(file)
    try:
        runs = {number: means for number, _, means in drive_runs(text)}
    except ScenarioError as error:
        raise ScenarioError(f"{file}: {error}") from None
    numbers = sorted(runs)
    there = f"it has {len(runs)} runs, from {numbers[0]} to {numbers[-1]}" if len(runs) > 1 else "it has one run alone"
    if run is None and len(runs) > 1:
        raise ScenarioError(f"{file}: {there}; --run says which, for example --run {numbers[0]}")
    number = numbers[0] if run is None else run
    if number not in runs:
        raise ScenarioError(f"{file}: no run {number}; {there}")
    names = [name.strip() for name in text.splitlines()[0].split(",")]
    # As the file has them: the first one opens the connection.
    links = [_link(file, name) for name in names if name.endswith("_mbps")]
    return Drive(file, number, len(runs), {link: runs[number][link] for link in links}, frozenset(names))


def _link(file: Path, column: str) -> str:
    try:
        return link_name(column.removesuffix("_mbps"))
    except ScenarioError as error:
        raise ScenarioError(f"{file}: the column `{column}`: {error}") from None


def _given(values: Sequence[str], links: Sequence[str], drives: Drives) -> dict[tuple[str, str], str]:
    given: dict[tuple[str, str], str] = {}
    for text in values:
        match = re.fullmatch(r"([\w-]+)\.([a-z.]+)=(.+)", text)
        if match is None or match[2] not in KEYS:
            raise ScenarioError(
                f"`{text}`: beside a drive there are values of its links, {links[0]}.KEY=VALUE; the keys are "
                f"{', '.join(KEYS)}"
            )
        if match[1] not in links:
            raise ScenarioError(f"`{text}`: the drive has no link `{match[1]}`; it has {', '.join(links)}")
        key, _, side = match[2].partition(".")
        if key in COLUMNS and all(drives.has(way, match[1], COLUMNS[key]) for way in ([side] if side else SIDES)):
            raise ScenarioError(f"`{text}`: the drive has measured it; leave it out")
        given[match[1], match[2]] = match[3]
    return given


def _compose(
    target: Path,
    drives: Drives,
    links: Sequence[str],
    workload: str | None,
    given: Mapping[tuple[str, str], str],
) -> tuple[str, list[str]]:
    names = " and ".join([", ".join(links[:-1]), links[-1]] if len(links) > 1 else links)
    first = next(iter(drives.of.values()))
    of_run = f", run {first.run} of {first.runs}" if first.runs > 1 else ""
    same = len({drive.file for drive in drives.of.values()}) == 1 and len(drives.of) == 2
    places = {side: quoted(os.path.relpath(drive.file, target.parent)) for side, drive in drives.of.items()}
    file = places["down"] if same else f"{{ {', '.join(f'{side} = {place}' for side, place in places.items())} }}"
    kind = workload or "bulk"
    parts = [
        f"title     = {quoted(f'{names} as measured{of_run}: {kind}')}",
        'transport = "mpquic"           # assumed',
        f"scheduler = [{', '.join(map(quoted, SCHEDULERS))}]",
        'cc        = "cubic"            # assumed',
        'direction = "download"         # assumed',
        'seeds     = "0..5"',
        "",
        "[drive]",
        f"{f'file = {file}':<30}" + (" # assumed: both directions, as its name says none" if same else ""),
        *([f"run  = {first.run}"] if first.runs > 1 else []),
        "",
        "# The connection begins on the first path; assumed in the order of the drive.",
    ]
    assumed: list[str] = []
    for link in links:
        parts += [f"[path.{link}]", *_path(link, drives, given, assumed), ""]
    why = "as asked for" if workload else "assumed: --workload gives another"
    parts += [f"{'[workload]':<31}# {why}; sizes and rates are assumed", WORKLOADS[kind], ""]
    assumed.append("transport, direction" + ("" if workload else ", workload"))
    return "\n".join(part.rstrip() for part in parts), assumed


Put = Callable[[str, str, str], None]


def _path(link: str, drives: Drives, given: Mapping[tuple[str, str], str], assumed: list[str]) -> list[str]:
    """The keys of a path: its link of the drive, and what was not measured."""
    lines = [f"drive      = {quoted(link)}"]

    def put(key: str, value: str, why: str) -> None:
        lines.append(f"{f'{key:<10} = {quoted(value)}':<30} # {why}")
        if why.startswith("assumed"):
            assumed.append(f"{link}.{key}")

    own = {key: value for (owner, key), value in given.items() if owner == link}
    missing = [side for side in SIDES if side not in drives.of]
    _side_by_side("rate", own, missing, put, {side: _rate(link, side, drives) for side in missing})
    for key, value in (("delay", DELAY), ("loss", LOSS)):
        open_ = [side for side in SIDES if not drives.has(side, link, COLUMNS[key])]
        _side_by_side(key, own, open_, put, dict.fromkeys(SIDES, (value, "assumed: not measured")))
    put("queue", own.get("queue", QUEUE), "given on the command line" if "queue" in own else "assumed: not measured")
    return lines


def _side_by_side(
    key: str,
    own: Mapping[str, str],
    open_: Sequence[str],
    put: Put,
    otherwise: Mapping[str, tuple[str, str]],
) -> None:
    """Says a value for each direction that was not measured: one for both, or one each."""
    origin = "given on the command line"
    values = {side: own.get(f"{key}.{side}", own.get(key)) for side in open_}
    entries = {side: (value, origin) if value else otherwise[side] for side, value in values.items()}
    if len(entries) == 2 and entries["down"] == entries["up"]:
        put(key, *entries["down"])
    else:
        for side, entry in entries.items():
            put(f"{key}.{side}", *entry)


def _rate(link: str, side: str, drives: Drives) -> tuple[str, str]:
    """The rate of a direction of which there is no drive."""
    other = "up" if side == "down" else "down"
    mean = drives.of[other].mean_bps[link] / 1e6
    if side == "up":
        return mbps_text(mean * UP_SHARE), "assumed: a quarter of the mean rate down"
    return mbps_text(mean), "assumed: as the mean rate up"
