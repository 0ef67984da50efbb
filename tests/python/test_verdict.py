"""The rules of verdicts on rows that are made up: sure, borderline, contradictory and too few."""

import math
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from weftway.reproduce import verdict
from weftway.reproduce.checks import Rows, Undecidable, of_claim, of_number
from weftway.reproduce.verdict import DIRECTION, HOLDS, NOT, OPEN, Check, Part, Region, Sample, Settings, Verdict
from weftway.stats.estimates import t_quantile


def rows(of: dict[str, Callable[[int], float]], seeds: int = 10, **columns: Any) -> Rows:
    """A metric of each scheduler by seed."""
    made = [
        {"scheduler": name, "cc": "lia", "seed": seed, "goodput_mbps": value(seed), "verdict": "finished", **columns}
        for name, value in of.items()
        for seed in range(seeds)
    ]
    return Rows(made, [])


def noise(name: str, mean: float, deviation: float) -> Callable[[int], float]:
    return lambda seed: Random(f"{name}:{seed}").gauss(mean, deviation)


def judged(check: Check, settings: Settings | None = None) -> Verdict:
    return verdict.judge([check], [settings])[0]


def ratio(value: float, **more: Any) -> dict[str, Any]:
    return {"kind": "ratio", "metric": "goodput_mbps", "of": "new", "over": "old", "value": value, **more}


MORE = {"kind": "rank", "metric": "goodput_mbps", "better": ["new"], "worse": ["old"]}


def test_a_planted_gain_is_found_and_a_smaller_one_is_not_taken_for_it() -> None:
    load = noise("load", 10, 2)  # what both schedulers meet with equal seeds
    five = rows({"old": load, "new": lambda seed: 1.05 * load(seed) + noise("own", 0, 0.02)(seed)})
    assert judged(of_claim(ratio(1.05), five, {})).verdict == HOLDS
    assert judged(of_claim(MORE, five, {})).verdict == HOLDS
    # The sign is that of the printed +33.6 %, the size is not.
    assert judged(of_claim(ratio(1.336), five, {})).verdict == DIRECTION
    # The opposite of what is seen.
    assert judged(of_claim(ratio(0.9), five, {})).verdict == NOT
    assert judged(of_claim({**MORE, "better": ["old"], "worse": ["new"]}, five, {})).verdict == NOT


@pytest.mark.parametrize("claim", [MORE, {**MORE, "better": ["old"], "worse": ["new"]}, ratio(1.05), ratio(0.95)])
def test_a_renamed_copy_never_wins(claim: dict[str, Any]) -> None:
    same = noise("same", 10, 3)
    assert judged(of_claim(claim, rows({"old": same, "new": same}), {})).verdict == NOT


def test_what_lies_across_the_edge_of_a_claim_is_open() -> None:
    # ±0.5 around 11, the upper edge of 10 ± 10 %.
    edge = rows({"new": noise("edge", 11, 0.5)})
    level = {"metric": "goodput_mbps", "scheduler": "new", "value": 10.0, "unit": "Mbit/s"}
    judgement = judged(of_number(level, edge, {}))
    assert judgement.verdict == OPEN and "neither" in judgement.reason
    assert judged(of_number({**level, "value": 11.0}, edge, {})).verdict == HOLDS
    assert judged(of_number({**level, "value": 20.0}, edge, {})).verdict == NOT


def test_too_noisy_for_the_papers_own_number_of_runs_is_open() -> None:
    noisy = rows({"old": noise("a", 10, 2), "new": noise("b", 11, 2)}, seeds=200)
    claim = ratio(1.1)
    assert judged(of_claim(claim, noisy, {"runs": 3})).verdict == OPEN
    assert "3 runs" in judged(of_claim(claim, noisy, {"runs": 3})).reason
    assert judged(of_claim(claim, noisy, {})).verdict in (HOLDS, DIRECTION)


def test_power_withholds_nothing_that_our_interval_excludes_unless_asked() -> None:
    noisy = rows({"old": noise("a", 10, 2), "new": noise("b", 5, 2)}, seeds=200)
    claim = ratio(1.1)  # three runs as noisy as these could not tell +10 % from none, but ours is half
    check = of_claim(claim, noisy, {"runs": 3})
    assert verdict.judge([check], [None])[0].verdict == NOT
    judgement = verdict.judge([check], [None], verdict.ALWAYS)[0]
    assert judgement.verdict == OPEN and "3 runs" in judgement.reason
    # Within its own interval the claim stays open, by either reading.
    near = of_claim(claim, rows({"old": noise("a", 10, 2), "new": noise("b", 11, 2)}, seeds=200), {"runs": 3})
    assert {verdict.judge([near], [None], power)[0].verdict for power in verdict.POWER} == {OPEN}


