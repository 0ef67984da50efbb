"""Advice in words: six lines for people, records for programs."""

import math
from typing import Any

from weftway import plan
from weftway.rank.costs import WORDS
from weftway.stats import interval_of

from .candidates import LINUX, Candidate, paths
from .runs import WORTH, Advice, Trial, judging, keys_of

MUCH_COPIED = 0.02
"""From this share on, duplicates are worth a word: they cost what others could send, and perhaps money."""


def lines(found: Advice) -> list[str]:
    """What to set, what it gains, what may be lost, what it rests on, and the command that shows it."""
    parts = {
        "set": _set(found),
        "gain": _gain(found),
        "alone": alone(found),
        "risk": _risk(found),
        "basis": _basis(found),
        "evidence": evidence(found),
    }
    return [f"{name:<9} {text}" for name, text in parts.items() if text]


def records(found: Advice) -> list[dict[str, Any]]:
    """The advice, then each candidate, then each cell."""
    base, chosen = found.baseline.candidate, found.chosen.candidate
    advice = {
        "kind": "advice",
        "deployable": found.request.place,
        "set": list(chosen.commands),
        "candidate": chosen.words,
        "baseline": base.words,
        "measure": found.column or "ms per megabyte",
        "cost_ms": _cost(found, found.chosen),
        "baseline_cost_ms": _cost(found, found.baseline),
        "gain": found.gain,
        "gain_low": found.within.low,
        "gain_high": found.within.high,
        "runs": len(found.chosen.costs),
        "unfinished": found.chosen.unfinished,
        "baseline_unfinished": found.baseline.unfinished,
        "evidence": evidence(found),
        "alone": alone(found),
        "skipped": found.skipped,
    }
    tried = [
        {
            "kind": "candidate",
            "candidate": one.candidate.words,
            "scheduler": one.candidate.scheduler,
            "cc": one.candidate.cc,
            "set": list(one.candidate.commands),
            "scenario_set": list(one.candidate.sets),
            "ratio": _ratio(found, one),
            "copies": one.copies,
            "unfinished": one.unfinished,
        }
        for one in found.trials
    ]
    cells = [
        {"kind": "cell", "cell": cell.number, "scenario_set": list(cell.sets), "ratio": found.ratio(cell)}
        for cell in found.cells
    ]
    return [advice, *tried, *cells]


def checked(found: list[dict[str, Any]]) -> list[str]:
    """What the kernel says of the candidates."""
    advised = next((record for record in found if record["is_advised"]), None)
    late = sum(record["late_runs"] for record in found)
    runs = sum(record["runs"] for record in found)
    told = [f"kernel    best here: {found[0]['candidate']}, {_time(found[0]['cost_ms'])} (median)"]
    if advised:
        told.append(
            f"kernel    advised: {_time(advised['cost_ms'])}, {(advised['over_best'] - 1) * 100:.1f} % above the best"
        )
    else:
        told.append("kernel    what is advised needs `weft steer` and was not run")
    cut = sum(record["unfinished"] for record in found)
    unfinished = f"; {cut} did not finish and count with their time limit" if cut else ""
    told.append(f"kernel    {runs} runs of {len(found)} candidates; {late} runs had late packets{unfinished}")
    return told


def evidence(found: Advice) -> str:
    """The commands that compare what is advised with what there is."""
    base, chosen = found.baseline.candidate, found.chosen.candidate
    if chosen == base:
        chosen = next(one.candidate for one in found.trials if one.candidate != base)
    if (base.sets, base.scheduler) == (chosen.sets, chosen.scheduler):
        return _compare(found, base, f"{base.cc},{chosen.cc}", base.scheduler)
    if (base.sets, base.cc) == (chosen.sets, chosen.cc):
        return _compare(found, base, base.cc, f"{base.scheduler},{chosen.scheduler}")
    both = (_compare(found, one, one.cc, one.scheduler) for one in (base, chosen))
    return " && ".join(both)


def _compare(found: Advice, one: Candidate, cc: str, scheduler: str) -> str:
    sets = [f"--set {plan.quoted(setting)}" for setting in [*found.request.set, *one.sets]]
    path = plan.quoted(found.request.scenario)
    parts = [f"weft compare {path} --scheduler {scheduler} --cc {cc} --seeds {found.request.seeds}", *sets]
    return " ".join(parts)


def _set(found: Advice) -> str:
    chosen = found.chosen.candidate
    if not chosen.commands:
        return f"nothing: {_as_it_comes(found)} is within {WORTH * 100:.0f} % of the best"
    if found.request.place != LINUX:
        return "; ".join(chosen.commands)
    is_upload = found.is_upload
    by_end: dict[str, list[str]] = {}
    for command in chosen.commands:
        by_end.setdefault(end_of(command, is_upload), []).append(command)
    return "; ".join(f"{end}: {'; '.join(commands)}" for end, commands in by_end.items())


