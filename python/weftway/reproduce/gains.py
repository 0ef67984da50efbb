"""Gains over min-RTT, by scheduler and setting: from the rows of the stated settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from weftway.stats.baselines import REFERENCE

from . import verdict
from .checks import Rows, Scope, Undecidable
from .runs import Run
from .verdict import Sample

WORTH = 0.01
"""A gain below this is none: it may be sure and still mean nothing to anybody."""

SPEED = {"goodput_mbps": 1, "goodput_kbytes": 1, "fct_ms": -1}
"""Measures of speed, and which way is good."""


@dataclass(frozen=True)
class Gain:
    """Speed of a scheduler in one setting, over min-RTT with the same seeds."""

    run: Run
    scope: Scope
    scheduler: str
    sample: Sample
    """Ratio of speeds: 1.1 is a tenth faster."""

    @property
    def share(self) -> float:
        return self.sample.mean - 1

    @property
    def is_faster(self) -> bool:
        return self.share >= WORTH and self._is_sure

    @property
    def is_slower(self) -> bool:
        return self.share <= -WORTH and self._is_sure

    @property
    def _is_sure(self) -> bool:
        half = self.sample.half
        return half is not None and abs(self.share) > half

    @property
    def place(self) -> str:
        """The controller, and the values of what is varied."""
        values = ", ".join(dict.fromkeys(value for _, value in self.scope.at))
        return f"{self.scope.cc}{', ' if values else ''}{values}"


def plain(name: str) -> str:
    """A scheduler's name without its switches."""
    return name.split(":")[0]


def metric(run: Run) -> str | None:
    """The speed that the figure shows, or completion times where it shows something else; `None` where it has none."""
    figures = run.experiment.text.get("figure", {}).values()
    shown = [figure.get("y") for figure in figures if figure.get("y") in SPEED]
    if shown:
        return str(shown[0])
    return "goodput_mbps" if any("goodput_mbps" in row for row in run.rows) else None


Setting = tuple[str, str]
"""A network and a controller: the same for two figures that show the same runs."""


def setting(gain: Gain) -> Setting:
    """By the hash of the scenario with these values."""
    values = dict(gain.scope.at)
    jobs = gain.run.jobs
    same = (job for job in jobs if {key: str(value) for key, value in job.variant.values.items()} == values)
    return next(job.variant.hash for job in same), gain.scope.cc


def distinct(gains: Sequence[Gain]) -> list[Gain]:
    """Gains without repetition: what two figures show of the same runs is kept once, as of the first."""
    first: dict[tuple[Setting, str], Gain] = {}
    for gain in gains:
        first.setdefault((setting(gain), gain.scheduler), gain)
    return list(first.values())


def of_run(run: Run) -> list[Gain]:
    """Gains of every scheduler in every setting of one experiment; none where min-RTT was not run."""
    measure = metric(run)
    if measure is None or run.experiment.is_exact or not run.rows:
        return []
    rows = Rows([*run.rows, *run.others], list(run.jobs[0].variant.values))
    gains = []
    for scope in rows.scopes("each", None):
        try:
            reference = rows.values(measure, REFERENCE, scope)
        except Undecidable:
            continue
        for name in rows.schedulers:
            if name == REFERENCE:
                continue
            try:
                values = rows.values(measure, name, scope)
            except Undecidable:
                continue
            numerator, denominator = (values, reference) if SPEED[measure] > 0 else (reference, values)
            if (sample := verdict.ratio(numerator, denominator)) is not None:
                gains.append(Gain(run, scope, name, sample))
    return gains


@dataclass(frozen=True)
class Record:
    """Gains of one scheduler over all settings."""

    scheduler: str
    gains: Sequence[Gain]

    @property
    def faster(self) -> int:
        return sum(gain.is_faster for gain in self.gains)

    @property
    def slower(self) -> int:
        return sum(gain.is_slower for gain in self.gains)

    @property
    def middle(self) -> float:
        return median(gain.share for gain in self.gains)

    @property
    def best(self) -> Gain:
        return max(self.gains, key=lambda gain: gain.share)

    @property
    def worst(self) -> Gain:
        return min(self.gains, key=lambda gain: gain.share)


def records(gains: Sequence[Gain]) -> list[Record]:
    """Per scheduler, by how often each is faster less how often it is slower."""
    of: dict[str, list[Gain]] = {}
    for gain in gains:
        of.setdefault(plain(gain.scheduler), []).append(gain)
    records = [Record(name, some) for name, some in of.items()]
    return sorted(records, key=lambda record: ((record.slower - record.faster) / len(record.gains), record.scheduler))


@dataclass(frozen=True)
class ExperimentSettings:
    """An experiment under one controller, with all of its settings."""

    runs: Sequence[Run]
    """The experiment, and others that show the same runs."""
    cc: str
    settings: Sequence[Sequence[Gain]]

    @property
    def hopeless(self) -> int:
        """In how many settings no scheduler is faster than min-RTT."""
        return sum(not any(gain.is_faster for gain in gains) for gains in self.settings)

    def of(self, scheduler: str) -> list[Gain]:
        return [gain for gains in self.settings for gain in gains if plain(gain.scheduler) == scheduler]

    @property
    def best(self) -> tuple[str, float]:
        """The scheduler with the largest mean gain over the settings, and this gain."""
        names = list(dict.fromkeys(plain(gain.scheduler) for gains in self.settings for gain in gains))
        means = {name: fmean([gain.share for gain in self.of(name)]) for name in names}
        name = max(means, key=means.__getitem__)
        return name, means[name]


def places(gains: Sequence[Gain]) -> list[ExperimentSettings]:
    """Every experiment and controller, in the order of the files."""
    of: dict[tuple[str, str], list[Gain]] = {}
    for gain in gains:
        of.setdefault((gain.run.experiment.name, gain.scope.cc), []).append(gain)
    alike: dict[frozenset[tuple[Setting, str]], list[list[Gain]]] = {}
    for some in of.values():
        alike.setdefault(frozenset((setting(gain), gain.scheduler) for gain in some), []).append(some)
    places = []
    for same in alike.values():
        settings: dict[tuple[tuple[str, str], ...], list[Gain]] = {}
        for gain in same[0]:
            settings.setdefault(gain.scope.at, []).append(gain)
        places.append(ExperimentSettings([some[0].run for some in same], same[0][0].scope.cc, list(settings.values())))
    return places


def hopeless(gains: Sequence[Gain]) -> tuple[int, int]:
    """In how many distinct settings no scheduler is faster than min-RTT, and of how many."""
    of: dict[Setting, bool] = {}
    for gain in gains:
        key = setting(gain)
        of[key] = of.get(key, False) or gain.is_faster
    return sum(not holds for holds in of.values()), len(of)
