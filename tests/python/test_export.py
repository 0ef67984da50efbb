"""Networks that were trained elsewhere, as policy files: they answer as the model did, or are refused."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weftway
from conftest import Weft
from weftway import Scenario, _native, deploy
from weftway.learn.train.export import PolicyError
from weftway.vector import VectorEnv

TASK = "wait-or-send:state=controller"
INPUTS = 18


def arrays(*sizes: int, seed: int = 1) -> list[tuple[Any, Any]]:
    """Dense layers of random weights."""
    draw = np.random.default_rng(seed)
    return [(draw.normal(0, 0.5, pair), draw.normal(0, 0.5, pair[1])) for pair in pairwise(sizes)]


def answers(file: Path, asked: Any) -> Any:
    policy = _native.Policy(file)
    out = np.zeros((len(asked), policy.outputs), np.float32)
    policy.forward(np.ascontiguousarray(asked, np.float32), out)
    return out


def test_arrays_become_a_policy_that_answers_as_they_do(tmp_path: Path) -> None:
    layers = arrays(INPUTS, 8, 2)
    file = weftway.export(layers, TASK, tmp_path / "mine.safetensors", activation="tanh", card={"seed": "7"})
    asked = np.random.default_rng(3).uniform(0, 4, (20, INPUTS))
    (w1, b1), (w2, b2) = layers
    assert answers(file, asked) == pytest.approx(np.tanh(asked @ w1 + b1) @ w2 + b2, abs=1e-4)
    card = _native.Policy(file).card
    assert (card["algorithm"], card["task"], card["seed"], card["head"]) == ("dqn", TASK, "7", "greedy")


def test_the_environment_and_the_scheduler_decide_alike(small: Path, tmp_path: Path, weft: Weft) -> None:
    """The policy in the environment, step by step, and as a scheduler: the same transfer, to the last column."""
    file = weftway.export(arrays(INPUTS, 8, 2), TASK, tmp_path / "mine.safetensors", activation="relu")
    vector = VectorEnv(TASK, Scenario.load(str(small)).variants(), ["cubic"], 1, seed=5)
    obs = vector.reset()
    (drawn,) = vector.drawn()
    rows: list[dict[str, Any]] = []
    while not rows:
        obs = vector.step(answers(file, obs).argmax(1)).obs
        rows = vector.episodes()
    words = ("--scheduler", file, "--cc", "cubic", "--seeds", f"{drawn['seed']}..{drawn['seed'] + 1}", "--json")
    done = weft("compare", small, *words)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    assert row["scheduler"] == "mine"
    for name in ("fct_ms", "goodput_mbps", "ooo_packets", "retransmissions", "path.wifi.bytes"):
        assert row[name] == rows[0][name]


def test_a_policy_file_is_a_scheduler_for_python_too(small: Path, tmp_path: Path) -> None:
    file = weftway.export(arrays(INPUTS, 2), TASK, tmp_path / "mine.safetensors")
    rows = weftway.compare(small, scheduler=[file, "min-rtt"], cc="cubic", seeds=range(1))
    assert set(rows["scheduler"]) == {"mine", "min-rtt"}


@pytest.mark.parametrize("task", [entry["name"] for entry in _native.tasks()])
def test_every_task_has_a_scheduler_that_runs_its_policies(task: str, tmp_path: Path) -> None:
    shape = deploy._shape(task)
    file = weftway.export(arrays(len(shape.names), shape.outputs), task, tmp_path / "mine.safetensors")
    assert _native.scheduler(f"{deploy.runner(task)}:policy={file}")


REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (arrays(INPUTS, 8, 3), {"activation": "relu"}, "the model gives 3 numbers; the task .* takes 2"),
    (arrays(6, 8, 2), {"activation": "relu"}, "the model takes 6 numbers; the task .* shows 18: window.fast"),
    (arrays(INPUTS, 8, 2), {}, "activation: say what follows each layer but the last"),
    (arrays(INPUTS, 2), {"activation": "elu"}, "activation 'elu': one of relu, tanh"),
    (arrays(INPUTS, 2), {"head": "shares"}, "takes greedy, sample"),
    (arrays(INPUTS, 2), {"ranges": ([0.0], [1.0])}, "two arrays, .* each of 18 inputs"),
    (arrays(INPUTS, 2), {"ranges": [(0.0, 1.0)] * INPUTS}, "ranges: two arrays"),
    ([(np.zeros((INPUTS, 4)), np.zeros(3))], {}, r"layer 1: W \(18, 4\) and b \(3,\)"),
    ([np.zeros(3)], {}, "layer 1: expected a pair of arrays"),
    ([], {}, "the model has no layer"),
    (object(), {}, "the model is a object; expected a torch module"),
    (arrays(INPUTS, 2), {"fallback": "min-rrt"}, "did you mean `min-rtt`"),
]


@pytest.mark.parametrize(("model", "settings", "message"), REFUSED, ids=[message[:30] for *_, message in REFUSED])
def test_what_is_no_policy_is_refused_and_leaves_no_file(
    tmp_path: Path, model: Any, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(PolicyError, match=message):
        weftway.export(model, TASK, tmp_path / "mine.safetensors", **settings)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["mine.bin", "mine", "a,b.safetensors", "a:b.safetensors"])
def test_a_name_by_which_no_comparison_would_find_it_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(PolicyError, match=r"ends in \.safetensors without"):
        weftway.export(arrays(INPUTS, 2), TASK, tmp_path / name)
    assert not list(tmp_path.iterdir())


def torch() -> Any:
    return pytest.importorskip("torch", reason="torch is not installed: pip install torch")


def sequential(*layers: Any) -> Any:
    outputs = torch()
    outputs.manual_seed(1)
    return outputs.nn.Sequential(*layers)


def asked_in_torch(model: Any, asked: Any) -> Any:
    outputs = torch()
    with outputs.no_grad():
        return np.array(model(outputs.tensor(asked.tolist())).tolist())


@pytest.mark.parametrize("activation", ["ReLU", "Tanh"])
def test_a_torch_mlp_and_its_policy_answer_alike(tmp_path: Path, activation: str) -> None:
    nn = torch().nn
    act = getattr(nn, activation)
    model = sequential(
        nn.Linear(INPUTS, 16), act(), nn.Dropout(0.5), nn.Sequential(nn.Linear(16, 8), act()), nn.Linear(8, 2)
    )
    file = weftway.export(model, TASK, tmp_path / "mine.safetensors")
    assert model.training
    asked = np.random.default_rng(3).uniform(0, 4, (50, INPUTS)).astype(np.float32)
    assert answers(file, asked) == pytest.approx(asked_in_torch(model.eval(), asked), abs=1e-4)


def recurrent(inputs: int, outputs: int, after: Any = None) -> Any:
    """An LSTM over a history, and what `after` makes of its last hidden state."""
    nn = torch().nn

    class Recurrent(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(inputs, 12, num_layers=2, batch_first=True)
            self.head = nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, outputs))

        def forward(self, x: Any) -> Any:
            hidden, _ = self.lstm(x.reshape(len(x), -1, inputs))
            outputs = self.head(hidden[:, -1])
            return after(outputs) if after else outputs

    torch().manual_seed(2)
    return Recurrent()


def test_a_torch_lstm_and_its_policy_answer_alike(tmp_path: Path) -> None:
    task = "shares:slots=2:history=4"
    shape = deploy._shape(task)
    model = recurrent(len(shape.names) // 4, shape.outputs)
    file = weftway.export(model, task, tmp_path / "mine.safetensors")
    asked = np.random.default_rng(3).uniform(shape.low, shape.high, (50, len(shape.names))).astype(np.float32)
    assert answers(file, asked) == pytest.approx(asked_in_torch(model, asked), abs=1e-4)


def test_a_torch_model_that_does_more_than_its_layers_is_refused(tmp_path: Path) -> None:
    nn = torch().nn
    task = "shares:slots=2:history=4"
    inputs = len(deploy._shape(task).names) // 4
    refused: list[tuple[Any, str, dict[str, Any], str]] = [
        (sequential(nn.Linear(INPUTS, 8), nn.ELU(), nn.Linear(8, 2)), TASK, {}, "layer `1` is a ELU"),
        (sequential(nn.Linear(INPUTS, 8), nn.Linear(8, 2)), TASK, {}, "no layer of the model is an activation"),
        (sequential(nn.Linear(INPUTS, 8), nn.Linear(8, 2)), TASK, {"activation": "tanh"}, "apart: its `forward` does"),
        (sequential(nn.Linear(INPUTS, 2), nn.Tanh()), TASK, {}, "apart: its `forward` does"),
        (recurrent(inputs, 2, lambda outputs: 2 * outputs), task, {}, "apart: its `forward` does"),
        (recurrent(inputs, 2, lambda outputs: (outputs, outputs)), task, {}, "returns a tuple"),
    ]
    for model, name, settings, message in refused:
        with pytest.raises(PolicyError, match=message):
            weftway.export(model, name, tmp_path / "mine.safetensors", **settings)
    assert not list(tmp_path.iterdir())


def sb3() -> Any:
    return pytest.importorskip("stable_baselines3", reason="Stable-Baselines3 is not installed: 'weftway[sb3]'")


def networks_of_sb3() -> dict[str, Any]:
    """Both after a short training: the algorithm, and its network as docs/start/researcher.md names it."""
    from weftway import env as weftway_env

    algorithms = sb3()
    envs = weftway_env.sb3_vec_env(2, scenario="short-chunks", task=TASK, seed=1)
    dqn = algorithms.DQN("MlpPolicy", envs, seed=1, learning_starts=20, device="cpu").learn(100)
    ppo = algorithms.PPO("MlpPolicy", envs, seed=1, n_steps=32, batch_size=32, device="cpu").learn(64)
    actor = torch().nn.Sequential(ppo.policy.mlp_extractor.policy_net, ppo.policy.action_net)
    return {"DQN": (dqn, dqn.q_net.q_net), "PPO": (ppo, actor)}


def test_an_agent_of_sb3_and_its_policy_decide_alike(tmp_path: Path) -> None:
    sb3()
    asked = np.random.default_rng(3).uniform(0, 4, (50, INPUTS)).astype(np.float32)
    for name, (agent, network) in networks_of_sb3().items():
        file = weftway.export(network, TASK, tmp_path / f"{name}.safetensors")
        chosen, _ = agent.predict(asked, deterministic=True)
        assert answers(file, asked).argmax(1).tolist() == chosen.tolist(), name
        rows = weftway.compare("short-chunks", scheduler=[file], seeds=range(1))
        assert rows["verdict"].to_list() == ["finished"]


def test_sb3_learns_from_an_observation_and_a_reward_of_ones_own() -> None:
    algorithms = sb3()
    import gymnasium

    from weftway import env as weftway_env

    space = gymnasium.spaces.Box(0, 4, (2,), np.float32)
    envs = weftway_env.sb3_vec_env(
        2,
        scenario="short-chunks",
        observe=lambda state: (state["paths"]["srtt_ms"] / 100).clip(0, 4),
        observation_space=space,
        reward=lambda before, actions, after: before["now_ms"] - after["now_ms"],
    )
    ppo = algorithms.PPO("MlpPolicy", envs, seed=1, n_steps=32, batch_size=32, device="cpu").learn(128)
    assert ppo.num_timesteps == 128
    assert ppo.predict(envs.reset())[0].shape == (2,)


def test_masks_are_those_of_sb3_contrib() -> None:
    contrib = pytest.importorskip("sb3_contrib", reason="sb3-contrib is not installed: pip install sb3-contrib")
    from weftway import env as weftway_env

    envs = weftway_env.sb3_vec_env(2, scenario="wifi-lte", task="path:action=direct", seed=1)
    agent = contrib.MaskablePPO("MlpPolicy", envs, seed=1, n_steps=16, batch_size=16, device="cpu").learn(64)
    masks = envs.action_masks()
    assert (~masks).any(), "a scenario of two paths leaves slots empty"
    for _ in range(20):
        chosen, _ = agent.predict(envs.reset(), action_masks=masks)
        assert masks[[0, 1], chosen].all()
