"""Advice in words: lines for people, records for programs."""

import math
from collections.abc import Mapping
from typing import Any

from weftway.fairness import share_words, start_words
from weftway.rank.costs import COLUMN, PER_THOUSAND, WORDS
from weftway.report.numbers import counted
from weftway.runs import plan
from weftway.stats.estimates import interval_of

from .added import words as described
from .candidates import LINUX, Candidate
from .choice import WORTH, CandidateRuns, Gain, judged, judging, log_ratio
from .neighbours import Cell
from .runs import Advice

MUCH_COPIED = 0.02
"""Share from which on duplicates are worth a word: they cost what others could send, and perhaps money."""


def lines(advice: Advice) -> list[str]:
    """Lines that say what to set, what it gains, what may be lost, what it takes from others, what it rests on, and the
    command that shows it."""
    parts = {
        "set": _set(advice),
        "pair": _pair(advice),
        "gain": _gain(advice),
        "held out": _held_out(advice),
        "alone": alone(advice),
        "risk": _risk(advice),
        "share": _share(advice),
        "basis": _basis(advice),
        # A command cannot name a scenario with links that no file has.
        "evidence": "" if advice.request.added else evidence(advice),
    }
    return [f"{name:<9} {text}" for name, text in parts.items() if text]


def records(advice: Advice) -> list[dict[str, Any]]:
    """The advice, then each candidate, then each cell."""
    base, chosen = advice.baseline.candidate, advice.chosen.candidate
    first = {
        "kind": "advice",
        "deployable": advice.request.place,
        "for": advice.request.carrier or None,
        "set": list(chosen.commands),
        "candidate": chosen.words,
        "scheduler": chosen.scheduler,
        "cc": chosen.cc,
        "initial_window": chosen.window,
        "baseline": base.words,
        "measure": advice.column or "ms per megabyte",
        # In the unit of the measure: of datagrams, how many of a thousand are late or lost.
        "cost_ms": _cost(advice, advice.chosen),
        "baseline_cost_ms": _cost(advice, advice.baseline),
        "gain": advice.gain,
        "gain_low": advice.within.low,
        "gain_high": advice.within.high,
        "runs": len(advice.chosen.costs),
        "better_on_held_out_seeds": len(advice.better_on_held_out()),
        "share_of_cubic": [one.share for one in advice.shares] or None,
        "unfinished": advice.chosen.unfinished,
        "baseline_unfinished": advice.baseline.unfinished,
        "evidence": evidence(advice),
        "alone": alone(advice),
        "skipped": advice.skipped,
    }
    tried = [
        {
            "kind": "candidate",
            "candidate": trial.candidate.words,
            "scheduler": trial.candidate.scheduler,
            "cc": trial.candidate.cc,
            "initial_window": trial.candidate.window,
            "set": list(trial.candidate.commands),
            "scenario_set": list(trial.candidate.sets),
            "ratio": _ratio(advice, trial),
            "copies": trial.copies,
            "unfinished": trial.unfinished,
        }
        for trial in advice.trials
    ]
    cells = [
        {"kind": "cell", "cell": cell.number, "scenario_set": list(cell.sets), "ratio": advice.ratio(cell)}
        for cell in advice.cells
    ]
    return [first, *tried, *cells]


def checked(checks: list[dict[str, Any]]) -> list[str]:
    """Lines that say how the kernel ran the candidates."""
    advised = next((record for record in checks if record["is_advised"]), None)
    late = sum(record["late_runs"] for record in checks)
    runs = sum(record["runs"] for record in checks)
    lines = [f"kernel    least median: {checks[0]['candidate']}, {_time(checks[0]['cost_ms'])}"]
    if advised:
        above = f"{(advised['over_best'] - 1) * 100:.1f} % above the least"
        overlap = advised is not checks[0] and advised["least_ms"] <= checks[0]["most_ms"]
        unsure = "; their runs overlap, so the two are not told apart" if overlap else ""
        lines.append(f"kernel    advised: {_time(advised['cost_ms'])}, {above}{unsure}")
    else:
        lines.append("kernel    what is advised has no run here: it needs `weft steer`, or its runs failed")
    cut = sum(record["unfinished"] for record in checks)
    unfinished = f"; {cut} did not finish and count with their time limit" if cut else ""
    lines.append(f"kernel    {runs} runs of {len(checks)} candidates; {late} runs had late packets{unfinished}")
    return lines


def with_added(advice: Advice, without: Advice) -> str:
    """Line that says what further links bring: each advice at its best, with them and without."""
    gain = judged(advice.chosen, without.chosen, advice.cells, advice.seeds)
    measure = WORDS[advice.column]
    links = described(advice.request.scenario, advice.request.added)
    return (
        f"added     with {links}: {measure} {_told(advice, advice.chosen)} instead of "
        f"{_told(without, without.chosen)}; over all cells it {_takes(advice, gain)}, each as advised"
    )


