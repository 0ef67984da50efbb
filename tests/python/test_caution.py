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

from weftway.train import caution, dqn, export, rlds, session

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
    assert caution.leads(outputs, mask).tolist() == [1.5, 1.5, 0.0]
    assert np.isinf(caution.leads(outputs, np.array([[True, False, False]] * 3))).all()


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
