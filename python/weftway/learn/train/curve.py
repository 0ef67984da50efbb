"""Learning curves: one JSON object per line, `{"step": 400, "return": 1.5, …}`, written as training goes.

A training that goes on from a checkpoint drops the points after the checkpoint's step, which it will write again.
"""

import json
from pathlib import Path
from typing import Any

from weftway.runs.store import whole

Point = dict[str, Any]


def read(file: Path) -> list[Point]:
    """The points in the order written; a last line that was cut short is left out."""
    if not file.exists():
        return []
    points = []
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            points.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return points


class Curve:
    """A learning curve that is written to a file, or kept in memory only where `file` is `None`."""

    def __init__(self, file: Path | None, upto: int = 0) -> None:
        """Goes on with the points in `file` up to step `upto`; from 0 the curve begins anew."""
        self._file = file
        self.points = [point for point in read(file) if point["step"] <= upto] if file and upto > 0 else []
        if file:
            with whole(file) as half:
                half.write_text("".join(map(_line, self.points)), encoding="utf-8")

    def add(self, step: int, **values: float | int | str | None) -> Point:
        """Appends one point; steps do not go back."""
        if self.points and step < self.points[-1]["step"]:
            raise ValueError(f"step {step} after step {self.points[-1]['step']}")
        point: Point = {"step": step, **values}
        self.points.append(point)
        if self._file:
            with self._file.open("a", encoding="utf-8") as out:
                out.write(_line(point))
        return point

    def column(self, name: str) -> list[Any]:
        """Values of a column, of the points that have it."""
        return [point[name] for point in self.points if name in point]


def _line(point: Point) -> str:
    return json.dumps(point) + "\n"
