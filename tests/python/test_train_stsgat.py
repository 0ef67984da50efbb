"""Training of the graph scheduler: its pieces by hand, a tiny training whole, and the study."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax", reason="training needs weftway[train]")
pytest.importorskip("equinox", reason="training needs weftway[train]")
pytest.importorskip("optax", reason="training needs weftway[train]")

from weftway import _native
from weftway.learn.train import stsgat, study
from weftway.learn.train.checkpoint import CheckpointError
from weftway.learn.train.export import read_policy
from weftway.learn.train.graph import Shape
from weftway.learn.train.graph.fit import Run
from weftway.learn.train.labels import Labels
from weftway.learn.train.limits import SettingError
from weftway.sample import distribution

TINY = stsgat.Args(steps=32, epochs=2, rounds=1, pool=6, held_out=1, seed=3)

HAS_ENTRY = any(entry["name"] == "stsgat" for entry in _native.schedulers())


def labels(n: int = 40, slots: int = 2, steps: int = 3) -> Labels:
    """Labels of 20 instances, features 0 to 0.9 times the number of the feature."""
    rng = np.random.default_rng(0)
    x = np.zeros((n, slots, 6, steps), np.float32) + np.arange(6, dtype=np.float32)[:, None]
    x[0] = 0
    whole = {name: np.zeros(n, np.int32) for name in ("taken", "behaviour", "episode", "message")}
    return Labels(
        X=x,
        c=np.ones((n, 2, steps), np.float32),
        alive=np.ones((n, slots), np.float32),
        label=rng.integers(0, slots, n).astype(np.int32),
        margin=np.zeros(n, np.float32),
        costs=np.zeros((n, slots), np.float32),
        instance=np.repeat(np.arange(20, dtype=np.int32), 2),
        **whole,
    )


def test_what_the_oracle_judges_follows_from_what_a_choice_binds() -> None:
    assert TINY.judged == "message"
    assert replace(TINY, mode="exclusive").judged == "interval"
    assert replace(TINY, mode="exclusive", hold="message").judged == "message"
    assert replace(TINY, basis="interval").judged == "interval"
    assert replace(TINY, mode="exclusive").task == "graph:slots=4:mode=exclusive:hold=interval"


def test_ranges_are_those_of_a_feature_whatever_the_path_and_step() -> None:
    low, high = stsgat.ranges(labels())
    # Two slots of six features over three steps, two of the data, two slots alive. Feature 5 lies from 0 to 5: a
    # tenth of 5 and a hundredth wider on either side. The data are always 1; alive is 0 or 1.
    assert low.shape == high.shape == (2 * 6 * 3 + 2 * 3 + 2,)
    assert high[[5 * 3, 5 * 3 + 2, 11 * 3]] == pytest.approx([5.51] * 3)
    assert low[5 * 3] == pytest.approx(-0.51)
    assert (low[36], high[36]) == (pytest.approx(0.99), pytest.approx(1.01))
    assert (low[-1], high[-1]) == (pytest.approx(-0.01), pytest.approx(1.01))


def test_parts_are_of_the_sizes_asked_for_and_share_no_scenario() -> None:
    found = labels()
    data = stsgat.dataset(found, replace(TINY, steps=14, pool=20))
    # 14 of the 28 samples of 14 scenarios; 15/70 of 14, which is 3, of three scenarios each.
    assert [len(part) for part in (data.train, data.validation, data.test)] == [14, 3, 3]
    kept = [set(found.instance[part]) for part in (data.train, data.validation, data.test)]
    assert not (kept[0] & kept[1] or kept[0] & kept[2] or kept[1] & kept[2])


def test_a_scenario_has_its_part_whichever_others_have_been_labelled() -> None:
    args, found = replace(TINY, steps=40, pool=20), labels()
    whole = stsgat.dataset(found, args)
    learned, reported = (set(found.instance[part]) for part in (whole.train, whole.test))
    # Round 0 without every other scenario.
    some = found.where(found.instance % 2 == 0)
    data = stsgat.dataset(some, args)
    assert set(some.instance[data.train]) == {instance for instance in learned if instance % 2 == 0}
    assert set(some.instance[data.test]) == {instance for instance in reported if instance % 2 == 0}
    with pytest.raises(SettingError, match="--steps 40: expected more"):
        stsgat.dataset(found.where(np.isin(found.instance, list(reported))), args)


def test_what_is_seen_comes_apart_as_the_task_put_it_together() -> None:
    shape = Shape(paths=2, steps=3, features=2, packet_features=1)
    x, c, alive = stsgat.apart(np.arange(34, dtype=np.float32).reshape(2, 17), shape)
    # Two paths of two features over three steps are 0 to 11, the data 12 to 14, alive 15 and 16.
    assert x[0, 1, 0].tolist() == [6, 7, 8]
    assert c[0].tolist() == [[12, 13, 14]]
    assert alive.tolist() == [[15, 16], [32, 33]]


def test_numbers_of_paths_part_training_from_evaluation() -> None:
    args = replace(TINY, distribution="topologies", cc="cubic", counts="2,5", slots=8, pool=6, held_out=3)

    def counts(part: str) -> set[int]:
        return {variant.scenario.text.count("[path.") for variant in args.variants(part)}

    assert counts("train") <= {2, 5}
    assert not counts("held-out") & {2, 5}
    # The same, of an instance whose text is counted.
    drawn = distribution.load("topologies").sample(3, 0)
    assert stsgat.paths(drawn) == drawn.text.count("[path.")


def test_labels_by_interval_are_others_than_by_message() -> None:
    args = replace(TINY, mode="exclusive")
    by = {
        basis: stsgat.collected(replace(args, basis=basis), args.variants(), None, 0)
        for basis in ("message", "interval")
    }
    # Behaviours without the oracle would ask the same questions; with it, they part once an answer differs.
    assert by["message"].label[:50].tolist() != by["interval"].label[:50].tolist()
    assert (by["interval"].costs >= 0).any()


@pytest.mark.skipif(not HAS_ENTRY, reason="the registry has no scheduler `stsgat` yet")
def test_a_tiny_training_goes_on_to_the_same_bytes_and_its_policy_loads(tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []
    once = stsgat.train(replace(TINY, out=tmp_path / "a"), lambda done, total: steps.append((done, total)))
    assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)]
    again = stsgat.train(replace(TINY, out=tmp_path / "a", resume=True))
    assert once.file is not None
    bytes_ = once.file.read_bytes()
    assert again.file is not None and again.file.read_bytes() == bytes_
    assert len(bytes_) < 200_000
    stsgat.train(replace(TINY, out=tmp_path / "b"))
    assert (tmp_path / "b" / "stsgat.safetensors").read_bytes() == bytes_
    with pytest.raises(CheckpointError, match="other settings"):
        stsgat.train(replace(TINY, out=tmp_path / "a", resume=True, batch=32))
    card = read_policy(once.file).card
    assert (card["algorithm"], card["head"], card["fallback"]) == ("stsgat", "greedy", "min-rtt")
    assert card["command"].startswith("weft train stsgat --steps 32 ")
    native = _native.Policy(once.file)
    out = np.empty((2, native.outputs), np.float32)
    native.forward(np.zeros((2, len(card["inputs"].split(","))), np.float32), out)
    assert (out == -1e9).all()  # no path is alive
    curve = [json.loads(line) for line in (tmp_path / "b" / "stsgat.jsonl").read_text().splitlines()]
    assert [point["step"] for point in curve] == [0, 1, 2, 3, 4, 4]


def test_of_the_rounds_networks_the_best_on_the_last_validation_is_exported(monkeypatch: pytest.MonkeyPatch) -> None:
    # Round 1 has made it worse.
    losses = {"round 0": 0.2, "round 1": 0.6, "round 2": 0.3}
    monkeypatch.setattr(stsgat, "evaluate", lambda model, batch: (losses[model], 0.5))
    data = stsgat.dataset(labels(), replace(TINY, steps=14, pool=20))
    model, said = stsgat.choose(list(losses), data)  # type: ignore[arg-type]
    assert model == "round 0" and said.startswith("the network of round 0, loss 0.2000 in 3 ")


def run(model: str, seed: int, plateau: int | None, loss: float) -> Run:
    points: list[dict[str, Any]] = [{"step": 1, "loss": loss, "validation_accuracy": 0.5}]
    return Run(model, seed, points, plateau, loss, 1.0, 1.0)


def test_the_claimed_order_is_tested_neighbour_by_neighbour() -> None:
    runs = [
        *[run("stsgat", seed, 10, 0.1) for seed in (1, 2)],
        *[run("stsgcn", seed, 12, 0.2) for seed in (1, 2)],
        *[run("graph-wavenet", seed, None, 0.1) for seed in (1, 2)],
    ]
    rows = study.tests(["stsgat", "stsgcn", "graph-wavenet"], runs)
    tests = {(row["measure"], row["first"]): (row["smaller"], row["larger"], row["p"]) for row in rows}
    # Two of two is 1 of 2^2; none of two is certain; no plateau is later than any.
    assert tests == {
        ("plateau", "stsgat"): (2, 0, 0.25),
        ("final loss", "stsgat"): (2, 0, 0.25),
        ("plateau", "stsgcn"): (2, 0, 0.25),
        ("final loss", "stsgcn"): (0, 2, 1.0),
    }
    with pytest.raises(ValueError, match="no network `lstm`"):
        _ = study.Args(against="lstm").networks


def test_a_tiny_study_writes_its_curves_and_goes_on(tmp_path: Path) -> None:
    args = study.Args(
        steps=128, epochs=1, pool=8, seed=3, seeds=1, against="", out=tmp_path
    )  # sizes as TINY: compiled once
    trained = study.train(args)
    assert [(run.model, run.seed, len(run.curve)) for run in trained.runs] == [("stsgat", 3, 1)]
    more = study.train(replace(args, resume=True))
    assert more.runs == trained.runs
    about = json.loads((tmp_path / "stsgat-study.json").read_text())
    assert about["samples"]["train"] == 128
    # 15/70 of 128 is 27, if the one scenario that is kept for each has so many.
    assert 0 < about["samples"]["validation"] <= 27
    assert about["weights"]["stsgat"] == 26_561  # the sum of the shapes: 96 + 32 + 576 + 6 · 4224 + 513
    assert "<svg" in (tmp_path / "stsgat-study.svg").read_text()
    assert trained.lines()[0].startswith("stsgat, seed 3: no plateau")
