"""Fairness as it is shown: findings, tables, and records for machines."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from weftway.report.numbers import counted, listed, percent
from weftway.terminal.table import NOTHING, Column, Row, Table, Value, numbers, texts

from .judging import AS_WELL, FAIR, FAIR_TO_ITSELF, LONGER, MOVED, ONE_FLOW, Goals, Share, Short, Start
from .runs import Fairness
from .settings import CUBIC, LINKS, LOSSES, QUEUES, RIVALS, Link

ITSELF = "itself"
NONE = "none"


def findings(found: Fairness) -> list[str]:
    """Findings, a line each."""
    told = [line for rival in RIVALS for line in _sharing(found, rival)]
    met = [one.cc for one in found.goals if all(one.verdicts)]
    told += [f"all three goals of RFC 6356 with two subflows: {', '.join(met) or NONE}"] if found.goals else []
    longer = _longer(found)
    if longer:
        told.append(f"short flows take longer beside them than beside {CUBIC}: {', '.join(longer)}")
    elif found.short:
        told.append(f"short flows take longer than beside {CUBIC} beside none of them")
    return told


def _sharing(found: Fairness, rival: str) -> list[str]:
    """Lines that name who takes a fair share beside a controller at every queue, who more and who less."""
    low, high = FAIR[rival]
    fair, more, less = [], [], []
    for cc in found.controllers:
        shares = [one.share for one in found.share(cc, rival, 1, LOSSES[0])]
        if not shares:
            continue
        if max(shares) > high:
            more.append(f"{cc} ({_ratio(max(shares))})")
        elif min(shares) < low:
            less.append(f"{cc} ({_ratio(min(shares))})")
        else:
            fair.append(cc)
    lines = [
        (f"beside {rival}, {low:g} to {high:g} of its share at every queue", fair),
        (f"beside {rival}, more than {high:g} at some queue (the most)", more),
        (f"beside {rival}, less than {low:g} at some queue (the least)", less),
    ]
    return [f"{words}: {', '.join(names)}" for words, names in lines if names]


def _longer(found: Fairness) -> list[str]:
    """Controllers beside which short flows take longer than beside CUBIC, with the largest ratio."""
    most: dict[str, float] = {}
    for one in found.short:
        if one.cc:
            most[one.cc] = max(most.get(one.cc, 0.0), one.over_cubic)
    return [f"{cc} ({_ratio(value)} times)" for cc, value in most.items() if value > LONGER]


def share_words(cc: str, shares: Sequence[Share]) -> str:
    """Sentence about the share of a controller beside CUBIC.

    >>> some = [Share("bbr1", "cubic", 1, queue, "0 %", 2.0, 1.0, 3.0, 0.9, 18.0) for queue in (25, 100, 400)]
    >>> share_words("bbr1", some)
    'bbr1 takes 2.00, 2.00 and 2.00 times what a CUBIC flow beside it takes (queues of 0.4, 1.5 and 6 products)'
    >>> share_words("bbr1", some[:1])
    'bbr1 takes 2.00 times what a CUBIC flow beside it takes (queues of 0.4 products)'
    """
    takes, queues = listed([_ratio(one.share) for one in shares]), listed([QUEUES[one.queue] for one in shares])
    return f"{cc} takes {takes} times what a CUBIC flow beside it takes (queues of {queues} products)"


def start_words(starts: Sequence[Start]) -> str:
    """Sentence about short flows while a flow starts with the one and with the other initial window.

    >>> some = [Start("bdp", window, Link(20, 100), 100.0 + window, 300.0, 0.0) for window in (10, 32)]
    >>> start_words(some)
    'short flows during such a start take 132 ms instead of 110 (20 Mbit/s, 100 packets)'
    """
    by_link: dict[Link, list[Start]] = {}
    for one in starts:
        by_link.setdefault(one.link, []).append(one)
    pairs = [(sorted(some, key=lambda one: one.window), link) for link, some in by_link.items()]
    times = [f"{some[-1].mean_ms:.0f} ms instead of {some[0].mean_ms:.0f} ({_link(link)})" for some, link in pairs]
    return f"short flows during such a start take {listed(times)}"


def terminal(found: Fairness) -> list[Table]:
    """A table for each rival, one of the goals, and those of short flows."""
    tables = [_shares(found, rival) for rival in (*RIVALS, ITSELF)]
    if found.goals:
        tables.append(_goals(found))
    if found.short:
        tables.append(_short(found))
    if found.starts:
        tables.append(_starts(found))
    return tables


def _shares(found: Fairness, rival: str) -> Table:
    columns = [Column("controller"), *(Column(q, unit=loss, right=True) for loss in LOSSES for q in QUEUES.values())]
    columns += numbers("Jain", "Mbit/s")
    rows = []
    for cc in found.controllers:
        for subflows in (1, 2):
            other = cc if rival == ITSELF else rival
            lines = {loss: found.share(cc, other, subflows, loss) for loss in LOSSES}
            if not lines[LOSSES[0]]:
                continue
            figures = [cell for loss in LOSSES for cell in _row(lines[loss], is_judged=loss == LOSSES[0])]
            without = lines[LOSSES[0]]
            jain = sum(one.jain for one in without) / len(without)
            mbps = sum(one.mbps for one in without) / len(without)
            name = cc if subflows == 1 else f"{subflows} × {cc}"
            rows.append(Row([name, *figures, Value(f"{jain:.2f}", number=jain), Value(f"{mbps:.1f}", number=mbps)]))
    return Table(f"share beside {rival}, by queue and random loss", columns, rows)


def _row(shares: Iterable[Share], is_judged: bool) -> list[Value]:
    by_queue = {one.queue: one for one in shares}
    cells = []
    for queue in QUEUES:
        one = by_queue.get(queue)
        mark = "bad" if one and is_judged and not one.is_fair else ""
        cells.append(Value(_ratio(one.share), mark=mark, number=one.share) if one else Value(NOTHING))
    return cells


def _goals(found: Fairness) -> Table:
    columns = [Column("controller"), *numbers("goal 1", "goal 2", "goal 3")]
    rows = [Row([one.cc, *_verdicts(one)]) for one in found.goals]
    return Table("goals of RFC 6356, two subflows", columns, rows)


def _verdicts(goals: Goals) -> list[Value]:
    figures = (goals.over_best_path, goals.of_cubic, goals.on_congested)
    return [
        Value(f"{'yes' if met else 'no'}, {_ratio(figure)}", mark="good" if met else "bad", number=figure)
        for met, figure in zip(goals.verdicts, figures, strict=True)
    ]


def _short(found: Fairness) -> Table:
    kinds = ("mean ms", "p99 ms", "harm", "drops")
    columns = [Column("beside"), *(Column(kind, unit=queue, right=True) for kind in kinds for queue in QUEUES.values())]
    by: dict[str | None, dict[int, Short]] = {}
    for one in found.short:
        by.setdefault(one.cc, {})[one.queue] = one
    order = [None, CUBIC, *(cc for cc in found.controllers if cc != CUBIC)]
    rows = [_short_row(cc, by[cc]) for cc in order if cc in by]
    return Table("short flows of CUBIC beside a flow that always sends, by queue", columns, rows)


def _short_row(cc: str | None, by_queue: dict[int, Short]) -> Row:
    some = [by_queue.get(queue) for queue in QUEUES]

    def cells(text: Any, marks: bool = False) -> list[Value]:
        return [
            Value(text(one), mark="bad" if marks and one.over_cubic > LONGER else "") if one else Value(NOTHING)
            for one in some
        ]

    return Row(
        [
            cc or "nothing",
            *cells(lambda one: f"{one.mean_ms:.0f}", marks=True),
            *cells(lambda one: f"{one.p99_ms:.0f}"),
            *cells(lambda one: f"{one.harm:.2f}"),
            *cells(lambda one: percent(one.drops)),
        ]
    )


def _starts(found: Fairness) -> Table:
    columns = [*texts("link", "controller"), *numbers("initial window", "mean ms", "p99 ms", "drops")]
    rows = [
        Row([_link(one.link), one.cc, str(one.window), f"{one.mean_ms:.0f}", f"{one.p99_ms:.0f}", percent(one.drops)])
        for link in LINKS
        for one in found.starts
        if one.link == link
    ]
    return Table("short flows of CUBIC while a flow starts with such a window", columns, rows)


def _link(link: Link) -> str:
    return f"{link.rate} Mbit/s, {link.queue} packets"


def reading(found: Fairness) -> list[str]:
    """Lines that say how to read the tables."""
    fair = ", ".join(f"{low:g} to {high:g} beside {rival}" for rival, (low, high) in FAIR.items())
    lines = [
        f"share: bytes over those of the other flow, {found.request.seconds} s from the start; geometric mean of "
        f"{counted(len(found.seeds), 'seed')}; 1 is equal; 2 ×: two subflows of one connection",
        f"fair, without loss: {fair}, {FAIR_TO_ITSELF[0]:g} to {FAIR_TO_ITSELF[1]:g} beside any other",
        "queue: in products of the rate, 20 Mbit/s, and the round trip, 40 ms",
        "Jain, Mbit/s: Jain's index and the goodput of both, means without loss",
        f"goal 1: two links, a CUBIC flow on each; goodput over that of one flow on the better; {AS_WELL:g} or more",
        f"goal 2: one bottleneck; the largest share of two subflows beside a CUBIC flow; at most {ONE_FLOW:g}",
        "goal 3: two links, a CUBIC flow on the first; bytes there over those of one flow that uses it alone; at most "
        f"{MOVED:g}",
        "short flows: time of a connection of 10 kB, its handshake included; harm: the part of the mean time that the "
        "flow beside it adds (Ware et al. 2019); drops: of its packets",
    ]
    if found.starts:
        lines.append("initial window: short flows that open in the half second after the start")
    return lines


def records(found: Fairness) -> list[dict[str, Any]]:
    """Everything that is shown, for machines."""
    return [
        *(
            {"kind": "share", **asdict(one), "queue_products": float(QUEUES[one.queue]), "is_fair": one.is_fair}
            for one in found.shares
        ),
        *(
            {"kind": "goals", **asdict(one), **dict(zip(("goal_1", "goal_2", "goal_3"), one.verdicts, strict=True))}
            for one in found.goals
        ),
        *({"kind": "short flows", **asdict(one), "queue_products": float(QUEUES[one.queue])} for one in found.short),
        *({"kind": "start", **_flat(asdict(one))} for one in found.starts),
    ]


def _flat(start: dict[str, Any]) -> dict[str, Any]:
    link, window = start.pop("link"), start.pop("window")
    return {"cc": start.pop("cc"), "initial_window": window, "rate_mbps": link["rate"], "queue": link["queue"], **start}


def _ratio(value: float) -> str:
    """
    >>> _ratio(0.5), _ratio(1.278), _ratio(12.3)
    ('0.50', '1.28', '12')
    """
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"
