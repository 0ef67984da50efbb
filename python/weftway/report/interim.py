"""Results of a comparison so far: a table for those who wait for the rest."""

from collections import defaultdict
from collections.abc import Sequence

from weftway.report.study import about
from weftway.runs.backends import Row
from weftway.runs.job import Job
from weftway.runs.plan import Plan
from weftway.stats.units import MEASURES, unit_for
from weftway.terminal.listing import bars
from weftway.terminal.table import Table, numbers, plain, texts

MOST_LINES = 16
"""Most schedulers that are shown; more would not fit above the bar of a small terminal."""

MOST_RUNS = 24
"""Runs of a scheduler that are drawn, the latest ones."""

Line = tuple[str, str, str]
"""Setting of what else was varied, the controller, the scheduler."""


class Interim:
    """Takes rows as they come."""

    def __init__(self, plan: Plan) -> None:
        self._wanted = about(plan.document)
        self._values: dict[str, dict[Line, list[float]]] = {name: defaultdict(list) for name in self._wanted}

    def add(self, job: Job, row: Row) -> None:
        """A run has finished."""
        setting = ", ".join(map(str, [*job.variant.values.values(), *([job.backend] if job.backend != "sim" else [])]))
        for name in self._wanted:
            if isinstance(value := row.get(name), int | float):
                self._values[name][setting, job.cc[0], job.scheduler.title].append(value)

    def table(self) -> Table:
        """The mean of what the workload is about, best first, and the runs themselves as bars of one scale."""
        name = next((name for name in self._wanted if any(map(any, self._values[name].values()))), self._wanted[-1])
        lines, measure = self._values[name], MEASURES[name]
        means = {line: sum(values) / len(values) for line, values in lines.items()}
        ranked = sorted(means, key=means.__getitem__, reverse=not measure.lower_is_better)
        unit = unit_for(measure.kind, means.values())
        most = max((value for values in lines.values() for value in values), default=0.0) or 1.0
        varied = [at for at in range(3) if at == 2 or len({line[at] for line in lines}) > 1]
        heads = [("setting", "controller", "scheduler")[at] for at in varied]
        shown = [([line[at] for at in varied], _number(means[line] * unit.factor), lines[line]) for line in ranked]
        return so_far(f"{measure.title} so far, mean", [*heads, unit.symbol], shown, most)


def so_far(
    title: str,
    heads: Sequence[str],
    lines: Sequence[tuple[Sequence[str], str, Sequence[float]]],
    most: float,
    scale: str = "",
) -> Table:
    """The first of these lines: names, a number, and its runs as bars, the highest for `most`."""
    shown = lines[:MOST_LINES]
    rows = [[*names, text, str(len(runs)), bars(runs[-MOST_RUNS:], most)] for names, text, runs in shown]
    *named, number = heads
    columns = [*texts(*named), *numbers(number, "runs"), *texts(f"each run, the latest on the right{scale}")]
    return plain(title, columns, rows, f"and {len(lines) - MOST_LINES} more" if len(lines) > MOST_LINES else "")


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
