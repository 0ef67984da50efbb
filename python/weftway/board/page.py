"""The board as it is shown: a table for the terminal, and one self-contained page."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import polars as pl
from markupsafe import Markup

from weftway import _native
from weftway.rank import ranking
from weftway.rank.ranking import FACTOR, HEADS, PERCENT, Ranked
from weftway.rank.standing import SinglePath
from weftway.report import html, page
from weftway.report.held_out import RATIO
from weftway.report.numbers import counted, unbroken
from weftway.report.sections import Section
from weftway.runs.backends import SIM
from weftway.stats.units import Unit
from weftway.terminal.table import NOTHING, Column, Row, Table, Value, numbers, texts

from .edition import ALL, Cells, Edition
from .judgement import BY_CONTROLLER, BY_LOAD, BY_SET, Judged
from .result import Result

ONE_PATH = "one path, same handshake"
SAME_HANDSHAKE = "one path with the same handshake"

SHORT = 12
"""Hexadecimal digits of a digest that are shown."""

MEAN = Unit(1.0, "", 2)

MANY = 0.05
"""Share of duplicates from which the first sentences tell it."""

JUDGED = (
    "A scheduler's cost over that of the best entry of each cell, on the geometric mean; in brackets the 95 % "
    "interval. 1 is the best entry of each cell, less is better. The best of a cell is picked on one half of the "
    "seeds and judged, like everybody, on the other, and then the other way round. Of the bound: the cost over "
    "the least that the links allow, on the median. < one path: the share of cells in which it is more than 5 % "
    "worse than the best single path with the same handshake, which has a line of its own. Duplicates: the share "
    "of packets that repeat data in flight. Intervals that overlap do not tell who is better."
)
BY_KIND = "The same geometric mean over the cells of each kind, whose number is in brackets; without intervals."
RATIOS = "1 is the best entry per cell; left is better. ▸ marks what lies beyond the axis. A bar is the 95 % interval."
WHO = Markup(
    "Each entry's file says by which code it was made; <code>weft board verify</code> repeats a part of it. CPU time "
    "of a decision is not judged: it is not the same on two machines."
)


def findings(edition: Edition, shown: Judged, result: Result) -> list[str]:
    """What an entry's result says, a line each."""
    names = [one.scheduler for one in shown.standings]
    (own,) = [one for one in shown.standings if one.scheduler == result.entry]
    place = f"place {names.index(result.entry) + 1} of {len(names)}"
    if own.cells < edition.cells:
        place = f"it ran in {own.cells} of {edition.cells} cells"
    told = [f"{result.entry} costs {_interval(own)} of the best entry per cell: {place}"]
    figures: dict[str, Any] = result.figures[ALL]
    if "of_one_path" in figures:
        ratio, low, high = figures["of_one_path"]
        share = PERCENT.value(figures["worse_than_one_path"])
        cost = RATIO.interval(ratio, low, high)
        several = sum(result.entry in cell.singles for cell in shown.cells)
        single = SinglePath(several, ratio, low, high, 0.0)
        told.append(f"it {ranking.against_best(single, SAME_HANDSHAKE)}, and costs {cost} of it")
        told.append(f"it is more than 5 % worse than that in {share} of the cells, worst in {figures['worst'][0]}")
    if "of_bound" in figures:
        told.append(f"it takes {FACTOR.value(figures['of_bound'])} times the capacity bound (median)")
    return told


def _interval(one: Any) -> str:
    return RATIO.interval(one.ratio, one.ratio_low, one.ratio_high)


def standings(edition: Edition, shown: Judged, results: Sequence[Result], own: Sequence[str] = ()) -> Table:
    """A line per entry, the best first, and one for single paths."""
    ranked = _ranked(edition, shown, own)
    table = ranking.standings_table(ranked)
    of = {one.entry: one for one in results}
    alike = _alike(results)
    rows = []
    for standing, row in zip(ranked.lines, table.rows, strict=True):
        entry = standing.scheduler
        name = Value(row.values[0]) if isinstance(row.values[0], str) else row.values[0]
        note = f"= {', '.join(alike[entry])}" if alike[entry] else ""
        cells = Value(f"{standing.cells} of {edition.cells}", number=standing.cells)
        rows.append(replace(row, values=[replace(name, note=note), *row.values[1:], cells, of[entry].kind]))
    if shown.single:
        full = max(one.cells for one in shown.standings)
        behind = [
            at
            for at, one in enumerate(ranked.lines)
            if one.scheduler not in own and one.cells == full and one.ratio > shown.single.ratio
        ]
        rows.insert(behind[0] if behind else len(rows), _single(shown.single))
    title = f"Board {edition.name}: {counted(edition.cells, 'cell')}, {counted(len(edition.seeds), 'seed')}, "
    title += f"{_entries(len(shown.standings))}; 1 is the best entry per cell, less is better"
    first, ratio, *others = table.columns
    columns = [first, replace(ratio, head="of best per cell"), *others, Column("cells", right=True), Column("kind")]
    return Table(title, columns, rows)


def _single(single: SinglePath) -> Row:
    values: list[Value | str] = [
        Value(ONE_PATH),
        Value(_interval(single), number=single.ratio),
        *[NOTHING] * (len(HEADS) - 1),
        "",
        str(single.cells),
        "",
    ]
    return Row(values, attributes=html.known(ONE_PATH, (), True))


def _alike(results: Sequence[Result]) -> dict[str, list[str]]:
    """For each entry those with the very same lines: they decided nothing that the other did not."""
    by: dict[str, list[str]] = {}
    for one in results:
        by.setdefault(repr(one.rows), []).append(one.entry)
    return {name: [other for other in some if other != name] for some in by.values() for name in some}


