"""Rows that commands keep in the folder of `--out`, and their words about it."""

import json
from pathlib import Path

import polars as pl
import pytest

import weftway
from conftest import Weft
from weftway import _native
from weftway.runs import columns
from weftway.runs.backends import SIM
from weftway.runs.store import SELECTED

HEAD = """\
transport = "mpquic"
seeds = "0..2"
scheduler = "min-rtt"
time_limit = "3 s"
[path.a]
rate = "10 Mbit/s"
[path.b]
rate = "5 Mbit/s"
[workload]
"""

WORKLOADS = {
    "duration": 'kind = "duration"\nduration = "1 s"\n',
    "bulk": 'kind = "bulk"\nbytes = "50 kB"\n',
    "voip": 'kind = "voip"\nsize = "172 B"\nperiod = "20 ms"\ndeadline = "150 ms"\nduration = "1 s"\n',
    "call": 'kind = "call"\nrate = "1 Mbit/s"\nperiod = "40 ms"\ndeadline = "200 ms"\nduration = "1 s"\n',
}


@pytest.fixture
def bulk(tmp_path: Path) -> str:
    (tmp_path / "bulk.toml").write_text(HEAD + WORKLOADS["bulk"])
    return "bulk.toml"


def table(folder: Path) -> pl.DataFrame:
    return pl.read_parquet(folder / "rows.parquet")


def test_another_selection_takes_no_row_away(weft_here: Weft, bulk: str, tmp_path: Path) -> None:
    selections = [
        ["--seeds", "0..2"],
        ["--seeds", "2..4"],
        ["--scheduler", "ecf", "--seeds", "0..1"],
        ["--cc", "newreno", "--seeds", "0..1"],
        ["--backend", "quic", "--seeds", "0..1"],
        ["--set", "path.a.loss=2%", "--seeds", "0..1"],
    ]
    keys: set[str] = set()
    for options in selections:
        done = weft_here("compare", bulk, *options, "--out", "out", "--json")
        assert done.returncode == 0, done.stderr
        asked = {row["key"] for row in json.loads(done.stdout)}
        assert asked.isdisjoint(keys)
        keys |= asked
        rows = table(tmp_path / "out")
        assert set(rows["key"]) == keys
        assert set(rows.filter(SELECTED)["key"]) == asked
    run = weft_here("compare", bulk, "--out", "out")
    sentence = f"2 rows are shown, as asked for; the folder holds {len(keys) - 2} more."
    assert run.stdout.strip().endswith(sentence)
    assert sentence in (tmp_path / "out/report.html").read_text()


def test_rows_of_older_code_stay_are_marked_and_are_not_shown(
    weft_here: Weft, bulk: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(type(SIM), "code", lambda self: "0.0.1+older")
        weft_here("compare", bulk, "--out", "out")
    run = weft_here("compare", bulk, "--out", "out")
    assert (
        "2 rows are shown, as asked for; the folder holds 2 more, 2 of them by other versions of the code."
        in run.stdout
    )
    rows = table(tmp_path / "out")
    assert rows.filter(~pl.col(SELECTED))["code"].unique().to_list() == ["0.0.1+older"]
    assert rows.filter(SELECTED)["code"].unique().to_list() == [_native.CODE]


def test_recalled_rows_are_as_fresh_ones_whatever_else_the_folder_holds(
    weft_here: Weft, bulk: str, tmp_path: Path
) -> None:
    (tmp_path / "voip.toml").write_text((HEAD + WORKLOADS["voip"]).replace("path.a", "path.other"))
    fresh = weft_here("compare", bulk, "--json").stdout
    for file in (bulk, "voip.toml", bulk):
        again = weft_here("compare", file, "--out", "out", "--json").stdout
    assert again == fresh


def test_python_gets_the_rows_that_it_asked_for(bulk: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    weftway.compare(tmp_path / bulk, seeds="0..2", out=out)
    later = weftway.compare(tmp_path / bulk, seeds="2..3", out=out)
    assert later["seed"].to_list() == [2]
    assert table(out).height == 3


def test_an_earlier_folder_is_compared_by_the_rows_of_the_same_scenario(
    weft_here: Weft, bulk: str, tmp_path: Path
) -> None:
    for options in (["--set", "path.a.loss=5%"], ["--seeds", "0..1"], ["--seeds", "1..2"]):
        weft_here("compare", bulk, *options, "--out", "before")
    done = weft_here("compare", bulk, "--against", "before")
    assert done.stdout.strip().endswith("Against before, 1 cell paired by seed: 1 unchanged.")


def test_a_ranking_and_a_comparison_share_a_folder(weft_here: Weft, bulk: str, tmp_path: Path) -> None:
    rank = ["rank", "--on", bulk, "--schedulers", "min-rtt,ecf", "--seeds", "0..2", "--out", "out"]
    assert weft_here(*rank).returncode == 0
    ranked = set(table(tmp_path / "out")["key"])
    fresh = json.loads(weft_here("compare", bulk, "--json").stdout)
    kept = json.loads(weft_here("compare", bulk, "--out", "out", "--json").stdout)
    assert kept == fresh
    assert set(table(tmp_path / "out")["key"]) == ranked | {row["key"] for row in fresh}
    again = weft_here(*rank)
    assert again.returncode == 0, again.stderr


def test_rows_of_all_workloads_are_read_together(weft_here: Weft, tmp_path: Path) -> None:
    for name, workload in WORKLOADS.items():
        (tmp_path / f"{name}.toml").write_text(HEAD + workload)
        done = weft_here("compare", f"{name}.toml", "--out", f"out/{name}")
        assert done.returncode == 0, done.stderr
    rows = pl.read_parquet(tmp_path / "out/*/rows.parquet")
    assert rows.height == 2 * len(WORKLOADS)
    assert pl.Null not in rows.schema.values()
    assert rows.schema["fct_ms"] == pl.Float64
    assert rows.schema["ooo_wireshark"] == pl.Int64
    assert rows.schema["scheduler_source"] == pl.String


def test_a_table_of_an_earlier_version_is_read(weft_here: Weft, tmp_path: Path) -> None:
    (tmp_path / "duration.toml").write_text(HEAD + WORKLOADS["duration"])
    first = json.loads(weft_here("compare", "duration.toml", "--out", "out", "--json").stdout)
    # Columns without a value had no type, and none said what was asked for.
    old = pl.DataFrame([{**row, "goodput_mbps": 1.25} for row in first], infer_schema_length=None)
    assert pl.Null in old.schema.values()
    old.write_parquet(tmp_path / "out/rows.parquet")
    second = json.loads(weft_here("compare", "duration.toml", "--seeds", "0..3", "--out", "out", "--json").stdout)
    assert [row["goodput_mbps"] == 1.25 for row in second] == [True, True, False]
    assert pl.Null not in table(tmp_path / "out").schema.values()


def test_a_column_has_its_type_whatever_its_values() -> None:
    rows = [{"fct_ms": None, "path.x.lost": None, "path.x.loss": "1 %", "note": None}]
    assert columns.table(rows).schema == {
        "fct_ms": pl.Float64,
        "path.x.lost": pl.Int64,
        "path.x.loss": pl.String,
        "note": pl.String,
    }