def evidence(advice: Advice) -> str:
    """The commands that compare what is advised with what there is."""
    base, chosen = advice.baseline.candidate, advice.chosen.candidate
    if chosen == base:
        chosen = advice.other.candidate if advice.other else base
    if (base.sets, base.scheduler) == (chosen.sets, chosen.scheduler):
        return _compare(advice, base, f"{base.cc},{chosen.cc}", base.scheduler)
    if (base.sets, base.cc) == (chosen.sets, chosen.cc):
        return _compare(advice, base, base.cc, f"{base.scheduler},{chosen.scheduler}")
    both = (_compare(advice, candidate, candidate.cc, candidate.scheduler) for candidate in (base, chosen))
    return " && ".join(both)


def _compare(advice: Advice, candidate: Candidate, cc: str, scheduler: str) -> str:
    sets = [f"--set {plan.quoted(setting)}" for setting in [*advice.request.set, *candidate.sets]]
    path = plan.quoted(advice.request.scenario)
    parts = [f"weft compare {path} --scheduler {scheduler} --cc {cc} --seeds {advice.request.seeds}", *sets]
    return " ".join(parts)


def _set(advice: Advice) -> str:
    chosen = advice.chosen.candidate
    if not chosen.commands:
        return f"nothing: the most promising change is not sure to gain {WORTH * 100:.0f} % over {_as_it_comes(advice)}"
    if advice.request.carrier and advice.request.place != LINUX:
        links = [command for command in chosen.commands if command.startswith("--path")]
        both = [command for command in chosen.commands if command not in links]
        where = "here" if advice.request.carrier == "send" else "at both ends"
        parts = [("here", links), (where, both)]
        return "; ".join(f"{end}: {' '.join(options)}" for end, options in parts if options)
    if advice.request.place != LINUX:
        return "; ".join(chosen.commands)
    is_upload = advice.is_upload
    by_end: dict[str, list[str]] = {}
    for command in chosen.commands:
        by_end.setdefault(end_of(command, is_upload), []).append(command)
    return "; ".join(f"{end}: {'; '.join(commands)}" for end, commands in by_end.items())


def _pair(advice: Advice) -> str:
    """The pair of scheduler and controller, and the ends that need it: those that send."""
    chosen, carrier = advice.chosen.candidate, advice.request.carrier
    if advice.request.place == LINUX or carrier == "send":
        return f"{chosen.pair}, {'here' if advice.is_upload or carrier == 'send' else 'on the server'}"
    return f"{chosen.pair}, at both ends"


def _held_out(advice: Advice) -> str:
    """The place of the advice among all candidates on the seeds that did not pick it."""
    better, others = advice.better_on_held_out(), len(advice.trials) - 1
    head = f"on held-out seeds: gain and risk are of the {len(judging(advice.seeds))} that did not pick"
    if not better:
        return f"{head}; of {counted(others, 'other')} none costs less there"
    best = better[0]
    gain = advice.judged(best, advice.chosen).gain
    costs = "costs" if len(better) == 1 else "cost"
    less = f"{len(better)} {costs} less there, the best ({best.candidate.words}) {_signed(gain)}"
    return f"{head}; of {counted(others, 'other')} {less}"


def _share(advice: Advice) -> str:
    """Sentences about what the controller, and a larger initial window, take from others."""
    cc = advice.chosen.candidate.cc
    told = [share_words(cc, advice.shares) if advice.shares else f"{cc}: its share beside CUBIC is not known"]
    return "; ".join([*told, *([start_words(advice.starts)] if advice.starts else [])])


def end_of(command: str, is_upload: bool) -> str:
    """End that a command is for: what decides about sending, at the sender; buffers for receiving, at the receiver."""
    if "endpoint" in command:
        return "here"
    receives = "tcp_rmem" in command
    return "here" if receives != is_upload else "on the server"


def _as_it_comes(advice: Advice) -> str:
    words = advice.baseline.candidate.words
    if advice.request.carrier and advice.request.place != LINUX:
        return f"`weft {advice.request.carrier}` without options ({words})"
    return f"default Linux ({words})" if advice.request.place == LINUX else words


def _gain(advice: Advice) -> str:
    if advice.chosen is advice.baseline:
        if advice.other is None:
            return ""
        gain = advice.judged(advice.other, advice.baseline)
        return (
            f"the best other ({advice.other.candidate.words}) takes {_signed(advice.picked(advice.other))} over all "
            f"cells on the half of the seeds that picks; on the half that judges it {_takes(advice, gain)}"
        )
    measure = WORDS[advice.column]
    now, before = (_told(advice, trial) for trial in (advice.chosen, advice.baseline))
    return (
        f"{measure} {now} instead of {before}; over all cells {_less(advice, Gain(advice.gain, advice.within))} "
        f"than {_as_it_comes(advice)}"
    )


