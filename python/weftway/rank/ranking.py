"""Rankings as they are shown: tables for the terminal, one self-contained page, and records for machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import polars as pl
from markupsafe import Markup

from weftway.fairness import Share, share_words
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
"""What groups are called."""

OF_BEST = "of best per scenario"
OTHER = "the best other scheduler per scenario"

BELOW_ONE_PATH = "< one path"
WINDOW = "initial_window="

HEADS = (
    OF_BEST,
    "median",
    "of the bound",
    "≤ 5 %",
    "≤ 15 %",
    BELOW_ONE_PATH,
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
    """What the folder holds besides, in a sentence; nothing if there is nothing else."""
    command: str
    standings: Sequence[Standing]
    single: SinglePath | None
    groups: Sequence[Group]
    worst: Sequence[Worst]
    labels: dict[str, str]
    """What each cell is, by its name."""
    registry: Sequence[str]
    code: str
    own: Sequence[str] = ()
    """Classes and policies of the user's own."""
    named: Sequence[str] = ()
    """What somebody named."""
    left_out: Sequence[str] = ()
    """Schedulers that are never the best other one."""
    few_seeds: int | None = None
    """Number of seeds, if they are too few for a steady pick."""
    shares: Mapping[str, Sequence[Share]] = field(default_factory=dict)
    """Shares beside a CUBIC flow of the controllers that were named."""

    def tag(self, scheduler: str) -> str:
        """The mark beside a name, as in a comparison: where all are named, only the user's own have one."""
        if scheduler in self.own:
            return YOURS
        return NAMED if scheduler in self.named and len(self.named) < len(self.standings) else ""

    @property
    def lines(self) -> list[Standing]:
        """The standings as they are listed: the user's own first, then what was named, then the others."""
        order = (YOURS, NAMED, "")
        return sorted(self.standings, key=lambda one: order.index(self.tag(one.scheduler)))

    @cached_property
    def looks(self) -> dict[str, Look]:
        """The colour and marker of each scheduler."""
        return looks([one.scheduler for one in self.lines], list(self.registry))

    @property
    def candidate(self) -> Standing | None:
        """The scheduler that is held against the others."""
        return next((one for one in self.standings if one.is_candidate), None)

    @property
    def best(self) -> Standing | None:
        """The best of the others."""
        others = (one for one in self.standings if not one.is_candidate and one.scheduler not in self.left_out)
        return next(others, None)

    @property
    def has_load(self) -> bool:
        """Says whether the load of a cell is known."""
        loads = [*(one.load for one in self.groups), *(one.load for one in self.worst)]
        return any(load is not None for load in loads)

    @property
    def has_clairvoyant(self) -> bool:
        """Says whether a clairvoyant scheduler ran."""
        return any(one.clairvoyant_of_bound is not None for one in self.groups)

    @property
    def sights(self) -> list[str]:
        """Kinds of foresight that an oracle gave, if one ran; `controller`: it set windows; and what was changed."""
        return list(dict.fromkeys(sight for one in self.groups for sight in one.told))

    @property
    def subject(self) -> str:
        """Whose worst cells are shown."""
        return (self.candidate or self.standings[0]).scheduler


