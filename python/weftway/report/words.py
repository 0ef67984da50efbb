"""The findings in plain words: the sentence at the top, and the remarks in the table."""

from __future__ import annotations

from weftway.stats import Estimate, paired

from .study import Cell, Study
from .units import unit_for

BEST, LEVEL = "best", "level with best"

PHRASES = {
    "fct_ms": ("finished first", "sooner", "later"),
    "goodput_mbps": ("carried the most", "more", "less"),
    "message_p95_ms": ("delivered messages soonest (95th percentile)", "sooner", "later"),
    "deadline_miss_rate": ("missed the fewest deadlines", "fewer", "more"),
}
"""Per primary measure: what the winner did, and the words for better and worse."""


def verdict(study: Study) -> str:
    """One sentence: who came first, by how much, and what bonding gained."""
    if len(study.settings) > 1:
        return across_settings(study)
    ranked = study.winners(study.settings[0]) if study.settings else []
    if not ranked:
        return "No run came to a result: see the remarks in the table."
    best, value = ranked[0]
    level = [cell for cell, _ in ranked[1:] if cell.cc == best.cc and not apart(study, best, cell)]
    parts = [opening(study, best, value, level), lead(study, best, level), bonding(study, best), caution(study)]
    return "; ".join(part for part in parts if part) + "."


def opening(study: Study, best: Cell, value: Estimate, level: list[Cell]) -> str:
    won = PHRASES[study.primary.column][0]
    shown = unit_for(study.primary.kind, [value.mean]).estimate(value)
    if len(study.schedulers) == 1:
        return f"{best.scheduler} under {best.cc}: {study.primary.title.lower()} {shown}"
    if level:
        names = listed([best.scheduler, *(cell.scheduler for cell in level)])
        measured = f"{study.primary.title.lower()} {shown} for {best.scheduler}"
        return f"{names} are level at the front under {best.cc}: {measured}"
    return f"{best.scheduler} {won} under {best.cc}: {shown}"


def lead(study: Study, best: Cell, level: list[Cell]) -> str:
    """The distance to the reference, or from the reference to the next."""
    if best.scheduler != study.reference and any(c.scheduler == study.reference for c in level):
        return ""
    other = best._replace(scheduler=study.reference)
    if best.scheduler == study.reference:
        behind = [cell for cell, _ in study.winners(best.setting, best.cc) if cell not in (best, *level)]
        if not behind:
            return ""
        other = behind[0]
    share = relative(study, best, other)
    if share is None or abs(share.mean) < 0.0005:
        return ""
    better = (share.mean < 0) == bool(study.primary.lower_is_better)
    _, good, bad = PHRASES[study.primary.column]
    return f"{percent(abs(share.mean))} {good if better else bad} than {other.scheduler}"


def bonding(study: Study, cell: Cell) -> str:
    gain = study.estimate(cell, "aggregation_benefit")
    if gain is None or len(study.paths) < 2:
        return ""
    others = "the second link" if len(study.paths) == 2 else f"the other {len(study.paths) - 1} links"
    if gain.mean < 0:
        fair = study.estimate(cell, "benefit_fair")
        also = "" if fair is None else f", against one opened alike {_signed(fair.mean)}"
        return f"yet the best single link alone did better (aggregation benefit {_signed(gain.mean)}{also})"
    return f"bonding gained {gain.mean:.2f} of what {others} could add"


def _signed(value: float) -> str:
    return f"\u2212{-value:.2f}" if value < 0 else f"{value:.2f}"


def caution(study: Study) -> str:
    return "one seed only, so no spread is known" if len(study.seeds) == 1 else ""


def across_settings(study: Study) -> str:
    """With several settings: who came first how often, where there was anybody to come before, and how far ahead."""
    ranked = [found for setting in study.settings if (found := study.winners(setting))]
    if not ranked:
        return "No run came to a result: see the remarks in the table."
    contested = [found[0][0] for found in ranked if len({cell.scheduler for cell, _ in found}) > 1]
    if not contested:
        return "; ".join(filter(None, [spread(study, [found[0] for found in ranked]), caution(study)])) + "."
    names = [cell.scheduler for cell in contested]
    best = max(dict.fromkeys(names), key=names.count)
    rest = listed([f"{n} in {names.count(n)}" for n in dict.fromkeys(names) if n != best])
    often = f"{names.count(best)} of {len(contested)}" if rest else f"all {len(contested)}"
    won = f"{best} {PHRASES[study.primary.column][0]} in {often} settings"
    alone = len(ranked) - len(contested)
    parts = [
        won,
        ahead(study, [cell for cell in contested if cell.scheduler == best]),
        rest,
        f"in {alone} more, one scheduler ran alone" if alone else "",
        caution(study),
    ]
    return "; ".join(part for part in parts if part) + "."