def _less(advice: Advice, gain: Gain) -> str:
    """By how much it costs less, with its interval."""
    within = interval_of(len(advice.cells), "cells")
    return f"{_percent(gain.gain)} % less ({within}: {_percent(gain.within.low)} to {_percent(gain.within.high)} %)"


def _takes(advice: Advice, gain: Gain) -> str:
    """Time that it takes, with the interval of that."""
    low, high = gain.within if gain.gain >= 0 else (-gain.within.high, -gain.within.low)
    within = interval_of(len(advice.cells), "cells")
    return f"takes {_signed(gain.gain)} ({within}: {_percent(low)} to {_percent(high)} %)"


def _percent(share: float) -> str:
    """Whole, but for what would look like nothing.

    >>> _percent(0.527), _percent(0.003), _percent(-0.0004), _percent(0.0)
    ('53', '0.3', '-0.04', '0')
    """
    return f"{share * 100:.0f}" if abs(share) >= 0.01 else f"{round(share * 100, 3) + 0.0:.1g}"


def alone(advice: Advice) -> str:
    """Says what the best link does by itself, and whether bonding is worth it; nothing where that was not tried."""
    single, rival, chosen = advice.single, advice.rival, advice.chosen
    if single is None or rival is None:
        return ""
    name = single.candidate.alone
    if chosen is not single:
        gain = advice.judged(single, chosen).turned
        return (
            f"best link alone, {name}, the others as backup: {_told(advice, single)}; "
            f"what is advised {_takes(advice, gain)} over all cells"
        )
    gain = advice.judged(single, rival)
    bonding = f"bonding ({rival.candidate.words})"
    if gain.is_worth:
        return (
            f"do not bond: {name} alone is best, with the others as backup; "
            f"over all cells it {_takes(advice, gain)} than {bonding}"
        )
    return (
        f"{name} alone, with the others as backup, is advised; over all cells {bonding} {_takes(advice, gain.turned)}"
    )


def _risk(advice: Advice) -> str:
    if advice.chosen is advice.baseline:
        return "none: nothing changes" if not advice.baseline.unfinished else f"nothing changes: {_unfinished(advice)}"
    risk = slower({cell: advice.ratio(cell) for cell in advice.cells}, len(judging(advice.seeds)))
    if advice.chosen.copies > MUCH_COPIED:
        risk += f"; {advice.chosen.copies * 100:.0f} % of its packets are duplicates"
    if advice.chosen.unfinished or advice.baseline.unfinished:
        risk += f"; {_unfinished(advice)}"
    return risk


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


def _unfinished(advice: Advice) -> str:
    """Number of runs that did not finish, as advised and without it."""
    chosen, base = advice.chosen, advice.baseline
    place = "as all lost" if advice.column == COLUMN["datagrams"] else "with their time limit"
    sentence = f"{chosen.unfinished} of {len(chosen.costs)} runs did not finish and count {place}"
    return sentence if chosen is base else f"{sentence}; as it comes: {base.unfinished}"


def _basis(advice: Advice) -> str:
    near = "values from [range]; others" if advice.is_measured else "assumed: values"
    spread = "20 % lower to 25 % higher, losses half to double"
    return (
        f"simulated: {len(advice.trials)} candidates, {len(advice.cells)} cells ({near} {spread}), "
        f"{len(advice.seeds)} seeds; not measured on your links"
    )


def _cost(advice: Advice, trial: CandidateRuns) -> float:
    """In the scenario as it is: the geometric mean over the seeds that judge."""
    costs = [trial.costs[0, seed] for seed in judging(advice.seeds)]
    return math.exp(math.fsum(map(math.log, costs)) / len(costs))


def _told(advice: Advice, trial: CandidateRuns) -> str:
    """The cost in words. Runs that did not finish would have taken longer; their datagrams count as lost already."""
    cost = _cost(advice, trial)
    if advice.column == COLUMN["datagrams"]:
        return f"{100 * cost / PER_THOUSAND:.3g} %"
    is_cut = any((0, seed) in trial.cut for seed in judging(advice.seeds))
    return f"{'more than ' if is_cut else ''}{_time(cost)}"


def _ratio(advice: Advice, trial: CandidateRuns) -> float:
    """Its cost over the baseline's, over all cells, on the seeds that judge."""
    return math.exp(log_ratio(trial, advice.baseline, (cell.number for cell in advice.cells), judging(advice.seeds)))


def _signed(gain: float) -> str:
    """
    >>> _signed(0.026), _signed(-0.026), _signed(0.0)
    ('2.6 % less', '2.6 % more', '0 % less')
    """
    size = abs(gain) * 100
    return f"{f'{size:.1f}' if size >= 0.05 else _percent(abs(gain))} % {'less' if gain >= 0 else 'more'}"


def _time(ms: float) -> str:
    return f"{ms / 1e3:.3g} s" if ms >= 1000 else f"{ms:.3g} ms"
