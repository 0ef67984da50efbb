"""A margin: how far a choice has to lead before it is taken."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weftway
from weftway._native import ScenarioError
from weftway.scenario import HOME

pytest.importorskip("jax")

from weftway.learn.train import caution, dqn, export, gaps, rlds, session

SHIPPED = HOME / "policies/dqn-bbr1.safetensors"
SCENARIO = "scenarios/unequal-pair.toml"
SMALL = ["workload.bytes=1 MB"]


def with_margin(folder: Path, margin: str) -> str:
    """The shipped DQN with another margin, as a scheduler."""
    policy = export.read_policy(SHIPPED)
    file = folder / "policy.safetensors"
    export.write_policy(file, {**policy.card, "margin": margin}, policy.tensors)
    return f"dqn:policy={file}"


def test_a_lead_is_of_the_best_open_choice() -> None:
    outputs = np.array([[1.0, 4.0, 2.5], [1.0, 4.0, 2.5], [3.0, 3.0, 0.0]], np.float32)
    mask = np.array([[True, True, True], [True, False, True], [True, True, True]])
    closed = np.float32(-np.inf)
    assert caution.leads(np.where(mask, outputs, closed)).tolist() == [1.5, 1.5, 0.0]
    assert np.isinf(caution.leads(np.where([True, False, False], outputs, closed))).all()
    assert np.isinf(caution.leads(outputs[:, :1])).all()


def watched(folder: Path, head: str, outputs: list[float]) -> caution.Watched:
    """A policy that gives these outputs, whatever it sees."""
    file, inputs = folder / f"{head}.safetensors", 2
    card = dict.fromkeys(export.CARD, "-") | {"head": head, "network": "mlp", "inputs": "a,b", "fallback": "off"}
    edges = {"low": np.zeros(inputs), "high": np.ones(inputs)}
    export.write_policy(file, card, {**edges, "w1": np.zeros((inputs, len(outputs))), "b1": outputs})
    return caution.Watched(file, head, seed=1)


def test_leads_are_of_what_the_scheduler_compares(tmp_path: Path) -> None:
    obs, every = np.zeros((4000, 2), np.float32), np.ones((4000, 3), np.bool_)
    # Two indices of three choices each: ahead by 3 and by 1, of which the least counts.
    several = watched(tmp_path, "greedy", [4.0, 1.0, 0.0, 0.0, 2.0, 3.0])
    assert several.choose(obs, every)[0].tolist() == [0, 2]
    assert several.leads[0].tolist() == [1.0] * 4000
    # Chances of 3/4, 1/8, 1/8; with the first closed the others have 1/2 each.
    sample = watched(tmp_path, "sample", np.log([6.0, 1.0, 1.0]).tolist())
    drawn = sample.choose(obs, every)
    assert abs(float((drawn == 0).mean()) - 0.75) < 0.03 and set(drawn.ravel().tolist()) == {0, 1, 2}
    assert np.allclose(sample.leads[0], 0.625)
    assert set(sample.choose(obs, every & [False, True, True]).ravel().tolist()) == {1, 2}
    assert np.allclose(sample.leads[1], 0.0)
    shares = watched(tmp_path, "shares", np.log([6.0, 1.0, 1.0]).tolist())
    assert np.allclose(shares.choose(obs, every)[0], [0.75, 0.125, 0.125])
    assert np.allclose(shares.leads[0], 0.625)


def test_a_scheduler_of_several_indices_can_be_cautious(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caution, "INSTANCES", 2)
    trained = gaps.train(gaps.Args(steps=80, envs=4, pool=4, trials=2, held_out=2, cautious=True))
    assert float(trained.policy.card["margin"]) >= 0


def test_below_its_margin_the_fallback_decides_and_says_so(tmp_path: Path) -> None:
    run: dict[str, Any] = {"cc": "bbr1", "set": SMALL}
    never = weftway.run(SCENARIO, scheduler=with_margin(tmp_path, "1e9"), **run)
    usual = weftway.run(SCENARIO, scheduler="min-rtt", **run)
    assert never["fct_ms"] == usual["fct_ms"]
    assert never["fallback_decided"] > 0
    assert never["fallback_differs"] == 0
    assert usual["fallback_differs"] is None
    always = weftway.run(SCENARIO, scheduler=with_margin(tmp_path, "0"), **run)
    assert always["fallback_decided"] < never["fallback_decided"]


def test_a_margin_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="`margin = wide`; expected a number from 0"):
        weftway.run(SCENARIO, scheduler=with_margin(tmp_path, "wide"), cc="bbr1", set=SMALL)


def test_a_cautious_training_finds_its_margin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caution, "INSTANCES", 6)
    args = rlds.Args(quick=True, cautious=True, mode="preferred", reward="rate", out=tmp_path)
    trained = rlds.train(replace(args, steps=640, pool=6, trials=2, held_out=4))
    card = export.read_policy(tmp_path / "rlds.safetensors").card
    assert {**trained.policy.card, "format": export.FORMAT} == card
    assert float(card["margin"]) >= 0
    assert "of 6 training instances" in card["margin_found"]
    assert "--cautious" in card["command"]


def test_a_curve_begins_with_chance(tmp_path: Path, short: str) -> None:
    args = dqn.Args(distribution=short, steps=640, pool=4, envs=4, trials=3, held_out=2, out=tmp_path)
    first = dqn.train(args).curve[0]
    validation = session.ValidationSet(args, dqn.task(args), 3)
    assert first == {"step": 0, "kind": "chance", "trial": validation.speed(session.uniform_random(args.seed))}
