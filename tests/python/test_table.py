"""Tables for terminals, pages, LaTeX and Markdown."""

import io

from rich.console import Console

from weftway import markdown
from weftway.report import html, latex
from weftway.terminal.table import Column, Row, Table, Value

COLUMNS = [
    Column("scheduler", title="Scheduler"),
    Column("delay", "ms", right=True, title="Delay"),
    Column(title="Remarks", only="page", css="remarks"),
]
ROWS = [
    Row(
        [Value("a & <b>", mark="best"), Value("12", "12 ms", number=12.0), Value(badges=[("good", "best")])],
        "cubic",
        "cubic",
    ),
    Row(["c", Value("130", "130 ms", number=130.0), ""], "bbr1", "bbr1", attributes={"data-name": 'c "d"'}),
]
TABLE = Table("delays", COLUMNS, ROWS, "all of them")


def printed(table: Table, width: int = 80) -> list[str]:
    console = Console(width=width, file=io.StringIO(), markup=False)
    console.print(table.fitted(console))
    return [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def test_a_terminal_has_the_unit_in_the_head_and_a_line_between_groups() -> None:
    assert printed(TABLE) == [
        "delays",
        "           delay",
        "scheduler     ms",
        "a & <b>       12",
        "",
        "c            130",
        "all of them",
    ]


def test_a_page_has_the_unit_in_the_cells_and_no_markup_of_others() -> None:
    page = html.table(TABLE, "cards")
    assert "a &amp; <b>" not in page and "a &amp; &lt;b&gt;" in page
    assert '<td class="num" data-label="Delay" data-value="12">12 ms</td>' in page
    assert '<span class="badge good">best</span>' in page
    assert page.count("<tbody data-cc=") == 2 and 'data-name="c &#34;d&#34;"' in page
    assert html.table(Table("none", COLUMNS, [])) == ""


def test_latex_and_markdown_have_the_same_cells() -> None:
    text = latex.tabular(TABLE)
    assert r"\begin{tabular}{@{}lr@{}}" in text and r"\textbf{a \& $<$b$>$} & 12 \\" in text
    assert markdown.lines(TABLE)[1:3] == ["| --- | ---: | --- |", "| **a & <b>** | 12 ms |  |"]


def test_a_column_that_does_not_fit_is_named_below() -> None:
    wide = Table(None, [*COLUMNS, Column("another", right=True)], [Row([*ROWS[0].values, "1"])])
    assert "1 column not shown, the" in " ".join(printed(wide, 24))
