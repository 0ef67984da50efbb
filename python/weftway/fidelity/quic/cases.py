"""Agreement of the two stacks: times per case, and the order of schedulers. Pure functions."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

from weftway.fidelity.errors import as_json
from weftway.runs.backends import QUIC, SIM, Row
from weftway.stats.estimates import median, middle, quantile

from .settings import Setting

MEDIAN_GOAL = 0.02
P95_GOAL = 0.15
TAU_GOAL = 0.92
FEWEST_PAIRS = 30
APART = 0.05
"""Two schedulers are ordered where their times on QUIC differ by more than this share of the shorter one."""
NEAR, FAR = 0.10, 0.25
"""The shares of cases within these differences are counted."""
SURE = 0.05
"""A median is known well enough where half of its interval is at most this share of it."""
FINISHED = "finished"
PER_MB = "ms_per_mb"


@dataclass(frozen=True)
class Case:
    """A scheduler in one setting, on both stacks: medians over the seeds that both finished."""

    setting: str
    workload: str
    cc: str
    scheduler: str
    drawn: bool
    measure: str
    """Column of its time: `message_p99_ms` with messages, `fct_ms` where a transfer ends, else `ms_per_mb`."""
    sim_ms: float
    quic_ms: float
    seeds: int
    sim_halves: float | None
    """The simulator's time with one half of the seeds over that with the other, less one; none of a single seed."""
    quic_halves: float | None
    unsure: float
    """Half of the wider one of the two medians' intervals, as a share of the median; none of a single seed is 0."""
    sim_retransmissions: float | None
    quic_retransmissions: float | None
    command: str
    """Command that repeats a run on QUIC."""

    @property
    def difference(self) -> float:
        """The simulator's time over that of QUIC, less one."""
        return self.sim_ms / self.quic_ms - 1

    @property
    def record(self) -> dict[str, Any]:
        """For `--json` and the page's data."""
        return {**asdict(self), "difference": round(self.difference, 6)}


@dataclass(frozen=True)
class Pair:
    """Two schedulers of one setting that QUIC tells apart, the faster one there first."""

    faster: Case
    slower: Case

    @property
    def sign(self) -> int:
        """1 where the simulator has the same order, −1 where it has the other, 0 where both are equal."""
        return (self.faster.sim_ms < self.slower.sim_ms) - (self.faster.sim_ms > self.slower.sim_ms)


@dataclass(frozen=True)
class Group:
    """Some cases and their differences, without signs where none is named."""

    name: str
    cases: int
    middle: float
    signed: float
    p95: float
    near: float
    """The share of cases within `NEAR`."""
    far: float
    """The share of cases within `FAR`."""


@dataclass(frozen=True)
class Goal:
    """A goal, what was found, and whether that is enough."""

    name: str
    asked: str
    found: str
    met: bool


@dataclass(frozen=True)
class Agreement:
    """All that is compared. `cases` begin with the largest difference."""

    other: str
    """Backend that the simulator is compared with: QUIC of noq, or of picoquic."""

    cases: list[Case]
    pairs: list[Pair]
    unfinished: int
    """Seeds that one stack or both did not finish."""

    @property
    def tau(self) -> float | None:
        """Kendall's τ over the pairs: those in the same order less those in the other, of all."""
        return sum(pair.sign for pair in self.pairs) / len(self.pairs) if self.pairs else None

    @property
    def halves(self) -> list[Group]:
        """Differences of each stack from itself: over the cases, one half of the seeds against the other."""
        sides = (
            (SIM.name, [case.sim_halves for case in self.cases]),
            (self.other, [case.quic_halves for case in self.cases]),
        )
        known = ((name, [value for value in some if value is not None]) for name, some in sides)
        return [of_differences(name, some) for name, some in known if some]

    @property
    def groups(self) -> list[Group]:
        """All cases; then by origin, workload and controller."""
        parts = [("all cases", self.cases)]
        parts += [("our scenarios", [case for case in self.cases if not case.drawn])]
        parts += [("drawn cells", [case for case in self.cases if case.drawn])]
        for kind in dict.fromkeys(sorted(case.workload for case in self.cases)):
            parts.append((kind, [case for case in self.cases if case.workload == kind]))
        for cc in dict.fromkeys(sorted(case.cc for case in self.cases)):
            parts.append((cc, [case for case in self.cases if case.cc == cc]))
        return [group(name, some) for name, some in parts if some]

    @property
    def goals(self) -> list[Goal]:
        """At least one case is needed."""
        whole = self.groups[0]
        tau = self.tau
        return [
            limit("median difference", whole.middle, MEDIAN_GOAL),
            limit("95th percentile of the differences", whole.p95, P95_GOAL),
            Goal(
                f"order of schedulers, Kendall τ over {len(self.pairs)} pairs",
                f"≥ {TAU_GOAL:g}, {FEWEST_PAIRS} pairs or more",
                "none" if tau is None else f"{tau:.2f}",
                tau is not None and tau >= TAU_GOAL and len(self.pairs) >= FEWEST_PAIRS,
            ),
        ]

    @property
    def record(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "goals": [asdict(goal) for goal in self.goals] if self.cases else [],
            "groups": [as_json(asdict(group)) for group in self.groups] if self.cases else [],
            "halves": [as_json(asdict(half)) for half in self.halves],
            "pairs": len(self.pairs),
            "tau": None if self.tau is None else round(self.tau, 6),
            "unfinished": self.unfinished,
            "cases": [case.record for case in self.cases],
        }


