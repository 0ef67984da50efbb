"""Figures and verdicts, from the rows of runs. Pure functions.

The *share* of a flow is what it took over what the flow beside it took. *Jain's index* of two rates a and b is
(a + b)² / (2 (a² + b²)): 1 if they are equal, 1/2 if one has everything (Jain, Chiu and Hawe 1984). The *harm* that a
flow does to a time is the part of it that would not be there without the flow, (beside - alone) / beside: 0 is none
(Ware et al., Beyond Jain's Fairness Index, HotNets 2019).

The goals are those of RFC 6356, section 2, for a connection of two subflows:

1. It does at least as well as one flow on the better of its paths.
2. On one bottleneck it takes no more than one flow: at most 1.3 times what a CUBIC flow beside it takes, at any queue.
3. It moves traffic away from the congested path: its subflow there takes at most 0.9 of what a single flow would.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from weftway.stats.estimates import geometric_mean

from .settings import CUBIC, LOSSES, QUEUES, Link, Setting, Sharing, ShortFlow, Starting, TwoLinks, is_swapped

Row = dict[str, Any]
Rows = Mapping[Setting, Mapping[int, Row]]
"""Rows of each setting, by the place of their seed."""

FAIR = {"cubic": (0.5, 1.3), "bbr3": (0.5, 1.5)}
"""Shares that are called fair beside a controller: half to 1.3 times a CUBIC flow. BBRv3 shares less evenly, also with
itself."""

FAIR_TO_ITSELF = (0.5, 2.0)
"""Shares of two flows of one controller that are called fair."""

AS_WELL = 0.95
"""Part of a single flow's rate from which on two subflows do as well: runs differ by a few per cent."""

ONE_FLOW = 1.3
"""The most that two subflows take on one bottleneck, in CUBIC flows beside them. Two flows would take 2."""

MOVED = 0.9
"""The most that a subflow takes on a congested path of what a single flow of its controller takes there."""

LONGER = 1.05
"""Ratio to the time beside CUBIC from which on short flows take longer."""

LEAST_BYTES = 1000.0
"""A flow counts with at least so much: ratios are taken of it."""

LEAST_MS = 1e-3
"""A time is at least so much: harm is a share of it."""


@dataclass(frozen=True)
class Share:
    """Share of a controller's flow, or of its subflows, beside a flow of another."""

    cc: str
    rival: str
    subflows: int
    queue: int
    loss: str
    share: float
    """Its bytes over those of the other, as the geometric mean over the seeds."""
    least: float
    most: float
    jain: float
    """Jain's index of the two, on the mean."""
    mbps: float
    """Goodput of both."""

    @property
    def is_fair(self) -> bool:
        """Tells if the share is one that is called fair; with losses, it is what the other can take."""
        low, high = FAIR.get(self.rival, FAIR_TO_ITSELF)
        return low <= self.share <= high


@dataclass(frozen=True)
class Goals:
    """Goals of RFC 6356, for two subflows of a controller."""

    cc: str
    over_best_path: float
    """Goodput over that of one flow on the better path, on two links with a CUBIC flow each."""
    of_cubic: float
    """The largest share beside a CUBIC flow on one bottleneck, without random losses."""
    on_congested: float
    """Bytes of the subflow on the path that a CUBIC flow uses, over those of a single flow there; the other path is
    free."""

    @property
    def verdicts(self) -> tuple[bool, bool, bool]:
        """Tells of each goal if it is met."""
        return self.over_best_path >= AS_WELL, self.of_cubic <= ONE_FLOW, self.on_congested <= MOVED


@dataclass(frozen=True)
class Short:
    """Short flows beside a flow of a controller."""

    cc: str | None
    """None: by themselves."""
    queue: int
    mean_ms: float
    p99_ms: float
    drops: float
    """Share of their packets that the queue dropped."""
    harm: float
    """Part of the mean time that the flow beside them adds."""
    over_cubic: float
    """Mean time over that beside a CUBIC flow."""


@dataclass(frozen=True)
class Start:
    """Short flows while a flow of a controller starts with such a window."""

    cc: str
    window: int
    link: Link
    mean_ms: float
    p99_ms: float
    drops: float


def jain(one: float, other: float) -> float:
    """Jain's index of two rates.

    >>> jain(3.0, 3.0), jain(3.0, 0.0), jain(3.0, 1.0)
    (1.0, 0.5, 0.8)
    """
    return (one + other) ** 2 / (2 * (one * one + other * other))


def harm(alone: float, beside: float) -> float:
    """Harm to a time: the part of it that would not be there alone.

    >>> harm(50.0, 50.0), harm(50.0, 200.0)
    (0.0, 0.75)
    """
    return (beside - alone) / beside


