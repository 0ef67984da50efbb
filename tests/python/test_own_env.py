"""An observation and a reward of one's own over the raw state, and `render` as a report of the episode."""

import copy
import itertools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weftway
import weftway.env
from test_env import EASY, IDS
from weftway import Scenario, _native
from weftway.state import State, dtype, numbers
from weftway.vector import VectorEnv

gym: Any = pytest.importorskip("gymnasium", reason="Gymnasium is not installed: pip install 'weftway[gym]'")


def occupancy(state: State) -> Any:
    """Share of each path's window that is in use."""
    paths = state["paths"]
    return np.clip(paths["bytes_in_flight"] / np.maximum(paths["cwnd"], 1), 0, 4)


def hurry(before: State, actions: Any, after: State) -> Any:
    """Less than nothing for each second that passes: the sum over an episode is the completion time."""
    return -(after["now_ms"] - before["now_ms"]) / 1e3


def own_space() -> Any:
    return gym.spaces.Box(0, 4, (2,), np.float32)


def whole_space() -> Any:
    return gym.spaces.Box(0, 255, (2,), np.uint8)


def made(scenario: Any, **more: Any) -> Any:
    return gym.make(IDS[0], scenario=scenario, cc="cubic", **more)


@pytest.fixture
def easy(tmp_path: Path) -> Path:
    file = tmp_path / "easy.toml"
    file.write_text(EASY)
    return file


def test_the_state_has_what_a_rule_in_python_is_shown() -> None:
    """Names, so that a field is described once: in `cx` of a rule, but for what only the state has."""
    connection, path = _native.VectorEnv.state_names()
    only_here = {"packet_bytes", "is_up"}
    flow = {name for name in dir(_native.Flow) if not name.startswith("_")}
    assert set(connection) - only_here <= flow | {"now_ms"}
    assert set(path) - only_here <= {name for name in dir(_native.Path) if not name.startswith("_")}
    described = str(weftway.state.__doc__)
    assert all(f"`{name}`" in described for name in [*connection, *path])


def test_the_state_is_of_the_connection_at_the_question(easy: Path) -> None:
    vector = VectorEnv("wait-or-send", Scenario.load(str(easy)).variants(), ["cubic"], 2, seed=3)
    vector.reset()
    state = vector.state()
    assert state.dtype == dtype(2)
    assert numbers(state).shape == (2, state.dtype.itemsize // 8)
    assert np.shares_memory(numbers(state), state)
    # The fast path is full and the slow one has room: that is when this task asks.
    assert state["paths"]["is_up"].all()
    assert (state["paths"]["is_open"].sum(axis=1) == 1).all()
    assert (state["unsent"] > 0).all()
    again = vector.state(state)
    assert again is state
    before = state.copy()
    vector.step([1, 1])
    after = vector.state()
    assert (after["now_ms"] >= before["now_ms"]).all()
    assert (after["paths"]["bytes_sent"].sum(1) > before["paths"]["bytes_sent"].sum(1)).all()


def test_an_observation_of_ones_own_takes_the_place_of_the_tasks(easy: Path) -> None:
    env = made(easy, observe=occupancy, observation_space=own_space())
    assert env.observation_space == own_space()
    obs, _ = env.reset(seed=1)
    assert env.observation_space.contains(obs)
    plain = made(easy)
    plain.reset(seed=1)
    for _ in range(50):
        assert np.array_equal(obs, occupancy(env.unwrapped.state())[0].astype(np.float32))
        obs, reward, *ends, _ = env.step(1)
        _, expected, *theirs, _ = plain.step(1)
        # The simulation and the task's reward are what they are.
        assert (reward, ends) == (expected, theirs)
        if any(ends):
            break


def test_rewards_of_ones_own_add_up_to_the_return(easy: Path) -> None:
    env = made(easy, reward=hurry)
    for seed in range(2):
        env.reset(seed=seed)
        began, gained, over = env.unwrapped.state()["now_ms"][0], 0.0, False
        while not over:
            _, reward, terminated, truncated, info = env.step(0)
            gained, over = gained + reward, terminated or truncated
        # The state after the last step is that at the end, not that of the next episode.
        ended = env.unwrapped.state()["now_ms"][0]
        assert gained == pytest.approx(-(ended - began) / 1e3, rel=1e-5)
        assert info["row"]["return"] == pytest.approx(gained, rel=1e-6)
        assert ended >= info["row"]["fct_ms"] - began > 0


def test_many_have_the_same_as_one(easy: Path) -> None:
    own = {"observe": occupancy, "observation_space": own_space(), "reward": hurry}
    single = made(easy, **own)
    many = gym.make_vec(IDS[0], 3, "vector_entry_point", scenario=easy, cc="cubic", threads=2, **own)
    obs, _ = single.reset(seed=4)
    rows, _ = many.reset(seed=4)
    ends, step = 0, 0
    while ends < 2:
        step += 1
        assert np.array_equal(rows[0], obs)
        action = step % 2
        obs, reward, terminated, truncated, info = single.step(action)
        rows, rewards, *_, infos = many.step(np.array([action, 0, 1]))
        assert rewards[0] == reward
        if terminated or truncated:
            ends += 1
            assert np.array_equal(infos["final_obs"][0], obs)
            assert infos["final_info"]["row"]["return"][0] == pytest.approx(info["row"]["return"])
            obs, _ = single.reset()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["copy", "pickle"])
