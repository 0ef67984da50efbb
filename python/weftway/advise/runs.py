"""Runs every candidate in every cell over the same seeds, and has `choice` pick one of them."""

import math
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from weftway import fairness
from weftway._native import Scenario, ScenarioError, SimulationError
from weftway.fairness import Share, Start
from weftway.rank.costs import COLUMN, copies_share, cost
from weftway.runs import plan, seeds
from weftway.runs.backends import KERNEL, SIM, Failed, Row, Skipped
from weftway.runs.job import Job
from weftway.runs.runner import Outcome, Progress, Runner, Wanted, Workers, threads
from weftway.sample import distribution
from weftway.scenario import load
from weftway.stats.estimates import Interval, median

from . import candidates, neighbours
from .added import base
from .candidates import WINDOW, Candidate
from .choice import CandidateRuns, Choice, Gain, choose, judged, judging, log_ratio, picking
from .neighbours import Cell

ROUNDS = 3
"""Candidates of the first round that go on to the second."""

SCREENED = 8
"""Candidates for QUIC, of very many, that are tried in all cells."""

LEAST_SEEDS = 2


@dataclass(frozen=True)
class Request:
    """Request for advice."""

    scenario: str
    place: str = candidates.LINUX
    cells: int = 12
    seeds: str = "0..6"
    set: Sequence[str] = ()
    carrier: str = ""
    """Program that carries the traffic, or the kernel; nothing if it was not named."""
    added: Sequence[str] = ()
    """Links to add, as `lte2.rate=15Mbit/s`."""


@dataclass(frozen=True)
class Advice:
    """Advised candidate, and the runs that the advice rests on."""

    request: Request
    scenario: Scenario
    column: str
    """Measure that counts: a column of the rows, or nothing for the time that a megabyte takes."""
    cells: list[Cell]
    is_measured: bool
    """True if the cells come from a [range]."""
    seeds: list[int]
    baseline: CandidateRuns
    chosen: CandidateRuns
    trials: list[CandidateRuns]
    """All that ran in every cell, the best first."""
    gain: float
    """The share by which the chosen one costs less than the baseline, on the half that it was not picked on."""
    within: Interval
    other: CandidateRuns | None = None
    """The change that was judged, or if none gained enough on the half that picks, the best there; none if none ran."""
    single: CandidateRuns | None = None
    """The best link alone."""
    rival: CandidateRuns | None = None
    """The best that bonds."""
    shares: Sequence[Share] = ()
    """Shares of the chosen one's controller beside a CUBIC flow."""
    starts: Sequence[Start] = ()
    """Short flows while a flow starts with the default and with the chosen initial window, where they differ."""
    skipped: list[str] = field(default_factory=list)
    failed: list[Failed[Job]] = field(default_factory=list)
    """Runs that failed. A candidate is judged only with all of its simulated runs."""

    @property
    def is_upload(self) -> bool:
        """Tells if the user's side sends the data."""
        return bool(keys_of(self.scenario).get("direction") == "upload")

    def ratio(self, cell: Cell) -> float:
        """Cost of the chosen candidate over the baseline in a cell, on the half that it was not picked on."""
        return math.exp(log_ratio(self.chosen, self.baseline, [cell.number], judging(self.seeds)))

    def judged(self, trial: CandidateRuns, over: CandidateRuns) -> Gain:
        """Gain of a candidate over another on the half that judges."""
        return judged(trial, over, self.cells, self.seeds)

    def better_on_held_out(self) -> list[CandidateRuns]:
        """Candidates that cost less than the chosen one on the half that it was not picked on, the best first."""
        cells = [cell.number for cell in self.cells]
        over = {id(one): log_ratio(one, self.chosen, cells, judging(self.seeds)) for one in self.trials}
        return sorted((one for one in self.trials if over[id(one)] < 0), key=lambda one: over[id(one)])

    def picked(self, trial: CandidateRuns) -> float:
        """The share by which it costs less than the baseline on the half that picks."""
        cells = (cell.number for cell in self.cells)
        return 1 - math.exp(log_ratio(trial, self.baseline, cells, picking(self.seeds)))


