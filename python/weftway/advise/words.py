"""Advice in words: six lines for people, records for programs."""

import math
from collections.abc import Mapping
from typing import Any

from weftway.rank.costs import WORDS
from weftway.runs import plan
from weftway.stats.estimates import interval_of

from .candidates import LINUX, Candidate
from .choice import WORTH, CandidateRuns, Gain, judging, log_ratio
from .neighbours import Cell
from .runs import Advice

MUCH_COPIED = 0.02
"""From this share on, duplicates are worth a word: they cost what others could send, and perhaps money."""


def lines(found: Advice) -> list[str]:
    """Lines that say what to set, what it gains, what may be lost, what it rests on, and the command that shows it."""
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
    """Lines that say how the kernel ran the candidates."""
    advised = next((record for record in found if record["is_advised"]), None)
    late = sum(record["late_runs"] for record in found)
    runs = sum(record["runs"] for record in found)
    told = [f"kernel    least median: {found[0]['candidate']}, {_time(found[0]['cost_ms'])}"]
    if advised:
        above = f"{(advised['over_best'] - 1) * 100:.1f} % above the least"
        overlap = advised is not found[0] and advised["least_ms"] <= found[0]["most_ms"]
        unsure = "; their runs overlap, so the two are not told apart" if overlap else ""
        told.append(f"kernel    advised: {_time(advised['cost_ms'])}, {above}{unsure}")
    else:
        told.append("kernel    what is advised has no run here: it needs `weft steer`, or its runs failed")
    cut = sum(record["unfinished"] for record in found)
    unfinished = f"; {cut} did not finish and count with their time limit" if cut else ""
    told.append(f"kernel    {runs} runs of {len(found)} candidates; {late} runs had late packets{unfinished}")
    return told


def evidence(found: Advice) -> str:
    """The commands that compare what is advised with what there is."""
    base, chosen = found.baseline.candidate, found.chosen.candidate
    if chosen == base:
        chosen = found.other.candidate if found.other else base
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
        return f"nothing: the most promising change is not sure to gain {WORTH * 100:.0f} % over {_as_it_comes(found)}"
    if found.request.place != LINUX:
        return "; ".join(chosen.commands)
    is_upload = found.is_upload
    by_end: dict[str, list[str]] = {}
    for command in chosen.commands:
        by_end.setdefault(end_of(command, is_upload), []).append(command)
    return "; ".join(f"{end}: {'; '.join(commands)}" for end, commands in by_end.items())


def end_of(command: str, is_upload: bool) -> str:
    """End that a command is for: what decides about sending, at the sender; buffers for receiving, at the receiver."""
    if "endpoint" in command:
        return "here"
    receives = "tcp_rmem" in command
    return "here" if receives != is_upload else "on the server"


def _as_it_comes(found: Advice) -> str:
    words = found.baseline.candidate.words
    return f"default Linux ({words})" if found.request.place == LINUX else words


def _gain(found: Advice) -> str:
    if found.chosen is found.baseline:
        if found.other is None:
            return ""
        gain = found.judged(found.other, found.baseline)
        return (
            f"the best other ({found.other.candidate.words}) takes {_signed(found.picked(found.other))} over all cells "
            f"on the half of the seeds that picks; on the half that judges it {_takes(found, gain)}"
        )
    measure = WORDS[found.column]
    now, before = (_told(found, one) for one in (found.chosen, found.baseline))
    return (
        f"{measure} {now} instead of {before}; over all cells {_less(found, Gain(found.gain, found.within))} "
        f"than {_as_it_comes(found)}"
    )


def _less(found: Advice, gain: Gain) -> str:
    """By how much it costs less, with its interval."""
    within = interval_of(len(found.cells), "cells")
    return f"{_percent(gain.gain)} % less ({within}: {_percent(gain.within.low)} to {_percent(gain.within.high)} %)"


def _takes(found: Advice, gain: Gain) -> str:
    """Time that it takes, with the interval of that."""
    low, high = gain.within if gain.gain >= 0 else (-gain.within.high, -gain.within.low)
    within = interval_of(len(found.cells), "cells")
    return f"takes {_signed(gain.gain)} ({within}: {_percent(low)} to {_percent(high)} %)"


