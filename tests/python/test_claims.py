"""Sentences of `rank`, `board`, `advise`, `fidelity` and `reproduce` say no more than the numbers that they are made
of, whatever these are. (`compare`: test_headline.py.)"""

import math
import re
from pathlib import Path
from statistics import fmean, median
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from weftway.advise import words
from weftway.board import edition, judgement, result
from weftway.board import page as page_of_board
from weftway.fidelity import errors, page
from weftway.rank import ranking, standing
from weftway.reproduce import verdict
from weftway.stats.estimates import bootstrap

RATIOS = st.lists(st.floats(0.25, 4.0), min_size=2, max_size=50) | st.lists(
    st.floats(0.97, 1.03), min_size=2, max_size=50
)


def plain(text: str) -> str:
    return text.replace("\u00a0", " ").replace("\u202f", " ")


@given(RATIOS)
@settings(max_examples=200)
@example([1.0, 1.0, 1.0008, 1.0008, 1.0008])
@example([0.99999] * 5)
def test_rank_calls_nothing_faster_or_slower_that_the_cells_do_not(ratios: list[float]) -> None:
    says_no_more_than(ratios, ranking.against_best(standing.SinglePath(len(ratios), *standing.geometric(ratios), 0.0)))


@given(RATIOS)
@settings(max_examples=100)
@example([1.2, 1.2, 1.2, 0.9, 0.9, 0.9])
def test_the_board_calls_no_entry_faster_or_slower_than_one_path_that_its_cells_do_not(ratios: list[float]) -> None:
    cells = [standing.JudgedCell(str(at), {}, {"a": 1.0}, {"a": ratio}) for at, ratio in enumerate(ratios)]
    shown = judgement.Judged(cells, [], standing.standings(cells), None)
    figures = {"of_one_path": standing.geometric(ratios), "worse_than_one_path": 0.5, "worst": ["0", 1.0]}
    entry = result.Result("e", "", "a", "registry", "", None, "a", "", {}, figures={"all": figures})
    there = edition.Edition("e", "", Path(), "", [0, 1, 2, 3], 0, "held-out", [], {}, [], [])
    sentence = page_of_board.findings(there, shown, entry)[1]
    assert "one path with the same handshake" in sentence
    says_no_more_than(ratios, sentence)


def says_no_more_than(ratios: list[float], sentence: str) -> None:
    """Checks a sentence about the geometric mean of ratios against its interval."""
    logs = [math.log(ratio) for ratio in ratios]
    low, high = (math.exp(end) for end in bootstrap(logs, "bootstrap", lambda some: fmean(some), interpolate=False))
    sentence = plain(sentence)
    head = sentence.split(" (")[0]
    if len(ratios) < 5:
        assert f"on the mean of {len(ratios)} cells (range: " in sentence or low == high
    elif "level within 2 % with" in head:
        assert low >= 0.98 and high <= 1.02
    elif "not told apart" in head:
        assert low <= 1 <= high and (low < 0.98 or high > 1.02)
    elif " as fast as " in head and "times" not in head:
        assert 0.999 <= low <= high <= 1.001, "less than what the sentence's digits show"
    else:
        assert ("faster" in head) == (high < 1) and ("slow" in head) == (low > 1)


def cell(number: int, error: float, spread: float) -> errors.Difference:
    """A cell whose kernel carries 10 Mbit/s give or take, and ours so much more."""
    return errors.Difference(
        cell=number,
        scenario="",
        cc="cubic",
        paths=2,
        sim_goodput_mbps=10 * (1 + error),
        kernel_goodput_mbps=10.0,
        kernel_median_mbps=10.0,
        kernel_low_mbps=10 * (1 - spread),
        kernel_high_mbps=10 * (1 + spread),
        share_error_points=None,
        sim_retransmission_rate=None,
        kernel_retransmission_rate=None,
        window_drops=None,
        paired_error=None,
        plain_error=error,
        pairs=0,
        sim_runs=24,
        kernel_runs=7,
        late_runs=0,
        note="",
        file="",
        command="",
    )