def findings(ranked: Ranked) -> list[str]:
    """Findings, a line each."""
    lines = [(one.scheduler, one) for one in [ranked.candidate] if one]
    own = [one for one in ranked.lines if ranked.tag(one.scheduler) == YOURS and not one.is_candidate]
    lines += [(one.scheduler, one) for one in own]
    lines += [(f"the best fixed scheduler, {one.scheduler},", one) for one in [ranked.best] if one]
    told = [f"{name} {against_best(one)}" for name, one in lines]
    told += [f"one path, same handshake, {against_best(one)}" for one in [ranked.single] if one]
    shares = [(one.scheduler, one.worse_than_single_share) for one in [ranked.candidate, ranked.best] if one]
    behind = [(name, PERCENT.value(share)) for name, share in shares if share is not None]
    for name, share in behind[:1]:
        others = "".join(f", {other} in {its}" for other, its in behind[1:])
        told.append(f"{name} is more than 5 % worse than one path, same handshake, in {share} of the cells{others}")
    bounded = [(one.scheduler, one.of_bound) for one in [ranked.candidate, ranked.best] if one and one.of_bound]
    for name, value in bounded[:1]:
        others = "".join(f", {other} {FACTOR.value(its)} times" for other, its in bounded[1:])
        told.append(f"{name} takes {FACTOR.value(value)} times the capacity bound{others} (medians)")
    given = {
        "present": "told when a packet would arrive if the links stayed as they are",
        "arrival": "told when a packet will arrive",
        "controller": "with an oracle as controller, windows that follow the links",
    }
    everywhere = next((one for one in ranked.groups if one.by == ALL), None)
    for name, (ratio, low, high) in everywhere.told.items() if everywhere else ():
        words = given.get(name) or _changed(name)
        told.append(f"{words}, {TOLD} costs {_interval(ratio, low, high)} of what it does")
    told += [share_words(cc, some) for cc, some in ranked.shares.items() if some]
    if any(name.startswith(WINDOW) for name in ranked.sights):
        told.append(
            "what a larger initial window costs short flows of others: weft fairness cubic --initial-window 10,32"
        )
    if ranked.few_seeds:
        told.append(
            f"{counted(ranked.few_seeds, 'seed')}: a single run picks the best other scheduler, which is noisy; "
            "four seeds or more are steadier"
        )
    return told


def _changed(name: str) -> str:
    """Words for what was changed.

    >>> _changed("cc=bbr3"), _changed("initial_window=32")
    ('under bbr3', 'with an initial window of 32 packets')
    """
    what, _, value = name.partition("=")
    return f"under {value}" if what == "cc" else f"with an initial window of {value} packets"


def against_best(one: Standing | SinglePath, other: str = OTHER) -> str:
    """Sentence that compares with the best other scheduler per scenario, or with another, as far as the cells are sure
    of it."""
    word = speed(one.ratio)
    joined = f"{word} than" if word.endswith(("faster", "slower")) else f"{word} as"
    low, high = one.ratio_low, one.ratio_high
    if low is None or high is None or low == high:
        return f"is {joined} {other} in {counted(one.cells, 'cell')}"
    span = f"{speed(low)} to {speed(high)}"
    if one.cells < FEWEST:
        return f"is {joined} {other} on the mean of {one.cells} cells (range: {span})"
    if low <= 1 <= high or word == "as fast":
        is_level = low >= 1 - LEVEL_WITHIN and high <= 1 + LEVEL_WITHIN
        place = f"{LEVEL} with" if is_level else f"{UNTOLD} from"
        return f"is {place} {other} ({word}; {span})"
    return f"is {joined} {other} ({span})"


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
        *({"kind": "scheduler", **asdict(one)} for one in ranked.standings),
        *({"kind": "single path", **asdict(one)} for one in [ranked.single] if one),
        *({"kind": "group", **_flat(one)} for one in ranked.groups),
        *(
            {"kind": "worst", "scheduler": ranked.subject, **asdict(one), "label": ranked.labels[one.cell]}
            for one in ranked.worst
        ),
    ]


def _flat(one: Standing | Group | Worst) -> dict[str, Any]:
    """Its fields, in columns: those of an oracle have a name each."""
    flat = asdict(one)
    for sight, values in flat.pop("told", {}).items():
        name = sight if "=" in sight else f"oracle_{sight}"
        flat |= zip((name, f"{name}_low", f"{name}_high"), values, strict=True)
    return flat


def terminal(ranked: Ranked) -> list[Table]:
    """The standings, the groups, and the worst cells."""
    return [standings_table(ranked), *([_groups(ranked)] if ranked.groups else []), _worst(ranked)]


