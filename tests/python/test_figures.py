"""Figures, tables and words for a paper: their width, their text, their numbers."""

import re
from pathlib import Path

import polars as pl
import pytest

import report_data as data
from conftest import Weft
from weftway import report
from weftway._native import ScenarioError
from weftway.report import latex, lettering
from weftway.report import printed as tables
from weftway.report.methods import methods
from weftway.report.study import Study

COLUMNS = ("scheduler", "cc", "seed", "fct_ms", "path.wifi.share", "path.lte.share")
TEXT = re.compile(r'<text [^>]*font-size="([\d.]+)px"[^>]*textLength="([\d.]+)"[^>]*>([^<]+)</text>')


@pytest.fixture(scope="module")
def rows() -> pl.DataFrame:
    return data.rows(3, 1, 3).select(COLUMNS)


@pytest.fixture(scope="module")
def column(rows: pl.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Figures as wide as a column of a paper."""
    folder = tmp_path_factory.mktemp("column")
    report.figures(rows, data.timelines(rows, steps=40), data.scenario(), folder, ("svg", "pdf"), width="3.3in")
    return folder


def test_every_figure_is_as_wide_as_asked(column: Path) -> None:
    for file in column.glob("*.svg"):
        width = re.search(r'width="([\d.]+)pt"', file.read_text())
        assert width and abs(float(width[1]) - 3.3 * 72) <= 1, file.name
    for file in column.glob("*.pdf"):
        box = re.search(rb"MediaBox ?\[0 0 ([\d.]+) ", file.read_bytes())
        assert box and abs(float(box[1]) - 3.3 * 72) <= 1, file.name


def test_text_is_as_wide_as_it_was_laid_out_whatever_the_font(column: Path) -> None:
    drawn = (column / "fct_ms.svg").read_text()
    texts = TEXT.findall(drawn)
    assert len(texts) == drawn.count("<text "), "every text has its width"
    by_name = {text: float(width) / float(size) for size, width, text in texts}
    # In the fonts that are named, an m is 0.833 of the size, an i 0.222, a hyphen and an r 0.333, a t 0.278.
    assert by_name["min-rtt"] == pytest.approx(0.833 + 0.222 + 0.556 + 0.333 + 0.333 + 2 * 0.278, abs=0.02)


@pytest.mark.parametrize(("text", "points"), [("3.3in", 237.6), ("84 mm", 238.1), ("8.4cm", 238.1), ("240pt", 240.0)])
def test_widths(text: str, points: float) -> None:
    assert lettering.points(text) == pytest.approx(points, abs=0.05)


@pytest.mark.parametrize("text", ["3.3", "wide", "-3in", "0.1in", "900cm"])
def test_what_is_no_width_is_refused(text: str) -> None:
    with pytest.raises(ScenarioError, match="--width"):
        lettering.points(text)


def test_a_width_is_refused_before_anything_runs(weft: Weft, small: Path, tmp_path: Path) -> None:
    refused = weft("compare", small, "--out", "out", "--figures", "svg", "--width", "wide")
    assert (refused.returncode, (tmp_path / "out").exists()) == (2, False)
    assert "--width goes with --figures" in weft("compare", small, "--width", "3in").stderr


def test_a_distribution_ends_at_all_of_the_runs(rows: pl.DataFrame, tmp_path: Path) -> None:
    report.figures(rows, {}, data.scenario(), tmp_path, ("csv",))
    told = pl.read_csv(tmp_path / "fct_ms_cdf.csv")
    for (name,), part in told.group_by(["scheduler"]):
        own = rows.filter(pl.col("scheduler") == name)["fct_ms"].sort().to_list()
        assert part["value"].to_list() == own
        assert part["share"].to_list() == pytest.approx([1 / 3, 2 / 3, 1])


def test_tables_for_latex_have_the_numbers_of_the_command(rows: pl.DataFrame) -> None:
    study = Study(rows, data.scenario())
    (printed,) = tables.of(study, 0)
    text = latex.tables(study)
    body = text.split(r"\midrule")[1].split(r"\bottomrule")[0].strip().splitlines()
    assert len(body) == 3
    for line, *cells in zip(body, *(column.cells for column in printed.columns), strict=True):
        plain = line.removesuffix(r" \\").replace(r"\textbf{", "").replace("}", "")
        assert plain.split(" & ") == [latex.escaped(str(cell)) for cell in cells]
    assert text.count("{") == text.count("}")


def test_latex_gets_nothing_that_it_takes_for_a_command() -> None:
    assert latex.escaped("my_rules.py:A&B 5 % {#1} ~^") == (
        r"my\_rules.py:A\&B 5 \% \{\#1\} \textasciitilde{}\textasciicircum{}"
    )


def test_the_methods_say_seeds_intervals_and_the_test(rows: pl.DataFrame) -> None:
    told = methods(Study(rows, data.scenario()))
    for part in ("3 packet schedulers", "seeds 0..3", "95 % confidence interval", "paired t-test", "min-rtt"):
        assert part in told
    alone = methods(Study(rows.filter(pl.col("seed") == 0), data.scenario()))
    assert "no interval" in alone
    assert "t-test" not in alone
