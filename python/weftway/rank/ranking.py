"""Rankings as they are shown: tables for the terminal, one self-contained page, and records for machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import polars as pl
from markupsafe import Markup

from weftway.report import html, page
from weftway.report.axis import axis, most
from weftway.report.charts import Dot, dots, panel, panels
from weftway.report.front import LEVEL, UNTOLD
from weftway.report.held_out import RATIO, estimated
from weftway.report.numbers import LEAST, counted, percent, unbroken
from weftway.report.palette import Look, looks
from weftway.report.sections import Section
from weftway.report.study import LEGEND, NAMED, SUFFIXES, YOURS
from weftway.stats.estimates import FEWEST, LEVEL_WITHIN, interval_of
from weftway.stats.units import Unit
from weftway.terminal.table import NOTHING, Column, Row, Table, Value, numbers

from .standing import ALL, TOLD, Group, SinglePath, Standing, Worst

PERCENT = Unit(100.0, "%", 0)
COPIES = Unit(100.0, "%", 1)
FACTOR = Unit(1.0, "", 2)

BY = {
    "all": "Everywhere",
    "workload": "By workload",
    "cc": "By controller",
    "stack": "By stack",
    "failure": "By failure",
    "paths": "By paths",
}
"""Names of the groups."""

OF_BEST = "of best per scenario"
OTHER = "the best other scheduler per scenario"

HEADS = (
    OF_BEST,
    "median",
    "of the bound",
    "≤ 5 %",
    "≤ 15 %",
    "< one path",
    "duplicates",
    "unfinished",
    "worst",
)
"""Columns of the standings: the ratio to the best other scheduler per scenario, and its median; that to the capacity
bound; the shares of cells that are close to the first; the share of cells that are worse than one path with the same
handshake; the share of packets that are duplicates; runs; the largest ratio."""


@dataclass(frozen=True)
class Ranked:
    """A finished ranking, as it is shown."""

    title: str
    facts: str
    others: str
    """Sentence about what the folder holds besides; nothing if there is nothing else."""
    command: str
    standings: Sequence[Standing]
    single: SinglePath | None
    groups: Sequence[Group]
    worst: Sequence[Worst]
    labels: dict[str, str]
    """Label of each cell, by its name."""
    registry: Sequence[str]
    code: str
    own: Sequence[str] = ()
    """Classes of the user's own."""
    named: Sequence[str] = ()
    """Schedulers that somebody named."""

    def tag(self, scheduler: str) -> str:
        """The mark beside a name, as in a comparison: where all are named, only the user's own have one."""
        if scheduler in self.own:
            return YOURS
        return NAMED if scheduler in self.named and len(self.named) < len(self.standings) else ""

    @property
    def lines(self) -> list[Standing]:
        """The standings as they are listed: the user's own first, then what was named, then the others."""
        order = (YOURS, NAMED, "")
        return sorted(self.standings, key=lambda standing: order.index(self.tag(standing.scheduler)))

    @cached_property
    def looks(self) -> dict[str, Look]:
        """The colour and marker of each scheduler."""
        return looks([line.scheduler for line in self.lines], list(self.registry))

    @property
    def candidate(self) -> Standing | None:
        """The scheduler that is held against the others."""
        return next((standing for standing in self.standings if standing.is_candidate), None)

    @property
    def best(self) -> Standing | None:
        """The best of the others."""
        return next((standing for standing in self.standings if not standing.is_candidate), None)

    @property
    def has_clairvoyant(self) -> bool:
        """Says whether a clairvoyant scheduler ran."""
        return any(group.clairvoyant_of_bound is not None for group in self.groups)

    @property
    def sights(self) -> list[str]:
        """Kinds of foresight that an oracle gave, if one ran."""
        return list(dict.fromkeys(sight for group in self.groups for sight in group.told))

    @property
    def subject(self) -> str:
        """Whose worst cells are shown."""
        return (self.candidate or self.standings[0]).scheduler