def _ranked(edition: Edition, shown: Judged, own: Sequence[str]) -> Ranked:
    """What the tables and charts of a ranking need."""
    labels = {cell.cell: ", ".join(cell.kinds.values()) for cell in shown.cells}
    return Ranked(
        title=f"Board {edition.name}",
        facts="",
        others="",
        command="",
        standings=shown.standings,
        single=shown.single,
        groups=[],
        worst=[],
        labels=labels,
        registry=[one["name"] for one in _native.schedulers()],
        code=SIM.code(),
        own=own,
    )


def by_kind(shown: Judged, kind: str) -> Table:
    """A line per entry in the order of the standings, a column per kind of cell."""
    means, single = shown.by(kind), shown.single_by(kind)
    if kind != BY_SET:
        means = {value: means[value] for value in sorted(means)}
    counts = {value: sum(cell.kinds.get(kind) == value for cell in [*shown.cells, *shown.sealed]) for value in means}
    columns = [Column("entry", title="Entry"), *numbers(*(f"{value} ({counts[value]})" for value in means))]
    lines = [(one.scheduler, {value: means[value].get(one.scheduler) for value in means}) for one in shown.standings]
    if shown.single:
        place = [one.ratio > shown.single.ratio for one in shown.standings]
        own = {value: single.get(value) for value in means}
        lines.insert(place.index(True) if True in place else len(lines), (ONE_PATH, own))
    rows = [
        Row([name, *map(_mean, values.values())], attributes=html.known(name, (), name == ONE_PATH))
        for name, values in lines
    ]
    return Table(None, columns, rows)


def _mean(value: float | None) -> Value:
    return Value(NOTHING) if value is None else Value(MEAN.value(value), number=value)


def _who(results: Sequence[Result]) -> Table:
    columns = texts("Entry", "Kind", "Version", "Source", "Code", "Digest", "Sealed sets")
    rows = [
        Row(
            [
                one.entry,
                one.kind,
                one.version,
                (one.source or "")[:SHORT] or NOTHING,
                one.code,
                one.digest[:SHORT],
                ", ".join(one.sealed) or NOTHING,
            ],
            attributes=html.known(one.entry),
        )
        for one in sorted(results, key=lambda one: one.entry)
    ]
    return Table(None, columns, rows)


def _cells(drawn: Cells) -> Table:
    columns = [Column("Set"), *numbers("Cells"), Column("Loads"), Column("Controllers")]
    rows = []
    for name, some in drawn.items():
        loads = sorted({cell.kinds[BY_LOAD] for cell in some})
        controllers = sorted({cell.cc[0] for cell in some})
        rows.append(Row([name, str(len(some)), ", ".join(loads), ", ".join(controllers)]))
    return Table(None, columns, rows)


def render(edition: Edition, drawn: Cells, shown: Judged, results: Sequence[Result]) -> str:
    """The page as text."""
    table = replace(standings(edition, shown, results), title=None)
    ranked = _ranked(edition, shown, ())
    lines = [one.__dict__ for one in shown.standings]
    sections = [
        Section("standings", "Standings", JUDGED, html.table(table, "results cards"), pl.DataFrame(lines)),
        Section("ratios", "Against the best entry per cell", RATIOS, ranking.chart(ranked, "best entry")),
        *(
            Section(kind, title, BY_KIND, html.table(by_kind(shown, kind), "cards"))
            for kind, title in ((BY_SET, "By set"), (BY_CONTROLLER, "By controller"), (BY_LOAD, "By load"))
        ),
        Section("cells", "Cells", edition.title, html.table(_cells(drawn), "cards")),
        Section("entries", "Entries", _by_which_code(results), html.table(_who(results), "cards")),
        Section("provenance", "Provenance", "", _provenance(edition)),
    ]
    facts = f"{counted(edition.cells, 'cell')} · {counted(len(edition.seeds), 'seed')} · {_entries(len(results))}"
    told = list(map(unbroken, _headline(shown)))
    return page.assembled(f"Board {edition.name}", told, facts, sections, pl.DataFrame())


def _headline(shown: Judged) -> list[str]:
    """First sentences: who is first, who cannot be told from it, and what one path does."""
    best = shown.standings[0]
    level = [
        one.scheduler
        for one in shown.standings[1:]
        if one.cells == best.cells and one.ratio_low is not None and one.ratio_low <= (best.ratio_high or best.ratio)
    ]
    told = [f"{best.scheduler} is first: its cost is {_interval(best)} of that of the best entry per cell."]
    if best.copies_share >= MANY:
        told.append(f"{PERCENT.value(best.copies_share)} of its packets are duplicates.")
    if level:
        told.append(f"Intervals that overlap with its own: {', '.join(level)}.")
    if shown.single:
        behind = sum(one.ratio > shown.single.ratio for one in shown.standings)
        told.append(
            f"One path with the same handshake costs {_interval(shown.single)}: {behind} of "
            f"{_entries(len(shown.standings))} cost more on the mean."
        )
    return told


def _by_which_code(results: Sequence[Result]) -> Markup:
    """Says by which code the entries were made."""
    others = sum(one.code != SIM.code() for one in results)
    made = (
        f"{others} of {_entries(len(results))} were made by other code than this page, {SIM.code()}. " if others else ""
    )
    return Markup("{}{}").format(made, WHO)


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count} entries"


def _provenance(edition: Edition) -> Markup:
    command = f"weft board run --edition {edition.name} --entry NAME|mine.py:Mine|policy.safetensors"
    return Markup("<p><code>{}</code></p><p>Digest of the cells: <code>{}</code></p>").format(command, edition.digest)