@given(st.lists(st.tuples(st.floats(-0.8, 2.0), st.floats(0.0, 0.3)), min_size=5, max_size=60))
@settings(max_examples=200)
def test_fidelity_says_of_as_many_cells_as_there_are(drawn: list[tuple[float, float]]) -> None:
    differences = [cell(number, *values) for number, values in enumerate(drawn)]
    match = re.fullmatch(
        r"Half of the cells are within ([\d.]+) % of the kernel's goodput \(asked: [\d.]+ %, (\w+)\); 95 % lie inside "
        r"the kernel's interval or at most ([\d.]+) % outside \(asked: [\d.]+ %, (\w+)\)\.",
        plain(page.sentence(errors.targets(errors.groups(differences)))),
    )
    assert match is not None
    rounding = 0.0005 + 1e-9
    half, tail = (float(match[at]) / 100 + rounding for at in (1, 3))
    assert sum(abs(difference.error) <= half for difference in differences) >= len(differences) / 2
    assert sum(difference.beyond <= tail for difference in differences) >= 0.95 * len(differences)
    assert (match[2] == "met") == (median(abs(difference.error) for difference in differences) <= 0.04)
    assert (match[4] == "met") == (
        sum(difference.beyond <= 0.15 for difference in differences) >= 0.95 * len(differences)
    )


@given(st.floats(1.0, 100.0), st.lists(st.floats(0.5, 2.0), min_size=1, max_size=9))
@settings(max_examples=100)
def test_advise_tells_the_kernels_runs_apart_only_where_they_are(least: float, more: list[float]) -> None:
    cost = least * max(1.0, more[0])
    costs = {"a": (least, least, least * 1.2), "b": (cost, cost * 0.9, cost * 1.1)}
    records: list[dict[str, Any]] = [
        {"candidate": name, "is_advised": name == "b", "cost_ms": middle, "least_ms": low, "most_ms": high}
        | {"over_best": middle / least, "late_runs": 0, "runs": 3, "unfinished": 0}
        for name, (middle, low, high) in costs.items()
    ]
    lines = words.checked(records)
    assert ("not told apart" in lines[1]) == (cost * 0.9 <= least * 1.2)


@given(st.lists(st.floats(0.5, 1.5), min_size=1, max_size=20), st.integers(1, 25))
def test_advise_counts_the_cells_that_are_slower(ratios: list[float], seeds: int) -> None:
    from weftway.advise.neighbours import Cell

    sentence = words.slower({Cell(number): ratio for number, ratio in enumerate(ratios)}, seeds)
    assert ("means of" in sentence) == (seeds > 1)
    if worse := re.match(r"slower in (\d+) of (\d+) cells, by up to (\d+) %", sentence):
        assert int(worse[1]) == sum(ratio > 1.02 for ratio in ratios) and int(worse[2]) == len(ratios)
        assert int(worse[3]) == pytest.approx(100 * (max(ratios) - 1), abs=0.51)
    else:
        assert max(ratios) <= (1 if sentence.startswith("slower in none") else 1.02)


@given(
    st.lists(st.tuples(st.floats(0.5, 2.0), st.floats(0.5, 2.0)), min_size=2, max_size=50),
    st.floats(0.5, 1.5),
    st.floats(0.01, 1.0),
)
@settings(max_examples=100)
def test_reproduce_decides_only_what_its_interval_does(
    pairs: list[tuple[float, float]], low: float, width: float
) -> None:
    sample = verdict.ratio(*({seed: pair[at] for seed, pair in enumerate(pairs)} for at in (0, 1)))
    assert sample is not None and sample.half is not None
    region = verdict.Region(low, low + width)
    check = verdict.Check([verdict.Part("a ratio", sample, region)])
    ends = sample.mean - sample.half, sample.mean + sample.half
    if verdict.inside(check) < 0.05 - 1e-6:
        assert ends[0] >= region.low - 1e-6 and ends[1] <= region.high + 1e-6
    if verdict.outside(check) < 0.05 - 1e-6:
        assert ends[1] <= region.low + 1e-6 or ends[0] >= region.high - 1e-6