def test_a_copy_keeps_what_is_ones_own(easy: Path, copied: Any) -> None:
    env = made(easy, observe=occupancy, observation_space=own_space(), reward=hurry)
    env.reset(seed=2)
    for _ in range(5):
        env.step(1)
    twin = copied(env)
    for _ in range(60):
        (obs, *rest), (expected, *others) = twin.step(0), env.step(0)
        assert np.array_equal(obs, expected)
        assert rest[:3] == others[:3]
        assert rest[3].get("decision") == others[3].get("decision")
        if rest[1] or rest[2]:
            break


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"observe": occupancy}, "`observe` and `observation_space` belong together"),
        ({"observation_space": own_space()}, "`observe` and `observation_space` belong together"),
        ({"observe": occupancy, "observation_space": gym.spaces.Discrete(2)}, "is a gymnasium.spaces.Box"),
        ({"observe": lambda state: [1.0, 2.0], "observation_space": own_space()}, r"shape \(2,\); expected \(1, 2\)"),
        ({"observe": lambda state: state, "observation_space": own_space()}, "`observe` returned no array of numbers"),
        ({"observe": lambda state: [[np.nan, 0]], "observation_space": own_space()}, "not finite, for environment 0"),
        ({"observe": lambda state: [[1.7, 2]], "observation_space": whole_space()}, "that uint8, .*: 1.7"),
        ({"observe": lambda state: [[300, 2]], "observation_space": whole_space()}, "that uint8, .*environment 0: 300"),
        ({"observe": lambda state: np.array([[2, -1]]), "observation_space": whole_space()}, "that uint8, .*: -1"),
        ({"observe": lambda state: [[2, 2**70]], "observation_space": whole_space()}, "numbers of the type uint8"),
        ({"observe": lambda state: np.full((1, 2), np.nan), "observation_space": whole_space()}, "that uint8, .*: nan"),
        ({"observe": lambda state: [["1", "2"]], "observation_space": own_space()}, "no array of numbers"),
        ({"reward": lambda before, actions, after: [1e300]}, "not finite, for environment 0: 1e"),
        ({"reward": lambda before, actions, after: 1.0}, r"`reward` returned the shape \(\); expected \(1,\)"),
        ({"reward": 3}, "`reward` is 3: expected a function"),
        ({"render_mode": "human"}, "one of ansi"),
    ],
)
def test_what_cannot_be_is_refused_with_what_would_be_right(easy: Path, own: Any, message: str) -> None:
    env_class = weftway.env.PacketEnv
    with pytest.raises(ValueError, match=message):
        env = env_class(easy, "cubic", **own)
        env.reset(seed=1)
        env.step(0)