def findings(ranked: Ranked) -> list[str]:
    """Findings, a line each."""
    lines = [(standing.scheduler, standing) for standing in [ranked.candidate] if standing]
    own = [line for line in ranked.lines if ranked.tag(line.scheduler) == YOURS and not line.is_candidate]
    lines += [(standing.scheduler, standing) for standing in own]
    lines += [(f"the best fixed scheduler, {standing.scheduler},", standing) for standing in [ranked.best] if standing]
    sentences = [f"{name} {against_best(standing)}" for name, standing in lines]
    sentences += [f"one path, same handshake, {against_best(single)}" for single in [ranked.single] if single]
    bounded = [
        (standing.scheduler, standing.of_bound)
        for standing in [ranked.candidate, ranked.best]
        if standing and standing.of_bound
    ]
    if bounded:
        each = " and ".join(f"{name} costs {FACTOR.value(value)} times" for name, value in bounded)
        sentences.append(f"{each} what the links allow at best, whatever the controller (medians)")
    sight = {"present": "would arrive if the links stayed as they are", "arrival": "will arrive"}
    everywhere = next((group for group in ranked.groups if group.by == ALL), None)
    for name, (ratio, low, high) in everywhere.told.items() if everywhere else ():
        sentences.append(
            f"told when a packet {sight[name]}, {TOLD} costs {_interval(ratio, low, high)} of what it does"
        )
    return sentences


def against_best(standing: Standing | SinglePath) -> str:
    """Sentence that compares with the best other scheduler per scenario, as far as the cells are sure of it."""
    word = speed(standing.ratio)
    joined = f"{word} than" if word.endswith(("faster", "slower")) else f"{word} as"
    low, high = standing.ratio_low, standing.ratio_high
    if low is None or high is None or low == high:
        return f"is {joined} {OTHER} in {counted(standing.cells, 'cell')}"
    span = f"{speed(low)} to {speed(high)}"
    if standing.cells < FEWEST:
        return f"is {joined} {OTHER} on the mean of {standing.cells} cells (range: {span})"
    if low <= 1 <= high or word == "as fast":
        is_level = low >= 1 - LEVEL_WITHIN and high <= 1 + LEVEL_WITHIN
        place = f"{LEVEL} with" if is_level else f"{UNTOLD} from"
        return f"is {place} {OTHER} ({word}; {span})"
    return f"is {joined} {OTHER} ({span})"


def speed(ratio: float) -> str:
    """Ratio of costs, which are times, in words: 0.98 is 2 % faster.

    >>> speed(0.984), speed(1.0), speed(1.5), speed(3.0)
    ('1.6 % faster', 'as fast', '50 % slower', '3.00 times as slow')
    """
    if abs(ratio - 1) < LEAST:
        return "as fast"
    if ratio >= 2:
        return f"{FACTOR.value(ratio)} times as slow"
    return f"{percent(abs(ratio - 1))} {'faster' if ratio < 1 else 'slower'}"


def records(ranked: Ranked) -> list[dict[str, Any]]:
    """Everything that is shown, for machines."""
    return [
        *({"kind": "scheduler", **asdict(standing)} for standing in ranked.standings),
        *({"kind": "single path", **asdict(single)} for single in [ranked.single] if single),
        *({"kind": "group", **_flat(group)} for group in ranked.groups),
        *(
            {"kind": "worst", "scheduler": ranked.subject, **asdict(cell), "label": ranked.labels[cell.cell]}
            for cell in ranked.worst
        ),
    ]


def _flat(line: Standing | Group | Worst) -> dict[str, Any]:
    """Its fields, in columns: those of an oracle have a name each."""
    flat = asdict(line)
    for sight, values in flat.pop("told", {}).items():
        flat |= zip((f"oracle_{sight}", f"oracle_{sight}_low", f"oracle_{sight}_high"), values, strict=True)
    return flat


def terminal(ranked: Ranked) -> list[Table]:
    """The standings, the groups, and the worst cells."""
    return [_standings(ranked), *([_groups(ranked)] if ranked.groups else []), _worst(ranked)]


def _standings(ranked: Ranked) -> Table:
    better = "1 is the best other scheduler per scenario, less is better"
    columns = [Column("scheduler", title="Scheduler"), *numbers(*HEADS), Column("in cell", css="num")]
    rows = []
    for standing in ranked.lines:
        tag = ranked.tag(standing.scheduler)
        name = Value(
            standing.scheduler + SUFFIXES[tag],
            standing.scheduler,
            "strong" if standing.is_candidate else "",
            look=ranked.looks[standing.scheduler],
            tag=tag,
        )
        where = Value(standing.worst_cell, title=ranked.labels[standing.worst_cell])
        known = html.known(standing.scheduler, (), bool(tag))
        rows.append(Row([name, *_figures(standing), where], is_best=standing.is_candidate, attributes=known))
    is_marked = any(ranked.tag(standing.scheduler) == NAMED for standing in ranked.lines)
    title = f"{ranked.title}: {ranked.facts}; {better}{_bracketed(ranked)}"
    return Table(title, columns, rows, LEGEND if is_marked else "")


