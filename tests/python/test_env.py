"""Gymnasium's side: its own checker, determinism, and that one environment and many see the same."""

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from weftway import Scenario, _native
from weftway.sample import distribution
from weftway.scenario import HOME
from weftway.vector import VectorEnv

gym: Any = pytest.importorskip("gymnasium", reason="Gymnasium is not installed: pip install 'weftway[gym]'")

from gymnasium.utils.env_checker import check_env  # noqa: E402

from weftway import env as weftway_env  # noqa: E402

IDS = ("weftway/Packet-v0", "weftway/Interval-v0")
TASKS = [entry["name"] for entry in _native.tasks()]

CHUNKS = "video-chunks"
"""A sender that pauses: every task is asked here. One that never pauses hardly ever has room on two paths (`pick`)."""

EASY = """\
title = "One path four times the other"
transport = "mpquic"
cc = "cubic"
seeds = "0..1"

[path.narrow]
rate = "4 Mbit/s"
delay = "10 ms"
queue = "50 packets"

[path.wide]
rate = "16 Mbit/s"
delay = "10 ms"
queue = "50 packets"

[workload]
kind = "bulk"
bytes = "2 MB"
"""


@pytest.fixture
def easy() -> Scenario:
    return Scenario.parse(EASY, "easy.toml")


def made(id: str, small: str | Path, **more: Any) -> Any:
    return gym.make(id, scenario=small, cc=["newreno", "cubic"], **more).unwrapped


def played(env: Any, steps: int, seed: int | None) -> list[tuple[bytes, float, bool, bool]]:
    """Plays so many steps with actions that depend on their number alone."""
    env.reset(seed=seed)
    env.action_space.seed(7)
    trail = []
    for _ in range(steps):
        obs, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        trail.append((obs.tobytes(), reward, terminated, truncated))
        if terminated or truncated:
            env.reset()
    return trail


@pytest.mark.parametrize("id, task", [(id, None) for id in IDS] + [(IDS[0], task) for task in TASKS])
def test_gymnasium_finds_nothing_wrong(id: str, task: str | None) -> None:
    env = made(id, CHUNKS, **({} if task is None else {"task": task}))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(env)
    assert not [str(warning.message) for warning in caught]


@pytest.mark.parametrize("task", TASKS)
def test_what_is_seen_lies_in_the_space(task: str) -> None:
    env = made(IDS[0], CHUNKS, task=task)
    obs, _ = env.reset(seed=3)
    env.action_space.seed(3)
    for _ in range(2000):
        assert env.observation_space.contains(obs), obs
        obs, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            assert env.observation_space.contains(obs), obs
            obs, _ = env.reset()


@pytest.mark.parametrize("id", IDS)
def test_equal_seeds_see_equal_things(id: str, small: Path) -> None:
    env = made(id, small)
    first = played(env, 60, seed=5)
    assert played(env, 60, seed=5) == first
    assert played(made(id, small), 60, seed=5) == first
    assert played(env, 60, seed=6) != first


def test_a_scenario_that_was_read_a_list_and_a_distribution_will_do(small: Path) -> None:
    read = Scenario.load(str(small))
    trails = [
        played(gym.make(IDS[1], scenario=given).unwrapped, 30, seed=1) for given in (small, read, read.variants())
    ]
    assert trails[0] == trails[1] == trails[2]
    name = distribution.names()[0]
    for given in (name, distribution.load(name)):
        env = gym.make(IDS[1], scenario=given, instances=3)
        obs, _ = env.reset(seed=1)
        assert env.observation_space.contains(obs)


def test_no_episode_is_skipped_or_played_twice(small: Path) -> None:
    """Each environment of a vector environment draws its episodes from the seed; one alone plays them in that order."""
    env = made(IDS[1], small)
    raw = VectorEnv(env.vector.task, Scenario.load(str(small)).variants(), ["newreno", "cubic"], 1, seed=9)
    expected: list[int] = []
    while len(expected) < 4:
        raw.step([0])
        expected += [row["seed"] for row in raw.episodes()]
    rows: list[int] = []
    env.reset(seed=9)
    while len(rows) < 4:
        *_, terminated, truncated, info = env.step(0)
        if terminated or truncated:
            rows.append(info["row"]["seed"])
            env.reset()
            env.reset()  # not stepped yet: it stays
    assert rows == expected
    assert len(set(rows)) == 4


def test_a_reset_in_the_middle_goes_on_with_the_next_episode(small: Path) -> None:
    env = made(IDS[1], small)
    env.reset(seed=9)
    (first,) = env.vector.drawn()
    env.reset()
    assert env.vector.drawn() == [first]
    env.step(0)
    env.reset()
    (second,) = env.vector.drawn()
    assert second != first
    env.reset(seed=9)
    assert env.vector.drawn() == [first]


