"""Runs an entry in the cells of an edition."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from weftway import scenario
from weftway._native import ScenarioError
from weftway.rank.cells import Cell
from weftway.rank.costs import Row, bound, copies_share, cost, needed
from weftway.rank.standing import halves
from weftway.runs import bounds, plan, specs
from weftway.runs.backends import SIM
from weftway.runs.job import Job
from weftway.runs.runner import Progress, RowHandling, Runner, Wanted, threads
from weftway.runs.specs import SchedulerSpec
from weftway.stats.baselines import REFERENCE

from .edition import Cells, Edition
from .result import CLASS, ONE_PATH, POLICY, REGISTRY, Limits, Line, Result, row_of, row_of_limits

ALL_PATHS = ONE_PATH.replace(" ", "-")
"""Name of the entry that is no scheduler: each single path with the same handshake, and the capacity bound."""

Place = tuple[str, int]
"""A cell: its set and its place there."""


@dataclass(frozen=True)
class Asker:
    """The cell whose run it is, and over which path alone, if it is one."""

    place: Place
    cell: Cell
    path: str | None = None


def _needed(_: Job, row: Row) -> Row:
    return needed(row)


def _kept(wanted: Wanted[Job, Asker], row: Row) -> Row:
    """A row as the folder keeps it until the file is written."""
    return {"key": wanted.job.key, **row, "code": wanted.job.code, "command": wanted.job.command}


HANDLING: RowHandling[Job, Asker] = RowHandling(recalled=_needed, held=_needed, kept=_kept)


def entry(name: str) -> Result:
    """The entry that a name, a class in a file or a policy file stands for, without rows."""
    if name == ALL_PATHS:
        (spec,) = specs.parse(REFERENCE)
        return _without_rows(ALL_PATHS, ONE_PATH, spec, ALL_PATHS)
    spec = _spec(name)
    if spec.source == specs.UNKNOWN:
        raise ScenarioError(f"--entry {name}: its source is not known, and the result would have no digest of it")
    kind = CLASS if spec.rule else POLICY if spec.source else REGISTRY
    title = spec.given_title or (spec.rule.__name__ if spec.rule else spec.name)
    return _without_rows(title, kind, spec, spec.text)


def _spec(name: str) -> SchedulerSpec:
    found = specs.parse(name)
    if len(found) != 1:
        raise ScenarioError(f"--entry {name}: name one scheduler, class or policy file")
    return found[0]


def _without_rows(title: str, kind: str, spec: SchedulerSpec, text: str) -> Result:
    return Result(
        edition="",
        cells="",
        entry=title,
        kind=kind,
        version=spec.version,
        source=spec.source,
        run_as=_anywhere(text),
        code=SIM.code(),
        rows={},
    )


def _anywhere(text: str) -> str:
    """A scheduler's text without the folder of its file; one of ours begins at the source tree."""
    name, sign, rest = text.rpartition("=") if "=" in text.partition(":")[0] else ("", "", text)
    file, colon, more = rest.partition(":")
    if not Path(file).is_file():
        return text
    shown = scenario.shown_path(str(Path(file).resolve()))
    shown = Path(file).name if Path(shown).is_absolute() else shown
    return f"{name}{sign}{shown}{colon}{more}"


def run(
    edition: Edition,
    name: str,
    drawn: Cells,
    sealed: Cells,
    jobs: int | None = None,
    folder: Path | None = None,
    progress: Progress | None = None,
) -> Result:
    """Runs an entry in these cells and sealed cells, and gives its result without figures.

    What `folder` keeps is not run again. A run that fails is raised: an entry has all its cells, but for those that it
    is not made for.
    """
    begun = entry(name)
    every = {**drawn, **sealed}
    if begun.kind == ONE_PATH:
        rows = _limits(every, edition.seeds, jobs, folder, progress)
        skipped: list[str] = []
    else:
        rows, skipped = _lines(every, _spec(name), edition.seeds, jobs, folder, progress)
    digests = {one.name: one.digest for one in edition.sealed if one.name in sealed}
    return replace(begun, edition=edition.name, cells=edition.digest, rows=rows, sealed=digests, skipped=skipped)