def standings_table(ranked: Ranked) -> Table:
    """A line per scheduler, in the order in which they are listed."""
    better = "1 is the best other scheduler per scenario, less is better"
    columns = [Column("scheduler", title="Scheduler"), *numbers(*HEADS), Column("in cell", css="num")]
    rows = []
    for standing in ranked.lines:
        tag = ranked.tag(standing.scheduler)
        name = Value(
            standing.scheduler + SUFFIXES[tag],
            standing.scheduler,
            look=ranked.looks[standing.scheduler],
            tag=tag,
            note="candidate" if standing.is_candidate else "",
        )
        where = Value(standing.worst_cell, title=ranked.labels[standing.worst_cell])
        known = html.known(standing.scheduler, (), bool(tag))
        rows.append(Row([name, *figures(standing), where], attributes=known))
    is_marked = any(ranked.tag(standing.scheduler) == NAMED for standing in ranked.lines)
    title = f"{ranked.title}: {ranked.facts}; {better}{_bracketed(ranked)}"
    return Table(title, columns, rows, LEGEND if is_marked else "")


def _within(ranked: Ranked) -> str:
    """Name of the intervals, of so many cells; a single cell has none."""
    cells = max(one.cells for one in ranked.standings)
    return interval_of(cells, "cells") if cells > 1 else ""


def _bracketed(ranked: Ranked) -> str:
    within = _within(ranked)
    return f"; in brackets the {within}" if within else ""


def _of_groups(ranked: Ranked) -> str:
    """Says what is in brackets, where kinds have more cells and fewer."""
    several = [one.cells for one in ranked.groups if one.cells > 1]
    if not several or not (ranked.candidate or ranked.sights):
        return ""
    called = interval_of(max(several), "cells") if max(several) >= FEWEST else "range"
    few = f" (fewer than {FEWEST} cells: range)" if min(several) < FEWEST <= max(several) else ""
    return f"; in brackets the {called}{few}"


def figures(standing: Standing) -> list[Value]:
    """What the columns `HEADS` have of a scheduler."""
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


def _percent(value: float | None) -> str:
    return NOTHING if value is None else PERCENT.value(value)


def _multiple(value: float | None) -> str:
    return NOTHING if value is None else FACTOR.value(value)


def _ratio(standing: Standing | SinglePath) -> str:
    return _interval(standing.ratio, standing.ratio_low, standing.ratio_high)


def _interval(value: float | None, low: float | None, high: float | None) -> str:
    return NOTHING if value is None else RATIO.interval(value, low, high)


def _group_heads(ranked: Ranked) -> list[str]:
    heads = ["cells", "best fixed", *(["load"] if ranked.has_load else []), OF_BEST, "of the bound"]
    if ranked.candidate:
        heads += [ranked.subject, "of the bound"]
        heads += ["clairvoyant, of the bound"] if ranked.has_clairvoyant else []
        heads += [f"{ranked.subject} / best fixed"]
    below = [f"{ranked.subject} {BELOW_ONE_PATH}" if ranked.candidate else BELOW_ONE_PATH] if ranked.single else []
    return [*heads, *below, *(_over_told(sight) for sight in ranked.sights)]


def _over_told(sight: str) -> str:
    """Head of the column of what an oracle or a change is worth."""
    return f"{_changed(sight)} / {TOLD}" if "=" in sight else f"oracle: {sight} / {TOLD}"


