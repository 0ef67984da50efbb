"""Gain of several links over one of them, in words."""

from __future__ import annotations

from weftway.stats.estimates import Estimate, is_level

from .front import UNTOLD
from .numbers import LEAST, percent
from .study import Cell, Study

FOR_ALL_THERE_IS = ("fct_ms", "goodput_mbps")
"""Primary measures of workloads that take whatever the links can carry. Others carry what the application sends."""


def bonding(study: Study, cell: Cell) -> str:
    """The gain over the best link alone, and what part that is of what the others could add, where that is worth a
    number."""
    if len(study.paths) < 2:
        return ""
    gain = study.over_best_link(cell) if study.primary.column in FOR_ALL_THERE_IS else None
    benefit = study.estimate(cell, "aggregation_benefit")
    if gain is None and benefit is not None and benefit.mean < 0:
        return f"yet the best single link alone did better {_in_numbers(study, cell)}" if _is_sure(benefit) else ""
    parts = [over(gain)] if gain else []
    if gain and gain.mean < 0:
        return " ".join([*parts, _in_numbers(study, cell)]).strip() if _is_sure(gain) else parts[0]
    if benefit and benefit.mean > 0 and _is_sure(benefit):
        others = "the second link" if len(study.paths) == 2 else f"the other {len(study.paths) - 1} links"
        parts.append(f"bonding gained {benefit.mean:.2f} of what {others} could add")
    return "; ".join(part for part in parts if part)


def over(gain: Estimate) -> str:
    """Gain over the best link alone, if the seeds are sure of it."""
    where = "in one run, " if gain.half is None else ""
    if not _is_sure(gain) and not is_level(gain):
        return f"{UNTOLD} from the best link alone"
    if not _is_sure(gain) or abs(gain.mean) < LEAST:
        return f"{where}about as much as the best link alone"
    if gain.mean < 0:
        return f"{where}yet {percent(-gain.mean)} less than the best link alone"
    return f"{where}{percent(gain.mean)} more than the best link alone"


def _is_sure(estimate: Estimate) -> bool:
    """Says whether the interval excludes zero; a single run is taken at its word."""
    return estimate.half is None or estimate.excludes_zero


def _in_numbers(study: Study, cell: Cell) -> str:
    """A negative benefit, and the one against links with the same handshake."""
    benefit, fair = (study.estimate(cell, name) for name in ("aggregation_benefit", "benefit_fair"))
    if benefit is None or benefit.mean >= 0:
        return ""
    also = "" if fair is None else f", with the same handshake {_signed(fair.mean)}"
    return f"(aggregation benefit {_signed(benefit.mean)}{also})"


def _signed(value: float) -> str:
    return f"\u2212{-value:.2f}" if value < 0 else f"{value:.2f}"


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
