"""Checks of published numbers and claims, made from what a file says and from the rows of one setting."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from statistics import fmean
from typing import Any

from weftway.report.numbers import whole_percent
from weftway.runs.backends import Row

from . import verdict
from .verdict import EFFECT_TOLERANCE, LEVEL_TOLERANCE, MOST_FALLBACK, Check, Part, Region, Sample

Values = dict[int, float]
"""A metric of one scheduler by seed."""

FACTORS = {
    ("_mbps", "Mbit/s"): 1.0,
    ("_kbytes", "kB/s"): 1.0,
    ("_mib", "MiB"): 1.0,
    ("_ms", "ms"): 1.0,
    ("_ms", "s"): 1000.0,
    ("_rate", "%"): 0.01,
    ("_share", "%"): 0.01,
}
"""Factors from the unit of a published number to that of the column, by the end of the column's name."""


class Undecidable(Exception):
    """The rows cannot answer, and why."""


@dataclass(frozen=True)
class Scope:
    """Which rows are meant."""

    cc: str
    at: tuple[tuple[str, str], ...]
    """Values of varied keys; the mean over the settings that have them."""

    def __str__(self) -> str:
        return ", ".join([self.cc, *(f"{key} = {value}" for key, value in self.at)])


class Rows:
    """The rows of one file in one drawn setting."""

    def __init__(
        self, rows: Iterable[Row], keys: Sequence[str], elsewhere: Callable[[str], Rows] | None = None
    ) -> None:
        self._runs: dict[tuple[str, str], dict[tuple[str, ...], dict[int, Row]]] = {}
        self.keys = list(keys)
        """Keys that are varied beside schedulers and controllers."""
        self.elsewhere = elsewhere
        """The rows of another file of the same folder."""
        for row in rows:
            place = tuple(str(row[key]) for key in self.keys)
            self._runs.setdefault((row["scheduler"], row["cc"]), {}).setdefault(place, {})[row["seed"]] = row
        self.schedulers = list(dict.fromkeys(name for name, _ in self._runs))
        self.controllers = list(dict.fromkeys(cc for _, cc in self._runs))

    def settings(self) -> list[tuple[tuple[str, str], ...]]:
        """Every setting of the file, as keys with their values."""
        places = dict.fromkeys(place for of in self._runs.values() for place in of)
        return [tuple(zip(self.keys, place, strict=True)) for place in places]

    def scheduler(self, name: str) -> str:
        """The scheduler that is meant: this one, or the one of this name that runs with switches."""
        if name in self.schedulers:
            return name
        forms = [scheduler for scheduler in self.schedulers if scheduler.split(":")[0] == name]
        if len(forms) == 1:
            return forms[0]
        raise Undecidable(f"{name} was not run" if not forms else f"{name} was run in several forms")

    def values(self, metric: str, scheduler: str, scope: Scope) -> Values:
        """The metric by seed, as the mean over the settings of the scope."""
        name = self.scheduler(scheduler)
        wanted = dict(scope.at)
        by_seed: dict[int, list[float]] = {}
        for place, runs in self._runs.get((name, scope.cc), {}).items():
            if any(str(dict(zip(self.keys, place, strict=True)).get(key)) != value for key, value in wanted.items()):
                continue
            for seed, row in runs.items():
                by_seed.setdefault(seed, []).append(_number(row, metric, name))
        if not by_seed:
            raise Undecidable(f"there are no rows of {name} ({scope})")
        most = max(map(len, by_seed.values()))
        return {seed: fmean(values) for seed, values in by_seed.items() if len(values) == most}

    def scopes(self, at: Any, cc: str | None) -> list[Scope]:
        """Scopes that `at` and `cc` of a claim mean here."""
        controllers = [cc] if cc else self.controllers
        places = self.settings() if at == "each" else [tuple(at.items()) if isinstance(at, dict) else ()]
        return [Scope(controller, place) for controller in controllers for place in places]


def _number(row: Row, metric: str, scheduler: str) -> float:
    decided, decisions = row.get("fallback_decided"), row.get("decisions")
    if decided and decisions and decided > MOST_FALLBACK * decisions:
        raise Undecidable(f"a fallback decided {whole_percent(decided / decisions)} of the packets of {scheduler}")
    value = row.get(metric)
    if value is None:
        if metric == "fct_ms" and row.get("verdict") != "finished":
            raise Undecidable(f"a run of {scheduler} did not finish")
        raise Undecidable(f"the rows have no {metric}")
    return float(value)


