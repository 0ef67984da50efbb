"""Origin of the numbers: versions, hash, seeds, and the command that makes them again."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from .html import part
from .study import Study, distinct

FACTS = (
    ("Backend", ("backend",)),
    ("Transport", ("transport",)),
    ("Code", ("code_version", "code")),
    ("Scenario hash", ("scenario_hash",)),
)
SHOWN = 6


def provenance(study: Study) -> Markup:
    """Facts as a list, commands with a button to copy each, and the pairs that a backend cannot run."""
    facts = [(title, first_of(study, columns)) for title, columns in FACTS]
    facts += [("Schedulers", versions(study, "scheduler")), ("Controllers", versions(study, "cc"))]
    facts += [("Seeds", seeds(study.seeds)), ("Runs", str(study.count))]
    skipped = [skipped_line(record) for record in study.scenario.get("skipped") or []]
    return part("provenance", facts, commands(study), "Not run", skipped)


def first_of(study: Study, columns: tuple[str, ...]) -> str:
    """The values of the first of `columns` that the rows have."""
    listed = next((values for column in columns if (values := study.first(column))), [])
    more = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    return ", ".join(map(str, listed[:SHOWN])) + more


def versions(study: Study, column: str) -> str:
    """Names with their versions, where the rows carry them."""
    pairs = (
        pair for c in study.cells() for pair in zip(study.of(c, column), study.of(c, f"{column}_version"), strict=True)
    )
    return ", ".join(str(version or name) for name, version in distinct(pairs) if name)


def seeds(values: list[Any]) -> str:
    """Whole runs of numbers as a half-open range, as the command line takes them."""
    numbers = sorted(v for v in values if isinstance(v, int))
    if len(numbers) == len(values) > 1 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]}..{numbers[-1] + 1}"
    return ", ".join(map(str, values))


def commands(study: Study) -> list[tuple[str, str]]:
    """The comparison's own command, and one run's."""
    whole = study.scenario.get("command")
    first = next(iter(study.first("replay") or study.first("command")), None)
    wanted = [("The whole comparison", whole), ("One run (each row has its own)", first)]
    return [(title, str(text)) for title, text in wanted if text]


def skipped_line(record: Any) -> str:
    if not isinstance(record, dict):
        return str(record)
    place = " · ".join(str(record[key]) for key in ("scheduler", "cc", "backend") if record.get(key))
    return f"{place}: {record.get('reason', '')}" if place else str(record.get("reason", ""))