def test_one_run_is_no_evidence() -> None:
    single = rows({"old": noise("a", 10, 1), "new": noise("b", 20, 1)}, seeds=1)
    assert judged(of_claim(MORE, single, {})).verdict == OPEN


def test_a_paper_that_contradicts_itself_is_not_judged() -> None:
    sure = rows({"old": noise("a", 10, 0.1), "new": noise("b", 12.5, 0.1)})
    number = {"metric": "goodput_mbps", "scheduler": "new", "over": "old", "value": 25, "unit": "%"}
    assert judged(of_number(number, sure, {})).verdict == HOLDS
    table = {"expression": "(2.90 / 2.17 - 1) * 100", "place": "Table 1"}
    judgement = judged(of_number({**number, "identity": table}, sure, {}))
    assert judgement.verdict == OPEN and "Table 1 gives 33.6" in judgement.reason
    assert judged(of_number({**number, "identity": {"expression": "24.9", "place": "x"}}, sure, {})).verdict == HOLDS


def test_a_printed_reduction_is_a_smaller_ratio() -> None:
    less = rows({"old": noise("a", 10, 0.1), "new": noise("b", 6.2, 0.1)})
    number = {"metric": "goodput_mbps", "scheduler": "new", "over": "old", "value": 38, "unit": "%", "reduction": True}
    assert judged(of_number(number, less, {})).verdict == HOLDS
    assert judged(of_number({**number, "reduction": False}, less, {})).verdict == NOT


def test_rows_that_a_fallback_decided_give_no_verdict() -> None:
    values = {"old": noise("a", 10, 0.1), "new": noise("b", 20, 0.1)}
    for decided, expected in ((6, OPEN), (5, HOLDS)):
        judgement = judged(of_claim(MORE, rows(values, fallback_decided=decided, decisions=100), {}))
        assert judgement.verdict == expected, judgement.reason


def test_runs_without_the_metric_or_the_scheduler_give_no_verdict() -> None:
    values = rows({"old": noise("a", 10, 0.1), "new:form=a": noise("b", 20, 0.1), "new:form=b": noise("c", 20, 0.1)})
    assert "several forms" in judged(of_claim(MORE, values, {})).reason
    assert judged(of_claim({**MORE, "better": ["new:form=a"]}, values, {})).verdict == HOLDS
    assert "was not run" in judged(of_claim({**MORE, "better": ["other"]}, values, {})).reason
    missing = {**MORE, "better": ["old"], "metric": "jitter_ms"}
    assert "no jitter_ms" in judged(of_claim(missing, values, {})).reason
    unfinished = Rows([{"scheduler": "old", "cc": "lia", "seed": 0, "fct_ms": None, "verdict": "time limit"}], [])
    assert "did not finish" in judged(of_claim({**MORE, "metric": "fct_ms", "better": ["old"]}, unfinished, {})).reason
    assert judged(of_claim(MORE, values, {"cannot_run": "gone"})).reason == "gone"


def settings(met: int, of: int, directed: int = 0) -> Settings:
    return Settings(
        [n < met for n in range(of)], [n < directed for n in range(of)], [float(n) for n in range(of)], [{}] * of
    )


def test_the_share_of_settings_decides_with_the_interval() -> None:
    load = noise("load", 10, 2)
    five = rows({"old": load, "new": lambda seed: 1.05 * load(seed) + noise("own", 0, 0.02)(seed)})
    claim = of_claim(ratio(1.05), five, {})
    assert judged(claim, settings(8, 10, 10)).verdict == HOLDS
    assert judged(claim, settings(7, 10, 8)).verdict == DIRECTION
    judgement = judged(claim, settings(7, 10, 7))
    assert judgement.verdict == OPEN and "70 %" in judgement.reason
    opposite = of_claim({**MORE, "better": ["old"], "worse": ["new"]}, five, {})
    assert judged(opposite, settings(1, 10)).verdict == NOT
    assert judged(opposite, settings(2, 10)).verdict == OPEN


