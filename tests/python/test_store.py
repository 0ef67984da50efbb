"""Rows that last."""

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weftway._native import ScenarioError
from weftway.backends import Row
from weftway.store import Store, write_parquet

VALUES = st.none() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.text()


@given(rows=st.dictionaries(st.text(min_size=1), st.fixed_dictionaries({"a": VALUES, "b": VALUES})))
def test_parts_give_back_what_they_took(
    tmp_path_factory: pytest.TempPathFactory, rows: dict[str, dict[str, object]]
) -> None:
    folder = tmp_path_factory.mktemp("store")
    store = Store(folder)
    for key, row in rows.items():
        store.keep(key, row)
        store.flush()
    assert Store(folder).recall() == rows


def test_a_finished_table_replaces_the_parts_and_is_recalled(tmp_path: Path) -> None:
    rows: list[Row] = [
        {"key": "x", "fct_ms": 1.5, "paths": [{"name": "lte", "bytes": 3}]},
        {"key": "y", "fct_ms": None, "paths": []},
    ]
    store = Store(tmp_path)
    for row in rows:
        store.keep(str(row["key"]), row)
    store.flush()
    frame = store.finish(rows)
    assert [file.name for file in tmp_path.iterdir()] == ["rows.parquet"]
    assert frame["fct_ms"].to_list() == [1.5, None]
    assert list(Store(tmp_path).recall().values()) == rows


@pytest.mark.parametrize("name", ["rows.parquet", "parts/000001.parquet"])
def test_what_holds_no_rows_is_refused_by_name(tmp_path: Path, name: str) -> None:
    write_parquet(pl.DataFrame({"a": [1]}), tmp_path / name)
    with pytest.raises(ScenarioError, match=name):
        Store(tmp_path).recall()


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "rows.parquet"
    write_parquet(pl.DataFrame({"a": [1]}), file)

    def half(target: Path, data: bytes) -> int:
        target.write_text("PAR1 and no more")
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises(KeyboardInterrupt):
        write_parquet(pl.DataFrame({"a": [2]}), file)
    assert pl.read_parquet(file)["a"].to_list() == [1]
    assert [one.name for one in tmp_path.iterdir()] == ["rows.parquet"]


def test_rows_kept_under_older_names_of_columns_are_recalled_under_the_present_ones(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.keep("a", {"key": "a", "guarded": 3, "utility_002": 1.5})
    store.flush()
    assert store.recall() == {"a": {"key": "a", "fallback_decided": 3, "utility_popov_2025": 1.5}}
