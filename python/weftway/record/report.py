"""What is told of a recording, and the files that it becomes: a drive for each direction, and their scenario.

`[drive]` in docs/reference/scenario.md says what a drive is.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from weftway import new_drive_scenario, new_scenario
from weftway._native import ScenarioError, TransferError
from weftway.listing import NOTHING, plain_table
from weftway.new_drive_scenario import SIDES

from . import estimate
from .estimate import Estimate, Step
from .probes import SINGLE_BYTES, SINGLES_NS, STEP_NS, TRAIN
from .recording import Recorded
from .wire import FULL_BYTES

UPPER = "upper bounds: what a few packets back to back reached; --load measures"

COLUMNS: tuple[tuple[str, Callable[[Step], float | None], str], ...] = (
    ("mbps", lambda step: step.mbps, ".3f"),
    ("delay_ms", lambda step: step.delay_ms, ".2f"),
    ("loss_percent", lambda step: step.loss_percent, ".2f"),
)


@dataclass(frozen=True)
class Report:
    """What was measured, and where it is."""

    links: list[str]
    paths: list[estimate.Path]
    seconds: float
    load: bool
    written: new_scenario.Written
    files: dict[str, Path]
    caveats: list[str]
    cut: str | None
    """Why the other end's records end before the recording did."""


def link_names(paths: Sequence[str]) -> list[str]:
    """What the links are called that are measured over these interfaces and addresses: as a scenario may call a path.

    >>> link_names(["wlan0", "192.0.2.7"])
    ['wlan0', '192-0-2-7']
    """
    names = [re.sub(r"[^A-Za-z0-9_-]", "-", path) for path in paths]
    for at, name in enumerate(names):
        if name in names[:at]:
            raise ScenarioError(f"--path {paths[at]}: two paths are the link `{name}`; a link is measured once")
    return names


def drive_files(name: str) -> dict[str, Path]:
    """Where the drive of each direction goes."""
    return {side: Path(f"{name}.{side}.csv") for side in SIDES}


def drive_text(links: Sequence[str], steps: Sequence[Sequence[Step]]) -> str:
    """The drive of links with these steps, as many as are known of each."""
    count = min(map(len, steps))
    columns = [
        (f"{link}_{name}", [of(step) for step in own[:count]], form)
        for link, own in zip(links, steps, strict=True)
        for name, of, form in COLUMNS
        if any(of(step) is not None for step in own[:count])
    ]
    lines = [",".join(["at_s", *(name for name, _, _ in columns)])]
    for at in range(count):
        values = ("" if column[at] is None else format(column[at], form) for _, column, form in columns)
        lines.append(",".join([f"{at * STEP_NS / 1e9:.1f}", *values]))
    return "\n".join([*lines, ""])


def probe_bytes(seconds: int, header: int) -> int:
    """What probes take in this time on a path and direction, in bytes of IP packets.

    >>> probe_bytes(60, 28)  # 120 steps of 4 · 1228 + 4 · 92 bytes
    633600
    """
    step = TRAIN * (FULL_BYTES + header) + len(SINGLES_NS) * (SINGLE_BYTES + header)
    return step * seconds * 1_000_000_000 // STEP_NS


def free(name: str, workload: str | None) -> None:
    """Refuses a name whose files are there, before anything is measured."""
    new_scenario.target_of(name, workload or "bulk")
    for file in drive_files(name).values():
        if file.exists() or file.is_symlink():
            raise ScenarioError(f"{file} exists already; give another name with --out, or move it away")


