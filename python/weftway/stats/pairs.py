"""Ratios of schedulers on the same instances, their intervals, and what may be claimed from them. Pure functions.

A *cell* is one instance under one controller, with one run of each scheduler per seed. The ratio of two schedulers
there is above 1 where the first did better; of several seeds it is the geometric mean of theirs. Ratios are averaged
geometrically. Their 95 % intervals come from resampling instances
with all their cells (percentile bootstrap): cells of one instance are no independent evidence. The draws are seeded,
so that equal rows give equal intervals.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import polars as pl

from weftway.runs.columns import FINISHED, is_number
from weftway.stats.baselines import CHANCE, REFERENCE
from weftway.stats.estimates import FEWEST, bootstrap
from weftway.stats.units import MEASURES

EVERY = "all"
"""Name for all controllers together."""

LOST = 0.95
"""A cell is lost where a scheduler has less than this share of the reference: it is worse by more than 5 %."""

MOST = 1000.0
"""Ratios are kept within this and its inverse: a run that delivered nothing has no logarithm."""

MEANS = ("goodput_mbps", "fct_ms", "message_p95_ms", "ooo_share")
"""Measures whose means a summary has beside the ratios."""

Run = dict[str, Any]


@dataclass(frozen=True)
class Estimate:
    """A number over the instances and its 95 % interval, which a single instance does not have."""

    value: float
    low: float | None
    high: float | None
    instances: int


@dataclass(frozen=True)
class Claim:
    """A statement, and what the rows say about it."""

    claim: str
    scheduler: str
    against: str
    cc: str
    mode: str
    value: float
    low: float | None
    high: float | None
    bar: float
    cells: int
    verdict: str
    """`holds` or `fails`."""
    is_sure: bool
    """True if the whole interval lies on the verdict's side of the bar."""
    is_strict: bool
    """True if the interval was asked for, and not the number alone."""


class Cells:
    """The rows of an evaluation by instance and controller."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self._runs: dict[tuple[str, str], dict[str, dict[int, Run]]] = {}
        for run in frame.iter_rows(named=True):
            cell = self._runs.setdefault((run["instance"], run["cc"]), {})
            cell.setdefault(run["scheduler"], {})[run.get("seed", 0)] = run
        runs = [run for cell in self._runs.values() for several in cell.values() for run in several.values()]
        self.schedulers = list(dict.fromkeys(run["scheduler"] for run in runs))
        self.policies = list(dict.fromkeys(run["scheduler"] for run in runs if run["is_policy"]))
        self.controllers = list(dict.fromkeys(run["cc"] for run in runs))
        self.mode = ", ".join(dict.fromkeys(run["mode"] for run in runs))

    def runs(self, scheduler: str, cc: str = EVERY) -> list[Run]:
        """The runs of a scheduler."""
        cells = (cell for (_, there), cell in self._runs.items() if cc in (EVERY, there))
        return [run for cell in cells for run in cell.get(scheduler, {}).values()]

    def alike(self, scheduler: str, against: str, cc: str = EVERY) -> list[bool]:
        """For each seed of each cell that both have run, whether the runs are alike."""
        cells = [cell for (_, there), cell in self._runs.items() if cc in (EVERY, there)]
        return [is_alike(*pair) for cell in cells for pair in _pairs(cell, scheduler, against)]

    def ratios(self, scheduler: str, against: str, cc: str = EVERY) -> dict[str, list[float]]:
        """The ratios of each instance's cells that both have run."""
        by_instance: dict[str, list[float]] = {}
        for (instance, there), cell in self._runs.items():
            if cc in (EVERY, there) and (pairs := _pairs(cell, scheduler, against)):
                whole = math.exp(fmean(math.log(ratio(*pair)) for pair in pairs))
                by_instance.setdefault(instance, []).append(ratio(*pairs[0]) if len(pairs) == 1 else whole)
        return by_instance