def rows_at(name: str, cells: Cells, places: Sequence[Place], seeds: list[int], jobs: int | None) -> dict[Place, Any]:
    """The rows of an entry in some cells alone."""
    by_set: dict[str, list[int]] = {}
    for key, at in places:
        by_set.setdefault(key, []).append(at)
    few = {key: [cells[key][at] for at in ats] for key, ats in by_set.items()}
    is_floor = entry(name).kind == ONE_PATH
    rows = _limits(few, seeds, jobs) if is_floor else _lines(few, _spec(name), seeds, jobs)[0]
    return {(key, at): row for key, ats in by_set.items() for at, row in zip(ats, rows[key], strict=True)}


def _lines(
    every: Cells,
    spec: SchedulerSpec,
    seeds: list[int],
    jobs: int | None,
    folder: Path | None = None,
    progress: Progress | None = None,
) -> tuple[dict[str, list[Any]], list[str]]:
    """The rows of a scheduler, and why some are null."""
    wanted = [
        Wanted(plan.simulated(cell.variant, spec, cell.cc, seed), Asker((name, at), cell))
        for name, cells in every.items()
        for at, cell in enumerate(cells)
        for seed in seeds
    ]
    ran, skipped = _carried_out(wanted, jobs, folder, progress)
    rows = {
        name: [_row(cell, ran.get(((name, at), None), []), seeds) for at, cell in enumerate(cells)]
        for name, cells in every.items()
    }
    return rows, skipped


def _row(cell: Cell, ran: list[Row], seeds: list[int]) -> list[float] | None:
    if len(ran) < len(seeds):
        return None
    costs = [cost(row, cell.workload) for row in ran]
    copies, unfinished = fmean(map(copies_share, ran)), sum(row["verdict"] != "finished" for row in ran)
    return row_of(Line(_by_half(costs), copies, unfinished))


def _by_half(costs: Sequence[float]) -> tuple[float, float]:
    """Mean on each half of the seeds: what picking on one and judging on the other needs."""
    first, second = (fmean(costs[at] for at in half) for half in halves(len(costs)))
    return first, second


def _limits(
    every: Cells, seeds: list[int], jobs: int | None, folder: Path | None = None, progress: Progress | None = None
) -> dict[str, list[Any]]:
    """What single paths and the capacity allow."""
    (reference,) = specs.parse(REFERENCE)
    wanted = [
        one
        for name, cells in every.items()
        for at, cell in enumerate(cells)
        for one in _singles((name, at), cell, seeds, reference)
    ]
    ran, _ = _carried_out(wanted, jobs, folder, progress)
    whole = [one for one in wanted if one.asker.path is None]
    least = bounds.of([one.job for one in whole], jobs or os.cpu_count() or 1)
    known: dict[Place, list[float | None]] = {}
    for one in whole:
        asker = one.asker
        row = ran[asker.place, None][seeds.index(one.job.seed)]
        known.setdefault(asker.place, []).append(bound(row, least[one.job.key], asker.cell.workload))
    return {
        name: [_row_of_limits(cell, (name, at), ran, known[name, at]) for at, cell in enumerate(cells)]
        for name, cells in every.items()
    }


def _row_of_limits(
    cell: Cell, place: Place, ran: dict[tuple[Place, str | None], list[Row]], known: list[float | None]
) -> list[Any]:
    limits = [one for one in known if one is not None]
    paths = {path: _by_half([cost(row, cell.workload) for row in ran[place, path]]) for path in cell.singles()}
    return row_of_limits(Limits(fmean(limits) if len(limits) == len(known) else None, paths))


def _singles(place: Place, cell: Cell, seeds: list[int], reference: SchedulerSpec) -> Iterator[Wanted[Job, Asker]]:
    """The runs over each path of a cell; and those over all, of which the capacity bound is taken."""
    for path, variant in [(None, cell.variant), *cell.singles().items()]:
        for seed in seeds:
            yield Wanted(plan.simulated(variant, reference, cell.cc, seed), Asker(place, cell, path))


def _carried_out(
    wanted: list[Wanted[Job, Asker]], jobs: int | None, folder: Path | None, progress: Progress | None
) -> tuple[dict[tuple[Place, str | None], list[Row]], list[str]]:
    """The rows of each cell, seed by seed, and the reasons why some are missing."""
    with Runner(folder, progress, len(wanted), has_out=False) as runner:
        runs = runner.run(wanted, threads(jobs, singles=False), HANDLING)
    if runs.failed:
        raise runs.failed[0].error
    found: dict[tuple[Place, str | None], list[Row]] = {}
    for one, row in runs:
        found.setdefault((one.asker.place, one.asker.path), []).append(row)
    return found, sorted({one.reason for one in runs.skipped})
