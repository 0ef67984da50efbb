"""The rules by which a published number or claim gets its verdict. Pure functions of samples.

A check is made of *parts*: each is an estimate with its standard error, and the *region* in which the claim has it. All
parts must lie in theirs. With a level of 5 %, corrected by Holm over the checks of a figure:

- *holds*: the 95 % intervals lie inside the regions, and the estimates do so in at least 80 % of the drawn settings;
- *holds in direction*: the effect has the claimed sign (its interval excludes none), and has it in at least 80 % of
  the settings; its size is another;
- *does not hold*: an interval lies outside its region, and the claim holds in less than 20 % of the settings;
- *cannot be decided*: anything else; and whatever the rows say, if the paper contradicts itself, or if more than 5 % of
  a row was decided by a fallback.

Power: if the paper's own number of runs gives an interval wider than the claim, and ours does not exclude the claim, it
cannot be decided. An interval that excludes the claim decides however wide it is. With `ALWAYS`, it cannot be decided
in both cases.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from weftway.report.numbers import whole_percent
from weftway.stats.estimates import t_quantile, within

HOLDS = "holds"
DIRECTION = "holds in direction"
NOT = "does not hold"
OPEN = "cannot be decided"
VERDICTS = (HOLDS, DIRECTION, NOT, OPEN)

SIGNIFICANT = 0.05
MOST_SETTINGS = 0.8
FEW_SETTINGS = 0.2
MOST_FALLBACK = 0.05
EXCLUDED = "excluded"
"""Power withholds a verdict unless our interval excludes the claim."""
ALWAYS = "always"
"""Power withholds a verdict even then."""
POWER = (EXCLUDED, ALWAYS)
LEVEL_TOLERANCE = 0.1
"""A printed level is met within so much of it. One tolerance for all, so that none is chosen by its outcome."""
EFFECT_TOLERANCE = 0.5
"""A printed effect is met within half of its size: the region never holds "no effect"."""
CONTRADICTION = 0.05
"""Two numbers for one thing that differ by more than rounding."""


@dataclass(frozen=True)
class Sample:
    """An estimate, its standard error and the number of runs behind it."""

    mean: float
    error: float | None
    runs: int

    @property
    def half(self) -> float | None:
        """Half of its 95 % interval."""
        return None if self.error is None else t_quantile(self.runs - 1) * self.error if self.error else 0.0


@dataclass(frozen=True)
class Region:
    """Interval in which a claim has an estimate. With `strict`, its ends do not belong to it."""

    low: float = -math.inf
    high: float = math.inf
    strict: bool = False

    def __contains__(self, value: float) -> bool:
        if self.strict:
            return self.low < value < self.high
        return self.low <= value <= self.high

    @property
    def width(self) -> float:
        return self.high - self.low


@dataclass(frozen=True)
class Part:
    """An estimate of a check, and where the claim has it."""

    what: str
    sample: Sample
    region: Region

    @property
    def is_met(self) -> bool:
        """By the estimate alone."""
        return self.sample.mean in self.region


@dataclass(frozen=True)
class Check:
    """A claim over the rows of one setting."""

    parts: Sequence[Part]
    direction: Sequence[Part] = ()
    """The sign that the claim's effect has, if it has one beside its size."""
    runs: int | None = None
    """The paper's own number of runs."""
    obstacle: str | None = None
    """Why no rows can decide it."""
    exact: bool | None = None
    """Result of an exact check, where nothing is estimated."""


@dataclass(frozen=True)
class Settings:
    """Results of the drawn settings: for each, whether the claim is met, whether its direction is, and its estimate."""

    met: Sequence[bool]
    directed: Sequence[bool]
    values: Sequence[float]
    choices: Sequence[Mapping[str, str]]

    @property
    def share(self) -> float | None:
        return sum(self.met) / len(self.met) if self.met else None

    @property
    def directed_share(self) -> float | None:
        return sum(self.directed) / len(self.directed) if self.directed else None

    @property
    def range(self) -> tuple[float, float] | None:
        return (min(self.values), max(self.values)) if self.values else None

    def explains(self) -> tuple[str, float] | None:
        """The key whose values explain most of the variance of the estimates (eta squared), and how much."""
        shares = [
            (key, share) for key in dict.fromkeys(k for c in self.choices for k in c) if (share := self._eta(key))
        ]
        return max(shares, key=lambda explained: explained[1], default=None)

    def _eta(self, key: str) -> float | None:
        mean = math.fsum(self.values) / len(self.values)
        total = math.fsum((value - mean) ** 2 for value in self.values)
        groups: dict[str, list[float]] = {}
        for value, choice in zip(self.values, self.choices, strict=True):
            groups.setdefault(choice.get(key, ""), []).append(value)
        # As many groups as values explain everything and nothing.
        if total == 0 or len(groups) < 2 or len(groups) == len(self.values):
            return None
        between = (len(group) * (math.fsum(group) / len(group) - mean) ** 2 for group in groups.values())
        return math.fsum(between) / total


