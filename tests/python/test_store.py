"""Rows that last: a store only grows, whoever writes and whenever a writer dies."""

import fcntl
import gzip
import os
import random
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weftway._native import ScenarioError
from weftway.runs import store as store_module
from weftway.runs.backends import Row
from weftway.runs.store import SELECTED, Store, write_parquet

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
    assert store.finish(rows).rows == rows
    assert [file.name for file in tmp_path.iterdir()] == ["rows.parquet"]
    assert pl.read_parquet(tmp_path / "rows.parquet")["fct_ms"].to_list() == [1.5, None]
    assert list(Store(tmp_path).recall().values()) == rows


def made(keys: Iterable[int], code: str = "1") -> list[Row]:
    return [{"key": f"{key}-{code}", "scenario": "x", "seed": key, "code": code, "fct_ms": float(key)} for key in keys]


def seeds(folder: Path, of: pl.Expr | None = None) -> list[int]:
    table = pl.read_parquet(folder / "rows.parquet")
    return (table if of is None else table.filter(of))["seed"].to_list()


@settings(max_examples=30, deadline=None)
@given(selections=st.lists(st.lists(st.integers(0, 30), min_size=1, unique=True), min_size=1, max_size=6))
def test_the_store_holds_the_union_of_all_selections(
    tmp_path_factory: pytest.TempPathFactory, selections: list[list[int]]
) -> None:
    folder = tmp_path_factory.mktemp("store")
    union: set[int] = set()
    for selection in selections:
        finished = Store(folder).finish(made(selection))
        union |= set(selection)
        assert finished.rows == made(selection)
        assert finished.others == len(union) - len(selection)
        assert seeds(folder, pl.col(SELECTED)) == selection
        assert set(seeds(folder)) == union
        assert len(seeds(folder)) == len(union)
    assert {row["seed"] for row in Store(folder).recall().values()} == union


@settings(max_examples=8, deadline=None)
@given(st.permutations(range(4)), st.permutations(range(4)))
def test_the_table_does_not_depend_on_the_order_in_which_rows_came(
    tmp_path_factory: pytest.TempPathFactory, first: list[int], second: list[int]
) -> None:
    tables = []
    for order in (first, second):
        folder = tmp_path_factory.mktemp("store")
        for key in order:
            Store(folder).finish(made([key]))
        Store(folder).finish(made([2, 1]))
        tables.append((folder / "rows.parquet").read_bytes())
    assert tables[0] == tables[1]


def test_rows_of_older_code_stay_and_are_counted(tmp_path: Path) -> None:
    Store(tmp_path).finish(made([0, 1], "older"))
    finished = Store(tmp_path).finish(made([0, 1], "newer"))
    assert (finished.others, finished.older) == (2, 2)
    assert "the folder holds 2 more, 2 of them by other versions of the code" in finished.sentence
    table = pl.read_parquet(tmp_path / "rows.parquet")
    assert table.filter(SELECTED)["code"].unique().to_list() == ["newer"]
    assert table.filter(~pl.col(SELECTED))["code"].unique().to_list() == ["older"]


def test_a_row_that_is_asked_for_twice_is_counted_once(tmp_path: Path) -> None:
    Store(tmp_path).finish(made([5]))
    finished = Store(tmp_path).finish(made([2, 1, 2]))
    assert finished.rows == made([2, 1])
    assert finished.sentence.startswith("2 rows are shown, as asked for; the folder holds 1 more")
    assert seeds(tmp_path) == [2, 1, 5]


def test_finished_parts_of_another_selection_are_in_the_table(tmp_path: Path) -> None:
    interrupted = Store(tmp_path)
    interrupted.keep("7-1", made([7])[0])
    interrupted.flush()
    Store(tmp_path).finish(made([1]))
    assert seeds(tmp_path) == [1, 7]


def test_a_measurement_is_never_replaced_by_another_of_the_same_run(tmp_path: Path) -> None:
    first, second = ({"key": "k", "backend": "kernel", "fct_ms": fct, "late": False} for fct in (1.0, 2.0))
    Store(tmp_path).finish([first])
    # A second process that began before the first was done has measured the same run.
    assert Store(tmp_path).finish([second]).rows == [first]
    assert pl.read_parquet(tmp_path / "rows.parquet")["fct_ms"].to_list() == [1.0]


