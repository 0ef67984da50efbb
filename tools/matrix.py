"""Matrix of every scheduler under every controller in a dozen scenarios: `./weft python tools/matrix.py --out DIR`.

It runs the cells that DIR lacks, and writes their figures to `site/data/matrix.json.gz`. `./weft docs` renders these: a
page of all cells, and below what `docs/explanation/matrix.md` says, who wins where, what counts for more, and where
several paths are worse than the best of them alone.
"""

import argparse
import gzip
import json
import math
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import Any

from weftway import _native
from weftway._native import Scenario
from weftway.markdown import table
from weftway.report.numbers import whole_percent
from weftway.runs import comparison, plan, specs
from weftway.runs.backends import SIM
from weftway.runs.job import Job
from weftway.runs.plan import Plan
from weftway.runs.store import whole
from weftway.sample.distribution import written
from weftway.scenario import HOME
from weftway.stats.baselines import REFERENCE
from weftway.stats.estimates import Estimate, estimate
from weftway.terminal.console import PlainConsole
from weftway.terminal.progress import Bar

DATA = HOME / "site/data/matrix.json.gz"
"""Figures of the cells as they were run last."""

WORSE = 0.01
"""Distance behind the best single path from which bonding is called worse."""

LEVEL = 0.01
"""Schedulers within this share of the best are level with it."""

MOST = 12
"""Number of schedulers with a line in the written page."""

OURS = "earliest-delivery"

NOT_HERE = ("vary", "range", "figure", "published", "expect", "uncertain", "scheduler", "cc", "seeds")
"""Keys of a scenario that say what is run of it, or are about other tools."""


COLUMNS = {"messages": "message_p99_ms", "stream": "message_p99_ms", "request-response": "fct_ms"}
"""Measure of each workload that is about time."""


@dataclass(frozen=True)
class Place:
    """A scenario of the matrix: a file, and what is changed so that a cell takes milliseconds."""

    name: str
    file: str
    sets: tuple[str, ...] = ()

    @cached_property
    def keys(self) -> dict[str, Any]:
        """The file's keys without what it compares."""
        found = tomllib.loads(Scenario.load(str(HOME / self.file), []).text)
        return {key: value for key, value in found.items() if key not in NOT_HERE}

    @property
    def column(self) -> str:
        """Measure of the place: benefit of bulk data (0 is the best path alone, 1 the sum of all), or a time in ms."""
        return COLUMNS.get(self.keys["workload"]["kind"], "aggregation_benefit")

    @property
    def is_timely(self) -> bool:
        """True if the measure is a time."""
        return self.column != "aggregation_benefit"

    def scenario(self, only: str | None = None) -> Scenario:
        """Scenario of the place, or the same with one path alone."""
        keys = dict(self.keys)
        if only:
            own = {name: body for name, body in keys["path"].items() if name == only or "connection" in body}
            links = {body.get("on") for body in keys.get("cross", {}).values()} - set(own) - set(keys.get("link", {}))
            cross = {name: body for name, body in keys.get("cross", {}).items() if body.get("on") not in links}
            keys = {**keys, "path": own, **({"cross": cross} if "cross" in keys else {})}
            if not cross:
                keys.pop("cross", None)
        folder = str((HOME / self.file).parent)
        sets = [one for one in self.sets if not (only and one.startswith("path."))]
        return Scenario.parse(written(keys), self.file, folder, sets)

    @property
    def paths(self) -> list[str]:
        """The names of the connection's own paths."""
        return [name for name, body in self.keys["path"].items() if "connection" not in body]


PLACES = (
    Place("wifi-lte", "scenarios/wifi-lte.toml", ("workload.bytes=8 MB",)),
    Place("dsl-satellite", "scenarios/dsl-satellite.toml", ("options.receive_buffer=2 MiB",)),
    Place("three-paths", "scenarios/three-paths.toml", ("workload.bytes=15 MB",)),
    Place("walking-out", "scenarios/walking-out.toml"),
    Place("video-chunks", "scenarios/video-chunks.toml", ("path.second.delay=60 ms", "workload.count=8")),
    Place("gaming", "scenarios/gaming.toml", ("workload.count=600",)),
    Place("live-video", "scenarios/live-video.toml", ("workload.duration=10 s",)),
    Place("llhd-table1", "experiments/lubna-2022/table1.toml", ("workload.duration=30 s",)),
    Place("unequal-pair", "scenarios/unequal-pair.toml"),
    Place("tenfold", "scenarios/tenfold.toml"),
    Place("four-paths", "scenarios/four-paths.toml", ("workload.count=1500", "decision.mode=preferred")),
    Place("eight-modems", "scenarios/eight-modems.toml", ("workload.bytes=10 MB",)),
)
"""The everyday scenarios, the papers', and extremes."""