def write(recorded: Recorded, name: str, workload: str | None) -> Report:
    """Writes the drives and their scenario."""
    paths = estimate.paths(recorded)
    links = link_names([path.name for path in paths])
    count = len(paths[0].up.steps)
    if count == 0 and recorded.spent:
        raise TransferError(f"{recorded.spent}: its cap was spent before the first half second; --cap allows more")
    if count == 0:
        over = "it was over before the first half second was measured; nothing is written"
        raise TransferError(f"{recorded.missing}; {over}" if recorded.missing else over)
    for path in paths:
        for side, one in path.directions.items():
            if one.mean_mbps is None:
                raise TransferError(
                    f"{path.name}: nothing tells of its rate {side}: no train arrived whole. Nothing is written; "
                    "record for longer, or with --load"
                )
    files = drive_files(name)
    for side, file in files.items():
        with file.open("x") as out:
            out.write(drive_text(links, [path.directions[side].steps for path in paths]))
    load, seconds = recorded.plan.load, count * STEP_NS / 1e9
    told = caveats(recorded, paths, seconds)
    how = "with load: the rate is what arrived" if load else "with probes"
    notes = new_drive_scenario.Notes(
        lines=[f"Recorded by weft record, {seconds:g} s, {how}.", *told],
        rate="what arrived of the load" if load else UPPER,
    )
    written = new_drive_scenario.from_drive(name, list(files.values()), None, workload, notes=notes)
    cut = recorded.missing if count < recorded.steps else None
    return Report(links, paths, seconds, load, written, files, told, cut)


def caveats(recorded: Recorded, paths: Sequence[estimate.Path], seconds: float) -> list[str]:
    """What a reader of the numbers has to know."""
    found = []
    if not recorded.plan.load:
        found.append(f"The rates are {UPPER}.")
    for path in paths:
        for side, one in path.directions.items():
            if one.slow:
                found.append(f"{path.name} {side}: this machine sent no faster than the link; its rate is no bound.")
            if one.not_full:
                found.append(
                    f"{path.name} {side}: not always full in {one.not_full} of {len(one.steps)} steps; "
                    "there it may carry more."
                )
    if recorded.spent:
        found.append(f"{recorded.spent}: its cap was spent after {seconds:g} s.")
    missing = [line.name for line in recorded.lines if not line.is_complete]
    if missing:
        found.append(f"The other end's last records of {', '.join(missing)} did not arrive; {seconds:g} s are written.")
    return found


def table(report: Report) -> Table:
    """A row for each direction of each path."""
    how = "load" if report.load else "probes"
    made = plain_table(f"{report.seconds:g} s, {how}")
    rate = "Mbit/s" if report.load else "Mbit/s\nat most"
    for column in ("link", "", f"{rate}\nmean", "least", "most", "round trip\nms", "lost\n%", "out\n%"):
        made.add_column(column, justify="left" if column in ("link", "") else "right")
    for link, path in zip(report.links, report.paths, strict=True):
        for side in SIDES:
            one = path.directions[side]
            rates = [step.mbps for step in one.steps if step.mbps is not None]
            out = 100 * rates.count(0.0) / len(one.steps)
            shown = [one.mean_mbps, min(rates), max(rates), one.rtt_ms, _loss(one), out]
            made.add_row(link if side == SIDES[0] else "", side, *map(_number, shown))
    return made


def _loss(one: Estimate) -> float | None:
    return 100 * one.probes_lost / one.probes_sent if one.probes_sent else None


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.1f}"


def record(report: Report) -> list[dict[str, Any]]:
    """The same for `--json`: an object for each direction of each path."""
    return [
        {
            "link": link,
            "path": path.name,
            "direction": side,
            "seconds": report.seconds,
            "load": report.load,
            "rate_mbps": one.mean_mbps,
            "rate_is": "measured" if report.load else "at least" if one.slow else "at most",
            "rtt_ms": one.rtt_ms,
            "loss_percent": _loss(one),
            "not_full_steps": one.not_full,
            "steps": len(one.steps),
            "drive": str(report.files[side]),
            "scenario": str(report.written.file),
            "caveats": report.caveats,
        }
        for link, path in zip(report.links, report.paths, strict=True)
        for side, one in ((side, path.directions[side]) for side in SIDES)
    ]
