"""Standings of schedulers, from the costs of runs. Pure functions.

Seeds are split into two halves: those at even places of the list and those at odd ones. On one half, the *best other
scheduler* of each cell is picked, the one with the least mean cost. The other half judges it, and everybody else; then
the halves change places. A scheduler's ratio in a cell is its mean cost over that of the pick, on the half that judges:
the geometric mean of both ways round. 1 is what picking for each cell attains, 1.1 is 10 % slower, and below 1 is
better than picking.

Judging on the half that was picked by would flatter the pick: of many schedulers that are equally good, the one with
the luckiest draws is picked. *One path, same handshake* is picked and judged in the same way.

The *capacity bound* of a cell is the least cost that the links allow, whatever the scheduler and the controller. A
scheduler's mean cost is a multiple of it, which takes no pick and no halves.

Over cells, ratios are averaged geometrically, and 95 % intervals come from resampling cells (percentile bootstrap, with
seeded draws).
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

from weftway.stats.pairs import estimate

Costs = Mapping[str, Sequence[float]]
"""What each run cost by scheduler, or by path: one number per seed, the seeds in the same order."""

CLOSE, NEAR = 1.05, 1.15
"""Within 5 % and within 15 % of the best other scheduler."""

ALL = "all"
"""The group of all cells."""

TOLD = "earliest-delivery"
"""The scheduler that an oracle tells when packets arrive, or whose windows it sets; which also runs with other
controllers and other initial windows."""

WORSE = 1.05
"""Above this ratio to one path with the same handshake, several paths were worse than one."""


@dataclass(frozen=True)
class JudgedCell:
    """Cell: every scheduler's ratio to the best other scheduler, and to one path with the same handshake."""

    cell: str
    kinds: Mapping[str, str]
    """What kind of cell it is: its workload, its controller, …"""
    ratios: Mapping[str, float]
    singles: Mapping[str, float]
    """Empty where there is a single path."""
    single: float | None = None
    """The ratio of one path with the same handshake to the best other scheduler."""
    copies: Mapping[str, float] = field(default_factory=dict)
    """The share of packets that were copies."""
    unfinished: Mapping[str, int] = field(default_factory=dict)
    """Runs that did not finish."""
    of_bound: Mapping[str, float] = field(default_factory=dict)
    """Every scheduler's cost over the capacity bound; empty where that is not known."""
    clairvoyant: float | None = None
    """The same of the clairvoyant, if one ran."""
    told: Mapping[str, float] = field(default_factory=dict)
    """The cost of `earliest-delivery` with an oracle, or with a change, over its own: by what the oracle gives, a sight
    or windows, or by what is changed, `cc=bbr3` or `initial_window=32`."""
    load: float | None = None
    """Share of the links' capacity that the data took with the scheduler that delivered most, if the workload has a
    rate."""


@dataclass(frozen=True)
class Standing:
    """Scheduler over all cells."""

    scheduler: str
    is_candidate: bool
    cells: int
    ratio: float
    """The geometric mean of its ratios to the best other scheduler."""
    ratio_low: float | None
    ratio_high: float | None
    median: float
    of_bound: float | None
    """The median of its cost over the capacity bound."""
    close_share: float
    """The share of cells within 5 % of the best other scheduler."""
    near_share: float
    """The share of cells within 15 % of it."""
    worst: float
    """Its largest ratio."""
    worst_cell: str
    worse_than_single_share: float | None
    """The share of cells in which it is more than 5 % worse than one path with the same handshake."""
    copies_share: float
    unfinished: int


@dataclass(frozen=True)
class SinglePath:
    """Single path with the same handshake, over all cells that have several."""

    cells: int
    ratio: float
    """The geometric mean of its ratios to the best other scheduler."""
    ratio_low: float | None
    ratio_high: float | None
    better_share: float
    """The share of cells in which the best other scheduler is more than 5 % worse than it."""


