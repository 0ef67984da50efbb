"""Every published number and every claim with its verdict, computed from rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from weftway.runs.backends import SIM
from weftway.runs.job import Job

from . import checks, traces, verdict
from .checks import Rows
from .experiments import Experiment
from .runs import Run, first, run_key
from .stacks import Level
from .verdict import NOT, OPEN, Check, Settings, Verdict

KINDS = {
    "rank": "ranking",
    "order": "ranking",
    "monotone": "ranking",
    "ratio": "size",
    "near": "size",
    "bound": "level",
}
"""Subject of a claim of each kind; the rest is exact."""


@dataclass(frozen=True)
class Result:
    """A number or claim of one experiment, and what becomes of it."""

    experiment: Experiment
    kind: str
    """`level`, `size`, `ranking` or `exact`."""
    words: str
    printed: dict[str, Any] | None
    """The published number; absent for a claim."""
    verdict: Verdict
    settings: Settings | None
    mechanism: tuple[str, ...] = ()

    @property
    def interval(self) -> tuple[float, float | None, float | None] | None:
        """Our estimate and its interval, in the unit in which the paper prints it."""
        part = self.verdict.part
        if part is None:
            return None
        mean, half = part.sample.mean, part.sample.half
        if half is None:
            return self.in_print(mean), None, None
        # What is printed as a reduction is the larger, the less there is.
        low, high = sorted((self.in_print(mean - half), self.in_print(mean + half)))
        return self.in_print(mean), low, high

    def in_print(self, value: float) -> float:
        """Our value in the unit in which the paper prints it."""
        if self.printed is None:
            return value
        if "over" in self.printed:
            return (value - 1) * (-100 if self.printed.get("reduction") else 100)
        return value / checks.factor(self.printed["metric"], self.printed["unit"])

    @property
    def record(self) -> dict[str, Any]:
        """As `--json` prints it."""
        printed = self.printed or {}
        mean, low, high = self.interval or (None, None, None)
        settings = self.settings
        span = settings.range if settings else None
        cause = settings.explains() if settings else None
        return {
            "paper": self.experiment.paper,
            "experiment": self.experiment.figure,
            "reading": self.experiment.reading,
            "is": "number" if self.printed else "claim",
            "kind": self.kind,
            "claim": self.words,
            "printed": printed.get("value"),
            "unit": printed.get("unit"),
            "place": printed.get("place", self.experiment.published.get("place")),
            "status": printed.get("status", "printed") if printed else None,
            "ours": mean,
            "low": low,
            "high": high,
            "verdict": self.verdict.verdict,
            "reason": self.verdict.reason,
            "decided_by": self.verdict.part.what if self.verdict.part else None,
            "settings": len(settings.met) if settings else 0,
            "settings_share": settings.share if settings else None,
            "settings_low": span[0] if span else None,
            "settings_high": span[1] if span else None,
            "explained_by": cause[0] if cause else None,
            "explained_share": cause[1] if cause else None,
            "mechanism": list(self.mechanism),
            "command": f"weft reproduce {self.experiment.name}",
        }


def evaluate(
    experiments: Sequence[Experiment],
    runs: Sequence[Run],
    mechanism: bool = True,
    power: str = verdict.EXCLUDED,
    levels: Sequence[Level] = (),
) -> list[Result]:
    """All verdicts, in the order of the files. `levels` are what real stacks made of the same networks."""
    of: dict[str, list[Run]] = {}
    for run in runs:
        of.setdefault(run.experiment.name, []).append(run)
    results = [
        result
        for experiment in experiments
        for result in _experiment(experiment, of.get(experiment.name, []), of, power)
    ]
    results = [_beside(result, levels) for result in results]
    differences: Differences = {}
    return [
        _explained(result, of[result.experiment.name], differences) if mechanism and _asks(result) else result
        for result in results
    ]


def _beside(result: Result, levels: Sequence[Level]) -> Result:
    """The result; a level has no verdict where only one of simulator and real stack meets it.

    The two must differ by more than a tenth: within that, the simulator stands for the stack.
    """
    part = result.verdict.part
    if result.kind != "level" or part is None or result.printed is None or result.verdict.verdict == OPEN:
        return result
    for level in levels:
        if not level.agrees and _is_of(level, result) and part.is_met != (level.real in part.region):
            why = f"the simulator and the stack ({level.backend}) differ: {level.sim:.3g} and {level.real:.3g}"
            return replace(result, verdict=replace(result.verdict, verdict=OPEN, reason=why))
    return result


def _is_of(level: Level, result: Result) -> bool:
    """Tells if a stack ran what a published number is of."""
    number, experiment = result.printed or {}, result.experiment
    at = number.get("at", {})
    return (
        (level.experiment.paper, level.experiment.figure) == (experiment.paper, experiment.figure)
        and not experiment.reading
        and level.metric == number.get("metric")
        and level.scheduler == number.get("scheduler")
        and level.scope.cc == number.get("cc", level.scope.cc)
        and dict(level.scope.at) == (at if isinstance(at, dict) else {})
    )


@dataclass(frozen=True)
class Item:
    """A number or claim before its verdict."""

    kind: str
    words: str
    printed: dict[str, Any] | None
    claim: dict[str, Any] | None

    def check(self, rows: Rows, published: Mapping[str, Any]) -> Check:
        if self.printed is not None:
            return checks.of_number(self.printed, rows, published)
        assert self.claim is not None, "an item is a number or a claim"
        return checks.of_claim(self.claim, rows, published)


def items(experiment: Experiment) -> list[Item]:
    """The numbers and claims of a file."""
    numbers = [Item("size" if "over" in n else "level", words(n), n, None) for n in experiment.numbers]
    claims = [Item(KINDS.get(c["kind"], "exact"), c["claim"], None, c) for c in experiment.claims.values()]
    return [*numbers, *claims]


def words(printed: Mapping[str, Any]) -> str:
    """Description of what a published number is of."""
    at = printed.get("at")
    where = [f"{key} = {value}" for key, value in at.items()] if isinstance(at, dict) else []
    names = [
        printed.get("scheduler"),
        f"over {printed['over']}" if "over" in printed else None,
        printed.get("cc"),
        *where,
    ]
    what = printed.get("metric") or printed.get("quantity") or ""
    return f"{what}: {' · '.join(name for name in names if name)}" if any(names) else what


def _experiment(experiment: Experiment, runs: Sequence[Run], of: Mapping[str, list[Run]], power: str) -> list[Result]:
    every = items(experiment)
    published = dict(experiment.published)
    stated = next((run for run in runs if run.choice is None), None)
    if stated and not stated.rows and (why := [*stated.skipped, *(failure.reason for failure in stated.failed)]):
        published["cannot_run"] = why[0]
    if stated and not experiment.is_exact:
        checked = [item.check(_rows(stated, of), published) for item in every]
    else:
        checked = [_exact(item, stated, published) for item in every]
    drawn = [run for run in runs if run.choice is not None and run.rows]
    settings = [_settings(item, check, drawn, of, published) for item, check in zip(every, checked, strict=True)]
    verdicts = verdict.judge(checked, settings, power)
    return [
        Result(experiment, item.kind, item.words, item.printed, judged, some)
        for item, judged, some in zip(every, verdicts, settings, strict=True)
    ]


def _rows(run: Run, of: Mapping[str, list[Run]]) -> Rows:
    """Rows that find those of other files of the folder in the same setting."""

    def elsewhere(file: str) -> Rows:
        name = f"{run.experiment.paper}/{file.removesuffix('.toml')}"
        for other in of.get(name, []):
            if other.choice == run.choice:
                return Rows(other.rows, _keys(other))
        raise checks.Undecidable(f"{name} was not run in this setting")

    return Rows(run.rows, _keys(run), elsewhere)


def _keys(run: Run) -> list[str]:
    return list(run.jobs[0].variant.values) if run.jobs else []


def _settings(
    item: Item, check: Check, drawn: Sequence[Run], of: Mapping[str, list[Run]], published: Mapping[str, Any]
) -> Settings | None:
    if not drawn or check.obstacle is not None or check.exact is not None:
        return None
    met, directed, values, choices = [], [], [], []
    for run in drawn:
        checked = item.check(_rows(run, of), published)
        if checked.obstacle is not None or not checked.parts:
            continue
        met.append(all(part.is_met for part in checked.parts))
        directed.append(all(part.is_met for part in checked.direction))
        values.append(checked.parts[0].sample.mean)
        choices.append({key: str(value) for key, value in (run.choice or {}).items()})
    return Settings(met, directed, values, choices) if met else None


def _exact(item: Item, run: Run | None, published: Mapping[str, Any]) -> Check:
    """Packet by packet."""
    claim = item.claim
    if why := published.get("cannot_run"):
        return Check((), obstacle=why)
    if run is None or claim is None or claim["kind"] not in ("schedule", "identical"):
        return Check((), obstacle="there are no rows for it")
    if run.jobs[0].backend != SIM.name:
        return Check((), obstacle="packets are logged in the simulator only")
    if claim["kind"] == "identical":
        ours, theirs = (traces.decisions(first(run, claim[key])) for key in ("of", "over"))
        if ours is None or theirs is None:
            return Check((), obstacle="a scheduler cannot run here")
        return Check((), exact=ours == theirs)
    trace = traces.record(first(run, claim["of"]))
    if trace is None:
        return Check((), obstacle="the scheduler cannot run here")
    paths = list(run.experiment.text["path"])
    after = claim.get("after", 0)
    sends = traces.schedule(trace, paths, after)
    same = all(sends[name] == numbers for name, numbers in claim["sends"].items())
    if claim.get("arrivals"):
        same = same and traces.arrivals(trace, after) == claim["arrivals"]
    return Check((), exact=same)


Differences = dict[tuple[str, ...], str | None]
"""Sentences about where the decisions of two runs part, by the runs' keys: several claims ask about the same two."""

