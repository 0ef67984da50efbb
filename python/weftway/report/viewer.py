"""Runs over time to choose from: their data in the page, which `timelines.js` draws with uPlot."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Sequence
from typing import Any

from .series import Timeline, Values, downs
from .study import Study

STEPS = 200
"""Steps of a run in the page: a chart is some 500 pixels wide."""

BUDGET = 1_250_000
"""Characters of runs in one page, of the 3 MB that a page may have."""

REASON_BUDGET = 800_000
"""Of these, up to which runs come with the scheduler's reasons: these take most of the room."""

STROKES = {"loss": "loss", "rto": "timeout", "pto": "timeout"}
"""Events that are drawn as strokes."""

PATH_OR_LONG = re.compile(r"\bp(\d+)\b|\d+\.\d{3,}")
"""What stands in a reason for a path, and numbers with more digits than anybody reads."""

SERIES = {"mbps": "mbps", "srtt_ms": "srtt", "cwnd_kb": "cwnd", "inflight_kb": "flight"}
HELD = {"receive_buffer_kb": "held", "ooo_kb": "ooo"}
"""The names of the series in the page."""


def viewer(study: Study, timelines: Sequence[Timeline]) -> str:
    """Controls, an empty place for the charts, and the data of as many runs as the budget holds, first come first."""
    kept: list[list[Any]] = []
    used = 0
    for t in timelines:
        blob = packed(t.thinned(STEPS), used < REASON_BUDGET)
        if used + len(blob) > BUDGET:
            break
        used += len(blob)
        kept.append([t.cell.scheduler, t.cell.cc, t.cell.setting, t.seed, blob, study.alike(t.cell)])
    told = {"runs": kept, "first": first_pair(study, timelines[: len(kept)])}
    data = json.dumps(told, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    return (
        '<div class="viewer-tools"><button type="button" id="zoom-in">Zoom in</button>'
        '<button type="button" id="zoom-out">Zoom out</button><button type="button" id="zoom-all">Whole run</button>'
        '<output id="readout" aria-live="off"></output></div>'
        '<div id="viewer" tabindex="0" role="group" aria-label="Runs over time. Arrow keys move the crosshair, '
        'plus and minus zoom."></div><noscript><p>The runs are drawn by a script.</p></noscript>'
        f'<script type="application/json" id="runs">{data}</script>'
    )


def first_pair(study: Study, timelines: Sequence[Timeline]) -> list[int]:
    """What is shown at first: the first run, and the reference's (else the next) under the same controller and seed."""
    front = timelines[0]
    others = [
        at
        for at, t in enumerate(timelines)
        if at and (t.cell.cc, t.cell.setting, t.seed) == (front.cell.cc, front.cell.setting, front.seed)
    ]
    wanted = [at for at in others if timelines[at].cell.scheduler == study.reference]
    return [0, *[*wanted, *others][:1]]


def packed(t: Timeline, with_reasons: bool) -> str:
    """A run as deflated JSON in base64."""
    paths = list(t.paths)
    told: dict[str, Any] = {"paths": paths, "end": t.end_ms, "step": t.step_ms}
    for key, name in SERIES.items():
        if any(path.get(key) for path in t.paths.values()):
            told[name] = [numbers(path.get(key, [])) for path in t.paths.values()]
    told |= {name: numbers(t.connection[key]) for key, name in HELD.items() if t.connection.get(key)}
    told |= {kind: [numbers(s) for s in t.decisions[kind]] for kind in ("send", "copy") if kind in t.decisions}
    told |= {"wait": numbers(t.decisions["wait"][0])} if "wait" in t.decisions else {}
    if with_reasons and t.reasons:
        told["why"] = [(step, kind, path, readable(text, paths)) for step, kind, path, text in t.reasons]
    told |= {"marks": strokes(t, paths), "down": outages(t, paths)}
    text = json.dumps(told, separators=(",", ":"), ensure_ascii=False)
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def readable(reason: str, paths: Sequence[str]) -> str:
    """A scheduler's reason with the names of the paths and with four digits of long numbers."""

    def told(match: re.Match[str]) -> str:
        if match[1] is None:
            return f"{float(match[0]):.4g}"
        return paths[int(match[1])] if int(match[1]) < len(paths) else match[0]

    return PATH_OR_LONG.sub(told, reason)


def numbers(values: Values) -> list[float | int | None]:
    """Three digits, as short as they can be written."""
    return [None if v is None else short(v) for v in values]


def short(value: float) -> float | int:
    if not value:
        return 0
    rounded = float(f"{value:.3g}")
    return int(rounded) if rounded.is_integer() else rounded


def strokes(t: Timeline, paths: Sequence[str]) -> list[tuple[float, int, str]]:
    """Losses and timeouts; those of one kind in the same step share a stroke."""
    found = {
        (int(e["t_ms"] // t.step_ms), paths.index(e["path"]), STROKES[e["kind"]]): round(e["t_ms"], 1)
        for e in t.events
        if e.get("kind") in STROKES and e.get("path") in paths
    }
    return [(ms, path, kind) for (_, path, kind), ms in sorted(found.items())]


def outages(t: Timeline, paths: Sequence[str]) -> list[tuple[int, float, float]]:
    """From when to when each path was down."""
    return [(place, start, end) for place, path in enumerate(paths) for start, end in downs(t.events, path, t.end_ms)]
