"""Which candidate is advised: picked on one half of the seeds, judged on the other."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from weftway.stats.estimates import Interval, bootstrap

from .candidates import Candidate
from .neighbours import Cell

WORTH = 0.02
"""A smaller gain is no reason to change anything, or anything more."""


@dataclass(frozen=True)
class CandidateRuns:
    """Results of a candidate: its cost by cell and seed, and its share of copies."""

    candidate: Candidate
    costs: dict[tuple[int, int], float]
    copies: float = 0.0
    cut: frozenset[tuple[int, int]] = frozenset()
    """Cell and seed of the runs that ended before their workload was done. They cost their time limit."""

    @property
    def unfinished(self) -> int:
        """Number of runs that ended before their workload was done."""
        return len(self.cut)


@dataclass(frozen=True)
class Gain:
    """The share by which one costs less than another over all cells, on the half that judges, and its interval."""

    gain: float
    within: Interval

    @property
    def is_worth(self) -> bool:
        """Tells a gain that is large enough, and surely above zero."""
        return self.gain >= WORTH and self.within.low > 0

    @property
    def turned(self) -> "Gain":
        """Gain of the other over the one."""
        return Gain(_turned(self.gain), Interval(_turned(self.within.high), _turned(self.within.low)))


@dataclass(frozen=True)
class Choice:
    """Advised candidate, and those that it was held against."""

    chosen: CandidateRuns
    other: CandidateRuns | None
    """The change that was judged, or if none gained enough on the half that picks, the best there; none if none ran."""
    single: CandidateRuns | None
    """The best link alone."""
    rival: CandidateRuns | None
    """The best that bonds."""


def picking(numbers: Sequence[int]) -> list[int]:
    """The half of the seeds on which a candidate is picked."""
    return list(numbers[::2])


def judging(numbers: Sequence[int]) -> list[int]:
    """The other half, on which it is judged: the pick has the luckiest draws of those it was picked on."""
    return list(numbers[1::2])


def log_ratio(trial: CandidateRuns, over: CandidateRuns, cells: Iterable[int], numbers: Iterable[int]) -> float:
    """The mean logarithm of its cost over the other's, paired by cell and seed."""
    numbers = list(numbers)
    pairs = [(cell, seed) for cell in cells for seed in numbers]
    return fmean([math.log(trial.costs[pair] / over.costs[pair]) for pair in pairs])


def judged(trial: CandidateRuns, over: CandidateRuns, cells: Sequence[Cell], numbers: Sequence[int]) -> Gain:
    """Gain over another on the half that judges."""
    ratios = [log_ratio(trial, over, [cell.number], judging(numbers)) for cell in cells]
    low, high = bootstrap(ratios, trial.candidate.words, fmean)
    return Gain(1 - math.exp(fmean(ratios)), Interval(1 - math.exp(high), 1 - math.exp(low)))


def choose(
    trials: Sequence[CandidateRuns],
    base: CandidateRuns,
    cells: Sequence[Cell],
    numbers: Sequence[int],
    order: Sequence[str],
) -> Choice:
    """The change that was picked, if it is worth it; the best link alone, if it is better still; else the baseline.

    What is compared is picked on the one half, and no more is left to the other than yes or no: among several, the half
    that judges would favour the luckiest. `order` is that of the links: of equal ones the first.
    """

    def picked(trial: CandidateRuns) -> float:
        return log_ratio(trial, base, (cell.number for cell in cells), picking(numbers))

    def is_worth(trial: CandidateRuns, over: CandidateRuns) -> bool:
        return judged(trial, over, cells, numbers).is_worth

    changes = [trial for trial in trials if trial is not base]
    enough = [trial for trial in changes if picked(trial) <= math.log(1 - WORTH)]
    change = _plainest(enough, picked, order)
    chosen = change if change and is_worth(change, base) else base
    single = _plainest([trial for trial in trials if trial.candidate.alone], picked, order)
    rival = _plainest([trial for trial in trials if not trial.candidate.alone], picked, order)
    if chosen.candidate.alone:
        single = chosen
    else:
        rival = rival if chosen is base else chosen
        if single and is_worth(single, chosen) and is_worth(single, base):
            chosen = single
    return Choice(chosen, change or min(changes, key=picked, default=None), single, rival)


def _plainest(
    some: Sequence[CandidateRuns], cost: Callable[[CandidateRuns], float], order: Sequence[str]
) -> CandidateRuns | None:
    """Candidate with the fewest changes among those that are alike to the best."""
    if not some:
        return None
    best = min(map(cost, some))
    alike = [trial for trial in some if cost(trial) <= best - math.log(1 - WORTH)]

    def place(trial: CandidateRuns) -> tuple[int, float, int]:
        name = trial.candidate.alone
        return len(trial.candidate.commands), round(cost(trial), 3), order.index(name) if name else 0

    return min(alike, key=place)


def _turned(gain: float) -> float:
    return 1 - 1 / (1 - gain)