def _group_figures(ranked: Ranked, group: Group) -> list[str]:
    load = [_percent(group.load)] if ranked.has_load else []
    figures = [str(group.cells), group.best, *load, RATIO.value(group.best_ratio), _multiple(group.best_of_bound)]
    share = group.best_worse_than_single_share
    if ranked.candidate:
        figures += [_interval(group.candidate_ratio, None, None), _multiple(group.candidate_of_bound)]
        figures += [_multiple(group.clairvoyant_of_bound)] if ranked.has_clairvoyant else []
        figures += [_interval(group.against_best, group.against_best_low, group.against_best_high)]
        share = group.candidate_worse_than_single_share
    figures += [_percent(share)] if ranked.single else []
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
    columns = [*numbers(*_worst_heads(ranked)), Column("cell"), Column()]
    rows = [Row([*_worst_figures(ranked, worst), worst.cell, ranked.labels[worst.cell]]) for worst in ranked.worst]
    return Table(f"where {ranked.subject} is farthest behind the best other scheduler", columns, rows)


def _worst_heads(ranked: Ranked) -> list[str]:
    return ["of the best", "of one path", *(["load"] if ranked.has_load else [])]


def _worst_figures(ranked: Ranked, worst: Worst) -> list[str]:
    load = [_percent(worst.load)] if ranked.has_load else []
    return [FACTOR.value(worst.ratio), _multiple(worst.single_ratio), *load]


def _worst_on_page(ranked: Ranked) -> Table:
    """The worst cells, each with its name first."""
    shown = _worst(ranked)
    heads = [Column("Cell"), *numbers(*_worst_heads(ranked)), Column("what it is")]
    return Table(
        None, heads, [Row([cell, *ratios, label]) for *ratios, cell, label in (row.values for row in shown.rows)]
    )


def render(ranked: Ranked, costs: pl.DataFrame) -> str:
    """The page as text; `costs` are the mean costs by cell and scheduler."""
    standings = html.table(standings_table(ranked), "results cards")
    kinds = html.table(_groups(ranked), "results cards")
    worst = html.table(_worst_on_page(ranked))
    made_by = html.part("made_by", ranked.command, ranked.code)
    sections = [
        Section("standings", "Standings", standings_lede(ranked), standings, _frame(ranked.standings)),
        Section("ratios", "Against the best other scheduler per scenario", ratios_lede(ranked), chart(ranked)),
        Section("kinds", "By kind of cell", _groups_lede(ranked), kinds, _frame(ranked.groups)),
        Section("worst", f"Worst cells of {ranked.subject}", WORST_LEDE, worst, _frame(ranked.worst)),
        Section("provenance", "Provenance", "", made_by),
    ]
    # A name keeps its letters.
    lines = [one if one.startswith(ranked.subject) else f"{one[0].upper()}{one[1:]}" for one in findings(ranked)]
    told = [unbroken(f"{one}.") for one in lines]
    facts = " · ".join(filter(None, [ranked.facts, ranked.others]))
    return page.assembled(ranked.title, told, facts, sections, costs)


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
    return pl.DataFrame([_flat(one) for one in lines], infer_schema_length=None)


def chart(ranked: Ranked, one: str = "best other") -> Markup:
    """The ratios with their intervals; of many schedulers the first. `one` is what 1 is called."""
    others = [line for line in ranked.lines if not ranked.tag(line.scheduler)]
    hidden = [line for line in others[SHOWN:] if line is not ranked.candidate]
    shown = [line for line in ranked.lines if line not in hidden]
    ends = [end for line in shown for end in (line.ratio, line.ratio_low, line.ratio_high) if end is not None]
    rows = [_dot(line, ranked) for line in shown]
    # The first and the candidate lie on the axis, however far apart.
    kept = [line.ratio for line in (*ranked.lines[:1], ranked.candidate) if line and line.ratio is not None]
    drawn = dots(rows, axis(most(ends), include=(1.0, *kept)), RATIO, [(1.0, one)])
    return panels([panel("", drawn)])


def _dot(standing: Standing, ranked: Ranked) -> Dot:
    name, tag = standing.scheduler, ranked.tag(standing.scheduler)
    estimate = estimated(standing.ratio, standing.ratio_low, standing.ratio_high, standing.cells)
    return Dot(name, ranked.looks[name], estimate, [], RATIO.value(standing.ratio), keep=bool(tag), tag=tag)
