"""The objective replaced: a published scheduler's network, trained for the time until data have arrived.

What a paper fixes of a scheduler stays: what is observed, the network, its actions, when it is asked. What it is
trained for is another: not a reward per decision, but the return at the end, minus the logarithm of what the run cost
(`weft rank`: completion time, or the 99th percentile of messages' delays, or the 95th of answers' times).

1. Inputs are divided by their least over the paths (`scale=least`), so that one policy serves links of any rate.
2. The last layer begins at nothing and a bias of sending: training begins as min-RTT.
3. Imitation (`imitation`): the network learns the answers of several rules, each restricted to the paper's actions,
   first as the rule shows them, then in `rounds` in which the copy runs and the rule says what it would have done.
   The copy that does best on validation scenarios is where the search begins.
4. Search for the least cost by the cross-entropy method (Rubinstein 1999; Szita and Lőrincz, "Learning Tetris Using the
   Noisy Cross-Entropy Method", 2006), in the last layer only: of the hidden units' values the `directions` principal
   components and a constant. Each candidate adds to the preference for sending a random function of what is seen; the
   best quarter of a generation makes the next one. All candidates of a generation run the same scenarios with the same
   seeds. Losses against min-RTT count `caution` times more than gains: a scheduler that sometimes fails is not used.
5. Of the means on the way, the one that does best on the validation scenarios is tried there with stronger preferences
   for sending. The best of all these is the policy.

One controller is left out (`left_out`): scenarios under it are judged, not trained on.
"""

import json
import math
import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from weftway import _native
from weftway._native import Batch, ScenarioError, SimulationError
from weftway.learn.train import imitation, limits
from weftway.learn.train.curve import Curve
from weftway.learn.train.export import Policy, write_policy
from weftway.learn.train.imitation import Rows, Weights
from weftway.learn.train.limits import Count, CountOrNone, Names, OneOf, Positive, Seed, SettingError, Weight
from weftway.learn.train.session import UNRELATED, Progress, Trained, quiet
from weftway.rank import cells
from weftway.rank.cells import Cell
from weftway.rank.costs import cost
from weftway.report.numbers import whole_percent
from weftway.runs import plan, specs
from weftway.stats.baselines import REFERENCE

BIAS = 0.2
"""Bias of sending, before anything is learned."""
MARGIN = 0.05
"""Share by which the ranges are wider than those of training, on either side."""
WORST = 0.7
"""A scenario counts for no more than half or double the cost, so that none outweighs the others."""
TRIED = 2
"""Runs of each validation scenario: what one run loses by chance is no loss."""
FIRMER = (0.25, 0.5, 1.0)
"""Stronger preferences for sending that are tried at last, in units of the network's own."""
LOSS = math.log(0.95)
"""A scenario is lost where a policy is slower than min-RTT by more."""
ELITE = 4
"""One candidate of so many makes the next generation."""
STAYS = 0.5
"""Share of the old mean and spread that the next generation keeps."""
NARROWEST = 0.1
"""Share of the first spread below which it does not fall."""
BATCHED = 4000
"""Runs that are planned together."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SchedulerDesign:
    """Properties of a scheduler that its paper fixes, and no training here changes."""

    task: str
    """Task: when it is asked, what it sees, what it may answer. Answer 0 waits for the full fastest path, 1 sends."""
    widths: tuple[int, ...]
    """Widths of the hidden layers."""
    setting: str
    """The distribution around the paper's own scenarios."""
    groups: int = 0
    """Groups of conditions, each with a network of its own; 0: one network."""


DESIGNS = {
    "dqn": SchedulerDesign("wait-or-send:scale=least:wait_sticky=false", (6, 6), "mpquic-pair"),
    "falcon": SchedulerDesign("wait-or-send:state=credit:scale=least", (64, 64), "mpquic-pair", groups=12),
    "evolved": SchedulerDesign("wait-or-send:state=controller:wait_sticky=false", (16,), "phone"),
    "lee-yoo": SchedulerDesign("split:actions=table1:scale=least", (24, 24, 24), "streaming"),
}
"""Designs by the scheduler's name, which is that of its training as printed."""


