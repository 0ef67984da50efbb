"""Bounds of what is possible: columns that are there when asked for, and no others."""

import json
from pathlib import Path

import polars as pl

from conftest import SMALL, Weft
from weftway.report import printed
from weftway.report.study import Study


def test_rows_have_their_bound_when_asked_for(weft: Weft, tmp_path: Path) -> None:
    """No run is better. Schedulers and controllers of a scenario and a seed have the same bound. Rows keep it."""
    (tmp_path / "small.toml").write_text(SMALL)
    asked = ("compare", "small.toml", "--scheduler", "min-rtt,edpf", "--cc", "cubic,newreno", "--seeds", "0..2")
    done = weft(*asked, "--bound", "--out", "out", "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    (table, *_) = printed.of(Study(rows, {}))
    heads = [column.head for column in table.columns]
    cells = [str(cell) for cell in table.column(heads.index("of the"))]
    assert cells and all(float(cell.split("\u00a0")[0]) >= 1 for cell in cells)
    assert len(rows) == 8 and all(0 < row["bound_fct_ms"] <= row["fct_ms"] for row in rows)
    assert len({(row["seed"], row["bound_fct_ms"]) for row in rows}) == 2
    assert all(row["bound_p99_ms"] is None and row["bound_bytes"] is None for row in rows), (
        "bulk data have no such figure"
    )
    kept = pl.read_parquet(tmp_path / "out/rows.parquet")
    assert kept["bound_fct_ms"].to_list() == [row["bound_fct_ms"] for row in rows]
    plain = json.loads(weft(*asked, "--json").stdout)
    assert not [name for row in plain for name in row if name.startswith("bound_")]
    assert plain == [{name: value for name, value in row.items() if not name.startswith("bound_")} for row in rows]


def test_datagrams_have_the_least_share_that_is_late_or_lost(weft: Weft, tmp_path: Path) -> None:
    """3 Mbit/s over 1.5 Mbit/s: half of them, and somewhat more. Where nothing need be missed, a thousandth counts."""
    load = '[workload]\nkind = "datagrams"\nsize = "1000 B"\nrate = "3 Mbit/s"\ndeadline = "200 ms"\nduration = "2 s"\n'
    links = SMALL[: SMALL.index("[workload]")].replace('"mptcp"', '"mpquic"').replace('"5 Mbit/s"', '"0.5 Mbit/s"')
    (tmp_path / "small.toml").write_text(links + load)
    asked = ("compare", "small.toml", "--scheduler", "redundant,deadline", "--bound", "--json")
    for rate, low, high in (("1 Mbit/s", 0.45, 0.6), ("20 Mbit/s", 0.0, 0.0)):
        done = weft(*asked, "--set", f"path.wifi.rate={rate}")
        assert done.returncode == 0, done.stderr
        rows = json.loads(done.stdout)
        assert all(low <= row["bound_miss_rate"] <= high for row in rows)
        assert all(row["bound_miss_rate"] <= row["deadline_miss_rate"] for row in rows)
        study = Study(rows, {})
        least = {row["scheduler"]: max(row["bound_miss_rate"], 0.001) for row in rows}
        for cell in study.cells():
            times, mean = study.of_bound(cell), study.estimate(cell, "deadline_miss_rate")
            assert times and mean
            if rate == "20 Mbit/s":
                assert times.mean >= 1 and times.mean >= mean.mean / least[cell.scheduler]
