"""Drawings of the published experiments, as a browser shows them in its own font."""

from pathlib import Path

import pytest

import results
from browser import Browser, needs_browser
from weftway.reproduce import plots

OVERLAPPING = """(() => {
  const box = (one) => one.getBoundingClientRect();
  const texts = [...document.querySelectorAll("text")];
  const titles = texts.filter((one) => (one.getAttribute("transform") || "").includes("rotate(-90)"));
  const over = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  const rest = texts.filter((one) => !titles.includes(one));
  return { titles: titles.length, found: titles.flatMap((title) =>
    rest.filter((one) => over(box(title), box(one))).map((one) => `${title.textContent} over ${one.textContent}`)) };
})()"""
"""The titles of axes that lie over another text."""


@pytest.fixture
def six_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A drawing whose numbers have six digits."""
    points = [{"x": "a", "by": "a", "y": 180_000.0, "low": None, "high": None}]
    order = {"x": ["a"], "by": ["a"]}
    chart = plots._bars("ours", points, [], order, "Completion time (ms)", None)
    monkeypatch.setattr(plots, "_effects", lambda results: [])
    monkeypatch.setattr(plots, "_levels", lambda runs, results: [chart])
    drawn = plots.figure([], [])
    assert drawn and ">150,000<" in drawn
    file = tmp_path / "drawn.svg"
    file.write_text(drawn)
    return file


@needs_browser
def test_no_title_of_an_axis_lies_over_its_numbers(six_digits: Path, tmp_path: Path) -> None:
    drawings = []
    for name, text in results.pages().items():
        if name.endswith(".svg"):
            drawings.append(tmp_path / name.replace("/", "-"))
            drawings[-1].write_text(text)
    assert len(drawings) > 10
    with Browser() as tab:
        for drawing in (six_digits, *drawings):
            tab.open(drawing)
            overlaps = tab.run(OVERLAPPING)
            assert overlaps["titles"] and not overlaps["found"], (drawing, overlaps["found"])