def taken(at: int, row: Row) -> tuple[float, float]:
    """Bytes of the flow under test, and of the other."""
    own, other = (max(float(row[name]), LEAST_BYTES) for name in ("delivered_bytes", "rival_delivered_bytes"))
    return (other, own) if is_swapped(at) else (own, other)


def shares(rows: Rows) -> list[Share]:
    """Share of every setting of that kind."""
    return [share(setting, runs) for setting, runs in rows.items() if isinstance(setting, Sharing)]


def share(setting: Sharing, runs: Mapping[int, Row]) -> Share:
    """Share in one setting."""
    pairs = [taken(at, row) for at, row in runs.items()]
    ratios = [own / other for own, other in pairs]
    seconds = fmean(float(row["elapsed_ms"]) for row in runs.values()) / 1e3
    return Share(
        cc=setting.cc,
        rival=setting.rival,
        subflows=setting.subflows,
        queue=setting.queue,
        loss=setting.loss,
        share=geometric_mean(ratios),
        least=min(ratios),
        most=max(ratios),
        jain=fmean(jain(*pair) for pair in pairs),
        mbps=fmean(sum(pair) for pair in pairs) * 8 / seconds / 1e6,
    )


def goals(cc: str, rows: Rows) -> Goals | None:
    """Goals of one controller; nothing where a run is missing."""
    both, first, second = (rows.get(TwoLinks(cc, uses)) for uses in ("both", "first", "second"))
    spread, single = (rows.get(TwoLinks(cc, uses, is_second_free=True)) for uses in ("both", "first"))
    shared = [rows.get(Sharing(cc, CUBIC, queue, LOSSES[0], 2)) for queue in QUEUES]
    if not (both and first and second and spread and single and all(shared)):
        return None
    single_path = max(_mean(runs, "delivered_bytes") for runs in (first, second))
    of_cubic = [
        share(Sharing(cc, CUBIC, queue, LOSSES[0], 2), runs).share
        for queue, runs in zip(QUEUES, shared, strict=True)
        if runs
    ]
    return Goals(
        cc=cc,
        over_best_path=_mean(both, "delivered_bytes") / single_path,
        of_cubic=max(of_cubic),
        on_congested=_mean(spread, "path.own1.bytes") / _mean(single, "path.own1.bytes"),
    )


def short(rows: Rows) -> list[Short]:
    """Short flows beside each controller, and by themselves."""
    by: dict[tuple[str | None, int], list[tuple[float, Row]]] = {}
    for setting, runs in rows.items():
        if isinstance(setting, ShortFlow):
            by.setdefault((setting.beside, setting.queue), []).extend(timed(setting, runs))
    means = {key: fmean(ms for ms, _ in some) for key, some in by.items()}
    return [
        Short(
            cc=cc,
            queue=queue,
            mean_ms=means[cc, queue],
            p99_ms=percentile([ms for ms, _ in some], 99),
            drops=drops(some),
            harm=harm(means[None, queue], means[cc, queue]),
            over_cubic=means[cc, queue] / means[CUBIC, queue],
        )
        for (cc, queue), some in by.items()
        if (None, queue) in means and (CUBIC, queue) in means
    ]


def starts(rows: Rows) -> list[Start]:
    """Short flows while others start."""
    by: dict[tuple[str, int, Link], list[tuple[float, Row]]] = {}
    for setting, runs in rows.items():
        if isinstance(setting, Starting):
            by.setdefault((setting.beside, setting.window, setting.link), []).extend(timed(setting, runs))
    return [
        Start(cc, window, link, fmean(ms for ms, _ in some), percentile([ms for ms, _ in some], 99), drops(some))
        for (cc, window, link), some in by.items()
    ]


def timed(setting: ShortFlow | Starting, runs: Mapping[int, Row]) -> list[tuple[float, Row]]:
    """Time from the opening of each short flow to its last byte, with its row. One that was cut off took the time
    until then."""
    ends = ((at, row["elapsed_ms"] if row["fct_ms"] is None else row["fct_ms"], row) for at, row in runs.items())
    return [(max(float(end) - setting.opens_ms(at), LEAST_MS), row) for at, end, row in ends]


def percentile(values: Sequence[float], percent: int) -> float:
    """Percentile by nearest rank.

    >>> percentile([3.0, 1.0, 2.0, 4.0], 50), percentile([3.0, 1.0, 2.0, 4.0], 99)
    (2.0, 4.0)
    """
    return sorted(values)[max(-(-len(values) * percent // 100), 1) - 1]


def drops(flows: Sequence[tuple[float, Row]]) -> float:
    """Share of the packets of short flows that the queue dropped."""
    dropped, sent = (sum(int(row[f"path.own1.{name}"]) for _, row in flows) for name in ("queue_drops", "packets"))
    return dropped / max(sent, 1)


def _mean(runs: Mapping[int, Row], column: str) -> float:
    return max(fmean(float(row[column]) for row in runs.values()), LEAST_BYTES)