@dataclass(frozen=True)
class Verdict:
    """Verdict on a claim, and its reason."""

    verdict: str
    reason: str
    part: Part | None = None
    """The part that decided."""
    p: dict[str, float] = field(default_factory=dict)
    """Holm's p-values: that it lies inside, that it lies outside, and that its sign is the claimed one."""


def sample(values: Sequence[float]) -> Sample | None:
    """The mean of independent runs."""
    n = len(values)
    if n == 0:
        return None
    mean = math.fsum(values) / n
    if n == 1:
        return Sample(mean, None, 1)
    variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
    return Sample(mean, _clean(math.sqrt(variance / n), mean), n)


def ratio(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Sample | None:
    """The ratio of two means over the seeds that both have, paired: the error is that of the linearised residuals."""
    seeds = [seed for seed in ours if seed in theirs]
    below = math.fsum(theirs[seed] for seed in seeds)
    if not seeds or below == 0:
        return None
    value = math.fsum(ours[seed] for seed in seeds) / below
    n = len(seeds)
    if n == 1:
        return Sample(value, None, 1)
    residuals = [(ours[seed] - value * theirs[seed]) * n / below for seed in seeds]
    return Sample(value, _clean(math.sqrt(math.fsum(r * r for r in residuals) / (n - 1) / n), value), n)


def _clean(error: float, mean: float) -> float:
    """Rounding in sums of equal numbers is no error."""
    return 0.0 if error <= 1e-12 * abs(mean) else error


def inside(check: Check) -> float:
    """p-value of: all estimates lie in their regions. Below 5 % exactly where all 95 % intervals do."""
    return max((_inside(part) for part in check.parts), default=1.0)


def outside(check: Check) -> float:
    """p-value of: some estimate lies outside its region (Bonferroni over the parts)."""
    return min(1.0, len(check.parts) * min((_outside(part) for part in check.parts), default=1.0))


def sign(check: Check) -> float:
    """p-value of: the effect has the claimed sign."""
    return max((_inside(part) for part in check.direction), default=1.0)


def _inside(part: Part) -> float:
    ends = [(part.region.low, 1), (part.region.high, -1)]
    return min(1.0, 2 * max((_beyond(part, end, way) for end, way in ends if math.isfinite(end)), default=0.0))


def _outside(part: Part) -> float:
    ends = [(part.region.low, -1), (part.region.high, 1)]
    return min(1.0, 2 * min((_beyond(part, end, way, True) for end, way in ends if math.isfinite(end)), default=1.0))


def _beyond(part: Part, end: float, way: int, leaves: bool = False) -> float:
    """Gives the one-sided p-value of: the estimate lies beyond `end` in direction `way`."""
    error, distance = part.sample.error, (part.sample.mean - end) * way
    if error is None:
        return 1.0
    if error == 0:
        at_the_end = part.region.strict == leaves
        return 0.0 if distance > 0 or (distance == 0 and at_the_end) else 1.0
    t = distance / error
    tail = (1 - within(abs(t), part.sample.runs - 1)) / 2
    return tail if t >= 0 else 1 - tail


def holm(values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: the p-values of several tests, each as if it were the only one.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(values)), key=values.__getitem__)
    adjusted, least = [0.0] * len(values), 0.0
    for rank, at in enumerate(order):
        least = max(least, min(1.0, values[at] * (len(values) - rank)))
        adjusted[at] = least
    return adjusted