def spread(study: Study, cells: list[tuple[Cell, Estimate]]) -> str:
    """What one scheduler to a setting came to, from the best setting to the worst."""
    means = sorted(value.mean for _, value in cells)
    unit = unit_for(study.primary.kind, means)
    low, high = unit.number(means[0]), unit.value(means[-1])
    who = listed(list(dict.fromkeys(cell.scheduler for cell, _ in cells)))
    return f"{who}: {study.primary.title.lower()} {low} to {high} over {len(cells)} settings"


def ahead(study: Study, cells: list[Cell]) -> str:
    """The range of the winner's lead over the reference."""
    gaps = [relative(study, cell, cell._replace(scheduler=study.reference)) for cell in cells]
    shares = sorted(abs(gap.mean) for gap in gaps if gap)
    if cells[0].scheduler == study.reference or not shares:
        return ""
    least, most = percent(shares[0]), percent(shares[-1])
    span = most if least == most else f"{least} to {most}"
    return f"{span} {PHRASES[study.primary.column][1]} than {study.reference}"


def remarks(study: Study, cell: Cell) -> list[str]:
    """What the numbers of a row do not say by themselves."""
    ranked = study.winners(cell.setting, cell.cc)
    found = []
    if ranked and len(ranked) > 1:
        best = ranked[0][0]
        if cell == best:
            found.append(BEST)
        elif study.estimate(cell, study.primary.column) and not apart(study, best, cell):
            found.append(LEVEL)
    if link := against_best_link(study, cell):
        found.append(link)
    failed = study.unfinished(cell)
    if failed:
        reasons = ", ".join(dict.fromkeys(failed))
        found.append(f"{len(failed)} of {len(study.runs(cell))} runs: {reasons}")
    faults = sum(study.values(cell, "faults").values())
    if faults:
        found.append(f"{faults:.0f} faults")
    return found


def against_best_link(study: Study, cell: Cell) -> str:
    """Below zero, a benefit means that one link would have been better: alone, or in a connection that opens alike."""
    if len(study.paths) < 2:
        return ""
    alone, fair = (_behind(study, cell, column) for column in ("aggregation_benefit", "benefit_fair"))
    if not alone:
        return f"{fair} than the best link opened alike" if fair else ""
    told = f"{alone} than the best link alone"
    if study.estimate(cell, "benefit_fair") is None:
        return told
    return f"{told}, and than one opened alike" if fair else f"{told}, but not than one opened alike"


def _behind(study: Study, cell: Cell, column: str) -> str:
    gain = study.estimate(cell, column)
    if gain is None or gain.mean >= 0:
        return ""
    return "worse" if gain.half is None or gain.high < 0 else "no better"


def apart(study: Study, one: Cell, other: Cell, column: str = "") -> bool:
    """Whether the seeds tell the two cells apart; a single seed is taken at its word."""
    column = column or study.primary.column
    gap = paired(study.values(one, column), study.values(other, column))
    if gap is None or gap.half is None:
        return study.estimate(one, column) != study.estimate(other, column)
    return gap.excludes_zero


def relative(study: Study, cell: Cell, other: Cell) -> Estimate | None:
    """The paired difference as a share of the other's mean over the same seeds."""
    ours, theirs = (study.values(c, study.primary.column) for c in (cell, other))
    shared = [theirs[seed] for seed in ours if seed in theirs]
    gap = paired(ours, theirs)
    if gap is None or not any(shared):
        return None
    scale = abs(sum(shared) / len(shared))
    return Estimate(gap.mean / scale, None if gap.half is None else gap.half / scale, gap.n)


def percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.0995 else f"{100 * share:.1f} %"


def listed(names: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`; beyond four, the first three and how many more."""
    if len(names) > 4:
        names = [*names[:3], f"{len(names) - 3} others"]
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)
