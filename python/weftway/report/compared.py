"""The report of a comparison: its rows, and what its runs looked like over time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weftway.backends import BACKENDS
from weftway.store import whole

from . import figures, render
from .study import Cell, Study

if TYPE_CHECKING:
    from weftway.comparison import Comparison
    from weftway.job import Job

    from .earlier import Earlier

MOST_TIMELINES = 240
"""Runs to look at over time: each has to be simulated again, and takes some 5 kB of the page."""


def write(found: Comparison, folder: Path, formats: Sequence[str], command: str, earlier: Earlier | None) -> Path:
    """See `report.write`."""
    about = {**found.plan.document, "others": found.kept.sentence, **({"command": command} if command else {})}
    runs = timelines(found, about)
    with whole(folder / "report.html") as half:
        half.write_text(render(found.frame, runs, about, earlier), encoding="utf-8")
    if formats:
        figures(found.frame, runs, about, folder / "figures", formats)
    return folder / "report.html"


def timelines(found: Comparison, about: dict[str, Any]) -> dict[tuple[str, str, str, str], dict[str, Any]]:
    """What runs looked like over time, as many as a page holds: those that `Study.watched` names first."""
    study = Study(found.rows, about)
    keys = {(study.cell_of(row), row["seed"]): row["key"] for row in found.rows}
    jobs = {job.key: job for job in found.plan.jobs}
    wanted = [(cell, jobs[keys[cell, seed]]) for cell, seed in study.watched()[:MOST_TIMELINES]]
    # The simulator does not hold Python's lock; a class in Python runs on this thread.
    with ThreadPoolExecutor() as pool:
        native = [(job, pool.submit(_told, job, found.watched)) for _, job in wanted if job.scheduler.rule is None]
        texts = {job.key: done.result() for job, done in native}
    told = {
        (cell.scheduler, cell.cc, cell.setting, str(job.seed)): _timeline(
            cell, job, texts[job.key] if job.key in texts else _told(job, found.watched)
        )
        for cell, job in wanted
    }
    return {key: timeline for key, timeline in told.items() if timeline is not None}


def _told(job: Job, watched: dict[str, str]) -> str | None:
    return BACKENDS[job.backend].timeline(job, watched.get(job.key))


def _timeline(cell: Cell, job: Job, text: str | None) -> dict[str, Any] | None:
    whose = {"scheduler": cell.scheduler, "cc": cell.cc, "seed": job.seed, "setting": cell.setting}
    return None if text is None else {**whose, **json.loads(text)}
