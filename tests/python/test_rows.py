"""Rows that are held as columns give back what was put in, and make the frame that a list of them makes."""

import random
from typing import Any

import pytest

from weftway.runs import columns, rows
from weftway.runs.rows import KeyedRows, in_order


def made(at: int) -> dict[str, Any]:
    """A row of one of three shapes; a value that was varied is sometimes whole, and sometimes a text."""
    row: dict[str, Any] = {"key": f"k{at}", "scenario": "x", "vary": (1, 2.5, "3", None)[at % 4], "fct_ms": at / 7}
    if at % 3 == 1:
        row["path.wifi.share"] = 0.5
    if at % 3 == 2:
        row = {**row, "on": None, "is_policy": at % 2 == 0, "fct_ms": None}
    return row


def typed(row: dict[str, Any]) -> list[tuple[str, type, Any]]:
    """Names in their order, with values and their types: `1 == 1.0` is not enough."""
    return [(name, type(value), value) for name, value in row.items()]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are packed by five."""
    monkeypatch.setattr(rows, "PACKED", 5)


@pytest.mark.usefixtures("few")
def test_every_row_comes_back_as_it_was_in_whatever_order() -> None:
    every = [made(at) for at in range(83)]
    held = KeyedRows()
    held.update((row["key"], row) for row in every)
    assert list(held) == [row["key"] for row in every]
    order = random.Random(1).sample(range(83), 83)
    for at in [*range(83), *order, *range(82, -1, -1)]:
        assert typed(held[f"k{at}"]) == typed(every[at])


@pytest.mark.usefixtures("few")
def test_the_frame_is_that_of_a_list() -> None:
    every = [made(at) for at in range(40)]
    held = KeyedRows()
    held.update((row["key"], row) for row in random.Random(2).sample(every, 40))
    assert held.frame([row["key"] for row in every]).equals(columns.table(every))
    some = [every[at] for at in (7, 3, 38)]
    assert held.frame([row["key"] for row in some]).equals(columns.table(some))
    ordered = in_order(held, [row["key"] for row in every])
    assert list(ordered) == every and ordered[3:5] == every[3:5] and ordered[-1] == every[-1]


@pytest.mark.usefixtures("few")
def test_a_row_may_be_replaced_removed_or_of_values_that_no_column_has() -> None:
    held = KeyedRows()
    held.update((f"k{at}", made(at)) for at in range(12))
    held["k2"] = {"key": "k2", "note": {"x": [1]}}
    held.update((f"k{at}", made(at)) for at in range(12, 24))
    del held["k4"]
    assert held["k2"] == {"key": "k2", "note": {"x": [1]}} and "k4" not in held
    assert list(held) == [f"k{at}" for at in range(24) if at != 4]


def test_a_frame_is_taken_as_it_is() -> None:
    frame = columns.table(made(at) for at in range(9))
    held = KeyedRows()
    held.adopt(frame)
    assert dict(held) == {row["key"]: row for row in frame.to_dicts()}
