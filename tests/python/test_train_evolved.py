"""The search by evolution strategies: ranks, weights in a policy file, the same bytes from the same seed."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax")

from weftway.learn.train import evolved


def test_equals_have_the_same_rank() -> None:
    np.testing.assert_allclose(evolved.ranked(np.array([3.0, 1.0, 1.0, 7.0])), [1 / 6, -1 / 3, -1 / 3, 0.5])
    # A plateau gives no direction.
    np.testing.assert_array_equal(evolved.ranked(np.zeros(6)), np.zeros(6))


def test_weights_are_taken_apart_in_order() -> None:
    parts = evolved.unpacked(np.arange(3 * 2 + 2 + 2 * 2 + 2.0), inputs=3, hidden=2)
    np.testing.assert_array_equal(parts["w1"], [[0, 1], [2, 3], [4, 5]])
    np.testing.assert_array_equal(parts["b1"], [6, 7])
    np.testing.assert_array_equal(parts["w2"], [[8, 9], [10, 11]])
    np.testing.assert_array_equal(parts["b2"], [12, 13])


def test_the_same_seed_and_a_resumed_search_give_the_same_policy(tmp_path: Path) -> None:
    small = {"pool": 8, "trials": 2, "pairs": 2, "instances": 2, "held_out": 2, "cc": "cubic", "checkpoint_every": 1}

    def policy(folder: str, **more: int | bool) -> bytes:
        found = evolved.train(evolved.Args(**{"steps": 2, "out": tmp_path / folder, **small, **more}))  # type: ignore[arg-type]
        assert found.file is not None
        return found.file.read_bytes()

    whole = policy("whole")
    assert policy("again", threads=1) == whole
    assert policy("again", resume=True) == whole
