"""Figures, tables and words for a paper: their width, their text, their numbers."""

import re
import shutil
import subprocess
from dataclasses import replace
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
    table = pl.read_csv(tmp_path / "fct_ms_cdf.csv")
    for (name,), part in table.group_by(["scheduler"]):
        own = rows.filter(pl.col("scheduler") == name)["fct_ms"].sort().to_list()
        assert part["value"].to_list() == own
        assert part["share"].to_list() == pytest.approx([1 / 3, 2 / 3, 1])


def test_tables_for_latex_have_the_numbers_of_the_command(rows: pl.DataFrame) -> None:
    study = Study(rows, data.scenario())
    (printed,) = tables.of(study, 0)
    text = latex.tables(study)
    body = text.split(r"\midrule")[1].split(r"\bottomrule")[0].strip().splitlines()
    assert len(body) == 3
    for line, *cells in zip(body, *(printed.column(at) for at in range(len(printed.columns))), strict=True):
        plain = line.removesuffix(r" \\").replace(r"\textbf{", "").replace("}", "")
        assert plain.split(" & ") == [latex.escaped(str(cell)) for cell in cells]
    assert text.count("{") == text.count("}")


def test_latex_gets_nothing_that_it_takes_for_a_command() -> None:
    assert latex.escaped("my_rules.py:A&B 5 % {#1} ~^") == (
        r"my\_rules.py:A\&B 5 \% \{\#1\} \textasciitilde{}\textasciicircum{}"
    )


def test_hyphens_of_options_stay_hyphens() -> None:
    assert latex.escaped("--out 0–5 a-b ---") == r"-{}-out 0\textendash{}5 a-b -{}-{}-"


@pytest.mark.parametrize(("width", "columns"), [(60.0, 2), (160.0, 3), (1000.0, 8)])
def test_a_table_of_a_column_has_the_first_columns_that_fit(width: float, columns: int) -> None:
    """A name, its number, and the difference are 30 characters and two gaps: some 150 points of letters of 8 points."""
    study = Study(data.rows(3, 1, 3), data.scenario())
    (printed,) = tables.of(study, 0)
    head = latex.tables(study, width).split("\\toprule")[1].split("\\\\")[0]
    names = [column.head for column in printed.columns if column.head]
    assert [name.strip() for name in head.split(" & ")] == names[:columns]


def test_the_group_of_a_table_of_a_column_ends_after_its_notes() -> None:
    (printed,) = tables.of(Study(data.rows(3, 1, 3), data.scenario()), 0)
    lines = latex.narrow(replace(printed, caption="a note"), 160.0).splitlines()
    assert lines[-2:] == ["% a note", "}"]


TWO_COLUMNS = r"""
\documentclass[twocolumn]{article}
\usepackage[textwidth=6.85in]{geometry}
\setlength\columnsep{0.25in}  % two columns of 3.3in
\usepackage{booktabs,graphicx}
\begin{document}
\input{methods.tex}
\begin{figure}\noindent\includegraphics{fct_ms.pdf}\caption{Completion time}\end{figure}
\begin{figure}\noindent\includegraphics{rate.pdf}\caption{Rate}\end{figure}
\begin{table}\noindent\input{tables-column.tex}\caption{Completion time}\end{table}
\begin{table*}\input{tables.tex}\caption{All}\end{table*}
\end{document}
"""


def needs(*programs: str) -> None:
    if missing := [name for name in programs if not shutil.which(name)]:
        pytest.skip(f"{', '.join(missing)} not installed: apt install texlive-latex-recommended poppler-utils")


def test_figures_and_tables_fit_into_the_columns_of_a_paper(rows: pl.DataFrame, tmp_path: Path) -> None:
    needs("pdflatex", "kpsewhich", "pdffonts")
    if not subprocess.run(["kpsewhich", "booktabs.sty"], capture_output=True, text=True).stdout:
        pytest.skip("LaTeX has no booktabs: apt install texlive-latex-recommended")
    timelines = data.timelines(rows, steps=40)
    report.figures(rows, timelines, data.scenario(), tmp_path, ("pdf", "tex"), width="3.3in")
    (tmp_path / "paper.tex").write_text(TWO_COLUMNS)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    log = (tmp_path / "paper.log").read_text(errors="replace")
    assert done.returncode == 0, log
    # A figure may be half a point wider than asked.
    beyond = [float(pt) for pt in re.findall(r"Overfull \\hbox \(([\d.]+)pt", log)]
    assert all(pt <= 1 for pt in beyond), log
    assert "PDF inclusion: found PDF version" not in log
    listed = subprocess.run(["pdffonts", "paper.pdf"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    fonts = listed.splitlines()[2:]
    assert any("LiberationSans" in font for font in fonts)
    # The columns "emb", "sub", "uni", and the two of an object, end each line.
    assert all(font.split()[-5] == "yes" for font in fonts), listed


def test_the_methods_say_seeds_intervals_and_the_test(rows: pl.DataFrame) -> None:
    text = methods(Study(rows, data.scenario()))
    for part in ("3 packet schedulers", "seeds 0..3", "95 % confidence interval", "paired t-test", "min-rtt"):
        assert part in text
    alone = methods(Study(rows.filter(pl.col("seed") == 0), data.scenario()))
    assert "no interval" in alone
    assert "t-test" not in alone


def test_the_methods_say_which_runs_did_not_finish(rows: pl.DataFrame) -> None:
    assert "did not finish" not in methods(Study(rows, data.scenario()))
    late = (pl.col("scheduler") == "min-rtt") & (pl.col("seed") > 0)
    cut = rows.with_columns(verdict=pl.when(late).then(pl.lit("time limit")).otherwise(pl.lit("finished")))
    lacking = cut.filter(pl.col("verdict") == "time limit").height
    assert f"Of {rows.height} runs {lacking} did not finish ({lacking} of min-rtt)" in methods(
        Study(cut, data.scenario())
    )