def of_number(printed: Mapping[str, Any], rows: Rows, published: Mapping[str, Any]) -> Check:
    """The check of a published number."""
    try:
        if why := published.get("cannot_run"):
            raise Undecidable(why)
        if (identity := printed.get("identity")) and verdict.contradicts(printed["value"], identity["expression"]):
            value = verdict.computed(identity["expression"])
            raise Undecidable(f"the paper contradicts itself: {identity['place']} gives {value:.3g}")
        if "metric" not in printed:
            raise Undecidable(f"no column measures it: {printed['quantity']}")
        runs = published.get("runs")
        return _effect(printed, rows, runs) if "over" in printed else _level(printed, rows, runs)
    except Undecidable as why:
        return Check((), obstacle=str(why))


def _level(printed: Mapping[str, Any], rows: Rows, runs: int | None) -> Check:
    value = printed["value"] * factor(printed["metric"], printed["unit"])
    region = Region(value * (1 - LEVEL_TOLERANCE), value * (1 + LEVEL_TOLERANCE))
    names = [printed["scheduler"]] if "scheduler" in printed else rows.schedulers
    return Check([part for name in names for part in _levels(printed, rows, name, region)], runs=runs)


def factor(metric: str, unit: str) -> float:
    """Factor by which a number of this unit is multiplied to be in the metric's unit."""
    factors = [value for (end, name), value in FACTORS.items() if name == unit and metric.endswith(end)]
    if factors:
        return factors[0]
    if unit == "1" and not any(metric.endswith(end) for end, _ in FACTORS):
        return 1.0
    raise Undecidable(f"{metric} has no unit {unit}")


def _levels(claim: Mapping[str, Any], rows: Rows, scheduler: str, region: Region) -> list[Part]:
    return [
        Part(f"{scheduler} ({scope})", _sample(rows.values(claim["metric"], scheduler, scope)), region)
        for scope in rows.scopes(claim.get("at", "mean"), claim.get("cc"))
    ]


def _effect(printed: Mapping[str, Any], rows: Rows, runs: int | None) -> Check:
    change = printed["value"] / 100 * (-1 if printed.get("reduction") else 1)
    return _ratio({**printed, "of": printed["scheduler"], "value": 1 + change}, rows, runs)


def of_claim(claim: Mapping[str, Any], rows: Rows, published: Mapping[str, Any]) -> Check:
    """The check of a claim."""
    kinds = {"rank": _rank, "order": _order, "ratio": _ratio, "near": _near, "monotone": _monotone, "bound": _bound}
    try:
        if why := published.get("cannot_run"):
            raise Undecidable(why)
        return kinds[claim["kind"]](claim, rows, published.get("runs"))
    except Undecidable as why:
        return Check((), obstacle=str(why))


def _rank(claim: Mapping[str, Any], rows: Rows, runs: int | None) -> Check:
    parts = []
    for scope in rows.scopes(claim.get("at", "mean"), claim.get("cc")):
        if claim.get("all_pairs"):
            pairs = [([better], [worse]) for better in claim["better"] for worse in claim["worse"]]
        else:
            pairs = [(claim["better"], claim["worse"])]
        parts += [_better(claim, rows, ours, theirs, scope) for ours, theirs in pairs]
    return Check(parts, runs=runs)


def _order(claim: Mapping[str, Any], rows: Rows, runs: int | None) -> Check:
    scopes = rows.scopes(claim.get("at", "mean"), claim.get("cc"))
    pairs = list(pairwise(claim["order"]))
    return Check([_better(claim, rows, [a], [b], scope) for scope in scopes for a, b in pairs], runs=runs)


def _better(claim: Mapping[str, Any], rows: Rows, ours: list[str], theirs: list[str], scope: Scope) -> Part:
    """Part of a check: the mean of one group is better than that of another."""
    better, worse = (_group(rows, claim["metric"], names, scope) for names in (ours, theirs))
    what = f"{' and '.join(ours)} over {' and '.join(theirs)} ({scope})"
    less = claim.get("less_is_better", False)
    ratio = verdict.ratio(better, worse)
    if ratio is None:  # over zero there is no ratio
        return Part(
            what, _sample(_differences(better, worse)), Region(high=0, strict=True) if less else Region(0, strict=True)
        )
    return Part(what, ratio, _sign(-1 if less else 1))


