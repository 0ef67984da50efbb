"""Where the numbers come from: versions, hash, seeds, and the command that makes them again."""

from __future__ import annotations

from html import escape
from typing import Any

from .study import Study, distinct

FACTS = (
    ("Backend", ("backend",)),
    ("Transport", ("transport",)),
    ("Code", ("code_version", "code")),
    ("Scenario hash", ("scenario_hash",)),
)
SHOWN = 6


def provenance(study: Study) -> str:
    """Facts as a list, then commands with a button to copy each."""
    facts = [(title, found) for title, columns in FACTS if (found := first_of(study, columns))]
    facts += [("Schedulers", versions(study, "scheduler")), ("Controllers", versions(study, "cc"))]
    facts += [("Seeds", seeds(study.seeds)), ("Runs", str(study.count))]
    listed = "".join(f"<dt>{escape(title)}</dt><dd>{escape(text)}</dd>" for title, text in facts if text)
    return f'<dl class="facts">{listed}</dl>{commands(study)}{skipped(study)}'


def first_of(study: Study, columns: tuple[str, ...]) -> str:
    """The values of the first of `columns` that the rows have."""
    found = next((values for column in columns if (values := study.first(column))), [])
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return ", ".join(map(str, found[:SHOWN])) + more


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


def commands(study: Study) -> str:
    """The comparison's own command, and one run's."""
    whole = study.scenario.get("command")
    one = next(iter(study.first("replay") or study.first("command")), None)
    wanted = [("The whole comparison", whole), ("One run (each row has its own)", one)]
    return "".join(command(title, str(text)) for title, text in wanted if text)


def command(title: str, text: str) -> str:
    return (
        f'<div class="command"><span>{escape(title)}</span><code>{escape(text)}</code>'
        f'<button type="button" class="copy">Copy</button></div>'
    )


def skipped(study: Study) -> str:
    """Pairs that a backend cannot run, with the reason: no error, but not to be passed over in silence."""
    records = study.scenario.get("skipped") or []
    lines = "".join(f"<li>{escape(skipped_line(record))}</li>" for record in records)
    return f"<h3>Not run</h3><ul>{lines}</ul>" if lines else ""


def skipped_line(record: Any) -> str:
    if not isinstance(record, dict):
        return str(record)
    place = " · ".join(str(record[key]) for key in ("scheduler", "cc", "backend") if record.get(key))
    return f"{place}: {record.get('reason', '')}" if place else str(record.get("reason", ""))