def test_a_row_that_cannot_be_had_again_is_written_at_once(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.keep("simulated", {"key": "simulated", "backend": "sim"})
    assert Store(tmp_path).recall() == {}
    store.keep("measured", {"key": "measured", "backend": "kernel"})
    assert set(Store(tmp_path).recall()) == {"simulated", "measured"}


WRITER = """
import sys
from pathlib import Path
from weftway.runs.store import Store
folder, name = Path(sys.argv[1]), sys.argv[2]
for number in range(10_000):
    store = Store(folder)
    rows = [{"key": f"{name}-{number}-{at}", "backend": "sim", "fct_ms": number + at / 2} for at in range(2)]
    for row in rows:
        store.keep(row["key"], row)
    store.flush()
    print(*(row["key"] for row in rows), flush=True)
    if number % 3 == 2:
        store.finish(rows)
"""


def writer(folder: Path, name: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", WRITER, str(folder), name], stdout=subprocess.PIPE, text=True)


def test_writers_killed_at_any_point_lose_no_row_that_they_reported(tmp_path: Path) -> None:
    messages: set[str] = set()
    chance = random.Random(7)
    for life in range(3):
        both = [writer(tmp_path, f"{life}{side}") for side in "ab"]
        for process in both:
            assert process.stdout
            messages |= set(process.stdout.readline().split())
        time.sleep(chance.uniform(0.0, 0.3))
        for process in both:
            process.send_signal(signal.SIGKILL)
            messages |= set(process.communicate(timeout=60)[0].split())
        kept = Store(tmp_path).recall()
        assert messages <= set(kept)
        assert all(row["fct_ms"] is not None for row in kept.values())
    everything = set(Store(tmp_path).recall())
    Store(tmp_path).finish([{"key": "last", "backend": "sim", "fct_ms": 1.0}])
    assert set(pl.read_parquet(tmp_path / "rows.parquet")["key"]) == everything | {"last"}
    assert [file.name for file in tmp_path.iterdir()] == ["rows.parquet"], "nothing half-written stays"


DYING = """
import os, signal, sys
from pathlib import Path
from weftway.runs.store import Store
folder, step, left = Path(sys.argv[1]), sys.argv[2], [int(sys.argv[3])]
owner = os if step == "fsync" else Path
whole = getattr(owner, step)

def dying(*given, **named):
    left[0] -= 1
    if left[0] == 0:
        if step == "write_bytes":
            whole(given[0], bytes(given[1])[: len(given[1]) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
    return whole(*given, **named)

setattr(owner, step, dying)
store = Store(folder)
store.keep("2-1", {"key": "2-1", "scenario": "x", "seed": 2, "code": "1", "fct_ms": 2.0})
store.finish([{"key": "3-1", "scenario": "x", "seed": 3, "code": "1", "fct_ms": 3.0}])
"""
"""Ends at its nth such step, before it; of what it writes then, a half is there."""


def test_a_writer_that_dies_at_any_step_leaves_every_kept_row(tmp_path: Path) -> None:
    steps = [(step, count) for step in ("write_bytes", "replace", "unlink", "fsync") for count in (1, 2)]
    folders = [tmp_path / f"{step}-{count}" for step, count in steps]
    writers = []
    for (step, count), folder in zip(steps, folders, strict=True):
        before = Store(folder)
        before.finish(made([0]))
        before.keep("1-1", made([1])[0])
        before.flush()
        writers.append(subprocess.Popen([sys.executable, "-c", DYING, str(folder), step, str(count)]))
    assert {process.wait(60) for process in writers} == {-signal.SIGKILL}
    for folder in folders:
        kept = Store(folder).recall()
        assert {"0-1", "1-1"} <= set(kept) <= {"0-1", "1-1", "2-1", "3-1"}
        Store(folder).finish(made([4]))
        assert seeds(folder) == [4, *sorted(row["seed"] for row in kept.values())]
        assert [file.name for file in folder.iterdir()] == ["rows.parquet"]


def test_two_writers_at_once_keep_all_rows_of_both(tmp_path: Path) -> None:
    code = WRITER.replace("10_000", "12")
    both = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), name]) for name in "ab"]
    assert [process.wait(60) for process in both] == [0, 0]
    keys = set(pl.read_parquet(tmp_path / "rows.parquet")["key"]) | set(Store(tmp_path).recall())
    assert keys == {f"{name}-{number}-{at}" for name in "ab" for number in range(12) for at in range(2)}


def test_where_a_folder_cannot_be_locked_a_file_in_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = fcntl.flock

    def of_files_only(opened: int, how: int) -> None:
        if stat.S_ISDIR(os.fstat(opened).st_mode):
            raise OSError("no locks for folders")
        lock(opened, how)

    monkeypatch.setattr(fcntl, "flock", of_files_only)
    Store(tmp_path).finish(made([1]))
    assert Store(tmp_path).finish(made([2])).others == 1


@pytest.mark.parametrize("name", ["rows.parquet", "parts/000001.parquet"])
def test_what_holds_no_rows_is_refused_by_name(tmp_path: Path, name: str) -> None:
    write_parquet(pl.DataFrame({"a": [1]}), tmp_path / name)
    with pytest.raises(ScenarioError, match=name):
        Store(tmp_path).recall()


def test_a_damaged_file_is_refused_by_name(tmp_path: Path) -> None:
    """Cut anywhere, or with other bytes in it, of which some change a value and nothing else."""
    store, chance = Store(tmp_path), random.Random(3)
    store.finish(made(range(5)))
    store.keep("9-1", made([9])[0])
    store.flush()
    (part,) = (tmp_path / "parts").iterdir()
    whole = {file: file.read_bytes() for file in (tmp_path / "rows.parquet", part)}
    for file, content in whole.items():
        for changes in (0, 1, 5, 50) * 40:
            damaged = bytearray(content)
            for _ in range(changes):
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
            file.write_bytes(damaged if changes else content[: chance.randrange(len(content))])
            try:
                Store(tmp_path).recall()
                assert changes, "what is cut is not whole"
            except ScenarioError as error:
                assert file.name in str(error)
        file.write_bytes(content)
    assert len(Store(tmp_path).recall()) == 6