@dataclass(frozen=True, kw_only=True)
class Args:
    """Settings and their defaults."""

    scheduler: Annotated[str, OneOf(*DESIGNS)]
    """Whose network is trained."""
    steps: Count = 2
    """Generations of the search."""
    seed: Seed = 1
    """Seed of the scenarios, the first weights and the candidates."""
    on: Names = "world,drives"
    """Distributions to train on, their training parts, besides the scheduler's own setting."""
    pool: Count = 120
    """Scenarios of each; of the scheduler's own setting half as many."""
    trials: Count = 40
    """Validation scenarios of each, drawn from another seed; of the scheduler's own setting half as many."""
    left_out: str = "bbr2"
    """The controller that is never trained on."""
    teachers: Names = "bccps,earliest-delivery"
    """Rules that are imitated, each in a network of its own."""
    rounds: CountOrNone = 0
    """Rounds in which a copy runs, is told what its teacher would do, and learns anew; the shipped policies: none."""
    candidates: Count = 16
    """Networks in a generation."""
    scenarios: Count = 80
    """Scenarios in a generation, drawn from the pool."""
    directions: Count = 12
    """Principal components of the hidden units' values that the search moves in."""
    sigma: Positive = 1.0
    """First standard deviation of candidates, all directions together, in units of the copy's own preference."""
    caution: Weight = 1.0
    """Additional weight of a loss against min-RTT over a gain."""
    threads: Count = 1
    """Threads that run the simulations; the policy does not depend on it."""
    out: Path | None = None
    """Folder for the policy and the learning curve."""

    ALGORITHM: ClassVar[str] = "completion"
    UNIT: ClassVar[str] = "generations"

    def __post_init__(self) -> None:
        """Checks all."""
        limits.check(self)
        if self.candidates < ELITE:
            raise SettingError(f"--candidates {self.candidates}: expected a whole number, {ELITE} or more")
        try:
            _native.controller(self.left_out)
        except ScenarioError as error:
            raise SettingError(f"--left-out {self.left_out}: {error}; `weft list` has those that there are") from None

    @property
    def design(self) -> SchedulerDesign:
        """Properties that the paper fixes of this scheduler."""
        return DESIGNS[self.scheduler]

    def command(self) -> str:
        """The command that trains the same policy."""
        options = limits.options(self, (*UNRELATED, "scheduler"))
        return shlex.join(["weft", "train", self.scheduler, "--objective", "completion", *options])


