"""What a reader of rows must know before the numbers. Pure functions."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from weftway.backends import Row
from weftway.rows import Columns

if TYPE_CHECKING:
    import polars as pl


def faults(rows: "pl.DataFrame | Sequence[Row]") -> list[str]:
    """A line for each scheduler that broke a rule, with how often: the engine then decided in its place."""
    table = Columns(rows)
    return counted(zip(table["scheduler"], table["faults"], table["decisions"], strict=True))


def counted(runs_of_all: Iterable[tuple[str, int | None, int | None]]) -> list[str]:
    """The same from each run's scheduler, its faults and its decisions."""
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
    """Of each policy in the lines of a summary: how far it is its fallback or the reference under another name."""
    found = []
    for line in lines:
        if not line["is_policy"]:
            continue
        under = "" if line["cc"] == "all" else f" under {line['cc']}"
        if line["differs_share"] is not None:
            found.append(
                f"{line['scheduler']}{under}: its policy decided otherwise than its fallback would have in "
                f"{percent(line['differs_share'])} of all decisions; the fallback itself decided "
                f"{percent(line['fallback_share'])}"
            )
        if line["same_share"] and line["scheduler"] != line["reference"]:
            found.append(
                f"{line['scheduler']}{under}: equals {line['reference']} in {percent(line['same_share'])} of "
                f"{line['cells']} runs"
            )
    return found


def percent(share: float) -> str:
    """A share that is neither none nor all is never shown as 0 or 100 %."""
    if 0 < share < 0.001:
        return "less than 0.1 %"
    if 0.999 < share < 1:
        return "more than 99.9 %"
    return f"{100 * share:.3g} %"
