"""Gain of several links over one of them, in words."""

from __future__ import annotations

from weftway.stats.estimates import Estimate, is_level

from .front import UNTOLD
from .numbers import LEAST, percent
from .study import Cell, Study

MUCH = 0.5
"""Gain from which on it is told as a multiple: `98 %` beside seconds may be read as less time."""

FOR_ALL_THERE_IS = ("fct_ms", "goodput_mbps")
"""Primary measures of workloads that take whatever the links can carry. Others carry what the application sends."""


def bonding(study: Study, cell: Cell) -> str:
    """The gain over the best link alone; of workloads that do not take all there is, the part of what the other links
    could add, where that is worth a number."""
    if len(study.paths) < 2:
        return ""
    gain = study.over_best_link(cell) if study.primary.column in FOR_ALL_THERE_IS else None
    benefit = study.estimate(cell, "aggregation_benefit")
    if gain:
        return over(gain)
    if benefit is None or not _is_sure(benefit) or benefit.mean == 0:
        return ""
    if benefit.mean < 0:
        return "yet the best link alone did better"
    others = "the second link" if len(study.paths) == 2 else f"the other {len(study.paths) - 1} links"
    return f"bonding gained {benefit.mean:.2f} of what {others} could add"


def over(gain: Estimate) -> str:
    """Gain over the best link alone, if the seeds are sure of it."""
    where = "in one run, " if gain.half is None else ""
    if not _is_sure(gain) and not is_level(gain):
        return f"{UNTOLD} from the best link alone"
    if not _is_sure(gain) or abs(gain.mean) < LEAST:
        return f"{where}about as fast as the best link alone"
    if gain.mean < 0:
        if gain.mean <= -1:
            return f"{where}yet nothing arrived, unlike over the best link alone"
        slower = 1 / (1 + gain.mean) - 1
        much = f"{slower + 1:.1f} times as slow as" if slower >= MUCH else f"{percent(slower)} slower than"
        return f"{where}yet {much} the best link alone"
    much = f"{gain.mean + 1:.1f} times as fast as" if gain.mean >= MUCH else f"{percent(gain.mean)} faster than"
    return f"{where}{much} the best link alone"


def _is_sure(estimate: Estimate) -> bool:
    """Says whether the interval excludes zero; a single run is taken at its word."""
    return estimate.half is None or estimate.excludes_zero


def against_best_link(study: Study, cell: Cell) -> str:
    """The remark of a line whose mean one link has beaten: alone, or with the same handshake."""
    if len(study.paths) < 2:
        return ""
    alone = _behind(study.over_best_link(cell) or study.estimate(cell, "aggregation_benefit"))
    fair = _behind(study.estimate(cell, "benefit_fair"))
    if not alone:
        return f"{_than(fair)} the best link with the same handshake" if fair else ""
    words = f"{_than(alone)} the best link alone"
    if study.estimate(cell, "benefit_fair") is None or UNTOLD in (alone, fair):
        return words
    return f"{words}, {'also' if fair else 'but not'} with the same handshake"


def _than(place: str) -> str:
    return f"{place} {'from' if place == UNTOLD else 'than'}"


def _behind(gain: Estimate | None) -> str:
    if gain is None or gain.mean >= 0:
        return ""
    return "worse" if gain.half is None or gain.high < 0 else UNTOLD
