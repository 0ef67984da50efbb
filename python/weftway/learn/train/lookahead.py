"""Lookahead: how good the actions of a task can be, by a search that knows what will happen.

At each question of a run, sequences of actions are tried on copies of the environment. These have the run's own future:
losses, rates and traffic that no sender can know. The first action of the best sequence is carried out, and the rest of
it is tried again at the next question. There is no network, observation or training in it. So it says what the *form*
of a scheduler allows: which actions it has, and how often.

    python -m weftway.learn.train.lookahead --task path:action=direct --on four-paths --against pdaa3c

Sequences are drawn at random, half of them near the best one so far (random shooting), besides one for each constant
action. What is found is no upper limit: more sequences (`--candidates`, `--horizon`) find better ones. Horizons are too
short for tasks that ask for each packet whether to wait (`wait-or-send`): there the search loses to min-RTT.

A sequence is better if more data have arrived in order at its end, over time; where delays of messages count, if they
have arrived sooner: by the mean over time of what has arrived.
"""

import copy
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from weftway._native import ScenarioError, Variant, controller
from weftway.evaluate import described
from weftway.learn.train import command, limits
from weftway.learn.train.limits import Count, OneOf, Seed, Share
from weftway.learn.train.session import UNRELATED, Progress, quiet
from weftway.runs import comparison, plan, specs
from weftway.runs.parallel import LocalPool
from weftway.runs.plan import Plan
from weftway.runs.store import table
from weftway.sample import distribution
from weftway.stats import pairs as paired
from weftway.stats.baselines import REFERENCE
from weftway.terminal.console import PlainConsole
from weftway.terminal.progress import Bar
from weftway.vector import Floats, VectorEnv

PROGRAM = "python -m weftway.learn.train.lookahead"
SEARCH = "lookahead"
"""The search's name among the schedulers."""
NO_QUESTION = "nothing was to be decided"
"""Error text of an environment on a scenario in which its task never has a choice."""


@dataclass(frozen=True, kw_only=True)
class Args:
    """Settings and their defaults."""

    task: str = "path:action=direct"
    """The task whose actions are searched, with its switches."""
    on: str = "four-paths"
    """Distribution of the scenarios."""
    split: Annotated[str, OneOf("train", "held-out")] = "held-out"
    """Its part: scenarios that training sees, or others."""
    cc: str = "bbr1"
    """Congestion controller."""
    against: str = ""
    """Schedulers to run on the same scenarios with the same seeds, besides min-rtt."""
    set: str = ""
    """Keys that are set in every scenario for these schedulers, such as decision.mode=exclusive, joined by commas."""
    instances: Count = 40
    """Number of scenarios."""
    seed: Seed = 1
    """Seed of the scenarios and of the search."""
    candidates: Count = 32
    """Sequences tried at a question."""
    horizon: Count = 8
    """Actions in a sequence."""
    hold: Count = 1
    """Questions that each action of a sequence answers: more than one where there is a question for each packet."""
    change: Share = 0.25
    """Share of the actions that is drawn anew in a sequence near the best one."""
    threads: Count = 1
    """Processes; what is found does not depend on it."""

    def __post_init__(self) -> None:
        """Checks all."""
        limits.check(self)

    def command(self) -> str:
        """The command that finds the same."""
        return shlex.join([*PROGRAM.split(), *limits.options(self, UNRELATED)])


Actions = list[Floats]
"""A sequence, of (1, actions) each."""