def _within(ranked: Ranked) -> str:
    """Name of the intervals, of so many cells; a single cell has none."""
    cells = max(standing.cells for standing in ranked.standings)
    return interval_of(cells, "cells") if cells > 1 else ""


def _bracketed(ranked: Ranked) -> str:
    within = _within(ranked)
    return f"; in brackets the {within}" if within else ""


def _of_groups(ranked: Ranked) -> str:
    """Says what is in brackets, where kinds have more cells and fewer."""
    several = [group.cells for group in ranked.groups if group.cells > 1]
    if not several or not (ranked.candidate or ranked.sights):
        return ""
    called = interval_of(max(several), "cells") if max(several) >= FEWEST else "range"
    few = f" (fewer than {FEWEST} cells: range)" if min(several) < FEWEST <= max(several) else ""
    return f"; in brackets the {called}{few}"


def _figures(standing: Standing) -> list[Value]:
    return [
        Value(_ratio(standing), number=standing.ratio),
        _value(RATIO, standing.median),
        _value(FACTOR, standing.of_bound),
        _value(PERCENT, standing.close_share),
        _value(PERCENT, standing.near_share),
        _value(PERCENT, standing.worse_than_single_share),
        _value(COPIES, standing.copies_share),
        Value(str(standing.unfinished), number=standing.unfinished),
        _value(FACTOR, standing.worst),
    ]


def _value(unit: Unit, value: float | None) -> Value:
    return Value(NOTHING) if value is None else Value(unit.value(value), number=value)


def _multiple(value: float | None) -> str:
    return NOTHING if value is None else FACTOR.value(value)


def _ratio(standing: Standing | SinglePath) -> str:
    return _interval(standing.ratio, standing.ratio_low, standing.ratio_high)


def _interval(value: float | None, low: float | None, high: float | None) -> str:
    return NOTHING if value is None else RATIO.interval(value, low, high)


def _group_heads(ranked: Ranked) -> list[str]:
    heads = ["cells", "best fixed", OF_BEST, "of the bound"]
    if ranked.candidate:
        heads += [ranked.subject, "of the bound"]
        heads += ["clairvoyant, of the bound"] if ranked.has_clairvoyant else []
        heads += [f"{ranked.subject} / best fixed"]
    return [*heads, *(f"oracle: {sight} / {TOLD}" for sight in ranked.sights)]


def _group_figures(ranked: Ranked, group: Group) -> list[str]:
    figures = [str(group.cells), group.best, RATIO.value(group.best_ratio), _multiple(group.best_of_bound)]
    if ranked.candidate:
        figures += [_interval(group.candidate_ratio, None, None), _multiple(group.candidate_of_bound)]
        figures += [_multiple(group.clairvoyant_of_bound)] if ranked.has_clairvoyant else []
        figures += [_interval(group.against_best, group.against_best_low, group.against_best_high)]
    return [*figures, *(_interval(*group.told.get(sight, (None, None, None))) for sight in ranked.sights)]


def _groups(ranked: Ranked) -> Table:
    title = "the best fixed scheduler of each kind of cell"
    if ranked.candidate:
        title = f"{ranked.subject} against {title}"
    columns = [Column(title="Cells of this kind"), *numbers(*_group_heads(ranked))]
    columns[2] = replace(columns[2], right=False, css="num")
    rows = [Row([group.value, *_group_figures(ranked, group)], BY.get(group.by, group.by)) for group in ranked.groups]
    return Table(title + _of_groups(ranked), columns, rows)


def _worst(ranked: Ranked) -> Table:
    columns = [*numbers("of the best", "of one path"), Column("cell"), Column()]
    rows = [
        Row([FACTOR.value(worst.ratio), _multiple(worst.single_ratio), worst.cell, ranked.labels[worst.cell]])
        for worst in ranked.worst
    ]
    return Table(f"where {ranked.subject} is farthest behind the best other scheduler", columns, rows)