def judge(checks: Sequence[Check], settings: Sequence[Settings | None], power: str = EXCLUDED) -> list[Verdict]:
    """The verdicts of a figure's checks, corrected for their number. `power` is one of `POWER`."""
    decided = [n for n, check in enumerate(checks) if check.obstacle is None and check.exact is None]
    adjusted = {}
    for name, of in (("inside", inside), ("outside", outside), ("sign", sign)):
        adjusted[name] = dict(zip(decided, holm([of(checks[n]) for n in decided]), strict=True))
    return [
        _judge(check, settings[n], {name: values[n] for name, values in adjusted.items() if n in values}, power)
        for n, check in enumerate(checks)
    ]


def _judge(check: Check, settings: Settings | None, p: dict[str, float], power: str) -> Verdict:
    if check.obstacle is not None:
        return Verdict(OPEN, check.obstacle)
    if check.exact is not None:
        return Verdict(HOLDS, "as printed") if check.exact else Verdict(NOT, "it differs from what is printed")
    if not check.parts:
        return Verdict(OPEN, "there are no rows for it")
    part = min(check.parts, key=lambda part: _margin(part))
    if any(part.sample.error is None for part in check.parts):
        return Verdict(OPEN, "one run is no evidence", part, p)
    excluded = p["outside"] < SIGNIFICANT
    wide = [part for part in check.parts if check.runs and _is_wide(part, check.runs)]
    if wide and (power == ALWAYS or not excluded):
        beside = "; ours excludes the claim all the same" if excluded else ""
        reason = f"the paper's {check.runs} runs give an interval wider than the claim{beside}"
        return Verdict(OPEN, reason, wide[0], p)
    share = settings.share if settings else None
    directed = settings.directed_share if settings else None
    if p["inside"] < SIGNIFICANT and (share is None or share >= MOST_SETTINGS):
        return Verdict(HOLDS, "the interval lies inside the claim" + _of_settings(share), part, p)
    if check.direction and p["sign"] < SIGNIFICANT and (directed is None or directed >= MOST_SETTINGS):
        return Verdict(DIRECTION, "the sign is as claimed, the size is not" + _of_settings(share), part, p)
    if excluded and (share is None or share < FEW_SETTINGS):
        return Verdict(NOT, "the interval excludes the claim" + _of_settings(share), part, p)
    if p["inside"] < SIGNIFICANT or excluded:
        return Verdict(OPEN, f"it depends on values that the paper leaves open{_of_settings(share)}", part, p)
    return Verdict(OPEN, "the interval neither lies inside the claim nor excludes it", part, p)


def _of_settings(share: float | None) -> str:
    return "" if share is None else f"; it holds in {whole_percent(share)} of the settings"


def _margin(part: Part) -> float:
    """Distance of the estimate from the nearer end of its region, in standard errors; negative outside."""
    distance = min(part.sample.mean - part.region.low, part.region.high - part.sample.mean)
    return distance / part.sample.error if part.sample.error else distance * math.inf if distance else 0.0


def _is_wide(part: Part, runs: int) -> bool:
    """Tells if so many runs as noisy as ours could not tell the claim's region from its surroundings."""
    if runs < 2 or part.sample.error is None or not math.isfinite(part.region.width):
        return False
    deviation = part.sample.error * math.sqrt(part.sample.runs)
    return 2 * t_quantile(runs - 1) * deviation / math.sqrt(runs) > part.region.width


OPERATIONS: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def computed(expression: str) -> float:
    """The value of numbers with `+ - * /` and parentheses.

    >>> round(computed("(2.90 / 2.17 - 1) * 100"), 1)
    33.6
    """

    def value(node: ast.AST) -> float:
        match node:
            case ast.Expression(body=body):
                return value(body)
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                return float(number)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -value(operand)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATIONS:
                return OPERATIONS[type(op)](value(left), value(right))
        raise ValueError

    try:
        return value(ast.parse(expression.strip(), mode="eval"))
    except (ValueError, SyntaxError, ZeroDivisionError):
        raise ValueError(f"`{expression}` is not a computation of numbers with + - * / and parentheses") from None


def contradicts(printed: float, expression: str) -> bool:
    """Tells if the paper's other numbers give another value than the printed one."""
    return abs(computed(expression) - printed) > CONTRADICTION * abs(printed)
