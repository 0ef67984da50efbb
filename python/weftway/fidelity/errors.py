"""Errors of the simulator against the kernel: per cell, and over all of them. Pure functions."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from weftway.runs.backends import Row
from weftway.stats.estimates import Interval, beyond, bootstrap, covering, interval_of, median

from .cells import CONTROLLERS, MOST_PATHS, TIME_LIMIT_S
from .runs import Runs, cut_off, goodputs

MEDIAN_TARGET = 0.04
BEYOND_TARGET = 0.15
SIGNED_TARGET = 0.03
"""Most signed error of each controller: no lean to one side."""
FEWEST_PAIRS = 3
"""Seeds that both sides must have run to make a comparison seed by seed."""
FEWEST_CELLS = 5
"""A verdict on fewer says nothing."""


@dataclass(frozen=True)
class Difference:
    """Both sides of one cell. Rates and errors are shares, points are percent points.

    The emulator draws losses and jitter of a seed as the simulator does. So ours are the runs of the seeds that the
    kernel ran in time, and the error is the median of the differences seed by seed. Both goodputs are medians of these
    seeds.
    """

    cell: int
    scenario: str
    cc: str
    paths: int
    sim_goodput_mbps: float
    kernel_goodput_mbps: float
    kernel_median_mbps: float
    """Median of all timely runs of the kernel, also those of seeds that ours did not run: the interval's."""
    kernel_low_mbps: float
    kernel_high_mbps: float
    share_error_points: float | None
    sim_retransmission_rate: float | None
    kernel_retransmission_rate: float | None
    window_drops: float | None
    """Packets that the kernel's receiver dropped as beyond its window (`NoDSSInWindow`), median."""
    paired_error: float | None
    plain_error: float
    """Our goodput over the kernel's, less one: of the two medians, not seed by seed."""
    pairs: int
    """Seeds that both sides ran, of which both goodputs are; 0 where too few match."""
    sim_runs: int
    kernel_runs: int
    late_runs: int
    note: str
    file: str
    command: str

    @property
    def error(self) -> float:
        """The simulator's goodput over the kernel's, less one: seed by seed, or of the medians where too few match."""
        if self.paired_error is not None:
            return self.paired_error
        return self.plain_error

    @property
    def interval(self) -> Interval:
        """Interval of the kernel's median."""
        return Interval(self.kernel_low_mbps, self.kernel_high_mbps)

    @property
    def interval_name(self) -> str:
        """Name of the interval: of a few runs it is their range."""
        return interval_of(self.kernel_runs, "runs")

    @property
    def spread(self) -> float:
        """Half the width of the interval, of the kernel's median: what the kernel differs from itself."""
        return (self.kernel_high_mbps - self.kernel_low_mbps) / 2 / self.kernel_median_mbps

    @property
    def beyond(self) -> float:
        """Part of the error that lies outside of the interval, without its sign."""
        return abs(beyond(self.sim_goodput_mbps, self.interval)) / self.kernel_median_mbps

    @property
    def inside(self) -> bool:
        return self.beyond == 0

    @property
    def retransmission_error_points(self) -> float | None:
        """The simulator's retransmissions per packet less the kernel's."""
        if self.sim_retransmission_rate is None or self.kernel_retransmission_rate is None:
            return None
        return 100 * (self.sim_retransmission_rate - self.kernel_retransmission_rate)

    @property
    def retransmission_ratio(self) -> float | None:
        """Ratio of the retransmission rates; none where the kernel repeated nothing."""
        if self.sim_retransmission_rate is None or not self.kernel_retransmission_rate:
            return None
        return self.sim_retransmission_rate / self.kernel_retransmission_rate

    @property
    def record(self) -> dict[str, Any]:
        """For `--json` and the page's data."""
        derived = (
            "error",
            "beyond",
            "inside",
            "interval_name",
            "spread",
            "retransmission_error_points",
            "retransmission_ratio",
        )
        values = {name: getattr(self, name) for name in derived}
        return as_json({**asdict(self), **values})


def differences(every: Iterable[Runs]) -> list[Difference]:
    """Every cell that can be compared."""
    return [difference(runs) for runs in every if not obstacle(runs)]


def obstacle(runs: Runs) -> str:
    """Why a cell is not compared; empty if it is. A run that was cut off has no goodput to compare."""
    if not (runs.sim and runs.kernel):
        return runs.note or "one side has no run"
    sides = [(name, cut_off(rows), len(rows)) for name, rows in (("kernel", runs.kernel), ("ours", runs.sim))]
    cut = [f"{name} {part} of {whole}" for name, part, whole in sides if part]
    return f"runs cut off at {TIME_LIMIT_S} s: {', '.join(cut)}" if cut else ""


