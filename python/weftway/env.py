"""Gymnasium's side: `weftway/Packet-v0`, `weftway/Interval-v0`, and a vector environment of either.

Importing this module registers both ids; `gymnasium.make("weftway.env:weftway/Packet-v0")` does so by itself. What is
seen and earned is computed by the code that a deployed policy runs (`crates/sched/src/learned`): there is no second
simulator here, only other names for what `weftway.vector.VectorEnv` brings.
"""

import difflib
import inspect
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypedDict, runtime_checkable

try:
    import gymnasium as gym
    from gymnasium.vector.utils import batch_space
except ImportError as error:
    raise ImportError("weftway.env needs Gymnasium: pip install 'weftway[gym]'") from error
import numpy as np
import numpy.typing as npt

from weftway import scenario
from weftway._native import Scenario, ScenarioError, Variant
from weftway.learn import episode, spaces
from weftway.learn.own_env import Observe, OwnVectorEnv, Reward
from weftway.sample import distribution
from weftway.state import State
from weftway.vector import Floats, VectorEnv, count

if TYPE_CHECKING:
    from weftway.learn.sb3 import Sb3VecEnv

INSTANCES = 256
"""Scenarios that are drawn from a distribution, unless told otherwise."""

USUAL_CC = "cubic"


class Info(TypedDict, total=False):
    """Keys of `info`. At an episode's end that is `row`; otherwise the others."""

    decision: int
    """The number of the decision that is due, counted over all episodes since the seed was given."""
    action_mask: npt.NDArray[np.int8]
    """1 for each action that is open; of discrete actions only. `action_space.sample(mask)` takes it."""
    row: dict[str, Any]
    """The figures of the episode that ended: those of `weft run`, with `return`, `steps`, `packets`, and what was
    drawn: `variant` (index of the scenario), `cc`, `seed`. Four are always none: `aggregation_benefit`, `benefit_fair`
    and `best_single_mbps`, which need runs over each path alone, and `chosen_rate_mbps`."""


@runtime_checkable
class Pool(Protocol):
    """Source of drawn scenarios: `weftway.sample.distribution.Distribution`, or anything with the same method."""

    def pool(self, seed: int, n: int) -> list[Variant]:
        """The first `n` scenarios of a seed."""
        ...


Source = str | os.PathLike[str] | Scenario | Sequence[Variant] | Pool
"""A scenario file; the name of a distribution or of a scenario of ours; or what these stand for, read already."""


def pool(source: Source, seed: int, instances: int) -> tuple[list[Variant], list[str]]:
    """The scenarios that `source` means, and their controllers. Of a name that both have, the distribution."""
    if isinstance(source, (str, os.PathLike)):
        name = os.fspath(source)
        source = distribution.load(name) if name in distribution.names() else scenario.load(scenario.locate(name))
    if isinstance(source, Scenario):
        return source.variants(), source.controllers
    if isinstance(source, Pool):
        return source.pool(seed, count(instances, "instances")), list(getattr(source, "controllers", [USUAL_CC]))
    variants: list[Any] = list(source) if isinstance(source, Sequence) else []
    if not variants or not isinstance(variants[0], Variant):
        raise ScenarioError(f"scenario {source!r}: expected a file, the name of one of ours, or what these stand for")
    return variants, variants[0].scenario.controllers


def answers(vector: VectorEnv, actions: npt.ArrayLike, space: gym.Space[Any]) -> npt.NDArray[np.float32]:
    """Actions of one environment or of all, as the vector takes them. They have the shape of `space`, and its type:
    indices are whole numbers. Whether each lies within it, the vector says."""
    kinds = "biuf" if vector.kind == "shares" else "biu"
    return vector.answers(actions, [space.shape or ()], kinds)


