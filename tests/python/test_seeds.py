"""Seeds as people write them."""

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weftway import ScenarioError
from weftway.runs import seeds


@given(first=st.integers(0, 1000), count=st.integers(1, 50))
def test_a_span_leaves_its_end_out(first: int, count: int) -> None:
    assert seeds.parse(f"{first}..{first + count}") == list(range(first, first + count))


def test_a_range_and_a_list_are_seeds_too() -> None:
    assert seeds.parse(range(3)) == [0, 1, 2]
    assert seeds.parse([7]) == [7]
    assert seeds.parse([4, 2, 4]) == [4, 2]


@pytest.mark.parametrize("number", ["3", 3])
def test_a_number_alone_is_refused_with_what_it_may_mean(number: str | int) -> None:
    with pytest.raises(ScenarioError) as refused:
        seeds.parse(number)
    several, one = re.findall(r"`(\d+\.\.\d+)`", str(refused.value))
    assert (seeds.parse(several), seeds.parse(one)) == ([0, 1, 2], [3])


@pytest.mark.parametrize(
    "text", ["", "a..b", "3..", "..3", "5..5", "9..2", "-1", "-2..1", "1.5", str(2**64), "0..1000000000000"]
)
def test_what_names_no_seed_is_refused(text: str) -> None:
    with pytest.raises(ScenarioError, match="seed"):
        seeds.parse(text)


@pytest.mark.parametrize("wrong", [[1.5], ["0"], [None], 1.5])
def test_what_is_no_whole_number_is_refused(wrong: Any) -> None:
    with pytest.raises(ScenarioError, match="expected whole numbers"):
        seeds.parse(wrong)


def test_numbers_of_numpy_are_numbers() -> None:
    assert [type(seed) for seed in seeds.parse(np.arange(2))] == [int, int]
