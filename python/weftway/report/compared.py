"""The report of a comparison: its rows, and what its runs looked like over time."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weftway.runs.backends import BACKENDS
from weftway.runs.store import whole

from . import MOST_TIMELINES, figures
from .page import page
from .study import Cell, Study, study_of

if TYPE_CHECKING:
    from weftway.runs.comparison import Comparison
    from weftway.runs.job import Job

    from .earlier import Earlier

CODE = (".py", ".js", ".css", ".html")


def write(
    comparison: Comparison,
    folder: Path,
    formats: Sequence[str],
    command: str,
    earlier: Earlier | None,
    width: str | None,
    tell: Callable[[int, int], None] | None,
) -> Path:
    """See `report.write`."""
    place = folder / "report.html"
    origin = origin_of(comparison, folder, command) if earlier is None else ""
    if origin and not formats and _is_of(place, origin):
        return place
    study = study_of(comparison).also(command=command) if command else study_of(comparison)
    runs = timelines(comparison, study)
    with whole(place) as half:
        half.write_text(page(study, comparison.frame, runs, earlier) + _mark(origin), encoding="utf-8")
    if formats:
        figures(comparison.frame, runs, study.scenario, folder / "figures", formats, width, tell)
    return place


def origin_of(comparison: Comparison, folder: Path, command: str) -> str:
    """Mark of a page's origin: a hash of the folder's rows, of what is said about them and of the code that draws
    them. Nothing where the folder has no table."""
    table = folder / "rows.parquet"
    if not table.is_file():
        return ""
    about = json.dumps([comparison.about, command, comparison.plan.named], default=str)
    return hashlib.sha256(b"".join([_drawn_by(), about.encode(), table.read_bytes()])).hexdigest()[:32]


@cache
def _drawn_by() -> bytes:
    """The hash of the code of pages."""
    files = sorted(file for file in Path(__file__).parents[1].rglob("*") if file.suffix in CODE)
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).digest()


def _is_of(file: Path, origin: str) -> bool:
    """Says whether a page was made from this."""
    mark = _mark(origin).encode()
    if not file.is_file() or file.stat().st_size < len(mark):
        return False
    with file.open("rb") as text:
        text.seek(-len(mark), os.SEEK_END)
        return text.read() == mark


def _mark(origin: str) -> str:
    """Last line of a page, which says what it was made from."""
    return f"<!-- {origin} -->\n" if origin else ""


def timelines(comparison: Comparison, study: Study) -> dict[tuple[str, str, str, str], dict[str, Any]]:
    """Runs over time, as many as a page holds: those that `Study.watched` names first."""
    jobs = {job.key: job for job in comparison.plan.jobs}
    wanted = [(cell, jobs[study.key(cell, seed)]) for cell, seed in study.watched()[:MOST_TIMELINES]]
    # The simulator does not hold Python's lock; a class in Python runs on this thread.
    with ThreadPoolExecutor() as pool:
        native = [(job, pool.submit(_told, job, comparison.watched)) for _, job in wanted if job.scheduler.rule is None]
        texts = {job.key: done.result() for job, done in native}
    by_run = {
        (cell.scheduler, cell.cc, cell.setting, str(job.seed)): _timeline(
            cell, job, texts[job.key] if job.key in texts else _told(job, comparison.watched)
        )
        for cell, job in wanted
    }
    return {key: timeline for key, timeline in by_run.items() if timeline is not None}


def _told(job: Job, watched: dict[str, str]) -> str | None:
    return BACKENDS[job.backend].timeline(job, watched.get(job.key))


def _timeline(cell: Cell, job: Job, text: str | None) -> dict[str, Any] | None:
    whose = {"scheduler": cell.scheduler, "cc": cell.cc, "seed": job.seed, "setting": cell.setting}
    return None if text is None else {**whose, "text": text}