def limit(name: str, value: float, most: float) -> Goal:
    return Goal(name, f"≤ {100 * most:.0f} %", f"{100 * value:.1f} %", value <= most)


def group(name: str, some: Sequence[Case]) -> Group:
    """The figures of some cases, at least one."""
    return of_differences(name, [case.difference for case in some])


def of_differences(name: str, some: Sequence[float]) -> Group:
    """The figures of some differences, at least one."""
    sizes = [abs(difference) for difference in some]
    near, far = (sum(size <= bound for size in sizes) / len(sizes) for bound in (NEAR, FAR))
    return Group(name, len(some), median(sizes), median(some), quantile(sizes, 0.95), near, far)


def agreement(settings: Iterable[Setting], rows: Iterable[Row], other: str = QUIC.name) -> Agreement:
    """Compares the rows of both stacks, setting by setting."""
    by_key: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        by_key.setdefault((row["scenario_hash"], row["cc"]), []).append(row)
    cases: list[Case] = []
    pairs: list[Pair] = []
    unfinished = 0
    for setting in settings:
        some = by_key.get(setting.key, [])
        both = [compared(setting, name, some, other) for name in dict.fromkeys(row["scheduler"] for row in some)]
        unfinished += sum(missing for _, missing in both)
        known = [case for case, _ in both if case]
        cases += known
        pairs += ordered(known)
    return Agreement(other, sorted(cases, key=lambda case: -abs(case.difference)), pairs, unfinished)


def compared(setting: Setting, scheduler: str, rows: Sequence[Row], other: str) -> tuple[Case | None, int]:
    """Compares a case, if a seed of it was finished on both stacks; and counts the seeds that were not."""
    sides = [
        {row["seed"]: row for row in rows if (row["scheduler"], row["backend"]) == (scheduler, name)}
        for name in (SIM.name, other)
    ]
    shared = sorted(sides[0].keys() & sides[1].keys())
    seeds = [seed for seed in shared if all(side[seed]["verdict"] == FINISHED for side in sides)]
    if not seeds:
        return None, len(shared)
    done = [[side[seed] for seed in seeds] for side in sides]
    measure = measure_of([row for side in done for row in side])
    times = [[time(row, measure) for row in side] for side in done]
    sim_ms, quic_ms = map(median, times)
    sim_halves, quic_halves = map(between_halves, times)
    unsure = max(share_of_interval(some) for some in times)
    resent = [[row["retransmissions"] for row in side if row.get("retransmissions") is not None] for side in done]
    theirs, repeated = (median(some) if some else None for some in resent)
    case = Case(
        setting.name,
        setting.workload,
        setting.cc,
        scheduler,
        setting.drawn,
        measure,
        sim_ms,
        quic_ms,
        len(seeds),
        sim_halves,
        quic_halves,
        unsure,
        theirs,
        repeated,
        done[1][0]["command"],
    )
    return case, len(shared) - len(seeds)


def measure_of(rows: Sequence[Row]) -> str:
    """The first that all rows have. A transfer that is cut off has no end, but a time that a megabyte took."""
    return next((name for name in ("message_p99_ms", "fct_ms") if all(row.get(name) for row in rows)), PER_MB)


def time(row: Row, measure: str) -> float:
    return float(row["elapsed_ms"] / (row["delivered_bytes"] / 1e6) if measure == PER_MB else row[measure])


def between_halves(times: Sequence[float]) -> float | None:
    """The median of every other seed over that of the rest, less one."""
    return median(times[::2]) / median(times[1::2]) - 1 if len(times) > 1 else None


def share_of_interval(times: Sequence[float]) -> float:
    """Half of the interval of their median, as a share of it."""
    estimate = middle(times)
    return (estimate.half or 0.0) / estimate.mean if estimate else 0.0


def ordered(cases: Sequence[Case]) -> list[Pair]:
    """The pairs of one setting that QUIC tells apart."""
    pairs = [Pair(*sorted(two, key=lambda case: case.quic_ms)) for two in combinations(cases, 2)]
    return [pair for pair in pairs if pair.slower.quic_ms > (1 + APART) * pair.faster.quic_ms]
