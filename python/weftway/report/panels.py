"""The charts of cells: a panel per controller and setting, a row per scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from markupsafe import Markup

from weftway._native import ScenarioError
from weftway.sample.quantities import quantity
from weftway.stats.estimates import Estimate
from weftway.stats.units import Measure, Unit, unit_for

from .axis import Axis, axis, most
from .charts import Dot, Share, dots, panel, panels, stacked, titled
from .frames import LIMITS, path_shares
from .front import FIRST, front
from .html import part
from .palette import Look
from .study import Cell, Study

ROW_LIMIT = 900
"""Rows of charts on one page; beyond it the figures keep to the first settings."""


def drawn_settings(study: Study) -> list[str]:
    """The settings that have charts: all, unless the page would grow beyond reading."""
    rows = max(len(study.cells()) // max(len(study.settings), 1), 1) * 9
    return study.settings[: max(ROW_LIMIT // rows, 1)]


def drawn_groups(study: Study) -> list[tuple[str, str]]:
    """Settings and controllers that have charts."""
    drawn = drawn_settings(study)
    return [(setting, cc) for setting, cc in study.groups if setting in drawn]


def by_measure(study: Study, measures: Iterable[Measure]) -> Markup:
    """The panels of each measure."""
    return side_by_side(measure_panels(study, measure) for measure in measures)


def limits(study: Study) -> Markup:
    links = [(0.0, "best link"), (1.0, "all links")]
    lines = {"aggregation_benefit": links, "benefit_fair": links, "efficiency": [(1.0, "capacity")]}
    measures = study.measures(LIMITS)
    return side_by_side(measure_panels(study, m, lines[m.column], include=(0.0, 1.0)) for m in measures)


def side_by_side(groups: Iterable[Markup]) -> Markup:
    """Measures under one another; those of a single panel share the width."""
    drawn = [group for group in groups if group]
    return part("measures", drawn) if drawn else Markup()


def measure_panels(
    study: Study, m: Measure, lines: Sequence[tuple[float, str]] = (), include: Iterable[float] = ()
) -> Markup:
    """Panels of a measure: they share an axis, so that they compare by eye; each has its own order and digits."""
    cells = [cell for group in drawn_groups(study) for cell in study.shown(*group)]
    estimates = {c: e for c in cells if (e := study.estimate(c, m.column))}
    runs = {c: list(study.values(c, m.column).values()) for c in estimates}
    if not estimates:
        return Markup()
    spread = [v for c, e in estimates.items() for v in (e.low, e.high, *runs[c])]
    shared = axis(most(spread), [*include, *(estimates[c].mean for c in firsts(study) if c in estimates)])
    units = {group: unit_for(m.kind, means) for group, means in by_group(estimates).items()}
    best = best_of(study, estimates, m)

    def dot(c: Cell) -> Dot:
        e = estimates.get(c)
        text = units[c.setting, c.cc].estimate(e) if e else "none"
        remark = "best" if c in best else ""
        hint = hinted(c, e, runs.get(c, []), units[c.setting, c.cc]) if e else ""
        name = c.scheduler
        sign = (study.is_kept(c), study.tag(name))
        return Dot(name, study.look(name), e, runs.get(c, []), text, remark, study.alike(c), hint, *sign)

    return grid(study, m.title + better(m), dot, shared, unit_for(m.kind, [shared.high]), lines)


def by_group(estimates: dict[Cell, Estimate]) -> dict[tuple[str, str], list[float]]:
    """The means of each setting and controller."""
    groups: dict[tuple[str, str], list[float]] = {}
    for c, e in estimates.items():
        groups.setdefault((c.setting, c.cc), []).append(e.mean)
    return groups


def hinted(c: Cell, e: Estimate, runs: Sequence[float], unit: Unit) -> str:
    """The numbers behind a row, for a pointer over it."""
    interval = f", {unit.value(e.low)} to {unit.value(e.high)}" if e.half else ""
    single = f"; runs: {', '.join(unit.fitting(v).number(v) for v in runs)}" if 1 < len(runs) <= 10 else ""
    return f"{c.scheduler} under {c.cc}: {unit.value(e.mean)}{interval}{single}"


def difference(study: Study) -> Markup:
    """Seed-paired difference of every scheduler from the reference, around a line at zero."""
    m = study.primary
    cells = [c for group in drawn_groups(study) for c in study.shown(*group) if c.scheduler != study.reference]
    differences = {c: e for c in cells if (e := study.difference(c, m.column))}
    if not differences:
        return Markup()
    first = [differences[c].mean for c in firsts(study) if c in differences]
    shared = axis(most(v for e in differences.values() for v in (e.low, e.high)), include=(0.0, *first))
    unit = unit_for(m.kind, [max(abs(e.mean), e.half or 0.0) for e in differences.values()])

    def dot(c: Cell) -> Dot | None:
        if c.scheduler == study.reference:
            return None
        text = unit.estimate(differences[c], signed=True) if c in differences else "none"
        words = sense(differences.get(c), m)
        name = c.scheduler
        sign = (study.is_kept(c), study.tag(name))
        return Dot(name, study.look(name), differences.get(c), [], text, words, study.alike(c), "", *sign)

    return grid(study, m.title, dot, shared, unit, [(0.0, study.reference)])


def sense(gap: Estimate | None, m: Measure) -> str:
    """The words beside a difference."""
    if gap is None or gap.half is None:
        return ""
    if not gap.excludes_zero:
        return "not significant"
    return "better" if (gap.mean < 0) == bool(m.lower_is_better) else "worse"


def grid(
    study: Study,
    title: str,
    dot: Callable[[Cell], Dot | None],
    shared: Axis,
    unit: Unit,
    lines: Sequence[tuple[float, str]],
) -> Markup:
    """A panel per setting and controller under the measure's name."""
    drawn = []
    for group in drawn_groups(study):
        rows = [row for c in study.shown(*group) if (row := dot(c)) is not None]
        if any(row.estimate for row in rows):
            drawn.append(group_panel(group, dots(rows, shared, unit, lines)))
    return part("measure", title, drawn)