@pytest.mark.parametrize("made", ["IntervalEnv", "WeftwayVectorEnv", "sb3_vec_env"])
@pytest.mark.parametrize("kind", [np.uint8, np.float64])
def test_an_observation_has_the_type_of_its_space(made: str, kind: Any) -> None:
    if made == "sb3_vec_env":
        pytest.importorskip("stable_baselines3", reason="Stable-Baselines3 is not installed: 'weftway[sb3]'")
    space = gym.spaces.Box(0, 200, (2,), kind)
    env = getattr(weftway.env, made)(
        scenario="wifi-lte", observe=lambda state: state["paths"]["is_up"] * 3.0, observation_space=space
    )
    found = env.reset()
    obs = found if made == "sb3_vec_env" else found[0]
    assert getattr(env, "single_observation_space", env.observation_space) == space
    assert space.contains(obs if made == "IntervalEnv" else obs[0])


def test_render_is_a_report_of_the_episode(easy: Path) -> None:
    env = made(easy, render_mode="ansi")
    env.reset(seed=1)
    env.step(1)
    standing = env.render()
    assert "The episode so far" in standing
    assert "srtt_ms" in standing
    over = False
    while not over:
        *_, terminated, truncated, info = env.step(1)
        over = terminated or truncated
    report = env.render()
    for name in ("fct_ms", "goodput_mbps"):
        assert f"{info['row'][name]:.6g}" in report
    assert "How it ended" in report
    silent = made(easy)
    silent.reset(seed=1)
    assert silent.unwrapped.render() is None


def passed(before: State, actions: Any, after: State) -> Any:
    """Duration of the step in ms."""
    return after["now_ms"] - before["now_ms"]


def intervals(**more: Any) -> Any:
    """A hundred milliseconds each, many in an episode."""
    return gym.make(IDS[1], scenario="wifi-lte", cc="cubic", **more)


def test_an_action_that_is_refused_changes_nothing_for_an_own_reward() -> None:
    env, plain = intervals(reward=passed), intervals(reward=passed)
    rewards, rows = [], []
    for one, bad in ((env, 7), (plain, None)):
        one.reset(seed=1)
        found: list[float] = []
        over = False
        while not over:
            if bad is not None and len(found) in (4, 9):
                with pytest.raises(ValueError, match="is not in Discrete"):
                    one.step(bad)
            _, reward, terminated, truncated, info = one.step(0)
            found.append(reward)
            over = terminated or truncated
        rewards.append(found)
        rows.append(info["row"])
    assert rewards[0] == rewards[1]
    assert rewards[0][4] == pytest.approx(100)
    assert rows[0] == rows[1]


class Failing:
    """An own function that fails, or gives what is refused, when it is called for the n-th time from now."""

    def __init__(self, function: Any, failure: Any) -> None:
        self.function, self.failure, self.until = function, failure, 0

    def __call__(self, *given: Any) -> Any:
        self.until -= 1
        return self.failure() if self.until == 0 else self.function(*given)


def raises() -> Any:
    raise RuntimeError("mine")