def difference(runs: Runs) -> Difference:
    """Difference that the runs of one cell come to."""
    low, high = bootstrap(goodputs(runs.kernel), runs.cell.title)
    theirs = {row["seed"]: row["goodput_mbps"] for row in runs.kernel if "seed" in row}
    matching = [row for row in runs.sim if theirs.get(row.get("seed", -1), 0) > 0]
    ours = matching if len(matching) >= FEWEST_PAIRS else runs.sim
    ratios = [row["goodput_mbps"] / theirs[row["seed"]] for row in ours] if ours is matching else []
    same = [theirs[row["seed"]] for row in ours] if ratios else goodputs(runs.kernel)
    return Difference(
        cell=runs.cell.number,
        scenario=runs.cell.line,
        cc=runs.cell.cc,
        paths=len(runs.cell.links),
        sim_goodput_mbps=median(goodputs(ours)),
        kernel_goodput_mbps=median(same),
        kernel_median_mbps=median(goodputs(runs.kernel)),
        kernel_low_mbps=low,
        kernel_high_mbps=high,
        share_error_points=share_error(runs.sim, runs.kernel, len(runs.cell.links)),
        sim_retransmission_rate=column_median(runs.sim, "retransmission_rate"),
        kernel_retransmission_rate=column_median(runs.kernel, "retransmission_rate"),
        window_drops=column_median(runs.kernel, "window_drops"),
        paired_error=median(ratios) - 1 if ratios else None,
        plain_error=median(goodputs(ours)) / median(same) - 1,
        pairs=len(ratios),
        sim_runs=len(runs.sim),
        kernel_runs=len(runs.kernel),
        late_runs=runs.late,
        note=runs.note,
        file=str(runs.file),
        command=runs.command,
    )


def share_error(sim: Sequence[Row], kernel: Sequence[Row], paths: int) -> float | None:
    """The path whose share differs most, in points; there is none to differ with a single path."""
    if paths < 2:
        return None
    columns = [f"path.p{k}.share" for k in range(1, paths + 1)]
    pairs = [(column_median(sim, column), column_median(kernel, column)) for column in columns]
    gaps = [abs(ours - theirs) for ours, theirs in pairs if ours is not None and theirs is not None]
    return 100 * max(gaps) if gaps else None


def column_median(rows: Sequence[Row], column: str) -> float | None:
    """Median over the rows that have a value in a column."""
    values = [row[column] for row in rows if row.get(column) is not None]
    return median(values) if values else None


def worst(differences: Iterable[Difference], most: int) -> list[Difference]:
    """Farthest beyond the kernel's interval first; those inside by their error."""
    return sorted(differences, key=lambda difference: (-difference.beyond, -abs(difference.error)))[:most]


@dataclass(frozen=True)
class Group:
    """Errors over some cells. None where no cell has the value."""

    name: str
    cells: int
    error: float
    """Median of |error|, seed by seed where enough seeds match."""
    plain: float
    """Median of |error| of the medians over the same seeds."""
    signed: float
    """Median of the errors with their signs."""
    beyond_p90: float
    """Bound that 90 % of the cells keep: their median is at most so far outside of the kernel's interval."""
    beyond_p95: float
    inside: int
    spread: float
    """Median of the kernel's own."""
    share_points: float | None
    retransmission_points: float | None
    retransmission_ratio: float | None


def group(name: str, differences: Sequence[Difference]) -> Group:
    """The figures of some cells, at least one."""
    outside = [difference.beyond for difference in differences]
    points = values(differences, lambda difference: difference.retransmission_error_points)
    return Group(
        name,
        len(differences),
        median([abs(difference.error) for difference in differences]),
        median([abs(difference.plain_error) for difference in differences]),
        median([difference.error for difference in differences]),
        covering(outside, 0.90),
        covering(outside, 0.95),
        sum(difference.inside for difference in differences),
        median([difference.spread for difference in differences]),
        middle(values(differences, lambda difference: difference.share_error_points)),
        middle([abs(point) for point in points]),
        middle(values(differences, lambda difference: difference.retransmission_ratio)),
    )


def groups(differences: Sequence[Difference]) -> list[Group]:
    """All cells, then by controller, then by number of paths."""
    counts = range(1, MOST_PATHS + 1)
    parts = [("all cells", list(differences))]
    parts += [(cc, [difference for difference in differences if difference.cc == cc]) for cc in CONTROLLERS]
    parts += [
        (f"{n} path{'s' if n > 1 else ''}", [difference for difference in differences if difference.paths == n])
        for n in counts
    ]
    return [group(name, part) for name, part in parts if part]


def values(differences: Iterable[Difference], of: Callable[[Difference], float | None]) -> list[float]:
    """Values that are known."""
    return [value for difference in differences if (value := of(difference)) is not None]


def middle(known: Sequence[float]) -> float | None:
    return median(known) if known else None


def as_json(record: dict[str, object]) -> dict[str, object]:
    """A record with floats as `--json` has them."""
    return {name: round(value, 6) if isinstance(value, float) else value for name, value in record.items()}


def verdict(met: bool, cells: int) -> str:
    """`met` or `missed`; neither on a few cells."""
    if cells < FEWEST_CELLS:
        return "too few cells"
    return "met" if met else "missed"


@dataclass(frozen=True)
class Target:
    """Target of the simulator, and whether it is met: no verdict on a few cells."""

    name: str
    limit: float
    value: float
    cells: int
    """Number of cells that the value is of."""

    @property
    def verdict(self) -> str:
        return verdict(self.value <= self.limit, self.cells)


def targets(summed: Sequence[Group]) -> list[Target]:
    """Targets of the error of the goodput: two over all cells, the first of `summed`, and one per controller."""
    whole = summed[0]
    lean = [group for group in summed if group.name in CONTROLLERS]
    return [
        Target("median error of the goodput", MEDIAN_TARGET, whole.error, whole.cells),
        Target("95th percentile beyond the kernel's interval", BEYOND_TARGET, whole.beyond_p95, whole.cells),
        *(
            Target(f"signed error under {group.name}, either way", SIGNED_TARGET, abs(group.signed), group.cells)
            for group in lean
        ),
    ]