def share(study: Study) -> Markup:
    """Stacked bars of the paths' shares, beside the shares of the links' rates where they are known."""
    if len(study.paths) < 2:
        return Markup()
    capacity = capacity_shares(study)
    drawn = []
    for group in drawn_groups(study):
        if rows := [row for c in study.shown(*group) if (row := share_row(study, c)).parts]:
            drawn.append(group_panel(group, stacked([*rows, *([capacity] if capacity else [])])))
    return panels(drawn)


def share_row(study: Study, c: Cell) -> Share:
    parts = path_shares(study, c)
    return Share(
        c.scheduler,
        study.look(c.scheduler),
        [(path, Look(study.paths.index(path)), part) for path, part in parts.items()],
        study.alike(c),
        study.is_kept(c),
        study.tag(c.scheduler),
    )


def capacity_shares(study: Study) -> Share | None:
    """Share of each link's rate in their sum; only where every path has one constant rate."""
    declared = study.scenario.get("path")
    if not isinstance(declared, dict) or any("rate" in c or "capacity" in c for c in study.scenario.get("vary") or {}):
        return None
    rates = {name: mbps(path.get("rate")) for name, path in declared.items() if isinstance(path, dict)}
    total = sum(rate or 0.0 for rate in rates.values())
    if not total or None in rates.values() or list(rates) != study.paths:
        return None
    parts = [(name, Look(place), (rate or 0.0) / total) for place, (name, rate) in enumerate(rates.items())]
    return Share("link rates", None, parts)


def mbps(text: object) -> float | None:
    """A constant rate such as "20 Mbit/s" in Mbit/s; anything else is not one."""
    try:
        return float(quantity(text, "rate", "rate")) / 1e6
    except ScenarioError:
        return None


def best_of(study: Study, estimates: dict[Cell, Estimate], m: Measure) -> set[Cell]:
    """The cells that the seeds tell from all others of their setting and controller."""
    if m.lower_is_better is None:
        return set()
    fronts = [front(study, *group, m.column) for group in by_group(estimates)]
    return {front.best for front in fronts if front.best and front.kind == FIRST}


def firsts(study: Study) -> list[Cell]:
    """The best of each setting and controller by the primary measure: no axis ends before their values."""
    return [best for group in drawn_groups(study) if (best := front(study, *group).best)]


def better(m: Measure) -> str:
    words = {True: ", less is better", False: ", more is better", None: ""}
    return words[m.lower_is_better]


def group_panel(group: tuple[str, str], chart: Markup) -> Markup:
    """The panel of a setting and controller."""
    setting, cc = group
    return panel(titled(None, cc, setting), chart, {"cc": cc, "setting": setting})