def test_an_episode_that_is_over_takes_no_step(small: Path) -> None:
    env = made(IDS[1], small)
    with pytest.raises(gym.error.ResetNeeded):
        env.step(0)
    env.reset(seed=1)
    while not any(env.step(0)[2:4]):
        pass
    with pytest.raises(gym.error.ResetNeeded):
        env.step(0)


def test_masks_close_slots_without_a_path(small: Path) -> None:
    env = made(IDS[1], small)
    _, info = env.reset(seed=1)
    # Four slots; the second path has not joined yet.
    assert info["action_mask"].tolist() == [1, 0, 0, 0]
    assert info["decision"] == 0
    # 200 ms later it has: its handshake and the acknowledgement that completes it are two round trips of 60 ms.
    env.step(0)
    *_, info = env.step(0)
    assert info["action_mask"].tolist() == [1, 1, 0, 0]
    assert env.action_masks().tolist() == [True, True, False, False]
    assert info["decision"] == 2
    assert all(env.action_space.sample(info["action_mask"]) < 2 for _ in range(20))


SPACES: dict[str, tuple[str, list[Any]]] = {
    "path:action=direct": ("Discrete(4)", [7, 4, -1, 0.5, 1.0, float("nan"), None, [0], [0, 1], "1", 1j]),
    "gap:slots=2": (
        "MultiDiscrete([5 5])",
        [[5, 0], [0, -1], [0.5, 0], [1.0, 0.0], [float("nan"), 0], None, [None, 0], 0, [0], [[0, 0]], [0, [0]]],
    ),
    "shares:slots=2": (
        "Box(0.0, 1.0, (2,), float32)",
        [[1.1, 0], [0, -0.1], [float("nan"), 0], [float("inf"), 0], None, 0.5, [0.5], [[0.5, 0.5]], "half"],
    ),
}
"""For each kind of space a task, its name, and actions that are not in it."""


@pytest.mark.parametrize("task", SPACES)
def test_an_action_outside_the_space_is_refused_and_nothing_happens(task: str) -> None:
    space, outside = SPACES[task]
    env, twin = (made(IDS[1], CHUNKS, task=task) for _ in range(2))
    many = gym.make_vec(IDS[1], 2, "vector_entry_point", scenario=CHUNKS, task=task)
    for each in (env, twin, many):
        each.reset(seed=1)
    sound = env.action_space.sample()
    for action in outside:
        for each, given in ((env, action), (many, [sound, action])):
            with pytest.raises(ValueError) as refused:
                each.step(given)
            assert space in str(refused.value), action
            assert "\n" not in str(refused.value)
    (obs, *rest), (expected, *others) = env.step(sound), twin.step(sound)
    assert np.array_equal(obs, expected)
    assert rest[:3] == others[:3]


@pytest.mark.parametrize("task", TASKS)
def test_every_task_refuses_what_is_outside_of_its_space(task: str) -> None:
    vector = VectorEnv(task, Scenario.load(str(HOME / "scenarios" / f"{CHUNKS}.toml")).variants(), ["cubic"], 3, seed=1)
    obs = vector.reset()
    sound = np.zeros((3, vector.actions), np.float32)
    for number in (-1, vector.choices + 1, 0.5 + vector.choices, np.nan, np.inf):
        answers = sound.copy()
        answers[2, -1] = number
        with pytest.raises(ValueError, match="of environment 2 is not in") as refused:
            vector.step(answers)
        assert vector.space in str(refused.value)
    wrong: list[Any] = [sound[:2], np.zeros((vector.actions, 3, 1)), sound[..., None], [None] * 3, sound.astype(str)]
    for given in wrong:
        with pytest.raises(ValueError, match="is not in"):
            vector.step(given)
    # It stands where it stood: the same step as of one that refused nothing.
    twin = VectorEnv(task, Scenario.load(str(HOME / "scenarios" / f"{CHUNKS}.toml")).variants(), ["cubic"], 3, seed=1)
    assert np.array_equal(twin.reset(), obs)
    assert np.array_equal(twin.step(sound).obs, vector.step(sound).obs)