def _pairs(cell: dict[str, dict[int, Run]], scheduler: str, against: str) -> list[tuple[Run, Run]]:
    """The runs of two schedulers in a cell, seed by seed."""
    ours, theirs = cell.get(scheduler, {}), cell.get(against, {})
    return [(run, theirs[seed]) for seed, run in ours.items() if seed in theirs]


ALIKE = ("verdict", "elapsed_ms", "delivered_bytes", "ooo_packets", "retransmissions")
"""Runs that have these in common and carried the same on each path took the same decisions, as far as can be seen."""


def is_alike(ours: Run, theirs: Run) -> bool:
    """Tells if two runs cannot be told apart by what they did."""
    carried = [name for name in ours if name.startswith("path.") and name.endswith(".packets")]
    return all(ours.get(name) == theirs.get(name) for name in (*ALIKE, *carried))


def ratio(ours: Run, theirs: Run) -> float:
    """Ratio by which ours did better, in the measure that counts there; in goodput where one of them lacks it."""
    measure = MEASURES[ours["measure"]]
    if not (_positive(ours.get(measure.column)) and _positive(theirs.get(measure.column))):
        measure = MEASURES["goodput_mbps"]
    mine, other = float(ours[measure.column]), float(theirs[measure.column])
    if measure.lower_is_better:
        mine, other = other, mine
    if mine == other:
        return 1.0
    return min(max(mine / other if other else MOST, 1 / MOST), MOST)


def _positive(value: object) -> bool:
    return is_number(value) and value > 0


def geometric(ratios: dict[str, list[float]]) -> Estimate | None:
    """The geometric mean over instances, each with the same weight."""
    logarithm = estimate([fmean(map(math.log, some)) for some in ratios.values()])
    return logarithm and Estimate(
        math.exp(logarithm.value),
        None if logarithm.low is None else math.exp(logarithm.low),
        None if logarithm.high is None else math.exp(logarithm.high),
        logarithm.instances,
    )


def share(ratios: dict[str, list[float]], holds: Callable[[float], bool]) -> Estimate | None:
    """The share of cells for which something holds."""
    return estimate([fmean(holds(ratio) for ratio in some) for some in ratios.values()])


def estimate(values: Sequence[float]) -> Estimate | None:
    """The mean of independent values, and its bootstrap interval."""
    n = len(values)
    if n == 0:
        return None
    mean = math.fsum(values) / n
    if n == 1:
        return Estimate(mean, None, None, 1)
    within = bootstrap(values, "bootstrap", lambda sample: sum(sample) / n, interpolate=False)
    return Estimate(mean, within.low, within.high, n)


def summary(frame: pl.DataFrame, reference: str = REFERENCE) -> pl.DataFrame:
    """A line per controller and scheduler, the best first: over all controllers, then under each."""
    cells = Cells(frame)
    several = len(cells.controllers) > 1
    lines = []
    for cc in [*([EVERY] if several else []), *cells.controllers]:
        of_controller = [line for name in cells.schedulers if (line := _line(cells, name, reference, cc))]
        lines += sorted(of_controller, key=lambda line: -line["ratio"])
    return pl.DataFrame(lines, infer_schema_length=None)


def _line(cells: Cells, scheduler: str, reference: str, cc: str) -> dict[str, Any] | None:
    ratios = cells.ratios(scheduler, reference, cc)
    overall = geometric(ratios)
    if overall is None:
        return None
    every = [ratio for some in ratios.values() for ratio in some]
    runs = cells.runs(scheduler, cc)
    return {
        "on": runs[0]["on"],
        "mode": cells.mode,
        "cc": cc,
        "scheduler": scheduler,
        "is_policy": scheduler in cells.policies,
        "reference": reference,
        "ratio": overall.value,
        "ratio_low": overall.low,
        "ratio_high": overall.high,
        "lost_share": fmean(ratio < LOST for ratio in every),
        "won_share": fmean(ratio > 1 for ratio in every),
        "cells": len(every),
        "instances": overall.instances,
        "unfinished": sum(run["verdict"] not in FINISHED for run in runs),
        "same_share": _share_of(cells.alike(scheduler, reference, cc)),
        "differs_share": _of_decisions(runs, "fallback_differs"),
        "fallback_share": _of_decisions(runs, "fallback_decided"),
        **{measure: _mean(run.get(measure) for run in runs) for measure in MEANS},
    }