def _worst_on_page(ranked: Ranked) -> Table:
    """The worst cells, each with its name first."""
    shown = _worst(ranked)
    heads = [Column("Cell"), *numbers("of the best", "of one path"), Column("what it is")]
    return Table(
        None, heads, [Row([cell, *ratios, label]) for *ratios, cell, label in (row.values for row in shown.rows)]
    )


def render(ranked: Ranked, costs: pl.DataFrame) -> str:
    """The page as text; `costs` are the mean costs by cell and scheduler."""
    standings = html.table(_standings(ranked), "results cards")
    kinds = html.table(_groups(ranked), "results cards")
    worst = html.table(_worst_on_page(ranked))
    made_by = html.part("made_by", ranked.command, ranked.code)
    sections = [
        Section("standings", "Standings", standings_lede(ranked), standings, _frame(ranked.standings)),
        Section("ratios", "Against the best other scheduler per scenario", ratios_lede(ranked), _chart(ranked)),
        Section("kinds", "By kind of cell", _groups_lede(ranked), kinds, _frame(ranked.groups)),
        Section("worst", f"Worst cells of {ranked.subject}", WORST_LEDE, worst, _frame(ranked.worst)),
        Section("provenance", "Provenance", "", made_by),
    ]
    verdict = unbroken("; ".join(findings(ranked)) + ".")
    facts = " · ".join(filter(None, [ranked.facts, ranked.others]))
    return page.assembled(ranked.title, verdict, facts, sections, costs)


def standings_lede(ranked: Ranked) -> str:
    """Says what the numbers are."""
    return (
        "A scheduler's cost over that of the best other scheduler of each scenario, cell by cell, on the "
        f"geometric mean{_bracketed(ranked)}. The best of a cell is picked on one half of the seeds; everybody is "
        "judged on the other, and the halves change places. Of the bound: its cost over the least that the links "
        "allow, whatever the scheduler and the controller, on the median. One path: the best single path with the same "
        "handshake, which opens as the connection does and is then used alone."
    )


def ratios_lede(ranked: Ranked) -> str:
    """Says what the bars are."""
    within = _within(ranked)
    how = " over cells (percentile bootstrap)" if within.startswith("95") else ", too few for an interval"
    return "1 is the best other scheduler per scenario; left is better. ▸ marks what lies beyond the axis." + (
        f" A bar is the {within}{how}." if within else ""
    )


WORST_LEDE = Markup(
    "Its cost over that of the best other scheduler, and over one path with the same handshake; the files of drawn "
    "cells lie in "
    "<code>cells/</code>."
)
SHOWN = 30
"""Schedulers on the chart; the standings have all."""


def _groups_lede(ranked: Ranked) -> str:
    best = "Best fixed: the scheduler with the least geometric mean over the cells of that kind"
    flattered = ", found on the same runs, which flatters it a little" if ranked.candidate else ""
    return f"{best}{flattered}{_of_groups(ranked)}."


def _frame(lines: Sequence[Standing] | Sequence[Group] | Sequence[Worst]) -> pl.DataFrame:
    return pl.DataFrame([_flat(line) for line in lines], infer_schema_length=None)


def _chart(ranked: Ranked) -> Markup:
    others = [line for line in ranked.lines if not ranked.tag(line.scheduler)]
    hidden = [line for line in others[SHOWN:] if line is not ranked.candidate]
    shown = [line for line in ranked.lines if line not in hidden]
    ends = [end for line in shown for end in (line.ratio, line.ratio_low, line.ratio_high) if end is not None]
    rows = [_dot(line, ranked) for line in shown]
    drawn = dots(rows, axis(most(ends), include=(1.0,)), RATIO, [(1.0, "best other")])
    return panels([panel("", drawn)])


def _dot(standing: Standing, ranked: Ranked) -> Dot:
    name, tag = standing.scheduler, ranked.tag(standing.scheduler)
    estimate = estimated(standing.ratio, standing.ratio_low, standing.ratio_high, standing.cells)
    return Dot(name, ranked.looks[name], estimate, [], RATIO.value(standing.ratio), keep=bool(tag), tag=tag)