@pytest.mark.parametrize("failure", [raises, lambda: np.full((1, 3), "x")], ids=["raises", "is refused"])
@pytest.mark.parametrize(("failing", "call"), [("reward", 1), ("observe", 1), ("observe", 2)])
@pytest.mark.parametrize("many", [False, True], ids=["one", "many"])
def test_after_a_function_that_failed_at_an_end_a_reset_begins_anew(
    failure: Any, failing: str, call: int, many: bool
) -> None:
    functions: dict[str, Any] = {"observe": occupancy, "reward": passed}
    function = functions[failing] = Failing(functions[failing], failure)
    own = {"observation_space": own_space(), **functions}
    if many:
        env: Any = weftway.env.WeftwayVectorEnv(1, "wifi-lte", "cubic", "path:action=direct", **own)
    else:
        env = weftway.env.IntervalEnv("wifi-lte", "cubic", **own)

    def played(seed: int | None, steps: int = 0) -> tuple[int, float, float]:
        """An episode, failing in that step: how many steps it had, what its rewards add up to and what its row says."""
        env.reset(seed=seed)
        gained, count = 0.0, 0
        while True:
            count += 1
            function.until = call if count == steps else 0
            _, reward, terminated, truncated, info = env.step([0] if many else 0)
            gained += float(np.squeeze(reward))
            if terminated or truncated:
                return count, gained, info["final_info"]["row"]["return"][0] if many else info["row"]["return"]

    steps, *_ = played(1)
    for seed in (None, 3):
        with pytest.raises((RuntimeError, ValueError), match=r"mine|no array of numbers"):
            played(1, steps)
        for again in (seed, None):
            _, gained, told = played(again)
            assert told == pytest.approx(gained)


def test_sb3_has_no_rows_left_of_an_end_that_failed() -> None:
    pytest.importorskip("stable_baselines3", reason="Stable-Baselines3 is not installed: 'weftway[sb3]'")
    observe = Failing(occupancy, raises)
    envs = weftway.env.sb3_vec_env(
        1, "wifi-lte", "cubic", "path:action=direct", observe=observe, observation_space=own_space()
    )

    def played(steps: int = 0) -> int:
        """An episode, whose last observation fails in that step: how many steps it had."""
        envs.reset()
        for count in itertools.count(1):
            observe.until = 2 if count == steps else 0
            if envs.step(np.array([0]))[2][0]:
                break
        return count

    envs.seed(1)
    steps = played()
    envs.seed(1)
    with pytest.raises(RuntimeError, match="mine"):
        played(steps)
    played()
    assert not envs.vector.episodes()
    envs.seed(1)
    with pytest.raises(RuntimeError, match="mine"):
        played(steps)
    assert not envs.vector.episodes()


def test_the_end_of_one_asks_only_for_states_of_connections() -> None:
    """The places that have not ended yet have no state at an end: zeros, with which a legal function may divide."""

    def strict(state: State) -> Any:
        paths = state["paths"]
        assert (state["end"] > 0).all()
        return paths["bytes_in_flight"] / paths["cwnd"].sum(axis=1, keepdims=True)

    variants = [
        Scenario.parse(EASY.replace("2 MB", size), "easy.toml").variants()[0] for size in ("100 kB", "1 MB", "2 MB")
    ]
    envs = weftway.env.WeftwayVectorEnv(
        3, variants, "cubic", "path:action=direct", seed=2, observe=strict, observation_space=own_space()
    )
    envs.reset(seed=2)
    ended = np.zeros(3, np.bool_)
    while not ended.all():
        *_, terminated, truncated, infos = envs.step(np.zeros(3, int))
        for place in np.flatnonzero(terminated | truncated):
            assert np.array_equal(infos["final_obs"][place], strict(envs.vector.final_state()[[place]])[0].astype("f4"))
        ended |= terminated | truncated
        assert not envs.vector.final_observations()[~ended].any()


@pytest.mark.parametrize(("task", "kind"), [("path:action=direct", "i"), ("gap", "i"), ("shares", "f")])
def test_a_reward_is_given_actions_as_the_space_has_them(task: str, kind: str) -> None:
    given: list[Any] = []

    def reward(before: State, actions: Any, after: State) -> Any:
        given.append(actions)
        return np.zeros(2)

    envs = weftway.env.WeftwayVectorEnv(2, "wifi-lte", "cubic", task, reward=reward)
    envs.reset(seed=1)
    actions = np.array(envs.action_space.sample())
    envs.step(actions)
    envs.vector.step(actions.tolist())  # as `Sb3VecEnv` does
    envs.vector.step(actions.reshape(2, -1).astype(float))
    for one in given:
        assert (one.shape, one.dtype.kind) == (actions.shape, kind)
        assert one == pytest.approx(actions)
