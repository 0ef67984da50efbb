"""Caveats that a reader of rows must know before the numbers. Pure functions."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from weftway.runs.backends import Failed, Row
from weftway.runs.rows import Columns

if TYPE_CHECKING:
    import polars as pl

    from weftway.runs.job import Job

FINISHED = "finished"
"""The verdict of a run that came to its end."""

MOST_FAILURES = 10
"""Settings with failed runs that are told one by one; the rest is counted."""


def failures(failed: "Sequence[Failed[Job]]") -> list[str]:
    """A line for each scheduler in each setting in which runs of it failed: their seeds, and why the first did."""
    settings: dict[tuple[str, ...], list[Failed[Job]]] = {}
    for failure in failed:
        job = failure.job
        values = (f"{name}={value}" for name, value in job.variant.values.items())
        settings.setdefault(
            (job.scheduler.title, job.variant.scenario.name, *values, job.cc[0], job.backend), []
        ).append(failure)
    lines = []
    for (name, *where), some in list(settings.items())[:MOST_FAILURES]:
        seeds = list(dict.fromkeys(str(failure.job.seed) for failure in some))
        of = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {', '.join(seeds[:5])}{', …' if len(seeds) > 5 else ''}"
        lines.append(
            f"{name} failed in {', '.join(where)}, {of}: {some[0].reason}; repeat it with: {some[0].job.command}. "
            "Where schedulers are compared seed by seed, these are left out"
        )
    if more := list(settings.values())[MOST_FAILURES:]:
        lines.append(f"{sum(map(len, more))} more runs failed, in {len(more)} other settings")
    return lines


def unfinished(rows: "pl.DataFrame | Sequence[Row]") -> list[str]:
    """A line, if there are runs and none of them finished."""
    verdicts = set(Columns(rows)["verdict"]) - {None}
    if not verdicts or FINISHED in verdicts:
        return []
    return ["no run finished: raise `time_limit`, or look at the rates, delays and failures of the paths"]


def faults(rows: "pl.DataFrame | Sequence[Row]") -> list[str]:
    """A line for each scheduler that broke a rule, with how often: the engine then decided in its place."""
    table = Columns(rows)
    return counted(zip(table["scheduler"], table["faults"], table["decisions"], strict=True))


def counted(runs_of_all: Iterable[tuple[str, int | None, int | None]]) -> list[str]:
    """Caveats about faulty rules, from each run's scheduler, its faults and its decisions."""
    by_scheduler: dict[str, list[tuple[int, int]]] = {}
    for name, broken, decisions in runs_of_all:
        by_scheduler.setdefault(name, []).append((broken or 0, decisions or 0))
    return [_faulty(name, runs) for name, runs in by_scheduler.items() if any(faults for faults, _ in runs)]


def _faulty(name: str, runs: Sequence[tuple[int, int]]) -> str:
    counts = [faults for faults, _ in runs if faults]
    decisions = sum(decided for _, decided in runs)
    return (
        f"{name}: {sum(counts)} faults in {len(counts)} of {len(runs)} runs ({decisions} decisions). A fault is an "
        "answer that cannot be carried out: a path that is not there or full, waiting for nothing, or a wake-up in the "
        "past. "
        "The engine decided instead, so the numbers are not the rule's alone"
    )


def evaluated(lines: Iterable[dict[str, Any]]) -> list[str]:
    """Caveats about the policies in a summary: how far each is its fallback or the reference by another name."""
    caveats = []
    for line in lines:
        if not line["is_policy"]:
            continue
        under = "" if line["cc"] == "all" else f" under {line['cc']}"
        if line["differs_share"] is not None:
            caveats.append(
                f"{line['scheduler']}{under}: its policy decided otherwise than its fallback would have in "
                f"{percent(line['differs_share'])} of all decisions; the fallback itself decided "
                f"{percent(line['fallback_share'])}"
            )
        if line["same_share"] and line["scheduler"] != line["reference"]:
            caveats.append(
                f"{line['scheduler']}{under}: equals {line['reference']} in {percent(line['same_share'])} of "
                f"{line['cells']} runs"
            )
    return caveats


def percent(share: float) -> str:
    """A share that is neither none nor all is never shown as 0 or 100 %."""
    if 0 < share < 0.001:
        return "less than 0.1 %"
    if 0.999 < share < 1:
        return "more than 99.9 %"
    return f"{100 * share:.3g} %"