@dataclass(frozen=True)
class Group:
    """Cells of one kind: the candidate against the fixed scheduler that does best there."""

    by: str
    """The kind: by workload, by controller, …"""
    value: str
    cells: int
    best: str
    """The scheduler, other than the candidate, with the least geometric mean."""
    best_ratio: float
    candidate_ratio: float | None
    against_best: float | None
    """The candidate's cost over the best's, and its interval."""
    against_best_low: float | None
    against_best_high: float | None
    best_of_bound: float | None
    """The median of the best's cost over the capacity bound."""
    best_worse_than_single_share: float | None
    """The share of cells in which the best is more than 5 % worse than one path with the same handshake."""
    candidate_of_bound: float | None
    candidate_worse_than_single_share: float | None
    clairvoyant_of_bound: float | None
    """The same of the clairvoyant that starts from the candidate."""
    told: Mapping[str, tuple[float, float | None, float | None]] = field(default_factory=dict)
    """The cost of `earliest-delivery` with an oracle over its own, and its interval, by what the oracle gives."""
    load: float | None = None
    """Median load of those cells whose workload has a rate."""


@dataclass(frozen=True)
class Worst:
    """A cell in which a scheduler does badly."""

    cell: str
    ratio: float
    single_ratio: float | None
    load: float | None = None


def halves(seeds: int) -> tuple[list[int], list[int]]:
    """The places of the seeds in each half."""
    return list(range(0, seeds, 2)), list(range(1, seeds, 2))


def picked(costs: Costs, half: Sequence[int]) -> str:
    """The one with the least mean cost over these seeds; the first of several."""
    return min(costs, key=lambda name: fmean(costs[name][place] for place in half))


def judged(costs: Costs, choice: Costs) -> dict[str, float]:
    """Each one's ratio to what is picked out of `choice`."""
    if not costs or not choice:
        return {}
    logs: dict[str, list[float]] = {name: [] for name in costs}
    for by, on in _ways(choice):
        attained = _mean(choice[picked(choice, by)], on)
        for name, some in costs.items():
            logs[name].append(math.log(_mean(some, on) / attained))
    return {name: math.exp(fmean(some)) for name, some in logs.items()}


def judged_pick(costs: Costs, choice: Costs) -> float | None:
    """The ratio of what is picked out of `costs` to what is picked out of `choice`."""
    if not costs or not choice:
        return None
    picks = [(costs[picked(costs, by)], choice[picked(choice, by)], on) for by, on in _ways(choice)]
    return math.exp(fmean(math.log(_mean(ours, on) / _mean(theirs, on)) for ours, theirs, on in picks))


def of_bound(costs: Costs, bounds: Sequence[float | None]) -> dict[str, float]:
    """Each one's mean cost over the mean bound; nothing, if a seed has none."""
    known = [one for one in bounds if one is not None]
    if not known or len(known) < len(bounds):
        return {}
    return {name: fmean(some) / fmean(known) for name, some in costs.items()}


def _of_bound(cells: Sequence[JudgedCell], name: str) -> float | None:
    return _median([cell.of_bound.get(name) for cell in cells])


def _median(ratios: Sequence[float | None]) -> float | None:
    """The median of those that are known."""
    known = [one for one in ratios if one is not None]
    return median(known) if known else None


def _ways(choice: Costs) -> list[tuple[list[int], list[int]]]:
    """By which half is picked, and on which it is judged: both ways round."""
    first, second = halves(len(next(iter(choice.values()))))
    return [(first, second), (second, first)]


def _mean(costs: Sequence[float], on: Sequence[int]) -> float:
    return fmean(costs[place] for place in on)


def standings(cells: Sequence[JudgedCell], candidate: str | None = None) -> list[Standing]:
    """A line per scheduler, the best first."""
    names = list(dict.fromkeys(name for cell in cells for name in cell.ratios))
    return sorted((_standing(name, cells, name == candidate) for name in names), key=lambda one: one.ratio)


def _standing(name: str, cells: Sequence[JudgedCell], is_candidate: bool) -> Standing:
    ran = [cell for cell in cells if name in cell.ratios]
    ratios = [cell.ratios[name] for cell in ran]
    overall = geometric(ratios)
    farthest = max(ran, key=lambda cell: cell.ratios[name])
    return Standing(
        scheduler=name,
        is_candidate=is_candidate,
        cells=len(ran),
        ratio=overall[0],
        ratio_low=overall[1],
        ratio_high=overall[2],
        median=median(ratios),
        of_bound=_of_bound(ran, name),
        close_share=_share(ratios, lambda one: one <= CLOSE),
        near_share=_share(ratios, lambda one: one <= NEAR),
        worst=farthest.ratios[name],
        worst_cell=farthest.cell,
        worse_than_single_share=_worse_than_single(ran, name),
        copies_share=fmean(cell.copies.get(name, 0.0) for cell in ran),
        unfinished=sum(cell.unfinished.get(name, 0) for cell in ran),
    )