def test_shares_are_brought_to_a_sum_of_one() -> None:
    variants = Scenario.load(str(HOME / "scenarios" / f"{CHUNKS}.toml")).variants()
    seen = []
    for shares in ([0.125, 0.375], [0.25, 0.75]), ([0.0, 0.0], [1.0, 1.0]):
        trails = []
        for given in shares:
            vector = VectorEnv("shares:slots=2", variants, ["cubic"], 1, seed=1)
            trails.append([vector.step([given]).obs.tobytes() for _ in range(20)])
        assert trails[0] == trails[1]
        seen.append(trails[0])
    assert seen[0] != seen[1]


@pytest.mark.parametrize("id", IDS)
def test_many_see_what_one_sees_whatever_the_threads(id: str, small: Path) -> None:
    single = made(id, small)
    many = [
        gym.make_vec(id, 3, "vector_entry_point", scenario=small, cc=["newreno", "cubic"], threads=threads)
        for threads in (1, 2)
    ]
    assert all(envs.metadata["autoreset_mode"] is gym.vector.AutoresetMode.SAME_STEP for envs in many)
    obs, _ = single.reset(seed=4)
    batches = [envs.reset(seed=4)[0] for envs in many]
    single.action_space.seed(4)
    ends = 0
    for _ in range(300):
        assert np.array_equal(batches[0], batches[1])
        assert np.array_equal(batches[0][0], obs)
        action = single.action_space.sample()
        obs, reward, terminated, truncated, info = single.step(action)
        steps = [envs.step(np.array([action, 0, 1])) for envs in many]
        batches = [step[0] for step in steps]
        _, rewards, terminations, truncations, infos = steps[0]
        assert (rewards[0], terminations[0], truncations[0]) == (reward, terminated, truncated)
        if terminated or truncated:
            ends += 1
            assert infos["_final_obs"][0]
            assert infos["_final_info"][0]
            assert np.array_equal(infos["final_obs"][0], obs)
            assert infos["final_info"]["row"]["return"][0] == info["row"]["return"]
            obs, info = single.reset()
        elif "_final_obs" in infos:
            assert not infos["_final_obs"][0]
        assert infos["decision"][0] == info["decision"]
    assert ends > 1


def test_rows_of_many_are_those_of_one_though_a_figure_may_be_none(small: Path) -> None:
    """A transfer that time cuts short has no completion time; the next has one."""
    variants = [Scenario.load(str(small), sets).variants()[0] for sets in ([], ["time_limit=200ms"])]
    envs = gym.make_vec(IDS[1], 4, "vector_entry_point", scenario=variants, cc="cubic", seed=2)
    raw = VectorEnv(envs.vector.task, variants, ["cubic"], 4, seed=2)
    envs.reset(seed=2)
    raw.reset(2)
    rows: list[dict[str, Any]] = []
    for _ in range(60):
        *_, infos = envs.step(np.zeros(4, np.int64))
        raw.step(np.zeros(4))
        for row in raw.episodes():
            place, final = row["env"], infos["final_info"]["row"]
            assert {name: final[name][place] for name in row} == row
            assert all(final[f"_{name}"][place] for name in row)
            rows.append(row)
    assert {row["fct_ms"] is None for row in rows} == {True, False}


@pytest.mark.parametrize("number", [0, -1, 1.5, "2", None, 2**70])
def test_a_count_that_is_none_is_refused_and_says_of_what(easy: Scenario, number: Any) -> None:
    for settings, what in (
        ({"num_envs": number}, "environments"),
        ({"threads": number}, "threads"),
        ({"instances": number, "scenario": "phone"}, "instances"),
    ):
        with pytest.raises(ValueError, match=f"{number!r} {what}: expected a whole number from 1 on"):
            weftway_env.WeftwayVectorEnv(**{"num_envs": 2, "scenario": easy, **settings})


@pytest.mark.parametrize("scenario", [3, [], None, [3]])
def test_what_is_no_scenario_is_refused(scenario: Any) -> None:
    with pytest.raises(ValueError, match="expected a file, the name of one of ours"):
        weftway_env.PacketEnv(scenario)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_that_is_none_is_refused_with_those_that_there_are(easy: Scenario, seed: int) -> None:
    message = rf"the seed {seed}: expected a whole number from 0 to 2\^64 - 1"
    with pytest.raises(ValueError, match=message):
        weftway_env.PacketEnv(easy, seed=seed)
    vector = VectorEnv("wait-or-send", easy.variants(), ["cubic"], 1, seed=2**64 - 1)
    with pytest.raises(ValueError, match=message):
        vector.reset(seed)
    if seed > 0:  # of the others, Gymnasium says it
        with pytest.raises(ValueError, match=message):
            weftway_env.IntervalEnv(easy).reset(seed=seed)
        with pytest.raises(ValueError, match=message):
            weftway_env.WeftwayVectorEnv(2, easy).reset(seed=seed)


