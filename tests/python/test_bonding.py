"""Sentences about bonding: the gain over the best link always, the benefit only where the others add something."""

from typing import Any

import polars as pl
import pytest

from weftway import report
from weftway.report import printed
from weftway.report.study import Study
from weftway.report.words import remarks, verdict

PATHS: dict[str, Any] = {"path": {"fibre": {}, "lte": {}, "dsl": {}}}
CUBIC = "cubic"


def runs(name: str, goodputs: list[float], best: float, others: float, cc: str = CUBIC) -> list[dict[str, Any]]:
    """Runs beside a best link of `best` and others of `others` Mbit/s together."""
    return [
        {
            "scheduler": name,
            "cc": cc,
            "seed": seed,
            "fct_ms": 1e6 / goodput,
            "goodput_mbps": goodput,
            "best_single_mbps": best,
            "aggregation_benefit": round((goodput - best) / others, 6),
            "benefit_fair": round((goodput - best) / others, 6) + 0.01,
            "verdict": "finished",
        }
        for seed, goodput in enumerate(goodputs)
    ]


def told(rows: list[dict[str, Any]]) -> str:
    return verdict(Study(rows, PATHS)).replace("\u202f", " ").replace("\u00a0", " ")


@pytest.mark.parametrize(("others", "is_told"), [(5.0, False), (30.0, False), (36.0, True), (150.0, True)])
def test_a_benefit_over_next_to_nothing_is_not_told(others: float, is_told: bool) -> None:
    # 318 Mbit/s are 6 % more than 300; the others are 1.6, 9.1, 10.7 and 33 % of the whole.
    rows = runs("ecf", [318.0, 318.3, 317.7], 300.0, others)
    assert "6.0 % faster than the best link alone" in told(rows)
    (table,) = printed.of(Study(rows, PATHS))
    heads = [str(column.header).split("\n")[0] for column in table.columns]
    shown = [str(text) for text in table.column(heads.index("benefit"))]
    assert any(any(digit.isdigit() for digit in text) for text in shown) is is_told
    assert ("no benefit is told" in str(table.caption)) is not is_told
    page = report.render(pl.DataFrame(rows), {}, PATHS)
    assert ("others add little" in page) is not is_told


def test_the_gain_is_said_as_far_as_the_seeds_are_sure_of_it() -> None:
    # Within 0.1 % of 300 Mbit/s, to both sides: no percentage, and no benefit.
    level = told(runs("ecf", [299.9, 300.2, 300.0], 300.0, 150.0))
    assert "about as fast as the best link alone" in level
    # Within 7 % of it: what the noise hides is not called equal.
    unsure = told(runs("ecf", [280.0, 320.0, 303.0], 300.0, 150.0))
    assert "not told apart from the best link alone" in unsure
    less = told(runs("ecf", [150.0, 151.0, 149.0], 300.0, 150.0))
    assert "yet 2.0 times as slow as the best link alone" in less
    assert "yet 11 % slower than the best link alone" in told(runs("ecf", [270.0, 270.5, 269.5], 300.0, 150.0))
    assert "2.0 times as fast as the best link alone" in told(runs("ecf", [600.0, 601.0, 599.0], 300.0, 150.0))
    assert "in one run, 6.0 % faster than the best link alone" in told(runs("ecf", [318.0], 300.0, 5.0))


def test_a_line_that_the_best_link_beats_is_marked_whatever_the_others_add() -> None:
    study = Study(runs("ecf", [150.0, 151.0, 149.0], 300.0, 1.0), PATHS)
    (cell,) = study.cells()
    assert remarks(study, cell) == ["worse than the best link alone"]


def test_each_controller_has_its_own_links() -> None:
    rows = runs("ecf", [318.0, 318.3], 300.0, 5.0) + runs("ecf", [318.0, 318.3], 300.0, 150.0, "bbr1")
    little, much = printed.of(Study(rows, PATHS))
    assert "no benefit is told" in str(little.caption)
    assert "no benefit is told" not in str(much.caption)
