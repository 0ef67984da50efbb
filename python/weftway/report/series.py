"""The timelines of chosen runs: read, thinned to what a page can show, and turned into points."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from weftway._native import thinned
from weftway.runs.columns import is_number

from .study import Cell

PATH_SERIES = ("mbps", "srtt_ms", "cwnd_kb", "inflight_kb")
CONNECTION_SERIES = ("receive_buffer_kb", "ooo_kb")

Values = list[float | None]
Reason = tuple[int, str, int | None, str]
"""A scheduler's first reason in a step: the step, the kind of decision, the place of the path, and the words."""


@dataclass
class Timeline:
    """Run over time: a value per step for each path and for the connection, and what happened."""

    cell: Cell
    step_ms: float
    paths: dict[str, dict[str, Values]]
    connection: dict[str, Values]
    events: list[dict[str, Any]] = field(default_factory=list)
    seed: Any = None
    decisions: dict[str, list[Values]] = field(default_factory=dict)
    """Number of decisions to `send` and to `copy`, a series per path, and to `wait`, one series."""
    reasons: list[Reason] = field(default_factory=list)

    @property
    def steps(self) -> int:
        series = [*self.connection.values(), *(s for path in self.paths.values() for s in path.values())]
        return max(map(len, series), default=0)

    @property
    def end_ms(self) -> float:
        return self.steps * self.step_ms

    def thinned(self, bins: int) -> Timeline:
        """This run in at most `bins` steps: rates are averaged, the rest keep their peak."""
        stride = max(1, math.ceil(self.steps / bins))
        thin = {
            name: {key: thinned(values, stride, "mean" if key == "mbps" else "max") for key, values in path.items()}
            for name, path in self.paths.items()
        }
        connection = {key: thinned(values, stride, "max") for key, values in self.connection.items()}
        counts = {kind: [thinned(s, stride, "sum") for s in series] for kind, series in self.decisions.items()}
        firsts: dict[tuple[int, str, int | None], Reason] = {}
        for step, kind, path, text in self.reasons:
            firsts.setdefault((step // stride, kind, path), (step // stride, kind, path, text))
        return Timeline(
            self.cell, self.step_ms * stride, thin, connection, self.events, self.seed, counts, list(firsts.values())
        )


@dataclass(frozen=True)
class Watched:
    """A run that can be shown over time. What its backend tells of it (`text`, JSON) is read where it is needed."""

    cell: Cell
    seed: Any
    record: dict[str, Any]

    @cached_property
    def timeline(self) -> Timeline:
        text = self.record.get("text")
        return read_timeline(self.cell, {**self.record, **json.loads(text)} if text else self.record)

    @property
    def text(self) -> str:
        """The run as JSON, in the form of the simulator's."""
        text: str | None = self.record.get("text")
        return text or as_json(self.timeline)


def read_timelines(timelines: dict[Any, dict[str, Any]]) -> list[Watched]:
    """Every run that has a timeline with at least one step."""
    runs = [Watched(cell_of(key, record), record.get("seed"), record) for key, record in (timelines or {}).items()]
    return [run for run in runs if "text" in run.record or run.timeline.steps > 0]


def cell_of(key: Any, record: dict[str, Any]) -> Cell:
    names = list(key) if isinstance(key, tuple) else re.split(r"\s*[/×|]\s*", str(key))
    scheduler = str(record.get("scheduler") or names[0])
    cc = str(record.get("cc") or (names[1] if len(names) > 1 else "default"))
    return Cell(str(record.get("setting") or ""), cc, scheduler)


def read_timeline(cell: Cell, record: dict[str, Any]) -> Timeline:
    paths = {
        name: {key: series for key in PATH_SERIES if (series := path_series(record, name, i, key))}
        for i, name in enumerate(record.get("paths") or [])
    }
    connection = {key: clean(record[key]) for key in CONNECTION_SERIES if record.get(key)}
    events = [event for event in record.get("events") or [] if is_number(event.get("t_ms"))]
    decisions = record.get("decisions") or {}
    counts = {kind: [clean(series) for series in decisions[kind]] for kind in ("send", "copy") if decisions.get(kind)}
    counts |= {"wait": [clean(decisions["wait"])]} if decisions.get("wait") else {}
    reasons = [(int(at), str(kind), place, str(text)) for at, kind, place, text in decisions.get("reasons") or []]
    step_ms = float(record.get("step_ms") or 100)
    return Timeline(cell, step_ms, paths, connection, events, record.get("seed"), counts, reasons)


def as_json(t: Timeline) -> str:
    """A timeline in the form of the simulator's."""
    series: dict[str, Any] = {"step_ms": t.step_ms, "paths": list(t.paths), **t.connection}
    series |= {key: [path.get(key, []) for path in t.paths.values()] for key in PATH_SERIES}
    series["events"] = [
        {"t_ms": event["t_ms"], "path": event.get("path"), "kind": str(event.get("kind"))} for event in t.events
    ]
    counts: dict[str, Any] = {kind: t.decisions.get(kind, []) for kind in ("send", "copy")}
    wait = t.decisions.get("wait", [[]])[0]
    return json.dumps({**series, "decisions": {**counts, "wait": wait, "reasons": t.reasons}})


def path_series(record: dict[str, Any], name: str, index: int, key: str) -> Values:
    """A path's series, by name or by place under its key, or in the path's own record."""
    own = record["paths"][name] if isinstance(record["paths"], dict) else {}
    series = record.get(key) or {}
    if isinstance(series, dict):
        return clean(series.get(name) or own.get(key) or [])
    return clean(series[index] if index < len(series) else [])


def clean(values: Sequence[Any]) -> Values:
    kinds = set(map(type, values))
    if kinds <= {float, type(None)} and all(map(math.isfinite, filter(None, values))):
        return list(values)
    if kinds <= {int}:
        return list(map(float, values))
    return [float(value) if is_number(value) else None for value in values]


def top(series: Iterable[Values]) -> float:
    """The largest value of several series."""
    return max((value for values in series for value in values if value is not None), default=0.0)


def points(values: Values, step_ms: float, end_ms: float, high: float, width: int, height: int) -> str:
    """SVG points of a line through the middle of each step, `high` at the top edge."""
    pairs = []
    for i, value in enumerate(values):
        if value is not None:
            x = round(width * min((i + 0.5) * step_ms / end_ms, 1.0))
            pairs.append(f"{x},{round(height * (1 - min(value / high, 1.0)))}")
    return " ".join(pairs)


def stack(layers: Sequence[Values]) -> list[list[float]]:
    """Running sums of the layers, from the axis up: the upper edge of each."""
    length = max(map(len, layers), default=0)
    edges, below = [], [0.0] * length
    for layer in layers:
        below = [b + ((layer[i] if i < len(layer) else 0.0) or 0.0) for i, b in enumerate(below)]
        edges.append(below)
    return edges


def downs(events: Iterable[dict[str, Any]], path: str, end_ms: float) -> list[tuple[float, float]]:
    """The stretches from each `down` to the next `up` of a path, the last one to the end of the run."""
    stretches, since = [], None
    for event in sorted((e for e in events if e.get("path") == path), key=lambda e: float(e["t_ms"])):
        if event.get("kind") == "down" and since is None:
            since = event["t_ms"]
        elif event.get("kind") == "up" and since is not None:
            stretches.append((since, event["t_ms"]))
            since = None
    return [*stretches, *([(since, end_ms)] if since is not None else [])]
