"""Runs every cell in the simulator and in the kernel, and keeps what comes of it."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from weftway._native import Scenario, ScenarioError, SimulationError
from weftway.runs import plan
from weftway.runs.backends import KERNEL, SIM, Row
from weftway.runs.job import Job
from weftway.runs.runner import Interrupted, Progress, RowHandling, Runner, Wanted, Workers, quiet, threads
from weftway.runs.store import Store, whole
from weftway.stats.estimates import bootstrap, median

from . import failures, messages
from .cells import SweepCell, cells, equal_shares

SIM_RUNS = 24
"""A run of ours costs little, and the error of its median would count as one of the model."""
FIRST_RUNS = 5
"""The kernel's runs of a cell …"""
MORE_RUNS = 6
MOST_RUNS = 29
"""… and by how many more, up to how many, while its median is not known well enough."""
WIDEST = 0.05
"""Half the width of the interval of the kernel's median, of the median: wider asks for more runs. Errors of a few
percent are judged, so that an interval as wide as these would be most of what is measured."""
FINISHED = "finished"
"""The verdict of a run that was not cut off by the time limit."""
TRIES = 2
"""Late runs are repeated, up to so many times as many runs as are wanted."""


@dataclass(frozen=True)
class Kind:
    """Kind of cells: where they are drawn, and how often the kernel runs them."""

    option: str
    """Option of the command."""
    draw: Callable[[int, int], Sequence[SweepCell]]
    """The first cells of a seed."""
    most_runs: int
    """Most runs of the kernel. A range, unlike a median, grows with their number: then it is the same for all cells."""


GOODPUT = Kind("", cells, MOST_RUNS)
EQUAL_SHARES = Kind("--equal-shares", equal_shares, MOST_RUNS)
FAILURES = Kind("--failures", failures.cells, FIRST_RUNS)
MESSAGES = Kind("--messages", messages.cells, FIRST_RUNS)


def of_paths(paths: int) -> Kind:
    """The cells of goodput, all with so many paths."""
    return Kind(f"--paths {paths}", partial(cells, paths=paths), MOST_RUNS)


@dataclass(frozen=True)
class Request:
    """Number, seed and kind of the cells to measure, and the folder that keeps them."""

    cells: int
    seed: int
    folder: Path
    jobs: int | None = None
    kind: Kind = GOODPUT

    @property
    def drawn(self) -> Sequence[SweepCell]:
        return self.kind.draw(self.seed, self.cells)

    @property
    def command(self) -> str:
        kind = f" {self.kind.option}" if self.kind.option else ""
        return f"weft fidelity{kind} --cells {self.cells} --seed {self.seed} --out {plan.quoted(str(self.folder))}"


@dataclass(frozen=True)
class Runs:
    """The runs of one cell. `note` says why there are fewer than there should be."""

    cell: SweepCell
    file: Path
    sim: list[Row] = field(default_factory=list)
    kernel: list[Row] = field(default_factory=list)
    late: int = 0
    note: str = ""
    jobs: dict[str, Job] = field(default_factory=dict)

    @property
    def command(self) -> str:
        """Command that repeats the cell."""
        return f"weft compare {plan.quoted(str(self.file))} --backend sim,kernel --seeds 0..{SIM_RUNS}"

    def typical(self, rows: list[Row]) -> Job:
        """The job whose goodput is nearest to the median of `rows`."""
        middle = median(goodputs(rows))
        return self.jobs[min(rows, key=lambda row: abs(row["goodput_mbps"] - middle))["key"]]


@dataclass(frozen=True)
class Measured:
    """All cells, in order, and how long they took, earlier calls for the same folder included."""

    request: Request
    runs: list[Runs]
    seconds: float
    others: str = ""
    """Sentence about what the folder holds besides."""