class Search:
    """Search in one run, in which each action is the first of the best sequence that was found."""

    def __init__(self, args: Args, variant: Variant, seed: int, by_delay: bool) -> None:
        self._args = args
        self._by_delay = by_delay
        self._rng = np.random.default_rng([args.seed, seed])
        self._env = VectorEnv(args.task, [variant], [args.cc], 1, seed)
        self._env.reset()

    def run(self) -> dict[str, Any]:
        """The run's row."""
        best: Actions = []
        while True:
            best = max(self._candidates(best), key=self._worth)
            for _ in range(self._args.hold):
                if _is_over(self._env, best[0]):
                    return self._env.episodes()[0]
            best = best[1:]

    def _candidates(self, best: Actions) -> list[Actions]:
        """The rest of the best sequence, a constant one for each discrete action, and others by chance."""
        horizon = self._args.horizon
        first = [best + self._anyhow(horizon - len(best))]
        if self._env.kind == "discrete":
            masks = self._env.action_masks()[0]
            first += [[np.full((1, 1), choice, np.float32)] * horizon for choice in np.flatnonzero(masks)]
        more = max(self._args.candidates - len(first), 0)
        return first + [self._near(first[0]) if at % 2 else self._anyhow(horizon) for at in range(more)]

    def _near(self, best: Actions) -> Actions:
        drawn = self._rng.random(len(best)) < self._args.change
        return [self._anyhow(1)[0] if is_drawn else action for is_drawn, action in zip(drawn, best, strict=True)]

    def _anyhow(self, count: int) -> Actions:
        """Draws `count` actions: any open choice, or shares of which some are nearly none (Dirichlet, 1/2)."""
        env = self._env
        if env.kind == "shares":
            return list(self._rng.dirichlet(np.full(env.actions, 0.5), (count, 1)).astype(np.float32))
        if env.kind == "discrete":
            return list(self._rng.choice(np.flatnonzero(env.action_masks()[0]), (count, 1, 1)).astype(np.float32))
        return list(self._rng.integers(0, env.choices, (count, 1, env.actions)).astype(np.float32))

    def _worth(self, actions: Actions) -> float:
        """Worth of a sequence: bytes in order after these actions, over milliseconds; or how soon they arrived."""
        begin, env = self._env.state(), copy.deepcopy(self._env)
        arrived, state = 0.0, begin
        for action in (each for each in actions for _ in range(self._args.hold)):
            is_over = _is_over(env, action)
            after = env.final_state() if is_over else env.state()
            arrived += float(after["now_ms"][0] - state["now_ms"][0]) * float(after["una"][0] - begin["una"][0])
            state = after
            if is_over:
                break
        lasted = max(float(state["now_ms"][0] - begin["now_ms"][0]), 1e-9)
        if self._by_delay:
            # Sequences differ in how long they last: a constant rate is worth the same in all of them.
            return 2 * arrived / lasted**2
        return float(state["una"][0] - begin["una"][0]) / lasted


def _is_over(env: VectorEnv, action: NDArray[np.float32]) -> bool:
    """Takes an action; whether the episode ended."""
    step = env.step(action)
    env.delayed_rewards()
    return bool(step.terminated[0] or step.truncated[0])


def search(args: Args, index: int) -> dict[str, Any] | None:
    """The row of one scenario; none if it has no question."""
    there = distribution.load(args.on)
    drawn = there.sample(args.seed, index, args.split)
    variant = there.variant(drawn)
    about = described(there, drawn, variant.scenario.sets)
    by_delay = about["measure"] not in ("goodput_mbps", "fct_ms")
    try:
        row = Search(args, variant, drawn.seed, by_delay).run()
    except ScenarioError as error:
        if NO_QUESTION in str(error):
            return None
        raise
    about |= {"on": there.name, "mode": args.task, "instance": drawn.id, "index": index}
    return {**row, **about, "scheduler": SEARCH, "is_policy": True}


def compare(args: Args, progress: Progress = quiet) -> Any:
    """A line for the search and each of the schedulers, the best first: `weftway.stats.pairs.summary`."""
    there = distribution.load(args.on)
    named = specs.parse([REFERENCE, *([args.against] if args.against else [])])
    cc = controller(args.cc)
    searched_rows: list[dict[str, Any]] = []
    searched = 0
    with LocalPool(args.threads) as pool:
        for _, row in pool.map_unordered(partial(search, args), range(args.instances)):
            searched_rows += [row] if row else []
            searched += 1
            progress(searched, args.instances)
    if not searched_rows:
        raise ScenarioError(f"--task {args.task}: {NO_QUESTION} in any of {args.instances} scenarios")
    jobs, about = [], {}
    for row in sorted(searched_rows, key=lambda row: row["index"]):
        drawn = there.sample(args.seed, row["index"], args.split)
        variant = there.variant(drawn, [setting for setting in args.set.split(",") if setting])
        for spec in dict.fromkeys(named):
            jobs.append(plan.simulated(variant, spec, cc, row["seed"]))
            about[jobs[-1].key] = {name: row[name] for name in ("on", "mode", "measure", "instance")}
    others = comparison.execute(Plan(jobs[0].variant.scenario, jobs), args.threads).complete()
    rows = [{**row, "cc": cc[0]} for row in searched_rows]
    rows += [{**row, **about[row["key"]], "is_policy": False} for row in others.rows]
    return paired.summary(table(rows))


def main(words: Sequence[str] | None = None) -> None:
    """Searches as the options say. A mistake is one line and the status that `weft` has for it."""
    console = PlainConsole(stderr=True, highlight=False, soft_wrap=True)
    with command.failures("lookahead", "interrupted"):
        args = Args(**vars(command.parser(PROGRAM, Args).parse_args(words)))
        with Bar(console, "scenarios", "searched") as bar:
            lines = compare(args, bar.tell)
    print(args.command())
    for line in lines.iter_rows(named=True):
        ratio = f"{line['ratio']:.3f} ({line['ratio_low'] or 1:.3f}-{line['ratio_high'] or 1:.3f}) of {REFERENCE}"
        print(f"{line['scheduler']}: {ratio}, loses in {100 * line['lost_share']:.1f} % of {line['cells']}")


if __name__ == "__main__":
    main()