def _group(rows: Rows, metric: str, names: Sequence[str], scope: Scope) -> Values:
    measured = [rows.values(metric, name, scope) for name in names]
    seeds = set(measured[0]).intersection(*measured[1:])
    return {seed: fmean(values[seed] for values in measured) for seed in measured[0] if seed in seeds}


def _differences(ours: Values, theirs: Values) -> Values:
    return {seed: value - theirs[seed] for seed, value in ours.items() if seed in theirs}


def _sign(effect: float) -> Region:
    return Region(1, strict=True) if effect > 0 else Region(0, 1, strict=True)


def _ratio(claim: Mapping[str, Any], rows: Rows, runs: int | None) -> Check:
    value, tolerance = claim["value"], share(claim.get("tolerance"))
    off = abs(value - 1) * EFFECT_TOLERANCE if tolerance is None else value * tolerance
    if (file := claim.get("over_file")) and rows.elsewhere is None:
        raise Undecidable(f"there are no rows of {file}")
    other = rows.elsewhere(file) if file and rows.elsewhere else rows
    parts, directions = [], []
    for scope in rows.scopes(claim.get("at", "mean"), claim.get("cc")):
        below = scope if "over_at" not in claim else other.scopes(claim["over_at"], scope.cc)[0]
        below = Scope(claim.get("over_cc", below.cc), below.at)
        ours = rows.values(claim["metric"], claim["of"], scope)
        ratio = verdict.ratio(ours, other.values(claim["metric"], claim["over"], below))
        if ratio is None:
            raise Undecidable(f"{claim['metric']} of {claim['over']} is zero")
        what = f"{claim['of']} over {claim['over']} ({scope}{'' if below == scope else f'; {below}'})"
        parts.append(Part(what, ratio, Region(value - off, value + off)))
        if value != 1:
            directions.append(Part(what, ratio, _sign(value - 1)))
    return Check(parts, directions, runs=runs)


def _near(claim: Mapping[str, Any], rows: Rows, runs: int | None) -> Check:
    tolerance = share(claim["tolerance"]) or 0.0
    parts = []
    for scope in rows.scopes(claim.get("at", "mean"), claim.get("cc")):
        for scheduler, other in combinations(claim.get("of") or rows.schedulers, 2):
            ratio = verdict.ratio(*(rows.values(claim["metric"], name, scope) for name in (scheduler, other)))
            if ratio is None:
                raise Undecidable(f"{claim['metric']} of {other} is zero")
            parts.append(Part(f"{scheduler} over {other} ({scope})", ratio, Region(1 - tolerance, 1 / (1 - tolerance))))
    return Check(parts, runs=runs)


def _monotone(claim: Mapping[str, Any], rows: Rows, runs: int | None) -> Check:
    """Each setting of the key is paired by seed with the next."""
    tolerance = share(claim.get("tolerance")) or 0.0
    along = claim["along"]
    values = list(dict.fromkeys(dict(setting)[along] for setting in rows.settings()))
    region = Region(low=1 - tolerance) if claim["goes"] == "rises" else Region(0, 1 + tolerance)
    parts = []
    for scope in rows.scopes("mean", claim.get("cc")):
        for name in claim.get("of") or rows.schedulers:
            for before, after in pairwise(values):
                values_after, values_before = (
                    rows.values(claim["metric"], name, Scope(scope.cc, ((along, v),))) for v in (after, before)
                )
                what = f"{name}: {along} = {after} over {before} ({scope.cc})"
                ratio = verdict.ratio(values_after, values_before)
                if ratio is None:
                    above = Region(low=0) if claim["goes"] == "rises" else Region(high=0)
                    parts.append(Part(what, _sample(_differences(values_after, values_before)), above))
                else:
                    parts.append(Part(what, ratio, region))
    return Check(parts, runs=runs)


def _bound(claim: Mapping[str, Any], rows: Rows, runs: int | None) -> Check:
    region = Region(claim.get("min", -math.inf), claim.get("max", math.inf))
    names = claim.get("of") or rows.schedulers
    # A bound says where the mean is, however far apart its ends are: no number of runs is too few for it.
    return Check([part for name in names for part in _levels(claim, rows, name, region)])


def _sample(values: Values) -> Sample:
    sample = verdict.sample(list(values.values()))
    if sample is None:
        raise Undecidable("the two have no seed in common")
    return sample


def share(text: str | None) -> float | None:
    """A share as scenario files write it."""
    return None if text is None else float(text.replace("%", "").strip()) / 100