class WeftwayEnv(gym.Env[Any, Any]):
    """A connection that the agent schedules: the common part of `PacketEnv` and `IntervalEnv`.

    `copy.deepcopy` and `pickle` give an environment that goes on as this one would: `weftway.vector`.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"], "render_fps": 10}  # type: ignore[misc]
    usual_task: ClassVar[str] = "wait-or-send"

    def __init__(
        self,
        scenario: Source = "wifi-lte",
        cc: Sequence[str] | str | None = None,
        task: str | None = None,
        seed: int = 0,
        instances: int = INSTANCES,
        observe: Observe | None = None,
        observation_space: gym.spaces.Box | None = None,
        reward: Reward | None = None,
        render_mode: str | None = None,
        **unknown: Any,
    ) -> None:
        _refuse(type(self), unknown)
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode {render_mode!r}: one of {', '.join(self.metadata['render_modes'])}")
        self.render_mode = render_mode
        own = (observe, observation_space, reward)
        self.vector = _vector(scenario, cc, task or self.usual_task, seed, instances, own=own)
        self.observation_space = spaces.observation_space(self.vector)
        self.action_space = spaces.action_space(self.vector)
        self._is_over = True
        self._progress = episode.Progress()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        """Restarts from `seed`; without one, continues with the next episode, or stays at one not stepped yet."""
        super().reset(seed=seed)
        obs = self.vector.renew() if seed is None else self.vector.reset(seed)
        self._is_over = False
        self._progress = episode.Progress()
        return obs[0], self._info()

    def step(self, action: Any) -> tuple[npt.NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Carries out the action and runs to the next decision or to the end. One outside `action_space` is a
        `ValueError`, and nothing happens."""
        if self._is_over:
            raise gym.error.ResetNeeded("the episode is over, or has not begun: call reset() first")
        step = self.vector.step(answers(self.vector, action, self.action_space))
        terminated, truncated = bool(step.terminated[0]), bool(step.truncated[0])
        self._is_over = terminated or truncated
        self._progress.add(float(step.reward[0]))
        self.vector.delayed_rewards()  # rewards by decision, which nobody takes here
        if self._is_over:
            # The vector environment is at the next episode already; its beginning is `reset`'s to show.
            (row,) = self.vector.episodes()
            self._progress.row = row
            return self.vector.final_observations()[0], float(step.reward[0]), terminated, truncated, {"row": row}
        return step.obs[0], float(step.reward[0]), terminated, truncated, self._info()

    def state(self) -> State:
        """The raw state, a row: at the question that is due, or at the end of the episode."""
        return self.vector.final_state() if self._is_over else self.vector.state()

    def render(self) -> str | None:
        """Reports the episode as text with `render_mode="ansi"`: its end, or where it stands."""
        if self.render_mode is None:
            return None
        (drawn,) = self.vector.drawn()
        return episode.report(self._progress, drawn, self.state())

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """Mask of the open actions, as MaskablePPO asks for it; of discrete actions only."""
        return np.asarray(self.vector.action_masks()[0])

    def _info(self) -> dict[str, Any]:
        info: dict[str, Any] = {"decision": int(self.vector.decisions()[0])}
        if self.vector.kind == "discrete":
            info["action_mask"] = self.vector.action_masks()[0].astype(np.int8)
        return info


class PacketEnv(WeftwayEnv):
    """Environment whose steps are decisions to wait for the fast path or send on the slow one: `weftway/Packet-v0`.

    A multipath connection transfers data. Whenever its fast path F is full while the slow path S has room, the agent
    decides. This text describes the default task, `wait-or-send`. `weftway._native.tasks()` lists the others,
    `crates/sched/src/learned` describes them, a `task.rs` each, and `task="wait-or-send:state=credit"` selects one.

    ## Action Space

    `Discrete(2)`: 0 waits for F, 1 sends the packet on S.

    ## Observation Space

    `Box(0, 4, (6,), float32)`, each number clipped to its range:

    | number | input | unit | divided by |
    |---|---|---|---|
    | 0, 1 | `cwnd.fast`, `cwnd.slow`: congestion window | bytes | W0 = 1 MB (`w0_kb`) |
    | 2, 3 | `srtt.fast`, `srtt.slow`: smoothed round-trip time | ms | D0 = 250 ms (`d0_ms`) |
    | 4, 5 | `in_flight.fast`, `in_flight.slow`: bytes in flight, not acknowledged | bytes | W0 |

    ## Rewards

    When a decision's packet is acknowledged, lost, or overdue, that decision earns `a·Σ throughput/peak − b·Σ srtt/D0`
    over both paths, a = 1 and b = 0.5; a lost packet earns no throughput. A step's reward is the sum of the rewards
    that became known since the last step. To match delayed rewards with decisions, use `delayed_rewards()` of a
    `weftway.vector.VectorEnv` of your own.

    ## Starting State

    The first question of a connection over one of the scenarios, under one of the controllers, both drawn with the
    seed. At that time F's first window is full. Episodes without any decision are skipped.

    ## Episode End

    Terminated: the transfer is finished. Truncated: the scenario's time is over. The final observation is zero.

    ## Arguments

    - `scenario`: a scenario file or its name, a distribution's name, a `Scenario`, a list of variants, or a
      `Distribution` (anything with `pool(seed, n)`).
    - `cc`: the congestion controllers to draw from; those of the scenario if none is given.
    - `task`: the decision task, with its switches.
    - `seed`: applies until `reset` gets one, and draws a distribution's scenarios.
    - `instances`: the number of scenarios drawn from a distribution.
    - `observe` with `observation_space`, and `reward`: functions of the raw state, in place of the task's observation
      and reward. `weftway.learn.own_env` says what they are given, `weftway.state` what the state holds.
    - `render_mode`: `"ansi"` makes `render()` a report of the episode as text.

    ## Version History

    - v0: the first.
    """

    usual_task = "wait-or-send"


