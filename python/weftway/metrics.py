"""Rows in, numbers out: means with their intervals, and differences paired by seed. Pure functions.

Of runs that cannot be repeated (kernel, live) it is medians; `coverage` says how surely an interval holds its number.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from weftway.report.study import SHOWN, Study
from weftway.stats.estimates import Estimate

if TYPE_CHECKING:
    import polars as pl


def summary(
    rows: "pl.DataFrame", scenario: dict[str, Any] | None = None, measures: Iterable[str] = SHOWN
) -> "pl.DataFrame":
    """Summarises rows, a line per setting, controller, scheduler and measure: mean, interval, and the difference to
    the reference scheduler over the seeds that both have. `measures` are names of columns."""
    import polars as pl

    study = Study(rows, scenario or {})
    wanted = [name for name in ([measures] if isinstance(measures, str) else measures) if study.has(name)]
    lines = []
    for cell in study.cells():
        for name in wanted:
            if (mean := study.estimate(cell, name)) is None:
                continue
            difference = study.difference(cell, name)
            lines.append(
                {
                    "setting": cell.setting,
                    "cc": cell.cc,
                    "scheduler": cell.scheduler,
                    "measure": name,
                    **_named("", mean),
                    "runs": mean.n,
                    "reference": study.reference,
                    **_named("difference_", difference),
                }
            )
    return pl.DataFrame(lines, infer_schema_length=None)


def _named(prefix: str, estimate: Estimate | None) -> dict[str, float | None]:
    known = estimate is not None and estimate.half is not None
    return {
        f"{prefix}mean": estimate.mean if estimate else None,
        f"{prefix}low": estimate.low if estimate and known else None,
        f"{prefix}high": estimate.high if estimate and known else None,
        f"{prefix}coverage": estimate.coverage if estimate and known else None,
    }