class Judge:
    """Runs policies on cells, on native threads, and holds them against min-RTT."""

    def __init__(self, args: Args, card: Mapping[str, str], ranges: Weights) -> None:
        self._args, self._ranges = args, ranges
        self.card = card
        self._reference: dict[str, Floats] = {}

    def costs(self, schedulers: Sequence[str], drawn: Sequence[Cell], runs: int) -> Floats:
        """The logarithm of what each scheduler's runs cost in each cell: (schedulers, cells, runs)."""
        named = [specs.parse(name)[0] for name in schedulers]
        jobs = [
            # Training runs have even seeds, those of an evaluation odd ones.
            plan.simulated(cell.variant, scheduler, cell.cc, 2 * (self._args.seed + at))
            for scheduler, cell, at in product(named, drawn, range(runs))
        ]
        costs = np.empty(len(jobs))
        for begin in range(0, len(jobs), BATCHED):
            batch = Batch(jobs[begin : begin + BATCHED], self._args.threads, False)
            while batch.remaining:
                for at, kind, text, _ in batch.wait(1.0):
                    if kind != "row":
                        batch.cancel()
                        raise SimulationError(text)
                    index = begin + at
                    costs[index] = cost(json.loads(text), drawn[index // runs % len(drawn)].workload)
        logarithms: Floats = np.log(costs).reshape(len(named), len(drawn), runs)
        return logarithms

    def gains(self, networks: Sequence[Weights], drawn: Sequence[Cell], runs: int) -> Floats:
        """Gain of each network over min-RTT in each cell, as the mean logarithm of its runs: (networks, cells)."""
        with tempfile.TemporaryDirectory(prefix="weftway-") as folder:
            files = [Path(folder) / f"{at}.safetensors" for at in range(len(networks))]
            for file, network in zip(files, networks, strict=True):
                self.write(file, network)
            policy_costs = self.costs([f"{self._args.scheduler}:policy={file}" for file in files], drawn, runs)
        if new := [cell for cell in drawn if cell.name not in self._reference]:
            known = self.costs([REFERENCE], new, runs)[0]
            self._reference |= dict(zip((cell.name for cell in new), known, strict=True))
        gains: Floats = (np.array([self._reference[cell.name] for cell in drawn]) - policy_costs).mean(2)
        return gains

    def scores(self, networks: Sequence[Weights], drawn: Sequence[Cell], runs: int = 1) -> Floats:
        """Scores to maximise, one a network: the mean gain, losses counting more."""
        gains = np.clip(self.gains(networks, drawn, runs), -WORST, WORST)
        means: Floats = (gains + self._args.caution * np.minimum(gains, 0)).mean(1)
        return means

    def write(self, file: Path, network: Weights) -> None:
        """The policy file of a network."""
        write_policy(file, self.card, self.tensors(network))

    def tensors(self, network: Weights) -> Weights:
        """Tensors as the scheduler's policy file has them: where it has several groups, each has this network."""
        prefixes = [f"g{group}." for group in range(self._args.design.groups)] or [""]
        layers = {f"{prefix}{name}": value for prefix in prefixes for name, value in network.items()}
        return {**self._ranges, **layers}


def min_rtt(inputs: int, design: SchedulerDesign, seed: int) -> Weights:
    """First network, before anything is learned: it sends on the fastest path with room, whatever it sees."""
    weights = {
        name: np.asarray(value, np.float64)
        for name, value in imitation.first_weights([inputs, *design.widths, 2], seed).items()
    }
    weights[f"b{len(design.widths) + 1}"] = np.array([0.0, BIAS])
    return weights


class Directions:
    """Directions in which the search moves the preference for sending: functions of the hidden units' values, each of
    standard deviation 1 over what was seen; the first is constant."""

    def __init__(self, network: Weights, shown: Rows, count: int) -> None:
        hidden = np.asarray(imitation.hidden(network, shown.seen), np.float64)
        self._network, self._mean = network, hidden.mean(0)
        _, spread, axes = np.linalg.svd((hidden - self._mean) / math.sqrt(len(hidden)), full_matrices=False)
        kept = min(count, int((spread > 1e-3 * spread.max()).sum()))
        self._axes = axes[:kept] / spread[:kept, None]
        outputs = np.asarray(imitation.forward(network, shown.seen), np.float64)
        self.scale = float((outputs[:, 1] - outputs[:, 0]).std())
        """Standard deviation of the network's own preference."""
        self.count = kept + 1

    def moved(self, by: Floats) -> Weights:
        """The network with its preference for sending moved by so much in each direction."""
        last = len(self._network) // 2
        slope = self.scale * (by[1:] @ self._axes)
        w, b = self._network[f"w{last}"].copy(), self._network[f"b{last}"].copy()
        w[:, 1] += slope
        b[1] += self.scale * by[0] - self._mean @ slope
        return {**self._network, f"w{last}": w, f"b{last}": b}

    def firmer(self, network: Weights, by: float) -> Weights:
        """A network whose preference for sending is by so much stronger, whatever it sees."""
        last = f"b{len(network) // 2}"
        return {**network, last: network[last] + np.array([0.0, by * self.scale])}


def draw(args: Args, seed: int, count: int) -> list[Cell]:
    """Cells of the training parts, none under the controller that is left out."""
    parts = [(name, count) for name in plan.names(args.on)] + [(args.design.setting, max(count // 2, 1))]
    drawn = [cell for name, some in parts for cell in cells.read([name], some, seed, "train")]
    return [cell for cell in drawn if cell.cc[0] != args.left_out]


def card(args: Args, inputs: Sequence[str]) -> dict[str, str]:
    """The policy's card, as far as it is known before training."""
    design = args.design
    network = f"falcon:groups={design.groups}" if design.groups else "mlp"
    return {
        "algorithm": args.scheduler,
        "objective": "minus the logarithm of a run's cost at its end, instead of the paper's reward per decision",
        "task": design.task,
        "network": network,
        "head": "greedy",
        "inputs": ",".join(inputs),
        "fallback": "min-rtt",
        "adapt": "off",
        "trained_on": f"training parts of {args.on} ({args.pool} scenarios each) and {design.setting} (half as many)",
        "cc": f"as drawn, without {args.left_out}",
        "seed": str(args.seed),
        "steps": str(args.steps),
        "code": _native.CODE,
        "command": args.command(),
        "evaluation": "none yet",
    }


def ranges(shown: Sequence[Rows]) -> Weights:
    """Ranges in which the inputs lay, a little wider."""
    low, high = (
        np.min([rows.seen.min(0) for rows in shown], 0),
        np.max([rows.seen.max(0) for rows in shown], 0),
    )
    wider = MARGIN * (high - low) + 1e-3
    return {"low": low - wider, "high": high + wider}


@dataclass(frozen=True)
class Copy:
    """A network that imitates a rule, and what it was shown."""

    name: str
    network: Weights
    shown: Rows


def copies(args: Args, teacher: str, pool: Sequence[Cell], inputs: Sequence[str]) -> list[Copy]:
    """The copy of a rule after each round. From the second on the copy before has decided."""
    shown: list[Rows] = []
    learned: list[Copy] = []
    student = None
    with tempfile.TemporaryDirectory(prefix="weftway-") as folder:
        for at in range(args.rounds + 1):
            shown.append(
                imitation.rows(pool, teacher, args.design.task, len(inputs), args.seed + at, args.threads, student)
            )
            rows = imitation.together(shown)
            network = imitation.fit(rows, args.design.widths, args.seed)
            learned.append(Copy(f"copy of {teacher}" + (f", round {at}" if at else ""), network, rows))
            file = Path(folder) / f"{at}.safetensors"
            Judge(args, card(args, inputs), ranges(shown)).write(file, network)
            student = f"{args.scheduler}:policy={file}"
    return learned


def train(args: Args, progress: Progress = quiet) -> Trained:
    """Trains a policy."""
    pool, trials = draw(args, 2 * args.seed, args.pool), draw(args, 2 * args.seed + 1, args.trials)
    inputs = _native.observed(args.design.task)
    candidates = [copy for teacher in plan.names(args.teachers) for copy in copies(args, teacher, pool, inputs)]
    judge = Judge(args, card(args, inputs), ranges([copy.shown for copy in candidates]))
    begin = min_rtt(len(inputs), args.design, args.seed)
    first, *scores = map(float, judge.scores([begin, *(copy.network for copy in candidates)], trials, TRIED))
    copied = candidates[int(np.argmax(scores))]
    curve = Curve(None if args.out is None else args.out / f"{args.scheduler}.jsonl")
    best = (first, begin, "as min-RTT decides: nothing that was learned did better")
    directions = Directions(copied.network, copied.shown, args.directions)
    for step, network, figures in search(args, judge, directions, pool):
        score = float(judge.scores([network], trials, TRIED)[0])
        curve.add(step=step, score=score, **figures)
        if score > best[0]:
            best = (score, network, f"the mean of generation {step}, the search having begun as {copied.name}")
        progress(step, args.steps)
    if best[1] is not begin:
        firmer = [directions.firmer(best[1], by) for by in FIRMER]
        for by, network, scored in zip(FIRMER, firmer, judge.scores(firmer, trials, TRIED), strict=True):
            if scored > best[0]:
                best = (float(scored), network, f"{best[2].split(';')[0]}; sending preferred by {by:g} more")
    others = {"as min-RTT": first, **{copy.name: score for copy, score in zip(candidates, scores, strict=True)}}
    return finished(args, judge, best, (curve, trials, others))


def search(
    args: Args, judge: Judge, directions: Directions, pool: Sequence[Cell]
) -> Iterator[tuple[int, Weights, dict[str, float]]]:
    """The cross-entropy method: after each generation its number, its mean, and what its candidates scored. First comes
    the copy itself."""
    rng = np.random.default_rng([args.seed, 3])
    first = args.sigma / math.sqrt(directions.count)
    mean, spread = np.zeros(directions.count), np.full(directions.count, first)
    yield 0, directions.moved(mean), {}
    for generation in range(1, args.steps + 1):
        picked = [pool[at] for at in rng.choice(len(pool), min(args.scenarios, len(pool)), replace=False)]
        moves = mean + spread * rng.standard_normal((args.candidates, directions.count))
        moves[0] = mean
        scores = judge.scores([directions.moved(by) for by in moves], picked)
        elite = moves[np.argsort(-scores)[: args.candidates // ELITE]]
        mean = STAYS * mean + (1 - STAYS) * elite.mean(0)
        spread = np.sqrt(STAYS * spread**2 + (1 - STAYS) * ((elite - mean) ** 2).mean(0))
        spread = np.maximum(spread, NARROWEST * first)
        yield generation, directions.moved(mean), {"return": float(scores.mean()), "best": float(scores.max())}


def finished(
    args: Args, judge: Judge, best: tuple[float, Weights, str], results: tuple[Curve, Sequence[Cell], dict[str, float]]
) -> Trained:
    """Writes the policy, and says what it is worth on the validation scenarios on which it was chosen."""
    score, network, chosen = best
    curve, trials, others = results
    gains = judge.gains([network], trials, TRIED)[0]
    evaluation = (
        f"speed over min-RTT's on the {len(trials)} validation scenarios on which it was chosen: "
        f"{math.exp(gains.mean()):.3f}, more than 5 % slower on {whole_percent(np.mean(gains < LOSS))}"
    )
    about = {**judge.card, "chosen": chosen, "evaluation": evaluation}
    tensors = {name: np.asarray(value, np.float32) for name, value in judge.tensors(network).items()}
    file = None if args.out is None else args.out / f"{args.scheduler}.safetensors"
    if file:
        write_policy(file, about, tensors)
    figures = {"score": {"policy": score, **others}, "gain": {"mean": float(gains.mean())}}
    return Trained(Policy(about, tensors), curve.points, figures, file)