SINGLE = "one path: "
"""Prefix of the command of a row of a path alone."""


@dataclass(frozen=True)
class Cell:
    """Means over the seeds of a scheduler under a controller in a scenario."""

    place: str
    scheduler: str
    cc: str
    value: float | None
    """Mean of the place's column."""
    out_of_order: float | None
    """Share of packets that came before their turn."""
    single: float | None
    """Value of the best path alone: 0 where the value is a benefit."""
    unfinished: int
    spread: Estimate | None = None
    """`value` with its interval over the seeds."""
    completion: Estimate | None = None
    """Completion time in ms; none where the workload has no end or a run did not come to it."""
    goodput: Estimate | None = None
    """In Mbit/s."""

    def is_worse(self, is_timely: bool) -> bool:
        """True if one path alone does better."""
        if self.value is None or self.single is None:
            return self.unfinished > 0
        return self.value > self.single * (1 + WORSE) if is_timely else self.value < -WORSE


def jobs(places: Iterable[Place], schedulers: Any, controllers: list[tuple[str, str]], seeds: range) -> list[Job]:
    """Everything to run: every pair in every scenario, and every path alone under min-RTT where messages count."""
    field, alone = specs.parse(schedulers), specs.parse(REFERENCE)[0]
    found: list[Job] = []
    for place in places:
        whole_ = place.scenario()
        (variant,) = whole_.variants()
        for cc in controllers:
            for seed in seeds:
                for one in field:
                    again = plan.replay(whole_, variant, one, cc[0], SIM.name, seed)
                    found.append(Job(variant, one, cc, SIM.name, seed, again, SIM.code()))
    for place in places:
        for path in place.paths if place.is_timely else ():
            scenario = place.scenario(path)
            (variant,) = scenario.variants()
            for cc in controllers:
                found += [Job(variant, alone, cc, SIM.name, seed, f"{SINGLE}{path}", SIM.code()) for seed in seeds]
    return found


def cells(places: Iterable[Place], rows: Sequence[dict[str, Any]]) -> list[Cell]:
    """The rows by cell, in the order of the matrix."""
    by: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    files = {place.scenario().variants()[0].hash: place for place in places}
    timely = {place.scenario().name: place for place in places}
    alone: dict[tuple[str, str], dict[str, list[float]]] = {}
    for row in rows:
        if row["command"].startswith(SINGLE):
            best = alone.setdefault((row["scenario"], row["cc"]), {})
            delay = row[timely[row["scenario"]].column] if row["verdict"] == "finished" else math.inf
            best.setdefault(row["command"], []).append(math.inf if delay is None else delay)
        else:
            place = files[row["scenario_hash"]]
            by.setdefault((place.name, row["scheduler"], row["cc"]), []).append(row)
    known = {place.name: place for place in places}
    found = []
    for (name, scheduler, cc), some in by.items():
        singles = alone.get((some[0]["scenario"], cc), {})
        single = min((fmean(delays) for delays in singles.values()), default=math.inf)
        lone = (single if math.isfinite(single) else None) if known[name].is_timely else 0.0
        unfinished = sum(row["verdict"] != "finished" for row in some)
        value, ooo = mean(some, known[name].column), mean(some, "ooo_share")
        spreads = (over_seeds(some, column) for column in (known[name].column, "fct_ms", "goodput_mbps"))
        found.append(Cell(name, scheduler, cc, value, ooo, lone, unfinished, *spreads))
    return found


def mean(rows: list[dict[str, Any]], column: str) -> float | None:
    """Over the seeds; none where a run has none."""
    values = [row[column] for row in rows]
    return None if any(value is None for value in values) else fmean(values)


def over_seeds(rows: list[dict[str, Any]], column: str) -> Estimate | None:
    """Mean and interval; none where a run has none."""
    values = [row.get(column) for row in rows]
    known = [float(value) for value in values if isinstance(value, (int, float))]
    return estimate(known) if known and len(known) == len(values) else None