def test_a_file_at_which_polars_panics_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Store(tmp_path).finish(made([1]))

    def panic(file: Path) -> pl.DataFrame:
        raise pl.exceptions.PanicException("called `Option::unwrap()` on a `None` value")

    monkeypatch.setattr(pl, "read_parquet", panic)
    with pytest.raises(ScenarioError, match=r"rows.parquet cannot be read as kept rows"):
        Store(tmp_path).recall()


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"key": [None, None], "fct_ms": [1.0, 2.0]}, "no text in column `key`"),
        ({"key": [b"a", b"b"], "fct_ms": [1.0, 2.0]}, "no text in column `key`"),
        ({"key": ["a", "b"], "fct_ms": ["38.5 ms", "39.1 ms"]}, "another version of Weftway wrote its column `fct_ms`"),
        ({"key": ["a", "b"], "reinjections": [1.5, 2.0]}, "wrote its column `reinjections`"),
        ({"key": ["a", "b"], "path.lte.lost": [{"x": 1}, {"x": 2}]}, "wrote its column `path.lte.lost`"),
    ],
)
def test_rows_that_would_be_lost_or_changed_are_refused(
    tmp_path: Path, columns: dict[str, list[object]], reason: str
) -> None:
    before = pl.DataFrame(columns)
    write_parquet(before, tmp_path / "rows.parquet")
    with pytest.raises(ScenarioError, match=reason):
        Store(tmp_path).finish(made([1]))
    assert pl.read_parquet(tmp_path / "rows.parquet").equals(before)


def test_columns_of_a_later_version_stay(tmp_path: Path) -> None:
    """And numbers that are the same in the type of today."""
    later = pl.DataFrame({"key": ["a"], "fct_ms": [38], "of_later": [[1, 2]], "seed": [4]})
    write_parquet(later, tmp_path / "rows.parquet")
    Store(tmp_path).finish(made([1]))
    table = pl.read_parquet(tmp_path / "rows.parquet").filter(key="a")
    assert (table["fct_ms"].to_list(), table["of_later"].to_list()) == ([38.0], [[1, 2]])


def test_rows_that_do_not_fit_into_one_table_stay_where_they_are(tmp_path: Path) -> None:
    write_parquet(pl.DataFrame({"key": ["a"], "note": [[1, 2]]}), tmp_path / "rows.parquet")
    new = Store(tmp_path)
    new.keep("b", {"key": "b", "note": {"x": 1}})
    with pytest.raises(ScenarioError, match="do not fit into one table; the new ones are kept in"):
        new.finish([{"key": "b", "note": {"x": 1}}])
    assert set(Store(tmp_path).recall()) == {"a", "b"}


@pytest.mark.parametrize("text", ["no JSON", "[1]", "3"])
def test_a_part_without_rows_is_refused(tmp_path: Path, text: str) -> None:
    write_parquet(pl.DataFrame({"key": ["a"], "row": [text]}), tmp_path / "parts/000001.parquet")
    with pytest.raises(ScenarioError, match=r"000001.parquet cannot be read as kept rows"):
        Store(tmp_path).recall()


DAMAGED = {"nothing": b"", "no gzip": b"{}", "cut": gzip.compress(b"{}")[:-3], "no JSON": gzip.compress(b"{")}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_timeline_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    store = Store(tmp_path)
    store.keep_timeline("a", "{}")
    assert store.timeline("a") == "{}"
    (tmp_path / "timelines/a.json.gz").write_bytes(content)
    with pytest.raises(ScenarioError, match=r"a.json.gz cannot be read"):
        store.timeline("a")


def test_a_link_to_nothing_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("gone")
    with pytest.raises(ScenarioError, match="out is a link to nothing"):
        Store(tmp_path / "out")


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
    assert [file.name for file in tmp_path.iterdir()] == ["rows.parquet"]


def test_an_interrupt_waits_until_a_part_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes while the folder is locked: the part is there, once, and the lock is given back."""
    kept = Store(tmp_path)
    kept.keep("a", {"key": "a", "backend": "sim", "seed": 1})
    write = write_parquet

    def interrupted(frame: pl.DataFrame, file: Path) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        write(frame, file)

    monkeypatch.setattr(store_module, "write_parquet", interrupted)
    with pytest.raises(KeyboardInterrupt):
        kept.flush()
    assert len(list(tmp_path.glob("parts/*.parquet"))) == 1
    monkeypatch.setattr(store_module, "write_parquet", write)
    kept.flush()
    assert len(list(tmp_path.glob("parts/*.parquet"))) == 1
    assert set(Store(tmp_path).recall()) == {"a"}