class IntervalEnv(WeftwayEnv):
    """Environment in which the agent chooses the path of the next 100 ms, a step per interval: `weftway/Interval-v0`.

    This text describes the default task, `path:action=direct`.

    ## Action Space

    `Discrete(4)`: the path in that slot; `info["action_mask"]` says which slots have one. An empty slot means the path
    of best quality. With `mode=preferred` other paths send while the chosen one is full, with `mode=exclusive` none.

    ## Observation Space

    `Box(0, 4 or 1, (24,), float32)`, each number clipped to its range and 0 for an empty slot. R is the largest
    delivery rate of any path so far. Slot after slot, five numbers:

    | input | unit | divided by |
    |---|---|---|
    | `spare.SLOT`: cwnd/srtt less throughput | bytes/s | R |
    | `throughput.SLOT`: acknowledged in the interval | bytes/s | R |
    | `cwnd.SLOT`: congestion window | bytes | R·250 ms |
    | `packets.SLOT`: the same, counted in packets of full size | bytes/s | R |
    | `loss.SLOT`: smoothed fraction of packets lost | 1 | 0.1 |

    then `quality.SLOT` of each slot, within [0, 1]: PDAA3C's Q.

    ## Rewards

    When the interval is over: `Σ ln((throughput + 1 kB/s)/(125 kB/s))` over the paths, each within [−5, 5]: a
    path left idle costs 4.8, so the fastest path alone does not earn the most.

    ## Starting State

    The beginning of a connection over one of the scenarios, under one of the controllers, both drawn with the seed.

    ## Episode End

    Terminated: the transfer is finished. Truncated: the scenario's time is over. The final observation is the last,
    shortened interval.

    ## Arguments

    Those of `PacketEnv`; `task="path:action=direct:interval_ms=50:mode=exclusive"` changes the interval, and what the
    other paths do while the chosen one is full.

    ## Version History

    - v0: the first.
    """

    usual_task = "path:action=direct"