COUNTS = ("waits", "duplicates", "reinjections", "retransmissions", "timeouts", "window_drops", "faults")


def _asks(result: Result) -> bool:
    """Tells if a result that does not hold has two schedulers to look at."""
    return result.verdict.verdict == NOT and bool(_pair(result))


def _claim(result: Result) -> dict[str, Any]:
    return result.printed or next((c for c in result.experiment.claims.values() if c["claim"] == result.words), {})


def _pair(result: Result) -> tuple[str, str] | None:
    claim = _claim(result)
    if "over" in claim and (of := claim.get("scheduler") or claim.get("of")):
        return of, claim["over"]
    if "better" in claim:
        return claim["better"][0], claim["worse"][0]
    if "order" in claim:
        return claim["order"][0], claim["order"][-1]
    return None


def _explained(result: Result, runs: Sequence[Run], differences: Differences) -> Result:
    """The result with what the two schedulers did."""
    pair = _pair(result)
    run = next((run for run in runs if run.choice is None), None)
    if pair is None or run is None or pair[0] == pair[1]:
        return result
    lines = []
    rows = Rows(run.rows, _keys(run))
    try:
        names = [rows.scheduler(name) for name in pair]
        cc = _claim(result).get("cc") or rows.controllers[0]
        jobs = [first(run, name, cc) for name in names]
    except checks.Undecidable:
        return result
    pair_key = tuple(run_key(job) for job in jobs)
    if pair_key not in differences:
        differences[pair_key] = _decisions(jobs)
    if line := differences[pair_key]:
        lines.append(line)
    some = {
        scheduler: [row for row in run.rows if (row["scheduler"], row["cc"]) == (scheduler, cc)] for scheduler in names
    }
    for name in COUNTS:
        means = [_mean([row.get(name) for row in some[scheduler]]) for scheduler in names]
        if all(mean is not None for mean in means) and any(means):
            lines.append(f"{name}: {means[0]:.4g} with {names[0]}, {means[1]:.4g} with {names[1]}")
    for scheduler in names:
        shares = [_share(row) for row in some[scheduler]]
        if (mean := _mean(shares)) is not None:
            lines.append(f"{100 * mean:.1f} % of the decisions of {scheduler} were a fallback's")
    return Result(
        result.experiment, result.kind, result.words, result.printed, result.verdict, result.settings, tuple(lines)
    )


def _decisions(jobs: Sequence[Job]) -> str | None:
    """Sentence about where the decisions of two runs part."""
    ours, theirs = (traces.decisions(job) if job.backend == SIM.name else None for job in jobs)
    if ours is None or theirs is None:
        return None
    differ, common, begin = traces.differing(ours, theirs)
    since = "" if begin is None else f", from packet {begin} on"
    where = f"{jobs[0].cc[0]}, first setting, seed {jobs[0].seed}"
    names = " and ".join(job.scheduler.name for job in jobs)
    return f"{names} decide differently on {differ} of {common} packets{since} ({where})"


def _share(row: Mapping[str, Any]) -> float | None:
    decided, decisions = row.get("fallback_decided"), row.get("decisions")
    return decided / decisions if decided is not None and decisions else None


def _mean(values: Sequence[Any]) -> float | None:
    known = [float(value) for value in values if value is not None]
    return fmean(known) if known else None


def undecided(results: Sequence[Result]) -> dict[str, int]:
    """Counts of the reasons that stood against a verdict."""
    reasons = [result.verdict.reason for result in results if result.verdict.verdict == OPEN]
    return {reason: reasons.count(reason) for reason in dict.fromkeys(reasons)}
