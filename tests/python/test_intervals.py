"""An interval is called what it is: of a few runs it is their range, and of medians it has a coverage of its own."""

import math
from itertools import combinations
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weftway import advise, report
from weftway.advise import candidates, choice, neighbours, words
from weftway.links import steer
from weftway.report import printed
from weftway.report.frames import estimates
from weftway.report.study import Study
from weftway.stats import estimates as stats
from weftway.stats.units import MEASURES


def runs(backend: str, count: int) -> list[dict[str, Any]]:
    return [
        {
            "scheduler": name,
            "cc": "cubic",
            "backend": backend,
            "seed": seed,
            "fct_ms": 1000.0 + 10 * seed**2 + at,
            "goodput_mbps": 100.0 - seed,
            "verdict": "finished",
        }
        for at, name in enumerate(("min-rtt", "ecf"))
        for seed in range(count)
    ]


def test_what_is_zero_throughout_has_no_ratio() -> None:
    """It is 100 % less than anything, and the spread of the other side says nothing of that."""
    zero: dict[object, float] = dict.fromkeys(range(3), 0.0)
    seldom: dict[object, float] = {**zero, 2: 1.0}
    assert stats.ratio(zero, seldom) is None and stats.ratio(seldom, zero) is None
    same = stats.ratio(zero, zero)
    assert same is not None and (same.mean, same.half) == (0, 0)


@pytest.mark.parametrize("n", range(2, 13))
def test_the_coverage_of_a_median_is_counted(n: int) -> None:
    """Each of n values lies below what they are drawn from's median or above it, all 2ⁿ ways equally often."""
    k, coverage = stats.order(n)
    below = [sum(way) for way in ([int(at in some) for at in range(n)] for some in _subsets(n))]
    # Between the k-th least and the k-th largest: more than k below, and more than k above.
    held = sum(k < count < n - k for count in below)
    assert coverage == pytest.approx(held / 2**n)


def _subsets(n: int) -> list[tuple[int, ...]]:
    return [some for size in range(n + 1) for some in combinations(range(n), size)]


@given(st.lists(st.integers(-50, 50), min_size=2, max_size=12))
def test_the_interval_of_a_median_ends_at_values(values: list[int]) -> None:
    estimate = stats.middle(map(float, values))
    assert estimate is not None and estimate.half is not None
    assert {estimate.low, estimate.high} <= set(map(float, values))
    assert estimate.low <= estimate.mean <= estimate.high
    assert estimate.half == pytest.approx((estimate.high - estimate.low) / 2)
    if len(values) < stats.FEWEST:
        assert (estimate.low, estimate.high) == (min(values), max(values))


@pytest.mark.parametrize(("backend", "count", "sentence"), [
    ("kernel", 2, "median ± half the range of 2 runs each"),
    ("kernel", 3, "median ± half the range of 3 runs each"),
    ("live", 4, "median ± half the range of 4 runs each"),
    ("kernel", 5, "median ± 93 % interval of 5 runs each"),
    ("kernel", 6, "median ± 96 % interval of 6 runs each"),
    ("live", 8, "median ± 99 % interval of 8 runs each"),
    ("sim", 3, "mean ± 95 % interval of 3 runs each"),
])  # fmt: skip
def test_a_table_and_its_page_say_what_the_interval_is(backend: str, count: int, sentence: str) -> None:
    rows = runs(backend, count)
    (table,) = printed.of(Study(rows, {}))
    assert str(table.title).endswith(sentence)
    page = report.render(pl.DataFrame(rows), {}, {})
    name = sentence.partition(" ± ")[2].partition(" of ")[0]
    assert name in page
    if count < stats.FEWEST and backend != "sim":
        assert "93 %" not in page


def test_the_data_have_the_ends_and_the_coverage() -> None:
    kernel = estimates(Study(runs("kernel", 3), {}), [MEASURES["fct_ms"]]).row(0, named=True)
    assert kernel["mean"] is None
    assert (kernel["median"], kernel["low"], kernel["high"], kernel["coverage"]) == (1010.0, 1000.0, 1040.0, 0.75)
    sim = estimates(Study(runs("sim", 3), {}), [MEASURES["fct_ms"]]).row(0, named=True)
    assert (sim["median"], sim["coverage"]) == (None, 0.95)
    assert sim["mean"] == pytest.approx(1000 + 50 / 3)
    assert sim["high"] - sim["mean"] == pytest.approx(stats.t_quantile(2) * math.sqrt(1300 / 3 / 3))


def test_a_few_values_are_not_resampled() -> None:
    assert stats.bootstrap([1.0, 9.0, 2.0], "a") == (1.0, 9.0)
    assert stats.interval_of(3, "cells") == "range of 3 cells"
    assert stats.interval_of(5, "cells") == "95 % interval"


def test_ratios_of_steered_runs_have_the_interval_of_their_median() -> None:
    estimate = steer.ratio({0: 1.0, 1: 3.0, 2: 2.0}, {0: 1.0, 1: 1.0, 2: 1.0})
    assert estimate == (2.0, (1.0, 3.0))


@pytest.mark.parametrize(
    ("count", "sentence"), [(2, "(range of 2 cells: 10 to 40 %)"), (13, "(95 % interval: 10 to 40 %)")]
)
def test_advice_over_a_few_cells_gives_a_range(count: int, sentence: str) -> None:
    cells = [neighbours.Cell(number) for number in range(count)]
    trials = [
        choice.CandidateRuns(
            candidates.Candidate(name, "min-rtt", "cubic", ()), {(n, s): cost for n in range(count) for s in (0, 1)}
        )
        for name, cost in (("as it comes", 100.0), ("better", 75.0))
    ]
    scenario: Any = None  # what is gained is said without it
    advice = advise.Advice(
        advise.Request("wifi-lte"),
        scenario,
        "fct_ms",
        cells,
        False,
        [0, 1],
        trials[0],
        trials[1],
        trials,
        0.25,
        stats.Interval(0.1, 0.4),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(words, "_set", lambda advice: "")
        patch.setattr(words, "_pair", lambda advice: "")
        patch.setattr(words, "evidence", lambda advice: "")
        assert any(sentence in line for line in words.lines(advice))