def twins(found: list[Cell]) -> dict[str, list[str]]:
    """Schedulers with the very values of another one in every cell, by the one of them that the page shows.

    Shown is min-RTT if it is among them, else the first. Such a scheduler decided nothing of its own: it is no rule
    that could be ranked. Nothing but the rows says who they are.
    """
    marks: dict[str, list[tuple[Any, ...]]] = {}
    for cell in found:
        mark = (cell.place, cell.cc, cell.value, cell.out_of_order, cell.single, cell.unfinished)
        marks.setdefault(cell.scheduler, []).append(mark)
    alike: dict[tuple[tuple[Any, ...], ...], list[str]] = {}
    for name in sorted(marks, key=lambda name: name != REFERENCE):
        alike.setdefault(tuple(sorted(marks[name], key=repr)), []).append(name)
    return {first: others for first, *others in alike.values() if others}


def distinct(found: list[Cell]) -> list[Cell]:
    """The cells of one scheduler of each that are alike."""
    others = {name for names in twins(found).values() for name in names}
    return [cell for cell in found if cell.scheduler not in others]


def leaders(places: Iterable[Place], found: list[Cell]) -> list[list[str]]:
    """A line per scenario: under each controller the best scheduler, how many are level with it, and min-RTT."""
    lines = []
    controllers = list(dict.fromkeys(cell.cc for cell in found))
    for place in places:
        line = [f"`{place.name}`"]
        for cc in controllers:
            here = {c.scheduler: c.value for c in found if (c.place, c.cc) == (place.name, cc) and c.value is not None}
            line.append(leader(here, place.is_timely))
        lines.append(line)
    return lines


def leader(here: dict[str, float], is_timely: bool) -> str:
    """The best of `here`, and what min-RTT has."""
    if not here:
        return "–"
    name = (min if is_timely else max)(here, key=lambda one: here[one])
    best = here[name]
    near: Callable[[float], bool] = (
        (lambda value: value <= best * (1 + LEVEL)) if is_timely else (lambda value: value >= best - LEVEL)
    )
    level = sum(map(near, here.values())) - 1
    usual = here.get(REFERENCE)
    told = f"{best:.0f} ms" if is_timely else f"{best:.2f}"
    other = "" if usual is None or name == REFERENCE else f" (`{REFERENCE}` {usual:.{0 if is_timely else 2}f})"
    return f"`{name}` {told}{f', {level} level' if level else ''}{other}"


def behind(places: Iterable[Place], found: list[Cell]) -> list[list[str]]:
    """A line per scenario: in how many cells bonding is worse than the best path alone, and under which controllers."""
    lines = []
    for place in places:
        here = [cell for cell in found if cell.place == place.name]
        worse = [cell for cell in here if cell.is_worse(place.is_timely)]
        by = {cc: sum(cell.cc == cc for cell in worse) for cc in dict.fromkeys(cell.cc for cell in here)}
        many = [f"`{cc}`" for cc, count in by.items() if count > len(here) / len(by) / 2]
        lines.append([f"`{place.name}`", f"{len(worse)} of {len(here)}", ", ".join(many) or "–"])
    return lines


def counts(places: Iterable[Place], found: list[Cell]) -> list[str]:
    """Counts over the bulk cells: level with the best, worse than one path, above a benefit of 1."""
    bulk = {place.name for place in places if not place.is_timely}
    some = [cell for cell in found if cell.place in bulk and cell.value is not None]
    best: dict[tuple[str, str], float] = {}
    for cell in some:
        best[cell.place, cell.cc] = max(best.get((cell.place, cell.cc), -math.inf), cell.value or 0.0)
    level = Counter(cell.scheduler for cell in some if (cell.value or 0.0) >= best[cell.place, cell.cc] - LEVEL)
    worse = Counter(cell.scheduler for cell in some if cell.is_worse(is_timely=False))
    above = sum((cell.value or 0.0) > 1 + LEVEL for cell in some)
    each = max(len(best), 1)
    return [
        f"- Level with the best most often, of {each} cells: {most(level, each)}.",
        f"- Worse than one path most often, of {each} cells: {most(worse, each)}.",
        f"- {above} of {len(some)} cells have a benefit above {1 + LEVEL}.",
    ]


def most(count: Counter[str], each: int) -> str:
    """The eight that are counted most, and those to compare them with."""
    names = [name for name, _ in count.most_common(8)]
    names += [name for name in (REFERENCE, OURS) if name not in names]
    return ", ".join(f"`{name}` {count[name]} ({whole_percent(count[name] / each)})" for name in names)