def _percent(share: float) -> str:
    """Whole, but for what would look like nothing.

    >>> _percent(0.527), _percent(0.003), _percent(-0.0004), _percent(0.0)
    ('53', '0.3', '-0.04', '0')
    """
    return f"{share * 100:.0f}" if abs(share) >= 0.01 else f"{round(share * 100, 3) + 0.0:.1g}"


def alone(found: Advice) -> str:
    """Says what the best link does by itself, and whether bonding is worth it; nothing where that was not tried."""
    single, rival, chosen = found.single, found.rival, found.chosen
    if single is None or rival is None:
        return ""
    name = single.candidate.alone
    if chosen is not single:
        gain = found.judged(single, chosen).turned
        return (
            f"best link alone, {name}, the others as backup: {_told(found, single)}; "
            f"what is advised {_takes(found, gain)} over all cells"
        )
    gain = found.judged(single, rival)
    bonding = f"bonding ({rival.candidate.words})"
    if gain.is_worth:
        return (
            f"do not bond: {name} alone is best, with the others as backup; "
            f"over all cells it {_takes(found, gain)} than {bonding}"
        )
    return f"{name} alone, with the others as backup, is advised; over all cells {bonding} {_takes(found, gain.turned)}"


def _risk(found: Advice) -> str:
    if found.chosen is found.baseline:
        return "none: nothing changes" if not found.baseline.unfinished else f"nothing changes: {_unfinished(found)}"
    told = slower({cell: found.ratio(cell) for cell in found.cells}, len(judging(found.seeds)))
    if found.chosen.copies > MUCH_COPIED:
        told += f"; {found.chosen.copies * 100:.0f} % of its packets are duplicates"
    if found.chosen.unfinished or found.baseline.unfinished:
        told += f"; {_unfinished(found)}"
    return told


def slower(ratios: Mapping[Cell, float], seeds: int) -> str:
    """The cells in which what is advised costs more than the baseline, as the mean of so many seeds."""
    worse = {cell: ratio for cell, ratio in ratios.items() if ratio > 1 + WORTH}
    means = f"means of {seeds} seeds" if seeds > 1 else "one seed each"
    if worse:
        worst = max(worse, key=lambda cell: worse[cell])
        more = (worse[worst] - 1) * 100
        return f"slower in {len(worse)} of {len(ratios)} cells, by up to {more:.0f} % ({worst.words}; {means})"
    slower = "slower" if max(ratios.values()) <= 1 else f"more than {WORTH * 100:.0f} % slower"
    return f"{slower} in none of {len(ratios)} cells ({means})"


def _unfinished(found: Advice) -> str:
    """Number of runs that did not finish, as advised and without it."""
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


def _cost(found: Advice, one: CandidateRuns) -> float:
    """In the scenario as it is: the geometric mean over the seeds that judge."""
    costs = [one.costs[0, seed] for seed in judging(found.seeds)]
    return math.exp(math.fsum(map(math.log, costs)) / len(costs))


def _told(found: Advice, one: CandidateRuns) -> str:
    """The cost in words. Runs that did not finish would have taken longer."""
    is_cut = any((0, seed) in one.cut for seed in judging(found.seeds))
    return f"{'more than ' if is_cut else ''}{_time(_cost(found, one))}"


def _ratio(found: Advice, one: CandidateRuns) -> float:
    """Its cost over the baseline's, over all cells, on the seeds that judge."""
    return math.exp(log_ratio(one, found.baseline, (cell.number for cell in found.cells), judging(found.seeds)))


def _signed(gain: float) -> str:
    """
    >>> _signed(0.026), _signed(-0.026), _signed(0.0)
    ('2.6 % less', '2.6 % more', '0 % less')
    """
    size = abs(gain) * 100
    return f"{f'{size:.1f}' if size >= 0.05 else _percent(abs(gain))} % {'less' if gain >= 0 else 'more'}"


def _time(ms: float) -> str:
    return f"{ms / 1e3:.3g} s" if ms >= 1000 else f"{ms:.3g} ms"
