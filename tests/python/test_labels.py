"""The labelled data set: its shapes, its splits, its file, and that threads do not matter."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from weftway._native import Scenario, ScenarioError, Variant
from weftway.learn.train.labels import Labels, collect, steps

TEXT = """
title = "Two paths"
transport = "mptcp"
seeds = "0..1"
scheduler = "min-rtt"

[path.a]
rate = "4 Mbit/s"
delay = "10 ms"

[path.b]
rate = "2 Mbit/s"
delay = "{delay}"

[workload]
kind = "messages"
sizes = [{{ weight = 1, bytes = "1 kB" }}, {{ weight = 1, bytes = "10 kB" }}]
period = "10 ms"
count = 150
"""


@pytest.fixture(scope="module")
def variants() -> list[Variant]:
    return [Scenario.parse(TEXT.format(delay=f"{ms} ms")).variants()[0] for ms in (10, 20, 40, 80)]


@pytest.fixture(scope="module")
def labels(variants: list[Variant]) -> Labels:
    return collect(variants, ["bbr1"], episodes=8, seed=1, task="graph:slots=3")


def test_arrays_have_the_shapes_of_the_network(labels: Labels) -> None:
    n = len(labels)
    # 8 episodes of 1.5 s: two classes in each of about 15 intervals.
    assert 8 * 15 < n <= 8 * 40
    assert (labels.X.shape, labels.c.shape, labels.alive.shape) == ((n, 3, 6, 12), (n, 2, 12), (n, 3))
    assert [str(array.dtype) for array in (labels.X, labels.label)] == ["float32", "int32"]
    # The third slot has no path: it is never the label, and costs more than any path.
    assert not labels.alive[:, 2].any()
    assert not labels.X[:, 2].any()
    assert np.isinf(labels.costs[:, 2]).all()
    assert set(np.unique(labels.label)) <= {0, 1}
    # The newest step has the message at hand, over 10 kB.
    assert np.allclose(labels.c[:, 0, -1], labels.message / 10e3)
    assert set(np.unique(labels.behaviour)) <= {0, 1, 2, 3}


def test_the_label_is_the_cheapest_and_the_margin_the_way_to_the_next(labels: Labels) -> None:
    ordered = np.sort(labels.costs[:, :2], axis=1)
    best = np.take_along_axis(labels.costs, labels.label[:, None].astype(np.intp), axis=1)[:, 0]
    assert np.allclose(best, ordered[:, 0], atol=2e-6)
    both = labels.alive[:, 1] > 0
    assert np.allclose(labels.margin[both], (ordered[:, 1] - ordered[:, 0])[both], atol=1e-5)
    # Before the second path has joined there is no other: 60 s.
    assert set(labels.margin[~both]) <= {60.0}


def test_the_same_whatever_the_threads(variants: list[Variant], labels: Labels) -> None:
    again = collect(variants, ["bbr1"], episodes=8, seed=1, task="graph:slots=3", threads=3)
    for name in Labels.__dataclass_fields__:
        assert np.array_equal(getattr(labels, name), getattr(again, name)), name
    other = collect(variants, ["bbr1"], episodes=8, seed=2, task="graph:slots=3")
    assert not (len(other) == len(labels) and np.array_equal(other.X, labels.X))


def test_a_file_is_whole_or_not_there(labels: Labels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "labels.npz"
    labels.save(file)
    loaded = Labels.load(file)
    assert all(np.array_equal(getattr(labels, name), getattr(loaded, name)) for name in Labels.__dataclass_fields__)
    before = file.read_bytes()

    def broken(stream: object, **_: object) -> None:
        stream.write(b"half")  # type: ignore[attr-defined]
        raise OSError("no space left")

    monkeypatch.setattr(np, "savez_compressed", broken)
    with pytest.raises(OSError, match="no space"):
        labels.save(file)
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


def test_entropy_of_equal_labels_is_a_bit_for_two(labels: Labels) -> None:
    zero, one = (np.flatnonzero(labels.label == label)[:5] for label in (0, 1))
    assert min(len(zero), len(one)) == 5
    assert labels.where(np.concatenate([zero, one])).entropy() == pytest.approx(1.0)
    assert labels.where(zero).entropy() == 0.0


def test_what_makes_no_sense_is_refused(variants: list[Variant]) -> None:
    wrong: list[dict[str, Any]] = [{"task": "graph:slots=1"}, {"task": "path"}, {"behaviours": ["no-such-rule"]}]
    for arguments in wrong:
        with pytest.raises(ScenarioError):
            collect(variants, ["bbr1"], episodes=1, seed=1, **arguments)
    assert (steps("graph"), steps("graph:slots=4:steps=3")) == (12, 3)
