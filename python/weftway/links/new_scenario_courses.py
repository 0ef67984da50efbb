"""Drive files of the links whose rate, delay or loss was recorded over time."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from weftway._native import ScenarioError
from weftway.links.measured import Reading
from weftway.links.new_scenario_links import Link

SIDES = ("down", "up")

STEP_S = 0.01
"""Lines of a drive file are at least so far apart."""

FORMS = {"mbps": "{:.3f}", "delay_ms": "{:.3f}", "loss_percent": "{:.3f}"}

UNITS = {"bit/s": 1e-6, "kbit/s": 1e-3, "mbit/s": 1.0, "gbit/s": 1e3}

Column = Sequence[float | None]


@dataclass
class Courses:
    """Courses of a link, and from which file each column is."""

    of: dict[tuple[str, str], tuple[Reading, Column]] = field(default_factory=dict)
    """By direction and the end of the column's name."""

    def has(self, side: str, column: str) -> bool:
        """Returns true if this column was recorded over time."""
        return (side, column) in self.of

    @property
    def lasts_s(self) -> float:
        """Time until the first of its recordings ends."""
        return min(reading.course.lasts_s for reading, _ in self.of.values() if reading.course)

    def told(self) -> str:
        """The files, and what each tells over time."""
        columns: dict[str, list[str]] = {}
        for (_, column), (reading, _) in self.of.items():
            word = {"mbps": "rate", "delay_ms": "delay", "loss_percent": "loss"}[column]
            words = columns.setdefault(reading.file.name, [])
            if word not in words:
                words.append(word)
        return "; ".join(f"{name}: {' and '.join(words)} over time" for name, words in columns.items())


def courses_of(link: Link) -> Courses:
    """The columns that its files tell over time and that are not given as values: of irtt, else of the first file."""
    found = Courses()
    # A trace is finer than a drive, and a link has one of them.
    if any(reading.traces for reading in link.readings):
        return found
    for reading in sorted(link.readings, key=lambda reading: reading.kind != "irtt"):
        for side in SIDES:
            for column, values in reading.course.columns(side).items() if reading.course else ():
                key = column.partition("_")[0].replace("mbps", "rate")
                if key not in link.given and f"{key}.{side}" not in link.given:
                    found.of.setdefault((side, column), (reading, values))
    return found


def mbps_of(text: str) -> float:
    """Mbit/s of a rate as scenarios write it.

    >>> mbps_of("20 Mbit/s"), mbps_of("1.5Gbit/s"), mbps_of("64 kbit/s")
    (20.0, 1500.0, 0.064)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kMG]?bit/s)\s*", text, re.IGNORECASE)
    if match is None:
        raise ScenarioError(f"`{text}` is not a rate; expected one such as `20 Mbit/s`")
    return float(match[1]) * UNITS[match[2].lower()]


def table(side: str, links: Mapping[str, Courses], rates: Mapping[str, float]) -> str:
    """A drive file of one direction. `rates` are those of links whose rate was not recorded over time, in Mbit/s.

    Recordings begin together, and it ends with the shortest.
    """
    lasts_s = min(courses.lasts_s for courses in links.values())
    names: list[str] = []
    cells: dict[float, dict[str, str]] = {0.0: {}}
    for link, courses in links.items():
        for column, form in FORMS.items():
            name = f"{link}_{column}"
            if courses.has(side, column):
                reading, values = courses.of[side, column]
                _fill(cells, name, form, reading, values, lasts_s)
            elif column == "mbps":
                cells[0.0][name] = form.format(rates[link])
            else:
                continue
            names.append(name)
    lines = [",".join(["at_s", *names])]
    lines += [",".join([f"{at:.2f}", *(row.get(name, "") for name in names)]) for at, row in sorted(cells.items())]
    return "\n".join(lines) + "\n"


def _fill(
    cells: dict[float, dict[str, str]], name: str, form: str, reading: Reading, values: Column, lasts_s: float
) -> None:
    """Enters a column. What is unknown at the beginning is as it was first known; later, as it was last."""
    assert reading.course is not None
    written = form.format(next(value for value in values if value is not None))
    cells[0.0][name] = written
    for at, value in zip(reading.course.at_s, values, strict=True):
        moment = round(round(at / STEP_S) * STEP_S, 2)
        if value is None or moment >= lasts_s or (text := form.format(value)) == written:
            continue
        cells.setdefault(moment, {})[name] = written = text


def places(target: Path) -> dict[str, Path]:
    """The drive files of a scenario, none of which may be there."""
    found = {side: target.with_name(f"{target.stem}.{side}.csv") for side in SIDES}
    for place in found.values():
        if place.exists() or place.is_symlink():
            raise ScenarioError(f"{place} exists already; give another name, or move it away")
    return found