def measure(request: Request, workers: Workers[Job] | None = None, progress: Progress = quiet) -> Measured:
    """Runs what is not kept in the folder already, on threads if nothing else is named.

    The two sides take turns, because a busy machine makes the kernel's links late. The kernel's runs are ordered in
    rounds over all cells, so that many go on beside one another.
    """
    start = time.monotonic()
    asked: dict[str, Row] = {}

    def run(wanted: list[Wanted[Job, CellRounds]]) -> None:
        """Runs one round, and hands every row to its cell."""
        runs = runner.run(wanted, workers or threads(request.jobs), HANDLING)
        for asked_for, missing in runs.missing:
            asked_for.asker.refuse(missing.reason)
        for asked_for, row in runs:
            asked[asked_for.job.key] = row
            asked_for.asker.take(asked_for.job, row)

    try:
        with Runner(request.folder, progress, request.cells * (SIM_RUNS + FIRST_RUNS)) as runner:
            folder = request.folder / "cells"
            trials = [CellRounds(cell, written(cell, folder), request.kind.most_runs) for cell in request.drawn]
            while wanted := [Wanted(job, trial) for trial in trials for job in trial.next_round()]:
                run(wanted)
            run([Wanted(job, trial) for trial in trials for job in trial.simulated()])
    except Interrupted:
        spent(request.folder, time.monotonic() - start)
        raise
    others = Store(request.folder).finish(list(asked.values())).sentence if asked else ""
    seconds = spent(request.folder, time.monotonic() - start)
    measured = [trial.runs() for trial in trials]
    if measured and not any(runs.kernel for runs in measured):
        raise SimulationError(f"the kernel ran no cell: {measured[0].note}")
    return Measured(request, measured, seconds, others)


HANDLING: RowHandling[Job, "CellRounds"] = RowHandling(keeps_timelines=True)


def spent(folder: Path, seconds: float) -> float:
    """The time of this call and of those before it in the same folder, in seconds: kept beside the rows."""
    file = folder / "seconds"
    total = seconds + (float(file.read_text()) if file.exists() else 0.0)
    with whole(file) as half:
        half.write_text(f"{total:.1f}\n", encoding="utf-8")
    return total


def written(cell: SweepCell, folder: Path) -> Path:
    """The cell's scenario file."""
    file = folder / cell.file_name
    if file.exists() and file.read_text(encoding="utf-8") != cell.text:
        raise ScenarioError(f"{file} is not {cell.title}: name another folder")
    with whole(file) as half:
        half.write_text(cell.text, encoding="utf-8")
    return file


def in_time(rows: Iterable[Row]) -> list[Row]:
    """Without the runs whose links were late."""
    return [row for row in rows if not row.get("late")]


def cut_off(rows: Iterable[Row]) -> int:
    """Number of runs that reached the time limit."""
    return sum(row["verdict"] != FINISHED for row in rows)


def goodputs(rows: Iterable[Row]) -> list[float]:
    return [row["goodput_mbps"] for row in rows]


def uncertain(rows: list[Row], seed: str) -> bool:
    """Tells medians whose interval is too wide."""
    values = goodputs(rows)
    low, high = bootstrap(values, seed)
    return (high - low) / 2 > WIDEST * median(values)


class CellRounds:
    """Rounds of runs of a cell, and its rows so far."""

    def __init__(self, cell: SweepCell, file: Path, most_runs: int) -> None:
        self.cell, self.file, self._most_runs = cell, file, most_runs
        self._scenario = Scenario.load(str(file))
        self._jobs: dict[str, Job] = {}
        self._kernel: list[Row] = []
        self._sim: list[Row] = []
        self._wanted = FIRST_RUNS
        self._note = ""

    def _plan(self, backend: str, seeds: range) -> list[Job]:
        jobs = plan.plan(self._scenario, seed=seeds, backend=backend).jobs
        self._jobs.update({job.key: job for job in jobs})
        return jobs

    def next_round(self) -> list[Job]:
        """The kernel's runs that are still wanted: the first, more where the median is uncertain, late ones again."""
        good = in_time(self._kernel)
        if self._note:
            return []
        if len(good) >= self._wanted:
            if self._wanted >= self._most_runs or cut_off(good) or not uncertain(good, self.cell.title):
                return []
            self._wanted = min(self._wanted + MORE_RUNS, self._most_runs)
        done = len(self._kernel)
        tries = range(done, min(done + self._wanted - len(good), TRIES * self._wanted))
        if not tries:
            self._note = f"{len(good)} of {self._wanted} runs in time"
            return []
        return self._plan(KERNEL.name, tries)

    def simulated(self) -> list[Job]:
        """The simulator's runs, where there is something to compare them with."""
        return self._plan(SIM.name, range(SIM_RUNS)) if in_time(self._kernel) else []

    def take(self, job: Job, row: Row) -> None:
        """Takes the row of one of its jobs."""
        (self._kernel if job.backend == KERNEL.name else self._sim).append(row)

    def refuse(self, reason: str) -> None:
        """Notes why one of its jobs has no row."""
        self._note = reason

    def runs(self) -> Runs:
        """Runs that there are at the end."""
        good = in_time(self._kernel)
        return Runs(self.cell, self.file, self._sim, good, len(self._kernel) - len(good), self._note, self._jobs)