def _worse_than_single(cells: Sequence[JudgedCell], name: str) -> float | None:
    """Share of the cells with several paths in which a scheduler is worse than one path with the same handshake."""
    singles = [cell.singles[name] for cell in cells if name in cell.singles]
    return _share(singles, lambda one: one > WORSE) if singles else None


def single_path(cells: Sequence[JudgedCell]) -> SinglePath | None:
    """Results of one path alone, where there are several."""
    ratios = [cell.single for cell in cells if cell.single is not None]
    if not ratios:
        return None
    return SinglePath(len(ratios), *geometric(ratios), _share(ratios, lambda one: 1 / one > WORSE))


def groups(
    cells: Sequence[JudgedCell], candidate: str | None, kinds: Sequence[str], left_out: Collection[str] = ()
) -> list[Group]:
    """The candidate, and what an oracle brings, over all cells; then the cells of each kind, in the order of `kinds`
    and then of their values. What all have in common is no kind. Schedulers that are left out are never the best."""
    is_wanted = candidate is not None or any(cell.told for cell in cells)
    others = {name for cell in cells for name in cell.ratios} - {candidate, *left_out}
    everywhere = _group(ALL, "all cells", cells, candidate, others) if is_wanted else None
    found = [everywhere] if everywhere else []
    for kind in kinds:
        values = sorted({cell.kinds[kind] for cell in cells if kind in cell.kinds})
        for value in values if len(values) > 1 else []:
            some = [cell for cell in cells if cell.kinds.get(kind) == value]
            if group := _group(kind, value, some, candidate, others):
                found.append(group)
    return found


def _group(
    kind: str, value: str, cells: Sequence[JudgedCell], candidate: str | None, others: Collection[str]
) -> Group | None:
    # Only who ran in all of them can be the best of them.
    names = [name for name in cells[0].ratios if name in others and all(name in cell.ratios for cell in cells)]
    if not names:
        return None
    means = {name: fmean(math.log(cell.ratios[name]) for cell in cells) for name in names}
    best = min(means, key=lambda name: means[name])
    both = [cell for cell in cells if candidate is not None and candidate in cell.ratios]
    ours = geometric([cell.ratios[candidate] for cell in both])[0] if candidate and both else None
    against = geometric([cell.ratios[candidate] / cell.ratios[best] for cell in both]) if candidate and both else None
    return Group(
        by=kind,
        value=value,
        cells=len(cells),
        best=best,
        best_ratio=math.exp(means[best]),
        candidate_ratio=ours,
        against_best=against[0] if against else None,
        against_best_low=against[1] if against else None,
        against_best_high=against[2] if against else None,
        best_of_bound=_of_bound(cells, best),
        best_worse_than_single_share=_worse_than_single(cells, best),
        candidate_of_bound=_of_bound(both, candidate) if candidate else None,
        candidate_worse_than_single_share=_worse_than_single(both, candidate) if candidate else None,
        clairvoyant_of_bound=_median([cell.clairvoyant for cell in both]) if candidate else None,
        told={
            sight: geometric([cell.told[sight] for cell in cells if sight in cell.told])
            for sight in dict.fromkeys(sight for cell in cells for sight in cell.told)
        },
        load=_median([cell.load for cell in cells]),
    )


def worst(cells: Sequence[JudgedCell], scheduler: str, count: int) -> list[Worst]:
    """The cells in which a scheduler is farthest behind the best other scheduler, the worst first."""
    ran = [cell for cell in cells if scheduler in cell.ratios]
    ran.sort(key=lambda cell: -cell.ratios[scheduler])
    return [Worst(cell.cell, cell.ratios[scheduler], cell.singles.get(scheduler), cell.load) for cell in ran[:count]]


def geometric(ratios: Sequence[float]) -> tuple[float, float | None, float | None]:
    """The geometric mean and its interval, which a single cell does not have."""
    found = estimate([math.log(one) for one in ratios])
    assert found is not None, "there is a ratio at least"
    low, high = (None if end is None else math.exp(end) for end in (found.low, found.high))
    return math.exp(found.value), low, high


def _share(ratios: Sequence[float], holds: Callable[[float], bool]) -> float:
    return sum(map(holds, ratios)) / len(ratios)