def advise(request: Request, jobs: int | None = None, progress: Progress | None = None) -> Advice:
    """Simulates what can be deployed, and picks."""
    if request.place not in candidates.PLACES:
        raise ScenarioError(f"--deployable {request.place}: there is {', '.join(candidates.PLACES)}")
    numbers = seeds.parse(request.seeds)
    if len(numbers) < LEAST_SEEDS:
        raise ScenarioError(f"--seeds {request.seeds}: one half picks, the other judges; give two or more, as in 0..4")
    runner = _Trials(request, numbers, Runner(None, progress, has_out=False), threads(jobs, singles=False))
    as_it_comes = candidates.baseline(request.place, runner.keys, request.carrier)
    trials = runner.run(runner.screened(candidates.first(request.place, runner.keys, request.carrier)))
    unchanged = next((trial for trial in trials if trial.candidate == as_it_comes), None)
    if unchanged is None and runner.failed:
        raise runner.failed[0].error
    if unchanged is None:
        raise SimulationError("; ".join(runner.skipped) or "Linux without changes cannot be simulated here")
    best = sorted(trials, key=lambda trial: runner.picked(trial, unchanged))[:ROUNDS]
    better = [trial.candidate for trial in best]
    trials += runner.run(candidates.second(request.place, runner.keys, better, request.carrier))
    if all(trial.unfinished == len(trial.costs) for trial in trials):
        raise SimulationError(_nothing_finished(request, sum(len(trial.costs) for trial in trials), len(trials)))
    trials.sort(key=lambda trial: runner.picked(trial, unchanged))
    choice, shares = _with_shares(runner, trials, unchanged, jobs)
    gains = judged(choice.chosen, unchanged, runner.cells, numbers)
    chosen = choice.chosen.candidate
    return Advice(
        request=request,
        scenario=runner.scenario,
        column=COLUMN.get(runner.kind, ""),
        cells=runner.cells,
        is_measured=bool(runner.ranges),
        seeds=numbers,
        baseline=unchanged,
        chosen=choice.chosen,
        trials=trials,
        gain=gains.gain,
        within=gains.within,
        other=choice.other,
        single=choice.single,
        rival=choice.rival,
        shares=shares,
        starts=fairness.beside_starts(chosen.cc, [WINDOW, chosen.window], jobs) if chosen.window != WINDOW else (),
        skipped=list(dict.fromkeys(runner.skipped)),
        failed=runner.failed,
    )


def _with_shares(
    runner: "_Trials", trials: list[CandidateRuns], unchanged: CandidateRuns, jobs: int | None
) -> tuple[Choice, list[Share]]:
    """The choice, and the shares of its controller beside a CUBIC flow: one without them is not advised."""
    left, order = trials, candidates.paths(runner.keys)
    while True:
        choice = choose(left, unchanged, runner.cells, runner.numbers, order)
        cc = choice.chosen.candidate.cc
        shares = fairness.beside_cubic(cc, jobs)
        if shares or choice.chosen is unchanged:
            return choice, shares
        runner.skipped.append(f"{cc}: its share beside CUBIC is not known, so it is not advised")
        left = [trial for trial in left if trial.candidate.cc != cc or trial is unchanged]


def _nothing_finished(request: Request, runs: int, candidates: int) -> str:
    return (
        f"no run finished under any setting ({runs} runs of {candidates} candidates), so there is nothing to advise: "
        f"`weft run {plan.quoted(request.scenario)}` shows what happens; give the links more rate or uptime, or the "
        "scenario a longer time_limit"
    )


def check(advice: Advice, jobs: int | None = None, progress: Progress | None = None) -> list[Row]:
    """Runs the candidates on this machine's kernel, in the scenario as it is: a record each, the fastest first.

    What `weft steer` has to do beside the connection is left out.
    """
    if advice.request.place != candidates.LINUX:
        raise ScenarioError("--check runs the Linux kernel; leave out --deployable quic")
    if obstacle := KERNEL.obstacle():
        raise SimulationError(f"--check: {obstacle}")
    trials = [trial for trial in advice.trials if not trial.candidate.is_steered]
    wanted = [
        Wanted(job, trial.candidate)
        for trial in trials
        for job in _jobs(advice.request, trial.candidate, Cell(0), advice.seeds, KERNEL.name)
    ]
    with Runner(None, progress, has_out=False) as runner:
        runs = runner.run(wanted, _all_or_none(threads(jobs or 1)))
    rows: dict[str, list[Row]] = {}
    for asked, row in runs:
        rows.setdefault(asked.asker.words, []).append(row)
    kind = keys_of(advice.scenario)["workload.kind"]
    records: list[Row] = [
        {
            "kind": "check",
            "candidate": trial.candidate.words,
            "is_advised": trial is advice.chosen,
            **_spread([cost(row, kind) for row in rows[trial.candidate.words]]),
            "late_runs": sum(bool(row["late"]) for row in rows[trial.candidate.words]),
            "unfinished": sum(row["verdict"] != "finished" for row in rows[trial.candidate.words]),
            "runs": len(rows[trial.candidate.words]),
        }
        for trial in trials
        if trial.candidate.words in rows
    ]
    if not records and runs.failed:
        raise runs.failed[0].error
    advice.failed.extend(runs.failed)
    if all(record["unfinished"] == record["runs"] for record in records):
        count = sum(record["runs"] for record in records)
        raise SimulationError(f"--check: {_nothing_finished(advice.request, count, len(records))}")
    best = min(record["cost_ms"] for record in records)
    return sorted(({**record, "over_best": record["cost_ms"] / best} for record in records), key=lambda r: r["cost_ms"])