def ranges(places: Iterable[Place], found: list[Cell]) -> list[list[str]]:
    """A line per bulk scenario: how far benefit ranges over the controllers, and over the schedulers."""
    lines = []
    for place in places:
        if place.is_timely:
            continue
        here = [cell for cell in found if cell.place == place.name and cell.value is not None]
        lines.append([f"`{place.name}`", spread(here, "scheduler"), spread(here, "cc")])
    return lines


def spread(cells: list[Cell], fixed: str) -> str:
    """The range from the first to the ninth decile where `fixed` is the same, in the median."""
    groups: dict[str, list[float]] = {}
    for cell in cells:
        groups.setdefault(getattr(cell, fixed), []).append(cell.value or 0.0)
    deciles = [quantiles(values, n=10, method="inclusive") for values in groups.values() if len(values) > 1]
    return f"{median(tenths[-1] - tenths[0] for tenths in deciles):.1f}" if deciles else "–"


def typical(places: list[Place], found: list[Cell]) -> list[list[str]]:
    """A line per scheduler: its median over the controllers in each scenario, and how often it is with the best."""
    best: dict[tuple[str, str], float] = {}
    timely = {place.name: place.is_timely for place in places}
    for cell in found:
        if cell.value is not None:
            key, pick = (cell.place, cell.cc), min if timely[cell.place] else max
            best[key] = pick(best.get(key, cell.value), cell.value)
    lines = []
    for name in dict.fromkeys(cell.scheduler for cell in found):
        own = [cell for cell in found if cell.scheduler == name]
        line, level = [f"`{name}`"], 0
        for place in places:
            values = [cell.value for cell in own if cell.place == place.name and cell.value is not None]
            line.append((f"{median(values):.0f}" if place.is_timely else f"{median(values):.2f}") if values else "–")
        for cell in own:
            if cell.value is not None:
                top = best[(cell.place, cell.cc)]
                level += cell.value <= top * (1 + LEVEL) if timely[cell.place] else cell.value >= top - LEVEL
        lines.append([*line, whole_percent(level / max(len(own), 1))])
    return lines


def foremost(lines: list[list[str]]) -> list[list[str]]:
    """Lines of `typical` that are level with the best most often, and those to compare them with, in that order."""
    order = sorted(lines, key=lambda line: -int(line[-1].rstrip("%")))
    usual = {f"`{name}`" for name in (REFERENCE, OURS, "random")}
    return [line for at, line in enumerate(order) if at < MOST or line[0] in usual]


def alike(same: dict[str, list[str]]) -> list[str]:
    """Schedulers that are not ranked, because they did in all cells what another did."""
    if not same:
        return []
    lines = [f"- = `{first}`: {', '.join(f'`{name}`' for name in others)}" for first, others in same.items()]
    said = "These have exactly the results of another scheduler in every cell, and are neither ranked nor counted:"
    return [said, "", *lines, ""]


def page(places: list[Place], found: list[Cell], seeds: int, code: str) -> str:
    """Generated part of the page. Schedulers that did in every cell what another did are no rows of their own."""
    controllers = list(dict.fromkeys(cell.cc for cell in found))
    schedulers = list(dict.fromkeys(cell.scheduler for cell in found))
    same, found = twins(found), distinct(found)
    size = f"{len(schedulers)} schedulers × {len(controllers)} controllers × {len(places)} scenarios"
    worse = sum(cell.is_worse(place.is_timely) for place in places for cell in found if cell.place == place.name)
    late = sum(cell.unfinished > 0 for cell in found)
    text = [
        f"{size} × {seeds} seeds; code {code}. Bulk: aggregation benefit (0 is the best path alone, 1 the "
        "sum of all). Messages (`gaming`, `live-video`, `four-paths`): the 99th percentile of their delay, in ms; "
        f"`video-chunks`: the time until the last one arrives. Means over the seeds. {worse} of {len(found)} "
        f"cells are worse than the best path alone by more than {whole_percent(WORSE)}"
        f"{f'; in {late} a run was not finished in time' if late else ''}.",
        "",
        *alike(same),
        "## Who wins where",
        "",
        f"The best scheduler, how many others are level with it (within {whole_percent(LEVEL)}), and min-RTT's value.",
        "",
        *table(["scenario", *(f"`{cc}`" for cc in controllers)], leaders(places, found)),
        "",
        "## In numbers, of the bulk scenarios",
        "",
        *counts(places, found),
        "",
        "The range of benefit (first to ninth decile, in the median): over the controllers with one scheduler, and "
        "over the schedulers with one controller.",
        "",
        *table(["scenario", "over controllers", "over schedulers"], ranges(places, found)),
        "",
        "## The schedulers, median over the controllers",
        "",
        f"Last column: the share of cells in which it is level with the best. The {MOST} that are level most often, "
        "and some to compare them with; [the page of all cells](../matrix.html) has the others.",
        "",
        *table(["scheduler", *(f"`{place.name}`" for place in places), "level"], foremost(typical(places, found))),
        "",
        "## Where several paths are worse than one",
        "",
        "Cells that are worse than the best path alone, and the controllers under which most schedulers are worse. "
        "[The page of all cells](../matrix.html) marks each.",
        "",
        *table(["scenario", "worse", "most schedulers under"], behind(places, found)),
    ]
    return "\n".join(text).rstrip() + "\n"


