"""Vector figures whose text keeps its place: in SVG every text has the width that it was laid out with, so that another
font neither cuts nor overlaps it; in PDF the fonts are embedded. Sizes are in points."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import unescape
from io import StringIO
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from weftway._native import ScenarioError

if TYPE_CHECKING:
    import altair as alt

FONTS = "Liberation Sans, Arial, Helvetica, sans-serif"
"""Fonts of the same widths, the first of which lays the figures out."""

TEXT = re.compile(r'<text (?P<look>[^>]*font-family="sans-serif"[^>]*)>(?P<text>[^<]*)</text>')
SIZE = re.compile(r'^<svg (?P<before>[^>]*?)width="(?P<width>[\d.]+)" height="(?P<height>[\d.]+)"')
SCHEMA = "https://vega.github.io/schema/vega/v6.json"
LARGE = 100
"""The size at which a text is measured, in pixels: what is told is whole pixels."""

PER_UNIT = {"in": 72.0, "cm": 72 / 2.54, "mm": 72 / 25.4, "pt": 1.0}
"""Points."""
NARROWEST, WIDEST = 1.5 * 72, 20.0 * 72


def points(text: str) -> float:
    """The points of a width such as `3.3in` or `84 mm`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(in|cm|mm|pt)", text.strip())
    if not match:
        raise ScenarioError(f"--width {text}: expected a number and in, cm, mm or pt: 3.3in")
    inches = float(match[1]) * PER_UNIT[match[2]]
    if not NARROWEST <= inches <= WIDEST:
        raise ScenarioError(f"--width {text}: a figure is between 1.5in and 20in wide")
    return inches


def drawn(chart: alt.TopLevelMixin) -> str:
    """A chart as SVG."""
    text = StringIO()
    chart.save(text, format="svg")
    return text.getvalue()


def width(svg: str) -> float:
    """Width of an SVG, in its own units."""
    match = SIZE.match(svg)
    assert match is not None, "the drawing library writes the size of an SVG first"
    return float(match["width"])


def lettered(svgs: Sequence[str]) -> list[str]:
    """Figures in points, each text as wide as it was laid out."""
    texts = dict.fromkeys(_text(match) for svg in svgs for match in TEXT.finditer(svg))
    widths = dict(zip(texts, measured(list(texts)), strict=True))

    def fixed(match: re.Match[str]) -> str:
        size = re.search(r'font-size="([\d.]+)px"', match["look"])
        if not match["text"] or not size:
            return match[0]
        wide = widths[_text(match)] * float(size[1]) / LARGE
        look = match["look"].replace('font-family="sans-serif"', f'font-family="{FONTS}"')
        return f'<text {look} textLength="{wide:.1f}" lengthAdjust="spacingAndGlyphs">{match["text"]}</text>'

    sized = r'<svg \g<before>width="\g<width>pt" height="\g<height>pt"'
    return [SIZE.sub(sized, TEXT.sub(fixed, svg)) for svg in svgs]


def pdf(svg: str) -> bytes:
    """An SVG of `drawn` as PDF, with the fonts embedded and a point to each of its units."""
    import vl_convert

    pdf: bytes = vl_convert.svg_to_pdf(svg)
    # It says 1.7 and uses nothing that is not in 1.5, the latest version that pdfTeX takes without a warning.
    return pdf.replace(b"%PDF-1.7", b"%PDF-1.5", 1)


def _text(match: re.Match[str]) -> tuple[str, str]:
    """A text, and how bold it is."""
    weight = re.search(r'font-weight="(\w+)"', match["look"])
    return unescape(match["text"]), weight[1] if weight else "normal"


def measured(texts: Sequence[tuple[str, str]]) -> list[float]:
    """Widths of texts at `LARGE`, by the font that lays figures out: it sets them side by side, without gaps."""
    import vl_convert  # not at the top: it takes a while to load, and a width is checked without it

    layout = {"columns": len(texts) + 1, "align": "none", "bounds": "full", "padding": 0}
    marks = [_group(text, weight) for text, weight in [*texts, ("", "normal")]]
    scene = vl_convert.vega_to_scenegraph({"$schema": SCHEMA, "layout": layout, "marks": marks})
    places = [item["x"] for mark in scene["scenegraph"]["items"][0]["items"] for item in mark["items"]]
    return [after - before for before, after in pairwise(places)]


def _group(text: str, weight: str) -> dict[str, Any]:
    """A mark of Vega that holds one text and nothing else."""
    look = {"text": text, "fontSize": LARGE, "font": "sans-serif", "fontWeight": weight}
    label = {"type": "text", "encode": {"enter": {name: {"value": value} for name, value in look.items()}}}
    return {"type": "group", "encode": {"enter": {"width": {"value": 0}, "height": {"value": 0}}}, "marks": [label]}
