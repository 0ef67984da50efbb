"""The tables that the command prints."""

from dataclasses import replace

from weftway.stats.units import Measure, Unit, unit_for
from weftway.terminal.table import NOTHING, Cells, Column, Table, Value, plain

from .earlier import Earlier, summary
from .front import GOOD, OPEN, UNTOLD, Front, front
from .numbers import relative
from .published import claims, table
from .study import BENEFITS, HEADS, LEGEND, NAMED, SHOWN, SUFFIXES, Cell, Study
from .words import verdict

TOP = 10
"""Schedulers of a controller that the terminal lists; the report folds the others likewise."""

FEW_MORE = 2
"""Further lines that are listed too: a line that says so would be no shorter."""

PERCENT = unit_for("share", [0.1])


def of(study: Study, top: int = TOP, has_marks: bool = True) -> list[Table]:
    """Tables, each of a setting and controller: a line per scheduler, best first, the best in green. `has_marks` marks
    what is the user's own and what was named.

    Where the scenario has published numbers, they follow beside ours. Of more than `top` schedulers the rest is
    left to the report; 0 shows all.
    """
    shown = [claim for claim in claims(study) if claim.measure]
    drawn = [_group(study, setting, cc, top, has_marks) for setting, cc in study.groups]
    return [*drawn, *([table(study, shown)] if shown else [])]


def told(study: Study, before: Earlier | None = None) -> list[str]:
    """Results of the comparison, and what changed since an earlier one, each in the sentence of the report."""
    return [verdict(study), *([summary(study, before)] if before else [])]


def _group(study: Study, setting: str, cc: str, top: int, has_marks: bool) -> Table:
    """The schedulers under one controller, ranked and written by themselves."""
    first, *others = _columns(study)
    cells = study.shown(setting, cc)
    listed = _listed(study, cells, top)
    units = {measure: _unit(study, cells, measure) for measure in (first, *others)}
    best = {measure: _best(study, cells, measure) for measure in units}
    several = len(cells) > 1
    at_front = front(study, setting, cc)
    columns = [Column("scheduler"), *(_number_column(measure, unit) for measure, unit in units.items())]
    columns[2:2] = [Column("of the", "bound", right=True)] if study.has_bound else []
    columns[2:2] = [Column("against", study.reference, right=True), Column()] if several else []
    rows: list[Cells] = []
    for cell in listed:
        values = [_value(study, cell, measure, unit, cell in best[measure]) for measure, unit in units.items()]
        values[1:1] = [Value(_of_bound(study, cell))] if study.has_bound else []
        values[1:1] = [_against(study, cell), _place(at_front, cell)] if several else []
        rows.append([_name(study, cell, has_marks), *values])
    below = _below(study, at_front, len(cells) - len(listed), has_marks)
    return plain(_title(study, setting, cc), columns, rows, "\n".join(below))


def _listed(study: Study, cells: list[Cell], top: int) -> list[Cell]:
    """Cells that are kept in sight wherever they stand, and the first of the others."""
    others = [cell for cell in cells if cell.scheduler not in study.kept]
    if not top or len(others) <= top + FEW_MORE:
        return cells
    folded = {cell for cell in others[top:] if not study.is_kept(cell)}
    return [cell for cell in cells if cell not in folded]


def _below(study: Study, at_front: Front, hidden: int, has_marks: bool) -> list[str]:
    """Notes on what the table leaves out: schedulers that equal one of its lines, and those behind the first ones."""
    setting, cc = at_front.setting, at_front.cc
    equal = study.equals(setting, cc)
    lines = [f"= {cell.scheduler}: {', '.join(c.scheduler for c in others)}" for cell, others in equal.items()]
    if study.has(BENEFITS[0]) and study.adds_little(setting, cc):
        lines.append("no benefit is told: all links but the best carry less than a tenth of the whole")
    if at_front.kind == OPEN:
        lines.append(f"{UNTOLD}, k/n: worse than the best in k of n seeds")
    if has_marks and any(study.tag(cell.scheduler) == NAMED for cell in study.shown(setting, cc)):
        lines.append(LEGEND)
    return [*lines, *([f"{hidden} more schedulers: --top 0 shows all"] if hidden else [])]


def _name(study: Study, cell: Cell, has_marks: bool) -> str:
    same = len(study.equals(cell.setting, cell.cc).get(cell, []))
    return (
        cell.scheduler
        + (SUFFIXES[study.tag(cell.scheduler)] if has_marks else "")
        + (f" (= {same} more)" if same else "")
        + _unfinished(study, cell)
    )


def _of_bound(study: Study, cell: Cell) -> str:
    times = study.of_bound(cell)
    return Unit(1.0, "", 2).estimate(times) if times else NOTHING


def _number_column(measure: Measure, unit: Unit) -> Column:
    return Column(HEADS.get(measure.column, measure.title), unit.symbol, right=True)


def _title(study: Study, setting: str, cc: str) -> str:
    runs = {study.size(cell) for cell in study.cells(setting, cc)}
    count = f"{runs.pop()} runs each" if len(runs) == 1 else f"{min(runs)} to {max(runs)} runs each"
    repeatable = all(study.is_repeatable(cell) for cell in study.cells(setting, cc))
    summary = "mean ± 95 % interval" if repeatable else f"median ± {study.interval_of_medians(setting, cc)}"
    count = "one run each" if count == "1 runs each" else f"{summary} of {count}"
    return ", ".join([*([setting] if setting else []), cc, count])


def _columns(study: Study) -> list[Measure]:
    """The measure that the workload is about, then those that every comparison shows."""
    measures = study.measures([study.primary.column, *SHOWN])
    return list(dict.fromkeys(measures)) or [study.primary]


def _unit(study: Study, cells: list[Cell], measure: Measure) -> Unit:
    means = [study.estimate(cell, measure.column) for cell in cells]
    return unit_for(measure.kind, [mean.mean for mean in means if mean])


def _best(study: Study, cells: list[Cell], measure: Measure) -> set[Cell]:
    """The cells with the best mean, if the measure has a good side and there is a choice."""
    whole = [cell for cell in cells if not study.lacks(cell)]
    means = {cell: mean.mean for cell in whole if (mean := study.estimate(cell, measure.column))}
    if measure.lower_is_better is None or len(set(means.values())) < 2:
        return set()
    top = min(means.values()) if measure.lower_is_better else max(means.values())
    return {cell for cell, mean in means.items() if mean == top}


def _value(study: Study, cell: Cell, measure: Measure, unit: Unit, is_best: bool) -> Value:
    mean = study.estimate(cell, measure.column)
    bare = replace(unit, symbol="")
    return Value(bare.estimate(mean) if mean else NOTHING, mark="best" if is_best else "")


def _against(study: Study, cell: Cell) -> Value:
    """The difference to the reference, paired by seed, in percent."""
    if cell.scheduler == study.reference:
        return Value()
    share = relative(study, cell, cell._replace(scheduler=study.reference))
    return Value(PERCENT.estimate(share, signed=True) if share else NOTHING)


def _place(at_front: Front, cell: Cell) -> Value:
    """Its place: green at the front, plain where the seeds do not tell it from the best."""
    mark, untold = at_front.mark(cell), at_front.untold_of(cell)
    if mark == UNTOLD and untold:
        return Value(f"{mark}, {untold.worse}/{untold.seeds}")
    return Value(mark, mark="good" if mark in GOOD else "")


def _unfinished(study: Study, cell: Cell) -> str:
    bad = len(study.unfinished(cell))
    return f" ({bad} unfinished)" if bad else ""