class WeftwayVectorEnv(gym.vector.VectorEnv[npt.NDArray[np.float32], npt.NDArray[Any], npt.NDArray[Any]]):
    """Many connections, one native call per step: `gymnasium.make_vec("weftway/Interval-v0", num_envs=32)`.

    An episode that ends is followed by the next of its place in the same step; `final_obs` and `final_info` hold what
    was last seen, and the row: `infos["final_info"]["row"]["fct_ms"][place]` is what the row of the single environment
    has, which may be none. Equal seeds see equal things, whatever `threads`. Place 0 sees what the single
    environment sees. Arguments: those of `PacketEnv` but for `render_mode` (many are not rendered), `num_envs`, and
    `threads`.
    """

    metadata: ClassVar[dict[str, Any]] = {  # type: ignore[misc]
        "render_modes": [],
        "autoreset_mode": gym.vector.AutoresetMode.SAME_STEP,
    }

    def __init__(
        self,
        num_envs: int = 1,
        scenario: Source = "wifi-lte",
        cc: Sequence[str] | str | None = None,
        task: str = PacketEnv.usual_task,
        seed: int = 0,
        instances: int = INSTANCES,
        threads: int = 1,
        observe: Observe | None = None,
        observation_space: gym.spaces.Box | None = None,
        reward: Reward | None = None,
        **unknown: Any,
    ) -> None:
        _refuse(WeftwayVectorEnv, unknown)
        own = (observe, observation_space, reward)
        self.vector = _vector(scenario, cc, task, seed, instances, num_envs, threads, own)
        self.num_envs = num_envs
        self.single_observation_space = spaces.observation_space(self.vector)
        self.single_action_space = spaces.action_space(self.vector)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        """Begins anew from `seed`; without one, each place goes on with its next episode."""
        super().reset(seed=seed)
        return self.vector.renew() if seed is None else self.vector.reset(seed), self._infos()

    def step(
        self, actions: npt.NDArray[Any]
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], dict[str, Any]]:
        """Answers every place's question."""
        step = self.vector.step(answers(self.vector, actions, self.action_space))
        self.vector.delayed_rewards()
        infos = self._infos()
        if np.any(step.terminated | step.truncated):
            infos |= self._finals(self.vector.episodes())
        return step.obs, step.reward.astype(np.float64), step.terminated, step.truncated, infos

    def _finals(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """Columns of the ends, as Gymnasium's `_add_info` has them, but holding what the rows hold.

        `_add_info` gives a column the type of its first value. A figure may be a number in one row and none in the
        next (`fct_ms` of a transfer that time cut short), or a whole number here and a broken one there.
        """
        last, over, columns = self.vector.final_observations(), np.zeros(self.num_envs, np.bool_), dict[str, Any]()
        obs = np.full(self.num_envs, None, object)
        for row in rows:
            place = row["env"]
            obs[place], over[place] = last[place], True
            for name, value in row.items():
                columns.setdefault(name, np.full(self.num_envs, None, object))[place] = value
                columns.setdefault(f"_{name}", np.zeros(self.num_envs, np.bool_))[place] = True
        final = {"row": columns, "_row": over.copy()}
        return {"final_obs": obs, "_final_obs": over, "final_info": final, "_final_info": over.copy()}

    def _infos(self) -> dict[str, Any]:
        everywhere = np.ones(self.num_envs, np.bool_)
        infos: dict[str, Any] = {"decision": self.vector.decisions(), "_decision": everywhere}
        if self.vector.kind == "discrete":
            infos |= {"action_mask": self.vector.action_masks().astype(np.int8), "_action_mask": everywhere.copy()}
        return infos


def sb3_vec_env(
    num_envs: int = 1,
    scenario: Source = "wifi-lte",
    cc: Sequence[str] | str | None = None,
    task: str = PacketEnv.usual_task,
    seed: int = 0,
    instances: int = INSTANCES,
    threads: int = 1,
    observe: Observe | None = None,
    observation_space: gym.spaces.Box | None = None,
    reward: Reward | None = None,
) -> "Sb3VecEnv":
    """Environments as a `VecEnv` of Stable-Baselines3, with `action_masks()` for MaskablePPO."""
    from weftway.learn.sb3 import Sb3VecEnv

    own = (observe, observation_space, reward)
    return Sb3VecEnv(_vector(scenario, cc, task, seed, instances, num_envs, threads, own))


Own = tuple[Observe | None, gym.spaces.Box | None, Reward | None]
"""Parts of an environment that are the user's: the observation, its space, the reward."""


def _vector(
    source: Source,
    cc: Sequence[str] | str | None,
    task: str,
    seed: int,
    instances: int,
    envs: int = 1,
    threads: int = 1,
    own: Own = (None, None, None),
) -> VectorEnv:
    variants, usual = pool(source, seed, instances)
    controllers = usual if cc is None else [cc] if isinstance(cc, str) else list(cc)
    observe, space, reward = own
    if all(part is None for part in own):
        return VectorEnv(task, variants, controllers, envs, seed, threads)
    return OwnVectorEnv(task, variants, controllers, envs, seed, threads, observe, _bounds(space), reward)


def _bounds(space: gym.Space[Any] | None) -> tuple[Floats, Floats] | None:
    if space is None:
        return None
    if not isinstance(space, gym.spaces.Box):
        raise ValueError(f"observation_space {space}: an observation of one's own is a gymnasium.spaces.Box")
    return space.low, space.high


def _refuse(env: type, unknown: Iterable[str]) -> None:
    """Refuses names that are no parameters of an environment, with the nearest that is one."""
    known = [name for name in inspect.signature(env).parameters if name != "unknown"]
    for name in unknown:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean `{near[0]}`?" if near else f"it takes {', '.join(known)}"
        raise TypeError(f"{env.__name__} takes no `{name}`; {hint}")


def register_envs() -> None:
    """Makes both ids known to `gymnasium.make` and `make_vec`; once is enough."""
    for name, env in {"weftway/Packet-v0": PacketEnv, "weftway/Interval-v0": IntervalEnv}.items():
        if name not in gym.registry:
            gym.register(
                name,
                entry_point=f"weftway.env:{env.__name__}",
                vector_entry_point="weftway.env:WeftwayVectorEnv",
                kwargs={"task": env.usual_task},
            )


register_envs()
