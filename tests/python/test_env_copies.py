"""Copies of environments, within a process and out of a pickle: they go on as the original would."""

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weftway
from test_env import CHUNKS, EASY, IDS, TASKS
from weftway import Scenario
from weftway.scenario import HOME
from weftway.vector import VectorEnv

gym: Any = pytest.importorskip("gymnasium", reason="Gymnasium is not installed: pip install 'weftway[gym]'")


def goes_on(env: Any, actions: list[Any]) -> list[tuple[bytes, float, bool, bool, str]]:
    """Steps that these actions bring from where it is, through the ends of episodes."""
    trail = []
    for action in actions:
        obs, reward, terminated, truncated, info = env.step(action)
        trail.append((obs.tobytes(), reward, terminated, truncated, str(info)))
        if terminated or truncated:
            obs, info = env.reset()
            trail.append((obs.tobytes(), 0.0, False, False, str(info)))
    return trail


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["copy", "pickle"])
@pytest.mark.parametrize("task", TASKS)
def test_a_copy_goes_on_as_the_original_would(task: str, copied: Any) -> None:
    env = gym.make(IDS[0], scenario=CHUNKS, cc=["newreno", "bbr1"], task=task)
    env.reset(seed=11)
    env.action_space.seed(11)
    # In the first episode, in a later one, and just after the end of one.
    for steps in (3, 200, 400):
        goes_on(env, [env.action_space.sample() for _ in range(steps)])
        twin, idle = copied(env), copied(env)
        actions = [env.action_space.sample() for _ in range(100)]
        expected = goes_on(env, actions)
        assert goes_on(twin, actions) == expected
        # Neither moved the other.
        assert goes_on(idle, actions) == expected


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["copy", "pickle"])
def test_a_copy_of_many_has_what_nobody_has_taken_yet(small: Path, copied: Any) -> None:
    vector = VectorEnv("path", Scenario.load(str(small)).variants(), ["cubic"], 3, seed=4, threads=2)
    for number in range(40):
        vector.step([number % 3, 0, 1])
    twin = copied(vector)
    assert twin.episodes() == vector.episodes() != []
    ours, theirs = vector.delayed_rewards(), twin.delayed_rewards()
    assert np.array_equal(ours.env, theirs.env)
    assert np.array_equal(ours.decision, theirs.decision)
    assert np.array_equal(ours.reward, theirs.reward)
    assert np.array_equal(vector.final_observations(), twin.final_observations())
    assert np.array_equal(vector.decisions(), twin.decisions())
    assert vector.drawn() == twin.drawn()
    assert np.array_equal(vector.step([0, 1, 2]).obs, twin.step([0, 1, 2]).obs)


def test_a_pickle_finds_the_traces_from_another_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(HOME)
    kept = pickle.dumps(Scenario.load("scenarios/wifi-lte.toml", ["workload.bytes=1MB"]).variants()[0])
    monkeypatch.chdir(tmp_path)
    again = pickle.loads(kept)
    assert (again.scenario.sets, again.scenario.name) == (["workload.bytes=1MB"], "wifi-lte")


def test_a_pickle_whose_trace_has_changed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lte.up").write_text("1\n2\n3\n")
    text = EASY.replace('rate = "4 Mbit/s"', 'trace = "lte.up"')
    kept = pickle.dumps(Scenario.parse(text, "mine.toml", str(tmp_path)))
    assert pickle.loads(kept).text == text
    (tmp_path / "lte.up").write_text("1\n2\n")
    with pytest.raises(weftway.ScenarioError, match=r"mine\.toml.*changed since it was pickled"):
        pickle.loads(kept)
