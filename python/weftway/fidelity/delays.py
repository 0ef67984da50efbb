"""Delays of messages: whether they are as long in the simulator as in the kernel, and the tables that say it."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from rich.text import Text

from weftway.runs.backends import Row
from weftway.terminal.table import NOTHING, Column, Table, numbers, plain, wrapped

from .completion import obstacle
from .errors import as_json
from .held import WITHIN, Held, Score, number
from .runs import FINISHED, Measured, Runs
from .tables import SHARE, again

JUDGED = ("p50", "p95")
"""The quantiles of the delays of a run's messages that have to hold …"""
QUANTILES = (*JUDGED, "p99")
"""… and all that are shown: a run has between a hundred messages and two thousand."""
SLACK_MS = 1.0
"""A host's own time, which no link has: so near, a delay holds whatever its share."""


@dataclass(frozen=True)
class Delays:
    """Delays in one cell: for each quantile, in ms, the medians over the runs of both sides and the kernel's range."""

    cell: int
    scenario: str
    quantiles: dict[str, Held]
    kernel_runs: int
    late_runs: int
    not_judged: str
    """Why there is nothing to hold the simulator against; empty if there is."""
    file: str
    command: str

    def holds(self, quantile: str) -> bool:
        return not self.not_judged and self.quantiles[quantile].holds

    @property
    def worst(self) -> float:
        """The largest error of those that have to hold."""
        return max(
            (abs(self.quantiles[quantile].error or 0.0) for quantile in JUDGED if quantile in self.quantiles),
            default=0.0,
        )

    @property
    def record(self) -> dict[str, Any]:
        """For `--json`."""
        record = {name: value for name, value in asdict(self).items() if name != "quantiles"}
        for name, held in self.quantiles.items():
            values = (("sim", held.ours), ("kernel", held.middle), ("kernel_low", held.low), ("kernel_high", held.high))
            record |= {f"{side}_{name}_ms": value for side, value in values}
            record |= {f"{name}_error": held.error, f"{name}_holds": held.holds}
        return as_json(record)


def delays(sweep: Iterable[Runs]) -> list[Delays]:
    """Every cell, those included that cannot be judged."""
    return [of_cell(runs) for runs in sweep]


def of_cell(runs: Runs) -> Delays:
    """Delays that the runs of one cell come to."""
    reason = obstacle(runs) or ("" if finished(runs.sim) else "the simulator did not finish")
    return Delays(
        cell=runs.cell.number,
        scenario=runs.cell.line,
        quantiles={} if reason else {name: held(runs, name) for name in QUANTILES},
        kernel_runs=len(runs.kernel),
        late_runs=runs.late,
        not_judged=reason,
        file=str(runs.file),
        command=runs.command,
    )


def held(runs: Runs, quantile: str) -> Held:
    """Values of a quantile on both sides."""
    ours, theirs = ([row[f"message_{quantile}_ms"] for row in finished(rows)] for rows in (runs.sim, runs.kernel))
    return Held(median(ours), median(theirs), min(theirs), max(theirs), SLACK_MS)


def finished(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row["verdict"] == FINISHED]


def score(cells: Sequence[Delays], quantile: str) -> Score:
    """A cell that cannot be judged does not hold."""
    return Score(len(cells), sum(cell.holds(quantile) for cell in cells))


def delay_tables(measured: Measured, cells: Sequence[Delays]) -> list[Table | Text]:
    """Tables of how many cells hold by quantile; those that do not, the farthest first; how to run these again."""
    missed = sorted((cell for cell in cells if not all(map(cell.holds, JUDGED))), key=lambda cell: -cell.worst)
    head: list[Table | Text] = [Text("\n".join(facts(measured, cells))), summary(cells)]
    return [*head, missed_table(missed), again(missed)] if missed else head


def facts(measured: Measured, cells: Sequence[Delays]) -> list[str]:
    """The verdicts and how they came about, a line each."""
    runs, late = sum(cell.kernel_runs for cell in cells), sum(cell.late_runs for cell in cells)
    unknown = [f"cell {cell.cell} not judged: {cell.not_judged}" for cell in cells if cell.not_judged]
    return [
        *(f"{name} of the delays: {score(cells, name).sentence}" for name in JUDGED),
        f"A cell holds if the simulator's median over the runs is within {SHARE.number(WITHIN)} % or {SLACK_MS:g} ms "
        "of the kernel's, or between the kernel's shortest and longest run.",
        f"Seed {measured.request.seed}; {runs} runs of the kernel, {late} late left out; {measured.seconds:.0f} s",
        *unknown,
    ]


def summary(cells: Sequence[Delays]) -> Table:
    """For each quantile the medians over the cells: of the error, without and with its sign; of the kernel's spread."""
    known = [cell for cell in cells if not cell.not_judged]
    rows = []
    for name in QUANTILES if known else ():
        errors = [cell.quantiles[name].error or 0.0 for cell in known]
        spread = median(half_range(cell.quantiles[name]) for cell in known)
        parts = [SHARE.number(median(map(abs, errors))), SHARE.signed(median(errors)), SHARE.number(spread)]
        rows.append((name, str(sum(cell.holds(name) for cell in known)), *parts))
    columns = [Column(), *numbers("hold", "error\n%", "signed\n%", "kernel\nspread %")]
    return plain("medians over the cells; spread: half the kernel's range, of its median", columns, rows)


def half_range(of: Held) -> float:
    return (of.high - of.low) / 2 / of.middle if of.high is not None and of.low is not None and of.middle else 0.0


def missed_table(missed: Sequence[Delays]) -> Table:
    rows: list[Sequence[str]] = []
    for cell in missed:
        if cell.not_judged:
            rows.append((str(cell.cell), *[NOTHING] * 5, f"{cell.scenario} ({cell.not_judged})"))
        for name in (name for name in JUDGED if name in cell.quantiles and not cell.holds(name)):
            held = cell.quantiles[name]
            error = NOTHING if held.error is None else SHARE.signed(held.error)
            times = [number(held.middle), f"{number(held.low)}, {number(held.high)}", number(held.ours)]
            rows.append((str(cell.cell), name, *times, error, cell.scenario))
    columns = [*numbers("cell", "", "kernel", "shortest,\nlongest", "ours", "error\n%"), *wrapped("scenario")]
    title = "cells that do not hold, in ms: rate Mbit/s / delay ms / loss % q packets j ms, per path"
    return plain(title, columns, rows)
