"""Rows in, numbers out."""

import math

import polars as pl

from weftway import metrics


def test_means_intervals_and_paired_differences() -> None:
    # Worked by hand. a: 1, 2, 3, so mean 2 and s = 1; t(0.975, 2) = 4.303 (any table), half = 4.303 / sqrt 3 = 2.484.
    # b is a plus 10, 11, 12 by seed: the differences a - b are -10, -11, -12, with mean -11 and the same half.
    values = {"a": [1.0, 2.0, 3.0], "b": [11.0, 13.0, 15.0]}
    rows = [
        {"scheduler": name, "cc": "lia", "seed": seed, "backend": "sim", "fct_ms": value}
        for name, column in values.items()
        for seed, value in enumerate(column)
    ]
    table = metrics.summary(pl.DataFrame(rows), {"reference": "b"})
    line = table.row(by_predicate=pl.col("scheduler") == "a", named=True)
    half = 4.303 / math.sqrt(3)
    assert line["runs"] == 3
    assert line["mean"] == 2.0
    assert math.isclose(line["high"] - line["mean"], half, rel_tol=1e-3)
    assert line["difference_mean"] == -11.0
    assert math.isclose(line["difference_high"] - line["difference_low"], 2 * half, rel_tol=1e-3)
