"""Completion times over failing paths, in the simulator and in the kernel, and the tables that compare them."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from rich.text import Text

from weftway.runs.backends import Row
from weftway.terminal.table import NOTHING, Table, numbers, plain, wrapped

from .errors import as_json
from .failures import TIME_LIMIT_S
from .held import FEWEST_RUNS, WITHIN, Held, Score, number
from .runs import FINISHED, Measured, Runs, cut_off
from .tables import SHARE, again


@dataclass(frozen=True)
class JudgedCell:
    """Completion times of one cell in seconds. None: not known, or the simulator did not finish."""

    cell: int
    scenario: str
    kernel_s: float | None
    kernel_low_s: float | None
    kernel_high_s: float | None
    sim_s: float | None
    kernel_runs: int
    kernel_cut_off: int
    """Runs of the kernel that reached the time limit. They count in its median, and not in its range."""
    late_runs: int
    not_judged: str
    """Why there is nothing to hold the simulator against; empty if there is."""
    file: str
    command: str

    @property
    def held(self) -> Held:
        return Held(self.sim_s, self.kernel_s, self.kernel_low_s, self.kernel_high_s)

    @property
    def record(self) -> dict[str, Any]:
        """For `--json`."""
        return as_json({**asdict(self), "error": self.held.error, "holds": self.held.holds})


def judge(sweep: Iterable[Runs]) -> list[JudgedCell]:
    """Every cell, those included that cannot be judged."""
    return [judged(runs) for runs in sweep]


def judged(runs: Runs) -> JudgedCell:
    """Judges the runs of one cell."""
    theirs, ours = seconds(runs.kernel), seconds(runs.sim)
    reason = obstacle(runs)
    finished = [value for value in theirs if math.isfinite(value)]
    middle = median(ours) if ours else math.inf
    return JudgedCell(
        cell=runs.cell.number,
        scenario=runs.cell.line,
        kernel_s=None if reason else median(theirs),
        kernel_low_s=None if reason else min(finished),
        kernel_high_s=None if reason else max(finished),
        sim_s=middle if math.isfinite(middle) else None,
        kernel_runs=len(runs.kernel),
        kernel_cut_off=cut_off(runs.kernel),
        late_runs=runs.late,
        not_judged=reason,
        file=str(runs.file),
        command=runs.command,
    )


def seconds(rows: Iterable[Row]) -> list[float]:
    """The completion time of each run: endless for one that was cut off."""
    return [row["fct_ms"] / 1e3 if row["verdict"] == FINISHED else math.inf for row in rows]


def obstacle(runs: Runs) -> str:
    """Why a cell cannot be judged; empty if it can."""
    if len(runs.kernel) < FEWEST_RUNS:
        return runs.note or f"{len(runs.kernel)} runs of the kernel in time"
    cut = cut_off(runs.kernel)
    return f"the kernel did not finish {cut} of {len(runs.kernel)} runs" if 2 * cut >= len(runs.kernel) else ""


def score(cells: Sequence[JudgedCell]) -> Score:
    """A cell that cannot be judged does not hold."""
    return Score(len(cells), sum(cell.held.holds for cell in cells))


def completion_tables(measured: Measured, cells: Sequence[JudgedCell]) -> list[Table | Text]:
    """Tables of how many cells hold; those that do not, the farthest first; how to run these again."""
    missed = sorted((cell for cell in cells if not cell.held.holds), key=by_error)
    head = Text("\n".join(facts(measured, cells)))
    return [head, missed_table(missed), again(missed)] if missed else [head]


def by_error(cell: JudgedCell) -> tuple[bool, float]:
    """A key that sorts by the error; those that cannot be judged come last."""
    return bool(cell.not_judged), -abs(math.inf if cell.held.error is None else cell.held.error)


def facts(measured: Measured, cells: Sequence[JudgedCell]) -> list[str]:
    """The verdict and how it came about, a line each."""
    runs, late = sum(cell.kernel_runs for cell in cells), sum(cell.late_runs for cell in cells)
    far = sum(cell.held.is_in_range and not cell.held.is_near for cell in cells)
    unknown = sum(bool(cell.not_judged) for cell in cells)
    cut = [f"{cell.cell} ({cell.kernel_cut_off} of {cell.kernel_runs})" for cell in cells if cell.kernel_cut_off]
    lines = [
        score(cells).sentence,
        f"A cell holds if the simulator's median completion time is within {SHARE.number(WITHIN)} % of the kernel's "
        "or between the kernel's shortest and longest run.",
        f"Seed {measured.request.seed}; {runs} runs of the kernel, {late} late left out; {measured.seconds:.0f} s",
    ]
    if far:
        lines.append(f"{far} of those that hold are in the kernel's range only, farther from its median")
    if cut:
        lines.append(f"the kernel did not finish every run within {TIME_LIMIT_S} s of the cells {', '.join(cut)}")
    if unknown:
        lines.append(f"{unknown} cells not judged: they count as cells that do not hold")
    return lines


def missed_table(missed: Sequence[JudgedCell]) -> Table:
    columns = [*numbers("cell", "kernel\ns", "shortest,\nlongest", "ours\ns", "error\n%"), *wrapped("scenario")]
    rows = [
        (
            str(cell.cell),
            number(cell.kernel_s),
            f"{number(cell.kernel_low_s)}, {number(cell.kernel_high_s)}",
            number(cell.sim_s) if cell.sim_s is not None else "never",
            NOTHING if cell.held.error is None else SHARE.signed(cell.held.error),
            f"{cell.scenario} ({cell.not_judged})" if cell.not_judged else cell.scenario,
        )
        for cell in missed
    ]
    return plain("cells that do not hold: rate Mbit/s / delay ms, per path", columns, rows)