def _share_of(marks: Sequence[bool]) -> float | None:
    return fmean(marks) if marks else None


def _of_decisions(runs: Sequence[Run], column: str) -> float | None:
    """The share of all decisions that a column counts; none for a scheduler without a fallback."""
    counted = [run for run in runs if run.get(column) is not None]
    decisions = sum(run["decisions"] for run in counted)
    return sum(run[column] for run in counted) / decisions if decisions else None


def _mean(values: Iterable[Any]) -> float | None:
    known = [float(value) for value in values if is_number(value)]
    return fmean(known) if known else None


def claims(frame: pl.DataFrame) -> list[Claim]:
    """Claims that are asked of learned schedulers, as far as the rows can answer them.

    Beating uniform random is asked with its interval; the rest by its number, with the interval beside it.
    """
    cells = Cells(frame)
    questions = [question for name in cells.policies for question in _asked(cells, name)]
    return [claim for question in questions if (claim := question.answer(cells))]


MOST_LOST = 0.10


@dataclass(frozen=True)
class Question:
    """A claim before it is held against the rows."""

    claim: str
    scheduler: str
    against: str
    cc: str = EVERY
    is_strict: bool = False
    """True if the interval must show it, and not the number alone."""
    is_share: bool = False
    """True if it is about the share of cells that are lost, not about the ratio."""

    def answer(self, cells: Cells) -> Claim | None:
        """Claim that the rows answer; nothing where the two never ran in the same cell."""
        ratios = cells.ratios(self.scheduler, self.against, self.cc)
        measured = share(ratios, lambda ratio: ratio < LOST) if self.is_share else geometric(ratios)
        if measured is None or self.scheduler == self.against:
            return None
        bar = MOST_LOST if self.is_share else 1.0
        # Turned so that more is better in both: how far the number and its interval are on the good side.
        ends = (
            (measured.low, measured.high) if measured.instances >= FEWEST else (None, None)
        )  # of fewer, it is their range
        number, low, high = (None if end is None else end - bar for end in (measured.value, *ends))
        if self.is_share:
            number, low, high = (None if end is None else -end for end in (number, high, low))
        assert number is not None, "an estimate has a value"
        holds = (low is not None and low > 0) if self.is_strict else number >= 0
        is_sure = (low is not None and low >= 0) if holds else (high is not None and high < 0)
        return Claim(
            claim=self.claim,
            scheduler=self.scheduler,
            against=self.against,
            cc=self.cc,
            mode=cells.mode,
            value=measured.value,
            low=measured.low,
            high=measured.high,
            bar=bar,
            cells=sum(map(len, ratios.values())),
            verdict="holds" if holds else "fails",
            is_sure=is_sure,
            is_strict=self.is_strict,
        )


def _asked(cells: Cells, name: str) -> list[Question]:
    kind = name.split(":")[0]
    questions = [Question("beats uniform random", name, CHANCE, is_strict=True)]
    if kind == "dqn" and "bbr1" in cells.controllers:
        questions.append(Question("at least min-RTT under BBRv1", name, REFERENCE, cc="bbr1"))
    if kind in ("pdaa3c", "stsgat") and cells.mode.startswith("exclusive"):
        questions.append(Question("at least round robin in exclusive mode", name, "round-robin"))
    seldom = "loses more than 5 % to min-RTT in at most 10 % of cells"
    return [*questions, Question(seldom, name, REFERENCE, is_share=True)]