def test_the_key_that_explains_most_is_named() -> None:
    choices = [{"queue": str(n % 2), "cc": str(n // 4)} for n in range(8)]
    explained = Settings(
        [True] * 8, [True] * 8, [10.0 * (n % 2) + 0.1 * (n // 4) for n in range(8)], choices
    ).explains()
    assert explained is not None and explained[0] == "queue" and explained[1] == pytest.approx(1, abs=1e-3)


def test_holm_counts_the_checks_of_a_figure() -> None:
    # Worked by hand: the sorted p-values times 4, 3, 2, 1, none below the one before.
    assert verdict.holm([0.04, 0.01, 0.03, 0.005]) == pytest.approx([0.06, 0.03, 0.06, 0.02])
    part = Part("", Sample(1.0, 0.1, 10), Region(1 - 0.1 * 2.5, math.inf))  # t = 2.5 with 9 degrees: p = 0.034
    check = Check([part])
    assert verdict.judge([check], [None])[0].verdict == HOLDS
    assert [judgement.verdict for judgement in verdict.judge([check, check], [None, None])] == [OPEN, OPEN]


def test_an_interval_inside_the_region_is_a_p_value_below_five_percent() -> None:
    half = t_quantile(9)
    for off, below in ((1.01, True), (0.99, False)):
        part = Part("", Sample(0.0, 1.0, 10), Region(-half * off, half * off))
        assert (verdict.inside(Check([part])) < 0.05) is below


def test_all_parts_must_be_met_and_one_that_is_not_refutes() -> None:
    three = rows({"a": noise("a", 10, 0.1), "b": noise("b", 9, 0.1), "c": noise("c", 9.5, 0.1)})
    order = {"kind": "order", "metric": "goodput_mbps"}
    assert judged(of_claim({**order, "order": ["a", "c", "b"]}, three, {})).verdict == HOLDS
    assert judged(of_claim({**order, "order": ["a", "b", "c"]}, three, {})).verdict == NOT
    near = {"kind": "near", "metric": "goodput_mbps"}
    assert judged(of_claim({**near, "tolerance": "15 %"}, three, {})).verdict == HOLDS
    assert judged(of_claim({**near, "tolerance": "5 %"}, three, {})).verdict == NOT
    bound = {"kind": "bound", "metric": "goodput_mbps"}
    assert judged(of_claim({**bound, "min": 8.0, "max": 11.0}, three, {})).verdict == HOLDS
    assert judged(of_claim({**bound, "max": 9.8}, three, {})).verdict == NOT
    # The mean of a group against each of a group.
    groups = {**MORE, "better": ["a", "b"], "worse": ["c"]}
    assert judged(of_claim({**groups, "all_pairs": True}, three, {})).verdict == NOT


def test_settings_of_a_file_are_means_or_each() -> None:
    made = [
        {
            "scheduler": name,
            "cc": "lia",
            "seed": seed,
            "loss": loss,
            "goodput_mbps": mean + noise(name + loss, 0, 0.01)(seed),
        }
        for name, means in {"new": (5, 2), "old": (3, 3)}.items()
        for loss, mean in zip(("0 %", "1 %"), means, strict=True)
        for seed in range(5)
    ]
    both = Rows(made, ["loss"])
    assert judged(of_claim(MORE, both, {})).verdict == HOLDS, "3.5 over 3 on the mean"
    assert judged(of_claim({**MORE, "at": "each"}, both, {})).verdict == NOT
    assert judged(of_claim({**MORE, "at": {"loss": "0 %"}}, both, {})).verdict == HOLDS
    falls = {"kind": "monotone", "metric": "goodput_mbps", "along": "loss", "goes": "falls", "of": ["new"]}
    assert judged(of_claim(falls, both, {})).verdict == HOLDS
    assert judged(of_claim({**falls, "goes": "rises"}, both, {})).verdict == NOT
    assert judged(of_claim({**falls, "goes": "rises", "tolerance": "70 %"}, both, {})).verdict == HOLDS


def test_units_of_paper_and_column_must_agree() -> None:
    ten = rows({"new": noise("a", 10, 0.1)})
    wrong = {"metric": "goodput_mbps", "scheduler": "new", "value": 10.0, "unit": "kB/s"}
    assert "no unit kB/s" in judged(of_number(wrong, ten, {})).reason
    with pytest.raises(Undecidable):
        Rows([], []).values("goodput_mbps", "new", ten.scopes("mean", None)[0])


@pytest.mark.parametrize("text", ["__import__('os')", "2 ** 9", "a + 1", "1 / 0", "(1", "True"])
def test_only_arithmetic_is_computed(text: str) -> None:
    with pytest.raises(ValueError, match="not a computation"):
        verdict.computed(text)