def end_of(command: str, is_upload: bool) -> str:
    """Where a command belongs: what decides about sending, at the sender; buffers for receiving, at the receiver."""
    if "endpoint" in command:
        return "here"
    receives = "tcp_rmem" in command
    return "here" if receives != is_upload else "on the server"


def _as_it_comes(found: Advice) -> str:
    words = found.baseline.candidate.words
    return f"default Linux ({words})" if found.request.place == LINUX else words


def _gain(found: Advice) -> str:
    if found.chosen is found.baseline:
        other = next(one for one in found.trials if one is not found.baseline)
        ratio = _ratio(found, other)
        return f"the best other ({other.candidate.words}) takes {_signed(ratio - 1)}"
    measure = WORDS[found.column]
    low, high = (round(end * 100) for end in found.within)
    within = interval_of(len(found.cells), "cells")
    now, before = (_told(found, one) for one in (found.chosen, found.baseline))
    return (
        f"{measure} {now} instead of {before}; over all cells {found.gain * 100:.0f} % less "
        f"({within}: {low} to {high} %) than {_as_it_comes(found)}"
    )


def alone(found: Advice) -> str:
    """What the best link does by itself, and whether bonding is worth it; nothing where that was not tried."""
    singles = [one for one in found.trials if one.candidate.alone]
    together = [one for one in found.trials if not one.candidate.backups]
    if not singles or not together:
        return ""
    order = paths(keys_of(found.scenario))

    def place(one: Trial) -> tuple[float, int]:
        name = one.candidate.alone  # of equal links the first
        return round(_ratio(found, one), 3), order.index(name) if name else 0

    best, bonded = (min(some, key=place) for some in (singles, together))
    chosen = found.chosen
    if chosen.candidate.alone:
        return (
            f"do not bond: {chosen.candidate.alone} alone is best, {_told(found, chosen)}, with the others as backup; "
            f"all links together take {_told(found, bonded)}"
        )
    return (
        f"best link alone, {best.candidate.alone}, the others as backup: {_told(found, best)}; what is advised takes "
        f"{_signed(_ratio(found, chosen) / _ratio(found, best) - 1)} over all cells"
    )


def _risk(found: Advice) -> str:
    if found.chosen is found.baseline:
        return "none: nothing changes" if not found.baseline.unfinished else f"nothing changes: {_unfinished(found)}"
    ratios = {cell: found.ratio(cell) for cell in found.cells}
    worse = {cell: ratio for cell, ratio in ratios.items() if ratio > 1 + WORTH}
    told = f"never slower ({len(ratios)} cells)"
    if worse:
        worst = max(worse, key=lambda cell: worse[cell])
        told = (
            f"slower in {len(worse)} of {len(ratios)} cells, by up to {(worse[worst] - 1) * 100:.0f} % ({worst.words})"
        )
    if found.chosen.copies > MUCH_COPIED:
        told += f"; {found.chosen.copies * 100:.0f} % of its packets are duplicates"
    if found.chosen.unfinished or found.baseline.unfinished:
        told += f"; {_unfinished(found)}"
    return told


def _unfinished(found: Advice) -> str:
    """How many runs did not finish, as advised and without it."""
    chosen, base = found.chosen, found.baseline
    told = f"{chosen.unfinished} of {len(chosen.costs)} runs did not finish and count with their time limit"
    return told if chosen is base else f"{told}; as it comes: {base.unfinished}"


def _basis(found: Advice) -> str:
    near = "values from [range]; others" if found.is_measured else "assumed: values"
    spread = "20 % lower to 25 % higher, losses half to double"
    return (
        f"simulated: {len(found.trials)} candidates, {len(found.cells)} cells ({near} {spread}), "
        f"{len(found.seeds)} seeds; not measured on your links"
    )


def _cost(found: Advice, one: Trial) -> float:
    """In the scenario as it is: the geometric mean over the seeds that judge."""
    costs = [one.costs[0, seed] for seed in judging(found.seeds)]
    return math.exp(math.fsum(map(math.log, costs)) / len(costs))


def _told(found: Advice, one: Trial) -> str:
    """The cost in words. Runs that did not finish would have taken longer."""
    is_cut = any((0, seed) in one.cut for seed in judging(found.seeds))
    return f"{'more than ' if is_cut else ''}{_time(_cost(found, one))}"


def _ratio(found: Advice, one: Trial) -> float:
    """Its cost over the baseline's, over all cells, on the seeds that judge."""
    pairs = [(cell.number, seed) for cell in found.cells for seed in judging(found.seeds)]
    return math.exp(math.fsum(math.log(one.costs[pair] / found.baseline.costs[pair]) for pair in pairs) / len(pairs))


def _signed(change: float) -> str:
    return f"{abs(change) * 100:.1f} % {'more' if change > 0 else 'less'}"


def _time(ms: float) -> str:
    return f"{ms / 1e3:.3g} s" if ms >= 1000 else f"{ms:.3g} ms"
