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