def picture(places: list[Place], found: list[Cell], seeds: int) -> str:
    """Page to look at: all cells, a table per scenario, coloured by how near they are to the best."""
    same, found = twins(found), distinct(found)
    short = [
        [
            [place.name for place in places].index(cell.place),
            cell.scheduler,
            cell.cc,
            rounded(cell.value),
            rounded(cell.out_of_order),
            rounded(cell.single),
            cell.unfinished,
            *(part for spread in (cell.spread, cell.completion, cell.goodput) for part in pair(spread)),
        ]
        for cell in found
    ]
    about = [
        {
            "name": place.name,
            "title": place.keys["title"],
            "timely": place.is_timely,
            "column": place.column,
            "file": place.file,
            "sets": place.sets,
        }
        for place in places
    ]
    told = {"places": about, "cells": short, "same": same, "seeds": seeds, "worse": WORSE}
    data = json.dumps(told, separators=(",", ":"))
    template = Path(__file__).with_name("matrix.html").read_text(encoding="utf-8")
    return template.replace("/*DATA*/null", data.replace("</", "<\\/"))


def pair(spread: Estimate | None) -> tuple[float | None, float | None]:
    """Mean and half interval, rounded for the page."""
    return (rounded(spread.mean), rounded(spread.half)) if spread else (None, None)


def rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def kept(found: list[Cell], seeds: int) -> bytes:
    """Cells as the data file has them: rounded, packed, the same bytes for the same cells."""
    rows = [[_rounded(value) for value in asdict(one).values()] for one in found]
    told = {"code": _native.CODE, "seeds": seeds, "cells": rows}
    return gzip.compress(json.dumps(told, separators=(",", ":")).encode(), mtime=0)


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return [rounded(value["mean"]), rounded(value["half"]), value["n"]]
    return rounded(value) if isinstance(value, float) else value


def recalled(packed: bytes) -> tuple[list[Cell], int, str]:
    """Cells of the data file, the number of their seeds, and the code that made them."""
    told = json.loads(gzip.decompress(packed))
    found = [Cell(*row[:7], *(part and Estimate(*part) for part in row[7:])) for row in told["cells"]]
    return found, told["seeds"], told["code"]


def pages() -> tuple[str, str]:
    """Generated part of the written page, and the page of all cells, from the data file."""
    found, seeds, code = recalled(DATA.read_bytes())
    return page(list(PLACES), found, seeds, code), picture(list(PLACES), found, seeds)


def main(arguments: list[str] | None = None) -> None:
    """Runs what is missing, and writes the data file."""
    parser = argparse.ArgumentParser(prog="tools/matrix.py", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder that keeps the rows")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each cell")
    parser.add_argument("--scheduler", default="all")
    parser.add_argument("--cc", default="all")
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument("--data", type=Path, help="file for the figures, in place of the site's")
    given = parser.parse_args(arguments)
    if given.data is None and (given.scheduler, given.cc) != ("all", "all"):
        parser.error("the site shows all schedulers and controllers: name another file for a part with --data FILE")
    places, seeds = list(PLACES), range(given.seeds)
    every = [entry["name"] for entry in _native.controllers()] if given.cc == "all" else plan.names(given.cc)
    wanted = Plan(places[0].scenario(), jobs(places, given.scheduler, [_native.controller(cc) for cc in every], seeds))
    with Bar(PlainConsole(stderr=True)) as bar:
        result = comparison.execute(wanted, given.jobs, given.out, bar.tell).complete()
    with whole(given.data or DATA) as half:
        half.write_bytes(kept(cells(places, result.rows), given.seeds))


if __name__ == "__main__":
    main()