def _all_or_none(workers: Workers[Job]) -> Workers[Job]:
    """Workers that stop where one job cannot be run here: then no other one can, either."""

    def carried_out(todo: Sequence[Job]) -> Iterator[Outcome[Job]]:
        for outcome in workers(todo):
            if isinstance(outcome.result, Skipped):
                raise SimulationError(f"--check: {outcome.result.reason}")
            yield outcome

    return carried_out


def _spread(costs: Sequence[float]) -> dict[str, float]:
    """Median of some runs' costs, the least and the most."""
    return {"cost_ms": median(costs), "least_ms": min(costs), "most_ms": max(costs)}


def keys_of(scenario: Scenario) -> dict[str, Any]:
    """Dotted keys of the scenario, with what is set."""
    keys = distribution.flat(tomllib.loads(scenario.text))
    given = (setting.partition("=") for setting in scenario.sets)
    return {**keys, **{name.strip(): value.strip().strip('"') for name, _, value in given}}


def _jobs(request: Request, candidate: Candidate, cell: Cell, numbers: Sequence[int], place: str) -> list[Job]:
    sets = [*request.set, *candidate.sets, *cell.sets]
    scenario = load(base(request.scenario, request.added), sets)
    variant = scenario.variants()[0]
    wanted = plan.plan(scenario, candidate.scheduler, candidate.cc, numbers, place).jobs
    return [job for job in wanted if job.variant.hash == variant.hash]


class _Trials:
    """Runs candidates in cells."""

    def __init__(self, request: Request, numbers: list[int], runner: Runner, workers: Workers[Job]) -> None:
        self._request, self.numbers, self._runner, self._workers = request, numbers, runner, workers
        self.scenario = load(base(request.scenario, request.added), request.set)
        self.keys = keys_of(self.scenario)
        self.kind = str(self.keys.get("workload.kind"))
        self.ranges: dict[str, str] = tomllib.loads(self.scenario.text).get("range", {})
        self.cells = neighbours.cells(self.keys, self.ranges, request.cells)
        self.skipped: list[str] = []
        self.failed: list[Failed[Job]] = []

    def picked(self, trial: CandidateRuns, base: CandidateRuns) -> float:
        """Logarithm of its cost over that of `base`, on the seeds that pick."""
        return log_ratio(trial, base, (cell.number for cell in self.cells), picking(self.numbers))

    def screened(self, wanted: list[Candidate]) -> list[Candidate]:
        """Candidates of very many that are best in the scenario as it is. The baseline, which is the first, stays, and
        so does each link alone."""
        if len(wanted) <= 4 * SCREENED:
            return wanted
        kept = [wanted[0], *(one for one in wanted if one.alone)]
        tried = self.run([one for one in wanted if one not in kept], self.cells[:1], picking(self.numbers))
        best = sorted(tried, key=lambda trial: fmean([math.log(value) for value in trial.costs.values()]))
        return [*kept, *[trial.candidate for trial in best][:SCREENED]]

    def run(
        self, wanted: Sequence[Candidate], cells: Sequence[Cell] | None = None, numbers: Sequence[int] | None = None
    ) -> list[CandidateRuns]:
        """Results of each candidate that can be simulated."""
        cells, numbers = cells or self.cells, numbers or self.numbers
        asked = [
            Wanted(job, (candidate, cell))
            for candidate in wanted
            for cell in cells
            for job in _jobs(self._request, candidate, cell, numbers, SIM.name)
        ]
        with self._runner as runner:
            runs = runner.run(asked, self._workers)
        self.skipped += [f"{run.job.scheduler.name}: {run.reason}" for run in runs.skipped]
        self.failed += runs.failed
        ran: dict[Candidate, dict[tuple[int, int], Row]] = {}
        for asker, row in runs:
            candidate, cell = asker.asker
            ran.setdefault(candidate, {})[cell.number, asker.job.seed] = row
        whole = len(cells) * len(numbers)
        return [self._trial(candidate, ran[candidate]) for candidate in wanted if len(ran.get(candidate, {})) == whole]

    def _trial(self, candidate: Candidate, rows: dict[tuple[int, int], Row]) -> CandidateRuns:
        costs = {pair: cost(row, self.kind) for pair, row in rows.items()}
        packets = [{**row, "packets": _packets(row)} for row in rows.values()]
        copies = fmean([copies_share(row) for row in packets])
        return CandidateRuns(
            candidate, costs, copies, frozenset(pair for pair, row in rows.items() if row["verdict"] != "finished")
        )


def _packets(row: Row) -> int:
    return sum(value for name, value in row.items() if name.startswith("path.") and name.endswith(".packets"))