def test_gymnasium_wrappers_take_it(easy: Scenario) -> None:
    env = gym.wrappers.RecordEpisodeStatistics(gym.make(IDS[1], scenario=easy))
    env.reset(seed=1)
    while True:
        *_, terminated, truncated, info = env.step(0)
        if terminated or truncated:
            break
    assert info["episode"]["l"] == info["row"]["steps"]
    assert info["episode"]["r"] == pytest.approx(info["row"]["return"], rel=1e-4)


def test_both_ids_are_known_by_the_module_alone() -> None:
    code = "import gymnasium; print(gymnasium.make('weftway.env:weftway/Interval-v0').spec.id)"
    done = subprocess.run([sys.executable, "-c", code], cwd=HOME, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "weftway/Interval-v0"


def test_without_gymnasium_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['gymnasium'] = None; import weftway; import weftway.env"
    done = subprocess.run([sys.executable, "-c", code], cwd=HOME, capture_output=True, text=True)
    assert done.returncode == 1
    assert (
        done.stderr.strip().splitlines()[-1] == "ImportError: weftway.env needs Gymnasium: pip install 'weftway[gym]'"
    )


def test_the_package_itself_needs_no_gymnasium() -> None:
    code = "import sys, weftway; assert 'gymnasium' not in sys.modules; assert 'weftway.env' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=HOME, check=True)


def sb3() -> Any:
    return pytest.importorskip("stable_baselines3", reason="Stable-Baselines3 is not installed: 'weftway[sb3]'")


TASK = "path:action=direct:slots=2:mode=exclusive"


def test_sb3_is_told_how_an_episode_ended(easy: Scenario) -> None:
    sb3()
    envs = weftway_env.sb3_vec_env(2, scenario=easy, task=TASK, seed=1)
    envs.reset()
    envs.step(np.array([0, 0]))  # the second path joins
    assert np.stack(envs.env_method("action_masks")).tolist() == [[True, True], [True, True]]
    for _ in range(200):
        _, _, dones, infos = envs.step(np.array([0, 1]))
        assert [done == ("terminal_observation" in info) for done, info in zip(dones, infos, strict=True)]
        if dones[1]:
            break
    # 2 MB at 16 Mbit/s take 1 s and more: ten intervals at least.
    assert infos[1]["episode"]["l"] >= 10
    assert infos[1]["TimeLimit.truncated"] is False


def mean_return(easy: Scenario, choose: Any) -> float:
    vector = VectorEnv(TASK, easy.variants(), ["cubic"], 4, seed=77)
    obs = vector.reset()
    returns: list[float] = []
    while len(returns) < 12:
        obs = vector.step(choose(obs)).obs
        returns += [row["return"] for row in vector.episodes()]
    return float(np.mean(returns))


def test_sb3s_dqn_learns(easy: Scenario) -> None:
    dqn = sb3().DQN
    envs = weftway_env.sb3_vec_env(4, scenario=easy, task=TASK, seed=1)
    model = dqn(
        "MlpPolicy",
        envs,
        seed=1,
        learning_rate=1e-3,
        gamma=0.5,
        learning_starts=200,
        train_freq=1,
        gradient_steps=1,
        target_update_interval=100,
        exploration_fraction=0.5,
        device="cpu",
    )
    model.learn(2000)
    coin = np.random.default_rng(1)
    greedy = mean_return(easy, lambda obs: model.predict(obs, deterministic=True)[0])
    random = mean_return(easy, lambda obs: coin.integers(0, 2, len(obs)))
    print(f"mean return: greedy {greedy:.2f}, random {random:.2f}")
    # The reward adds up logarithms: a path left idle costs ln(1/125) = -4.8 an interval. The wide path alone is
    # therefore no match for the two in turn, with data still queued on the other: chance is not the worst opponent.
    assert greedy > random + 0.2 * abs(random)


@pytest.mark.parametrize("vectorised", [False, True])
def test_a_parameter_that_is_none_is_told_with_the_nearest(vectorised: bool) -> None:
    make = gym.make_vec if vectorised else gym.make
    with pytest.raises(TypeError, match=r"takes no `scenari`; did you mean `scenario`\?"):
        make("weftway/Packet-v0", scenari="wifi-lte")
    with pytest.raises(TypeError, match=r"takes no `schedler`; it takes .*scenario, cc, task"):
        make("weftway/Packet-v0", schedler="ecf")
    if not vectorised:
        with pytest.raises(TypeError, match="IntervalEnv takes no `seeds`"):
            gym.make("weftway/Interval-v0", seeds=1)
