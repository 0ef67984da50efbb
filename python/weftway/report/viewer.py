"""Runs over time to choose from: their data in the page, which `timelines.js` draws with uPlot."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence

from markupsafe import Markup

from weftway._native import shown_run

from .html import part
from .series import Watched
from .study import Study

STEPS = 200
"""Steps of a run in the page: a chart is some 500 pixels wide."""

BUDGET = 1_250_000
"""Characters of runs in one page, of the 3 MB that a page may have."""

REASON_BUDGET = 800_000
"""Characters of these, up to which runs come with the scheduler's reasons: these take most of the room."""


def viewer(study: Study, runs: Sequence[Watched]) -> Markup:
    """Controls, an empty place for the charts, and the data of as many runs as the budget holds, first come first."""
    kept: list[tuple[Watched, str]] = []
    used = 0
    for run in runs:
        blob = packed(run, used < REASON_BUDGET)
        if blob and used + len(blob) > BUDGET:
            break
        if blob:
            used += len(blob)
            kept.append((run, blob))
    listed = [
        [run.cell.scheduler, run.cell.cc, run.cell.setting, run.seed, blob, study.alike(run.cell)] for run, blob in kept
    ]
    viewed = {"runs": listed, "first": first_pair(study, [run for run, _ in kept])}
    data = json.dumps(viewed, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    return part("viewer", data)


def first_pair(study: Study, runs: Sequence[Watched]) -> list[int]:
    """Places of the runs that are shown at first: the first one, and the reference's (else the next) under the same
    controller and seed."""
    front = runs[0]
    others = [
        at
        for at, t in enumerate(runs)
        if at and (t.cell.cc, t.cell.setting, t.seed) == (front.cell.cc, front.cell.setting, front.seed)
    ]
    wanted = [at for at in others if runs[at].cell.scheduler == study.reference]
    return [0, *[*wanted, *others][:1]]


def packed(run: Watched, with_reasons: bool) -> str:
    """A run as deflated JSON in base64; nothing of a run without a step."""
    text = shown_run(run.text, STEPS, with_reasons)
    return base64.b64encode(zlib.compress(text.encode())).decode() if text else ""
